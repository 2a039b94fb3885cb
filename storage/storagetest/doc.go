// SPDX-License-Identifier: Apache-2.0

// Package storagetest is a kit of servers for tests: files over http, S3
// listings with any keys, a real S3 service, and faults to put before each.
package storagetest
