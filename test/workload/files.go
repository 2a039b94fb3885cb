// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/report"
)

// tree prints one report.File per regular file and one without a digest for
// everything else but directories.
func tree(args []string) error {
	root := args[0]
	out := json.NewEncoder(os.Stdout)
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := describe(root, name, entry)
		if err != nil {
			return err
		}
		return out.Encode(file)
	})
}

func describe(root, name string, entry fs.DirEntry) (report.File, error) {
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return report.File{}, err
	}
	info, err := entry.Info()
	if err != nil {
		return report.File{}, err
	}
	file := report.File{Path: rel, Size: info.Size(), Mode: info.Mode().String()}
	if info.Mode().IsRegular() {
		file.SHA256, err = sum(name)
	}
	return file, err
}

func sum(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{hash}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func stat(args []string) error {
	var st unix.Stat_t
	if err := unix.Stat(args[0], &st); err != nil {
		return fmt.Errorf("stat %s: %w", args[0], err)
	}
	var fsys unix.Statfs_t
	if err := unix.Statfs(args[0], &fsys); err != nil {
		return fmt.Errorf("statfs %s: %w", args[0], err)
	}
	return json.NewEncoder(os.Stdout).Encode(report.Stat{
		Mode:     fmt.Sprintf("%04o", st.Mode&0o7777),
		UID:      st.Uid,
		GID:      st.Gid,
		Size:     st.Size,
		FSType:   fsys.Type,
		FSBytes:  int64(fsys.Blocks) * fsys.Bsize,
		FSFree:   int64(fsys.Bfree) * fsys.Bsize,
		FSInodes: int64(fsys.Files),
	})
}

func cat(args []string) error {
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(os.Stdout, f)
	return err
}

func write(args []string) error { return os.WriteFile(args[0], []byte(args[1]), 0o644) }

func fill(args []string) error {
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], bytes.Repeat([]byte("fill"), size/4), 0o644)
}

func remove(args []string) error { return os.Remove(args[0]) }

func chmod(args []string) error { return os.Chmod(args[0], 0o777) }

func mkdir(args []string) error { return os.Mkdir(args[0], 0o755) }
