// SPDX-License-Identifier: Apache-2.0

// Package s3 is a real S3 server for tests, VersityGW, with its objects in a
// folder.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/binaries"
)

// The server's own account.
const (
	rootAccess = "testroot"
	rootSecret = "testroot-secret"
)

// Region that the server says it is in.
const Region = "us-east-1"

// Server is a running S3 server.
type Server struct {
	// Endpoint is its host and port. It speaks plain http.
	Endpoint string

	client *minio.Client
	cmd    *exec.Cmd
	log    string
}

// Start starts a server at an address with its files below dir.
func Start(ctx context.Context, dir, address string) (*Server, error) {
	s := &Server{Endpoint: net.JoinHostPort(address, "7070"), log: filepath.Join(dir, "versitygw.log")}
	if err := s.start(ctx, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("start S3 server: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, dir string) error {
	_, tools, err := binaries.Dirs()
	if err != nil {
		return err
	}
	objects, accounts := filepath.Join(dir, "objects"), filepath.Join(dir, "accounts")
	if err := errors.Join(os.MkdirAll(objects, 0o755), os.MkdirAll(accounts, 0o700)); err != nil {
		return err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	// Keys in the environment: they would show in the process list.
	s.cmd = exec.Command(filepath.Join(tools, "versitygw"), "--port", s.Endpoint, "--iam-dir", accounts, "posix", objects)
	s.cmd.Env = []string{"ROOT_ACCESS_KEY=" + rootAccess, "ROOT_SECRET_KEY=" + rootSecret, "VGW_REGION=" + Region}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.client, err = minio.New(s.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(rootAccess, rootSecret, ""), Region: Region,
		BucketLookup: minio.BucketLookupPath,
	})
	return err
}

// Ready is nil once the server answers.
func (s *Server) Ready(ctx context.Context) error {
	_, err := s.client.ListBuckets(ctx)
	return err
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// AddUser adds an account without any rights.
func (s *Server) AddUser(ctx context.Context, access, secret string) error {
	_, tools, err := binaries.Dirs()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(tools, "versitygw"), "admin", "--endpoint-url", "http://"+s.Endpoint,
		"create-user", "--access", access, "--secret", secret, "--role", "user")
	cmd.Env = []string{"ADMIN_ACCESS_KEY=" + rootAccess, "ADMIN_SECRET_KEY=" + rootSecret, "ADMIN_REGION=" + Region}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("add S3 user %s: %w: %s", access, err, out)
	}
	return nil
}

// policy lets a principal list a bucket and read its objects.
const policy = `{"Version": "2012-10-17", "Statement": [{
  "Effect": "Allow", "Principal": %s,
  "Action": ["s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"],
  "Resource": ["arn:aws:s3:::%[2]s", "arn:aws:s3:::%[2]s/*"]}]}`

// MakeBucket makes a bucket that the given users may read; with none of them
// everybody may.
func (s *Server) MakeBucket(ctx context.Context, bucket string, users ...string) error {
	if err := s.client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{Region: Region}); err != nil {
		return fmt.Errorf("make bucket %s: %w", bucket, err)
	}
	principal := `"*"`
	if len(users) > 0 {
		principal = `{"AWS": ["` + strings.Join(users, `","`) + `"]}`
	}
	if err := s.client.SetBucketPolicy(ctx, bucket, fmt.Sprintf(policy, principal, bucket)); err != nil {
		return fmt.Errorf("let %s read bucket %s: %w", principal, bucket, err)
	}
	return nil
}

// Put uploads objects, by key.
func (s *Server) Put(ctx context.Context, bucket string, objects map[string][]byte) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for key, content := range objects {
		group.Go(func() error {
			_, err := s.client.PutObject(ctx, bucket, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
			if err != nil {
				return fmt.Errorf("put s3://%s/%s: %w", bucket, key, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Serves says whether anybody may read an object: the server's own answer to
// a plain GET.
func (s *Server) Serves(ctx context.Context, bucket, key string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+s.Endpoint+"/"+bucket+"/"+key, nil)
	if err != nil {
		return false, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer reply.Body.Close()
	return reply.StatusCode == http.StatusOK, nil
}

// Close ends the server.
func (s *Server) Close() error {
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("stop S3 server: %w", err)
	}
	_ = s.cmd.Wait() // we killed it
	return nil
}
