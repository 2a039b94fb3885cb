// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
)

// writeConfig writes containerd's configuration and that of each handler.
func writeConfig(opts Options) error {
	ours, tools, err := binaries.Dirs()
	if err != nil {
		return err
	}
	_, version, err := binaries.Containerd()
	if err != nil {
		return err
	}
	if err := linkPlugins(ours, tools, opts.Plugins); err != nil {
		return err
	}
	type handler struct{ Name, Type, Path, Sandboxer, ConfigPath, Network string }
	data := struct {
		Dir, LogLevel, PauseImage, Plugins, Network, Default, Mirror string
		Imports                                                      []string
		NRI                                                          bool
		Handlers                                                     []handler
	}{
		Dir: Dir, PauseImage: pauseImage, Plugins: pluginDir, Network: mainNetwork.confDir(), Mirror: opts.Mirror, NRI: opts.NRI, Imports: opts.Imports,
		LogLevel: cmp.Or(opts.LogLevel, "info"), Default: cmp.Or(opts.Default, Sedna),
	}
	if err := writeMirror(opts.Mirror); err != nil {
		return err
	}
	for _, h := range opts.handlers(ours) {
		if h.Name == data.Default { // pods that name no handler don't get to its cni_conf_dir
			data.Network = h.network().confDir()
		}
		data.Handlers = append(data.Handlers, handler{h.Name, h.runtimeType(), h.Path, h.Sandboxer, h.configPath(), h.network().confDir()})
		if h.ConfigPath != "" {
			continue
		}
		if err := writeFile(h.configPath(), h.config()); err != nil {
			return err
		}
	}
	var text strings.Builder
	if err := configTemplate(version).Execute(&text, data); err != nil {
		return err
	}
	more, err := deployed(version)
	if err != nil {
		return err
	}
	text.Write(more)
	if err := writeFile(Handler{Name: Deployed}.configPath(), baseConfig); err != nil {
		return err
	}
	return writeFile(filepath.Join(Dir, "containerd.toml"), text.String())
}

// pluginDir has all CNI plugins: containerd 1.7 looks in one folder only.
const pluginDir = Dir + "/cni-plugins"

func linkPlugins(ours, tools string, more []string) error {
	if err := os.MkdirAll(pluginDir, 0o755); err != nil {
		return err
	}
	plugins := map[string]string{"bridge": tools, "host-local": tools, "loopback": tools, binaries.Policy: ours}
	for _, name := range more {
		plugins[name] = ours
	}
	for name, dir := range plugins {
		err := os.Symlink(filepath.Join(dir, name), filepath.Join(pluginDir, name))
		if err != nil && !errors.Is(err, fs.ErrExist) { // as after an upgrade of containerd
			return err
		}
	}
	return nil
}

// writeMirror makes containerd pull every image, whatever its name, from one
// registry: containerd docs/hosts.md.
func writeMirror(address string) error {
	if address == "" {
		return nil
	}
	text := fmt.Sprintf("server = 'http://%[1]s'\n[host.'http://%[1]s']\n  capabilities = ['pull', 'resolve']\n", address)
	return writeFile(filepath.Join(Dir, "registry", "_default", "hosts.toml"), text)
}

// Configure replaces what a handler's config.toml says beyond the paths, for
// the pods to come: each Create reads the file.
func (n *Node) Configure(handler, config string) error {
	h := Handler{Name: handler, Config: config}
	return writeFile(h.configPath(), h.config())
}

// ConfigureFirst is Configure for keys of the top level, which come before the
// paths.
func (n *Node) ConfigureFirst(handler, config string) error {
	h := Handler{Name: handler}
	return writeFile(h.configPath(), config+h.config())
}

// startContainerd starts the daemon; it isn't ready yet.
func startContainerd() (*exec.Cmd, error) {
	ours, tools, err := binaries.Dirs()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	dir, _, err := binaries.Containerd()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(dir, "containerd"), "--config", filepath.Join(Dir, "containerd.toml"))
	cmd.Env = []string{"PATH=" + ours + ":" + tools + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	return cmd, nil
}

// ctr runs containerd's own client in the CRI's namespace.
func ctr(ctx context.Context, args ...string) error {
	dir, _, err := binaries.Containerd()
	if err != nil {
		return err
	}
	args = append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "ctr"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func writeFile(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
