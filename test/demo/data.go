// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path"
	"strings"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/s3"
	"github.com/sedna-io/containerd-shim-sedna/test/testutil/web"
)

// The pod's volume, as the shim expects it by default.
const (
	volume    = "sedna-storage-initializer"
	mountPath = "/downloads"
)

// The account that may read the bucket; the pod has its keys in a Secret.
const (
	accessKey = "vision-team"
	secretKey = "not-for-everybody"
)

const bucket, prefix = "models", "resnet/v2"

// sources are two places to download from.
type sources struct {
	s3   *s3.Server
	web  *web.Server
	data string // the web server's file

	// files are the contents by their path below the volume.
	files map[string][]byte
}

// startSources starts both servers and fills them.
func startSources(ctx context.Context, n *node.Node) (*sources, error) {
	s := &sources{files: map[string][]byte{}}
	if err := s.fill(ctx, n); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sources) fill(ctx context.Context, n *node.Node) (err error) {
	if s.s3, err = node.StartS3(ctx, n); err != nil {
		return err
	}
	model := map[string][]byte{
		prefix + "/config.json":               []byte(`{"layers": 50, "classes": 1000}`),
		prefix + "/labels.txt":                []byte("cat\ndog\nedge\n"),
		prefix + "/weights/part-0.safetensor": web.Bytes(48 << 20),
		prefix + "/weights/part-1.safetensor": web.Bytes(24<<20 + 1),
	}
	if err := s.s3.AddUser(ctx, accessKey, secretKey); err != nil {
		return err
	}
	if err := s.s3.MakeBucket(ctx, bucket, accessKey); err != nil {
		return err
	}
	if err := s.s3.Put(ctx, bucket, model); err != nil {
		return err
	}
	for key, content := range model {
		s.files[path.Join(bucket, key)] = content
	}
	if s.web, err = web.Start(node.Address); err != nil {
		return err
	}
	images := web.Bytes(32 << 20)
	s.data = s.web.File("/sets/street.bin", images)
	s.files[strings.TrimPrefix(s.data, "http://")] = images
	return nil
}

func (s *sources) close() {
	if s.web != nil {
		_ = s.web.Close()
	}
	if s.s3 != nil {
		_ = s.s3.Close()
	}
}

// pod is a pod that wants a model and a data set.
func (s *sources) pod() node.PodSpec {
	return node.PodSpec{
		Namespace: "vision",
		Name:      "classifier",
		Volumes: []node.Volume{
			{Name: volume},
			{Name: "bucket-keys", Kind: node.Secret, Files: map[string]string{
				"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey,
			}},
		},
		Annotations: map[string]string{
			"storage.sedna.io/model.url":   "s3://" + bucket + "/" + prefix + "/",
			"storage.sedna.io/model.env":   "MODEL_URL",
			"storage.sedna.io/secret":      "bucket-keys",
			"storage.sedna.io/s3-endpoint": s.s3.Endpoint,
			"storage.sedna.io/s3-usehttps": "0",
			"storage.sedna.io/data.url":    s.data,
			"storage.sedna.io/data.env":    "DATA_URL",
		},
	}
}
