// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package critest names what the test package cmd/critest imports: a tool line
// alone doesn't keep the requirements of tests.
package critest

import (
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "sigs.k8s.io/cri-tools/pkg/benchmark"
	_ "sigs.k8s.io/cri-tools/pkg/common"
	_ "sigs.k8s.io/cri-tools/pkg/framework"
	_ "sigs.k8s.io/cri-tools/pkg/validate"
)
