// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// Default is the configuration of a node without a file.
func Default() *Config {
	return &Config{
		Shim: Shim{
			Grouping:          true,
			KubeletRoot:       "/var/lib/kubelet",
			DeadlineMargin:    Duration(10 * time.Second),
			GVisorAnnotations: []string{"dev.gvisor.spec.mount.*", "dev.gvisor.empty-dir.*"},
			FullStats:         true,
			ProtectPaths:      true,
		},
		Volumes: Volumes{EmptyDir: "annotated"},
		Storage: Storage{
			Worker:        "sedna-storage",
			Network:       "pod",
			MaxFiles:      1_000_000,
			MinFree:       Amount{Percent: 15},
			MinFreeInodes: Amount{Percent: 10},
			MaxWorkers:    8,
			Concurrency:   32,
			StallTimeout:  Duration(30 * time.Second),
			Limits:        Limits{CPU: 1000, Memory: 1 << 30},
		},
		Cache: Cache{Mode: "link", Path: "/var/lib/sedna/cache", MaxSize: 50 << 30},
	}
}
