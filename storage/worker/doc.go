// SPDX-License-Identifier: Apache-2.0

// Package worker is the door between the shim and the process that downloads
// for it: the request, the events, the report, and starting it isolated.
//
//	shim                                   sedna-storage worker
//	 | -- stdin: Request, one JSON line --->  |
//	 |    (stays open: its end is a cancel)   |
//	 | <-- stdout: Event, a JSON line each -- |  at least one a second
//	 | -- stdin: Grant, a JSON line each -->  |  one for each Ask of a metered worker
//	 | <-- stdout: the last has Report ------ |  then exit 0, or 1 with Failure
//
// Secrets travel on stdin only. Nothing that the worker writes holds one.
package worker
