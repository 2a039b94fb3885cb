// SPDX-License-Identifier: Apache-2.0

package config

// Config is the node's config.toml. Keys of gVisor's own shim stand at the top
// level and keep their meaning; ours are tables.
type Config struct {
	// Path is the file this was loaded from, "" for the defaults.
	Path string `toml:"-"`

	GVisor

	Shim      Shim       `toml:"shim"`
	Volumes   Volumes    `toml:"volumes"`
	Storage   Storage    `toml:"storage"`
	Cache     Cache      `toml:"cache"`
	HostPaths []HostPath `toml:"host_path"`
	Endpoints []Endpoint `toml:"endpoint"`
}

// GVisor holds the keys of gVisor's shim, gvisor.dev/gvisor
// pkg/shim/v1/runsc/options.go:Options. gVisor's service reads the file itself;
// we read them for `start`, `delete` and checks.
type GVisor struct {
	ShimCgroup            string            `toml:"shim_cgroup"`
	IoUID                 uint32            `toml:"io_uid"`
	IoGID                 uint32            `toml:"io_gid"`
	BinaryName            string            `toml:"binary_name"`
	Root                  string            `toml:"root"`
	LogLevel              string            `toml:"log_level"`
	LogPath               string            `toml:"log_path"`
	Grouping              *bool             `toml:"grouping"` // ours is [shim] grouping
	EnableHibernateServer bool              `toml:"enable_hibernate_server"`
	RunscConfig           map[string]string `toml:"runsc_config"`
}

// Shim is the [shim] table.
type Shim struct {
	Grouping          bool     `toml:"grouping"`           // default true
	KubeletRoot       string   `toml:"kubelet_root"`       // default /var/lib/kubelet
	DeadlineMargin    Duration `toml:"deadline_margin"`    // default 10s
	GVisorAnnotations []string `toml:"gvisor_annotations"` // default dev.gvisor.spec.mount.*, dev.gvisor.empty-dir.*
	SkipContainers    []string `toml:"skip_containers"`    // default none
	FullStats         bool     `toml:"full_stats"`         // default true
	ProtectPaths      bool     `toml:"protect_paths"`      // default true
}

// Volumes is the [volumes] table.
type Volumes struct {
	EmptyDir string `toml:"empty_dir"` // "annotated" (default) or "auto"
}

// Storage is the [storage] table.
type Storage struct {
	Worker        string   `toml:"worker"`          // default sedna-storage
	Network       string   `toml:"network"`         // "pod" (default) or "host"
	MaxBytes      Size     `toml:"max_bytes"`       // default 0: what the disk allows
	MaxFiles      int64    `toml:"max_files"`       // default 1000000
	MinFree       Amount   `toml:"min_free"`        // default 15%
	MinFreeInodes Amount   `toml:"min_free_inodes"` // default 10%
	MaxWorkers    int      `toml:"max_workers"`     // default 8
	Bandwidth     Size     `toml:"bandwidth"`       // bytes per second of all workers; default 0: no cap
	Concurrency   int      `toml:"concurrency"`     // default 32
	StallTimeout  Duration `toml:"stall_timeout"`   // default 30s
	CAFile        string   `toml:"ca_file"`
	Proxy         string   `toml:"proxy"`
	NoProxy       []string `toml:"no_proxy"` // hosts without it
	DenyCIDRs     []string `toml:"deny_cidrs"`
	AllowCIDRs    []string `toml:"allow_cidrs"`
	// MetricsFile is where Prometheus' node_exporter finds counters.
	MetricsFile string `toml:"metrics_file"` // default none
	Limits      Limits `toml:"limits"`
}

// Limits is the [storage.limits] table.
type Limits struct {
	CPU    CPU  `toml:"cpu"`    // default "1"
	Memory Size `toml:"memory"` // default 1GiB
}

// Cache is the [cache] table.
type Cache struct {
	Mode    string `toml:"mode"`     // "link" (default), "copy" or "off"
	Path    string `toml:"path"`     // default /var/lib/sedna/cache
	MaxSize Size   `toml:"max_size"` // default 50GiB
}

// HostPath is one [[host_path]]: a folder of the node that pods may mount.
type HostPath struct {
	Path       string   `toml:"path"`
	Writable   bool     `toml:"writable"`
	Namespaces []string `toml:"namespaces"` // "*" is everybody, none is nobody
}

// Endpoint is one [[endpoint]]: the node's defaults for one host.
type Endpoint struct {
	Host               string   `toml:"host"`
	Trusted            bool     `toml:"trusted"`
	CredentialsFile    string   `toml:"credentials_file"`
	Namespaces         []string `toml:"namespaces"`
	Prefixes           []string `toml:"prefixes"`
	CAFile             string   `toml:"ca_file"`
	InsecureSkipVerify bool     `toml:"insecure_skip_verify"`
}
