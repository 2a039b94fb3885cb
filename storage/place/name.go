// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
)

// Folder is the volume's own folder for unfinished files and records.
const Folder = ".sedna"

const (
	maxName  = 255 // NAME_MAX of Linux
	maxPath  = 4095
	maxDepth = 100
)

// CheckPath says what is wrong with a path that a stranger named. It is
// relative, its parts are names, and none of them is a trick.
func CheckPath(p string) error {
	switch {
	case p == "":
		return refuse(p, "is empty")
	case len(p) > maxPath:
		return refuse(p[:60]+"...", fmt.Sprintf("is longer than %d bytes", maxPath))
	case strings.ContainsRune(p, 0):
		return refuse(p, "holds a NUL byte")
	}
	parts := strings.Split(p, "/")
	if len(parts) > maxDepth {
		return refuse(p[:min(len(p), 60)]+"...", fmt.Sprintf("is deeper than %d folders", maxDepth))
	}
	if parts[0] == Folder {
		return refuse(p, "is where unfinished downloads are kept")
	}
	for _, name := range parts {
		if err := checkName(p, name); err != nil {
			return err
		}
	}
	return nil
}

func checkName(p, name string) error {
	switch {
	case name == "":
		return refuse(p, "has an empty part (a leading, trailing or double slash)")
	case name == "." || name == "..":
		return refuse(p, fmt.Sprintf("has a part %q", name))
	case len(name) > maxName:
		return refuse(p[:min(len(p), 60)]+"...", fmt.Sprintf("has a part longer than %d bytes", maxName))
	}
	if strings.Contains(name, `\`) {
		for _, part := range strings.Split(name, `\`) {
			if part == ".." {
				return refuse(p, `has a part ".." behind a backslash`)
			}
		}
	}
	return nil
}

func refuse(p, why string) error {
	return fmt.Errorf("the name %q %s: %w", p, why, errdefs.ErrInvalidArgument)
}

// split cuts a checked path into its folder and its last name.
func split(p string) (dir, name string) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:]
	}
	return "", p
}
