// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/report"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// volume is the emptyDir that receives downloads when a pod names no other.
const volume = "sedna-storage-initializer"

// downloads is where containers see it when they don't mount it themselves.
const downloads = "/downloads"

// downloadVolume is that emptyDir as kubelet makes it.
func downloadVolume() node.Volume { return node.Volume{Name: volume} }

// asks are annotations in our prefix: "model.url", "s3-endpoint".
func asks(pairs map[string]string) map[string]string {
	annotations := map[string]string{}
	for key, value := range pairs {
		annotations["storage.sedna.io/"+key] = value
	}
	return annotations
}

// asksS3 are annotations for a pod that reads from a bucket's server.
func asksS3(bucket testutil.Bucket, pairs map[string]string) map[string]string {
	all := map[string]string{"s3-endpoint": bucket.Endpoint, "s3-usehttps": "0"}
	maps.Copy(all, pairs)
	return asks(all)
}

// sameFiles compares what a container sees with what was put at the source.
func sameFiles(t *testing.T, got map[string]report.File, want map[string][]byte) {
	t.Helper()
	for path, content := range want {
		file, ok := got[path]
		switch {
		case !ok:
			t.Errorf("%q is missing", path)
		case file.SHA256 != web.Sum(content):
			t.Errorf("%q has %d bytes with sha256 %s; the source has %d with %s",
				path, file.Size, file.SHA256, len(content), web.Sum(content))
		case file.Mode != "-rw-r--r--":
			t.Errorf("%q has mode %s", path, file.Mode)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%q is there, but not at the source", path)
		}
	}
}

// noFinalFiles fails when a volume holds anything but unfinished data in the
// shim's own folder.
func noFinalFiles(t *testing.T, pod testutil.TestPod) {
	t.Helper()
	dir := pod.VolumeDir(volume)
	if dir == "" {
		return
	}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".sedna" {
			return filepath.SkipDir
		}
		if !entry.IsDir() {
			t.Errorf("%s is in the volume of a pod that failed", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// contains fails for each of the wanted parts that a text lacks.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, handedOn(part)) {
			t.Errorf("%q is not in: %s", handedOn(part), text)
		}
	}
}

// handedOn is a gRPC code as containerd hands it on from a shim: 1.x knows fewer
// of them, containerd errdefs/grpc.go:ToGRPC of its release/1.7 branch.
func handedOn(code string) string {
	_, version, err := binaries.Containerd()
	unknown := code == "PermissionDenied" || code == "ResourceExhausted"
	if err == nil && unknown && strings.HasPrefix(version, "1.") {
		return "Unknown"
	}
	return code
}

// lacks fails for each of the parts that must not be in a text.
func lacks(t *testing.T, text string, unwanted ...string) {
	t.Helper()
	for _, part := range unwanted {
		if strings.Contains(text, part) {
			t.Errorf("%q is in: %s", part, text)
		}
	}
}

// lines are the lines of a text that hold all the given parts.
func lines(text string, parts ...string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				return true
			}
		}
		return false
	})
}
