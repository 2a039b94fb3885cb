// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
)

// deployed is the handler of deploy/, as users add it, with another name and
// another config.toml.
func deployed(version string) ([]byte, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	name := "containerd-config-v3.toml"
	if strings.HasPrefix(version, "1.") {
		name = "containerd-config-v2.toml"
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", name))
	if err != nil {
		return nil, err
	}
	for from, to := range map[string]string{
		"version = 2": "", "version = 3": "", "runtimes.sedna": "runtimes." + Deployed,
		"/etc/containerd/sedna/config.toml": Handler{Name: Deployed}.configPath(),
	} {
		text = bytes.ReplaceAll(text, []byte(from), []byte(to))
	}
	return text, nil
}

// configTemplate is the configuration of a version of containerd, "" for the
// usual one. Version 2 of the format is all that containerd 1.7 reads; from
// containerd 2.3 on the addresses of its servers are plugins too.
func configTemplate(version string) *template.Template {
	text := configV3 + serversV3 + configV3CRI
	switch {
	case strings.HasPrefix(version, "1."):
		text = configV2
	case version == "2.1":
		text = configV3 + serversV2 + configV3CRI
	}
	return template.Must(template.New("config.toml").Funcs(template.FuncMap{
		"patience": func(seconds int) time.Duration { return Patience(time.Duration(seconds) * time.Second) },
	}).Parse(text))
}

// The annotation lists of all forms are those of docs/ for users;
// dev.gvisor.flag.* and dev.gvisor.spec.rootfs.* are let through on purpose, so
// that tests can see the shim remove them. Lowering oom_score_adj needs a
// capability that nested machines lack.

// A handler's own network folder is said only where it differs: containerd
// watches each, and a user has few inotify instances.

// configV3 is version 3 of the format, containerd docs/cri/config.md.
const configV3 = `version = 3
imports = [{{range .Imports}}'{{.}}', {{end}}]
root = '{{.Dir}}/root'
state = '{{.Dir}}/state'
disabled_plugins = [
  'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs', 'io.containerd.differ.v1.erofs',
  'io.containerd.snapshotter.v1.native', 'io.containerd.monitor.container.v1.restart',
]

[debug]
  level = '{{.LogLevel}}'
` + timeouts

// timeouts are so many times containerd's own on a slow machine.
const timeouts = `
[timeouts]
  'io.containerd.timeout.shim.cleanup' = '{{patience 5}}'
  'io.containerd.timeout.shim.load' = '{{patience 5}}'
  'io.containerd.timeout.shim.shutdown' = '{{patience 3}}'
  'io.containerd.timeout.task.state' = '{{patience 2}}'
`

const serversV3 = `
[plugins.'io.containerd.server.v1.grpc']
  address = '{{.Dir}}/containerd.sock'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{{.Dir}}/containerd.sock.ttrpc'
`

const serversV2 = `
[grpc]
  address = '{{.Dir}}/containerd.sock'
[ttrpc]
  address = '{{.Dir}}/containerd.sock.ttrpc'
`

const configV3CRI = `
[plugins.'io.containerd.internal.v1.opt']
  path = '{{.Dir}}/opt'
[plugins.'io.containerd.nri.v1.nri']
  disable = {{not .NRI}}
  socket_path = '{{.Dir}}/nri.sock'
  plugin_path = '{{.Dir}}/nri/plugins'
  plugin_config_path = '{{.Dir}}/nri/conf.d'

[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
{{- if .Mirror}}
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = '{{.Dir}}/registry'
{{- end}}
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.PauseImage}}'

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{{.Plugins}}']
    conf_dir = '{{.Network}}'
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = '{{.Default}}'
{{range .Handlers}}
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'{{.Name}}']
      runtime_type = '{{.Type}}'
      runtime_path = '{{.Path}}'
{{- if .Sandboxer}}
      sandboxer = '{{.Sandboxer}}'
{{- end}}
{{- if ne .Network $.Network}}
      cni_conf_dir = '{{.Network}}'
{{- end}}
      pod_annotations = ['storage.sedna.io/*', 'dev.gvisor.*']
      container_annotations = ['storage.sedna.io/*', 'dev.gvisor.*']
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'{{.Name}}'.options]
        TypeUrl = 'io.containerd.runsc.v1.options'
        ConfigPath = '{{.ConfigPath}}'
{{end}}`

// configV2 is version 2 of the format, containerd docs/cri/config.md of its
// release/1.7 branch.
const configV2 = `version = 2
imports = [{{range .Imports}}'{{.}}', {{end}}]
root = '{{.Dir}}/root'
state = '{{.Dir}}/state'
disabled_plugins = [
  'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.native', 'io.containerd.internal.v1.restart',
]

[debug]
  level = '{{.LogLevel}}'
` + timeouts + serversV2 + `
[plugins.'io.containerd.internal.v1.opt']
  path = '{{.Dir}}/opt'
[plugins.'io.containerd.nri.v1.nri']
  disable = {{not .NRI}}
  socket_path = '{{.Dir}}/nri.sock'
  plugin_path = '{{.Dir}}/nri/plugins'
  plugin_config_path = '{{.Dir}}/nri/conf.d'

[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = '{{.PauseImage}}'
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '{{.Plugins}}'
    conf_dir = '{{.Network}}'
{{- if .Mirror}}
  [plugins.'io.containerd.grpc.v1.cri'.registry]
    config_path = '{{.Dir}}/registry'
{{- end}}
  [plugins.'io.containerd.grpc.v1.cri'.containerd]
    snapshotter = 'overlayfs'
    default_runtime_name = '{{.Default}}'
{{range .Handlers}}
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.'{{.Name}}']
      runtime_type = '{{.Type}}'
      runtime_path = '{{.Path}}'
{{- if ne .Network $.Network}}
      cni_conf_dir = '{{.Network}}'
{{- end}}
      pod_annotations = ['storage.sedna.io/*', 'dev.gvisor.*']
      container_annotations = ['storage.sedna.io/*', 'dev.gvisor.*']
      [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.'{{.Name}}'.options]
        TypeUrl = 'io.containerd.runsc.v1.options'
        ConfigPath = '{{.ConfigPath}}'
{{end}}`
