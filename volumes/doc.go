// SPDX-License-Identifier: Apache-2.0

// Package volumes finds a pod's volume folders on the node and changes the
// words of an OCI spec: gVisor's mount hints, mounts and variables.
//
// # Folders
//
// kubelet keeps a pod's volumes at
//
//	ROOT/pods/UID/volumes/PLUGIN/NAME                     the volume
//	ROOT/pods/UID/volume-subpaths/NAME/CONTAINER/INDEX    a bind mount of a part of it
//
// and has mounted all that some container refers to before it asks for the
// sandbox. A volume that no container mounts has no folder.
//
// # Hints
//
// A hint is a set of annotations dev.gvisor.spec.mount.NAME.FIELD in the
// sandbox's spec: source, type, share, options. runsc matches it with the mounts
// of all containers by the source alone. The type of the hint and the type of a
// mount together say what the mount becomes:
//
//	hint        mount   inside the sandbox
//	none        bind    the node's folder, through the gofer
//	bind        bind    the same; share says how much runsc may cache
//	tmpfs       tmpfs   runsc's tmpfs in memory, one for the pod
//	tmpfs       bind    runsc's tmpfs in one file in the folder, one for the pod
//	none, bind  tmpfs   a tmpfs of that mount alone, nobody shares it
//
// With a tmpfs hint what is in the folder on the node is invisible inside, and
// the other way round.
//
// # Decisions
//
// Decide looks at the sandbox's annotations and the folders, once, when the
// sandbox is created and the downloads are in. ApplySandbox and ApplyContainer
// write what it decided into specs, without looking again: containers come
// later, when kubelet has made subPaths in the volumes and other containers
// have written to them. For a volume
//
//	                                        sandbox's hint            containers' mounts
//	receives downloads                      bind, share=shared        stay as they are, Inject makes them ro
//	hinted by the pod:
//	  emptyDir, empty                       type=tmpfs                get the type that the pod wrote
//	  emptyDir, force-shared                bind, share=shared        stay as they are
//	  emptyDir, not empty                   bind, share=shared        stay as they are
//	  another kind                          as the pod wrote it       get the type that the pod wrote
//	  not on the node, or twice             removed                   stay as they are
//	not hinted, empty_dir = "annotated"     none                      stay as they are
//	not hinted, empty_dir = "auto":
//	  emptyDir, empty, medium Memory        tmpfs, share=pod          become tmpfs
//	  emptyDir, empty, on a disk            tmpfs, share=pod          stay bind
//	  emptyDir, not empty or force-shared   none                      stay as they are
//	  another kind                          none                      stay as they are
//
// and every hint that stays gets the source. Empty is a folder with nothing in
// it, or with the file of an earlier sandbox of the pod alone.
//
// # gVisor's own rewrite
//
// gVisor's shim does the part of this that the pod hinted, without a memory:
// pkg/shim/v1/utils/volumes.go:UpdateVolumeAnnotations. Its service runs it
// after us, on what we wrote, and nothing may be left for it to do or to fail
// on. So the source it would set is the one we set, forced volumes stay marked
// as such, and in containers those type keys go by which it could still change
// a mount. Where we add nothing, the result of both is the same.
//
// One thing it can't do twice: it makes a hint of the name gvisorinternaldevshm
// for /dev/shm, and when it meets that it looks for a volume of the pod with
// this name and fails. So a sandbox's /dev/shm is left to it, unless the
// spec doesn't tell it the pod's uid: then it does nothing, and we do it.
//
// # /dev/shm
//
// The runtime's bind mount at /dev/shm becomes a tmpfs with share=pod. A pod's
// own emptyDir there wins over it and becomes a tmpfs of the emptyDir's size;
// all containers share it if the volume has a tmpfs hint.
package volumes
