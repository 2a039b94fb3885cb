// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sedna-io/containerd-shim-sedna/test/testutil/node"
)

// Ports are fixed: the network namespace is ours.
const (
	etcdURL = "http://127.0.0.1:2379"
	apiURL  = "https://" + node.Address + ":6443"
)

// The addresses of Services. Nothing forwards them: there is no kube-proxy.
const services = "10.96.0.0/16"

// startControl starts all of the control plane and returns when it answers.
func (c *Cluster) startControl(ctx context.Context) error {
	keys, err := c.writeKeys()
	if err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	for _, program := range [][]string{
		{
			"etcd", "--data-dir=" + filepath.Join(dir, "etcd"), "--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=http://127.0.0.1:2380", "--unsafe-no-fsync", "--logger=zap", "--log-level=warn",
		},
		{
			"kube-apiserver", "--etcd-servers=" + etcdURL, "--bind-address=" + node.Address, "--advertise-address=" + node.Address,
			"--cert-dir=" + filepath.Join(dir, "tls"), "--token-auth-file=" + keys.tokens, "--authorization-mode=RBAC",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + keys.account,
			"--service-account-signing-key-file=" + keys.account, "--service-cluster-ip-range=" + services,
			"--kubelet-preferred-address-types=InternalIP", "--allow-privileged",
		},
	} {
		if err := c.component(program); err != nil {
			return err
		}
	}
	if err := c.poll(ctx, time.Minute, c.connect); err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	for _, program := range [][]string{
		{
			"kube-controller-manager", "--kubeconfig=" + Kubeconfig, "--leader-elect=false", "--service-account-private-key-file=" + keys.account,
			"--root-ca-file=" + authority, "--allocate-node-cidrs=false",
		},
		{"kube-scheduler", "--kubeconfig=" + Kubeconfig, "--leader-elect=false"},
	} {
		if err := c.component(program); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) component(program []string) error {
	p, err := c.start(program[0], program[1:]...)
	if err != nil {
		return err
	}
	c.components = append(c.components, p)
	return nil
}

// connect succeeds once the API server is ready.
func (c *Cluster) connect(ctx context.Context) error {
	if _, err := os.Stat(authority); err != nil {
		return err
	}
	if err := writeKubeconfig(c.token); err != nil {
		return err
	}
	config := &rest.Config{
		Host: apiURL, BearerToken: c.token, TLSClientConfig: rest.TLSClientConfig{CAFile: authority}, QPS: 200, Burst: 400,
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return err
	}
	c.Client = client
	return nil
}

// ServiceAccount succeeds once pods of a namespace have an identity.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace string) error {
	if _, err := c.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	_, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	return err
}
