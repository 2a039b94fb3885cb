// SPDX-License-Identifier: Apache-2.0

// Package ranged reads ranges of files over HTTP for the sources that speak
// it, and believes nothing but the reply's own headers.
//
// It guards three doors. Every address is checked when it is dialled, so that
// neither a redirect nor a second DNS answer reaches what the node forbids.
// Credentials go to the host they are for and to no other. Errors are told in
// words of ours, since those of net/http show URLs with their secrets.
package ranged
