// SPDX-License-Identifier: Apache-2.0

// Package place puts fetched files into a volume and never outside it.
//
//	VOLUME/                   untouched: mode, owner and group are kubelet's
//	  .sedna/                 0700: what is on its way, and what is remembered
//	    NAME                  a partial file, or a state of storage's own
//	  host/path/file          0644 or 0755, complete from its first moment on
//
// A path is walked name by name from a held directory, each opened without
// following links, so that neither a hostile name nor a link that someone put
// into the volume leads out or elsewhere. Names are checked too, but only to
// say kindly what is wrong with them.
//
// A file is written under a name in .sedna and renamed when it is whole.
// Several files of one folder appear one by one. Groups come from a setgid
// volume by the kernel's own rule, and are never set.
package place
