// SPDX-License-Identifier: Apache-2.0

// Package observe keeps what an operator sees of a node's downloads: which run,
// how each ended, and counters for Prometheus.
//
//	/run/sedna/downloads/ID.json      a running download: Running. ID is the sandbox's
//	/var/lib/sedna/results.jsonl      how the last ones ended: one Result a line
//	/var/lib/sedna/results.jsonl.1    and those before
//	PODLOGS/sedna-storage/0.log       a pod's own Results, each as a CRI log line
//	PODLOGS/sedna-storage/0.log.1     and those before
//	[storage] metrics_file            counters, in Prometheus' text format
//
// Shims write them, `sedna-storage ps` reads them; they share no process. What
// callers pass in holds no secret: URLs are redacted, messages scrubbed. All of
// it is worth less than a pod: a caller logs an error of this package and goes on.
package observe
