// SPDX-License-Identifier: Apache-2.0

// Package bundle reads the config.json of an OCI bundle, tells which pod it
// belongs to, and saves it whole or not at all.
//
// A bundle is the folder that containerd hands to a shim for one container:
//
//	BUNDLE/
//	  config.json    the OCI runtime spec, written by containerd
//	  rootfs/
//
// config.json is edited, not typed anew. Bundle.Spec is a view: callers change
// it as they like, and Save carries what differs into the text that was read.
// Everything else stays byte for byte as it was, so fields that this build
// doesn't know survive and numbers keep their digits:
//
//	config.json ──parse──▶ Spec ──marshal──▶ before ─┐
//	     │                  │                        ├─ what differs
//	     │                edited ──marshal──▶ after ─┘      │
//	     └──────────────────────────────────────────────────┴─▶ new config.json
//
// A JSON object keeps the order of its members, new ones come last. A mount
// that was changed is found again by its destination, so its unknown members
// survive too.
package bundle
