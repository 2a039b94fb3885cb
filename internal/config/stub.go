package config

func Load(path string) (*Config, error) { return &Config{Path: path, Shim: Shim{Grouping: true}}, nil }
