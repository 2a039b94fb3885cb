// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// The log in a pod's log folder lies where that of a container named
// sedna-storage would, kubernetes
// pkg/kubelet/kuberuntime/helpers.go:buildContainerLogsPath.
const (
	podLogFolder = "sedna-storage"
	podLogFile   = "0.log"
	// old is appended to the name of a log that is full.
	old = ".1"
)

// AddToPodLog writes a result into the pod's log folder, as CRI log line. A pod
// without such a folder gets none: kubelet makes it, and removes it with the pod.
func AddToPodLog(dir string, r Result) error {
	if !isPodLogFolder(dir, r.Pod) {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a download's result: %w", err)
	}
	d, err := openFolder(dir, unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer d.Close()
	logs, err := d.sub(podLogFolder, 0o755)
	if err != nil {
		return err
	}
	defer logs.Close()
	if err := logs.lock(); err != nil {
		return err
	}
	return logs.appendLine(podLogFile, criLine(r.Time, line), 0o640)
}

// isPodLogFolder wants the name that kubelet gives, kubernetes
// pkg/kubelet/kuberuntime/helpers.go:BuildPodLogsDirectory: some runtimes pass
// on what a pod's author writes.
func isPodLogFolder(dir string, pod worker.Pod) bool {
	return filepath.IsAbs(dir) && pod.UID != "" && filepath.Base(dir) == pod.Namespace+"_"+pod.Name+"_"+pod.UID
}

// criLine is kubernetes/cri-api's log format: time, stream, F for a full line.
func criLine(at time.Time, line []byte) []byte {
	return fmt.Appendf(nil, "%s stdout F %s\n", at.Format(time.RFC3339Nano), line)
}

// appendLine appends to a log; one that would grow over maxLog is put aside
// first. The folder is locked.
func (d folder) appendLine(name string, line []byte, perm uint32) error {
	f, err := d.open(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, perm)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 && info.Size()+int64(len(line)) > maxLog {
		_ = f.Close()
		if err := d.rename(name, name+old); err != nil {
			return err
		}
		if f, err = d.open(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, perm); err != nil {
			return err
		}
	}
	if err == nil {
		_, err = f.Write(line)
	}
	return errors.Join(err, f.Close())
}
