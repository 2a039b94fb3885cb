// SPDX-License-Identifier: Apache-2.0

// Command image writes the image of the pods in test/kind to the file that it is
// given, made of the static program in its second argument.
package main

import (
	"fmt"
	"os"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/image"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: image FILE PROGRAM")
		os.Exit(2)
	}
	if err := image.Write(os.Args[1], os.Args[2], []string{"pause"}, "sedna.test/workload:kind"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
