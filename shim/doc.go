// SPDX-License-Identifier: Apache-2.0

// Package shim decides when things happen in the life of a pod: it starts one
// process per pod, prepares the bundle before gVisor's own service creates the
// container, and cleans up after both.
//
//	containerd      shim                                      runsc
//	  start    -->  Manager.Start: one process per pod
//	  Create   -->  Service.Create(sandbox): plan, fetch, hint, save --> create
//	  Create   -->  Service.Create(container): follow the record    --> create
//	  Delete   -->  Service.Delete                                  --> delete
//	  delete   -->  Manager.Stop: when the process is gone
//
// Every call that is not named here goes to gVisor's service untouched.
package shim
