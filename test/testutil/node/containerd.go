// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
)

// containerdConfig is a version 3 file, containerd docs/cri/config.md. The
// annotation lists are those of docs/ for users; dev.gvisor.flag.* and
// dev.gvisor.spec.rootfs.* are let through on purpose, so that tests can see the
// shim remove them.
var containerdConfig = template.Must(template.New("config.toml").Parse(`version = 3
imports = [{{range .Imports}}'{{.}}', {{end}}]
root = '{{.Dir}}/root'
state = '{{.Dir}}/state'
disabled_plugins = [
  'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs', 'io.containerd.differ.v1.erofs',
  'io.containerd.snapshotter.v1.native', 'io.containerd.image-verifier.v1.bindir', 'io.containerd.monitor.container.v1.restart',
]

[debug]
  level = '{{.LogLevel}}'

[plugins.'io.containerd.server.v1.grpc']
  address = '{{.Dir}}/containerd.sock'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{{.Dir}}/containerd.sock.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '{{.Dir}}/opt'
[plugins.'io.containerd.nri.v1.nri']
  disable = true

[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.PauseImage}}'

[plugins.'io.containerd.cri.v1.runtime']
  # Lowering oom_score_adj needs a capability that nested machines lack.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{{.Tools}}']
    conf_dir = '{{.Dir}}/cni'
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'sedna'
{{range .Handlers}}
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'{{.Name}}']
      runtime_type = '{{.Type}}'
      runtime_path = '{{.Path}}'
      pod_annotations = ['storage.sedna.io/*', 'dev.gvisor.*']
      container_annotations = ['storage.sedna.io/*', 'dev.gvisor.*']
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'{{.Name}}'.options]
        # gVisor's service wants this type, gvisor pkg/shim/v1/runsc/options.go:optionsType.
        TypeUrl = 'io.containerd.runsc.v1.options'
        ConfigPath = '{{.ConfigPath}}'
{{end}}`))

// writeConfig writes containerd's configuration and that of each handler.
func writeConfig(opts Options) error {
	ours, tools, err := binaries.Dirs()
	if err != nil {
		return err
	}
	type handler struct{ Name, Type, Path, ConfigPath string }
	data := struct {
		Dir, LogLevel, PauseImage, Tools string
		Imports                          []string
		Handlers                         []handler
	}{Dir: Dir, LogLevel: opts.LogLevel, PauseImage: pauseImage, Tools: tools, Imports: opts.Imports}
	if data.LogLevel == "" {
		data.LogLevel = "info"
	}
	for _, h := range opts.handlers(ours) {
		data.Handlers = append(data.Handlers, handler{h.Name, h.runtimeType(), h.Path, h.configPath()})
		if h.ConfigPath != "" {
			continue
		}
		if err := writeFile(h.configPath(), h.config()); err != nil {
			return err
		}
	}
	var text strings.Builder
	if err := containerdConfig.Execute(&text, data); err != nil {
		return err
	}
	return writeFile(filepath.Join(Dir, "containerd.toml"), text.String())
}

// Configure replaces what a handler's config.toml says beyond the paths, for
// the pods to come: each Create reads the file.
func (n *Node) Configure(handler, config string) error {
	h := Handler{Name: handler, Config: config}
	return writeFile(h.configPath(), h.config())
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
	cmd := exec.Command(filepath.Join(tools, "containerd"), "--config", filepath.Join(Dir, "containerd.toml"))
	cmd.Env = []string{"PATH=" + ours + ":" + tools + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	return cmd, nil
}

// ctr runs containerd's own client in the CRI's namespace.
func ctr(ctx context.Context, args ...string) error {
	_, tools, err := binaries.Dirs()
	if err != nil {
		return err
	}
	args = append([]string{"--address", Socket, "--namespace", "k8s.io"}, args...)
	out, err := exec.CommandContext(ctx, filepath.Join(tools, "ctr"), args...).CombinedOutput()
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
