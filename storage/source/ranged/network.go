// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

const (
	dialTimeout     = 15 * time.Second
	headerTimeout   = 60 * time.Second // a slow object store may take long to find a first byte
	keepAlive       = 15 * time.Second
	idleTimeout     = 30 * time.Second
	readBuffer      = 24 << 10 // a small object with its headers; large reads go around it
	maxHeader       = 256 << 10
	maxRedirects    = 10
	maxErrorBody    = 16 << 10
	maxDrain        = 64 << 10
	defaultPoolSize = 32
)

// Network is the worker's way out: which addresses it may dial and whom it
// trusts. One serves all the sources of a request.
type Network struct {
	guard *guard
	proxy *proxy // nil for none
	roots []byte
	pool  int
	// Retry is how the sources' own requests are tried again.
	Retry source.Retry
	// Ahead bounds what a connection brings before it is read, bytes; 0 for the
	// kernel's own idea. It holds for connections to come.
	Ahead int64

	mu         sync.Mutex
	transports map[trust]*transports // by whom they trust; guarded by mu
}

// trust is what must be equal for two sources to share connections.
type trust struct {
	roots [sha256.Size]byte
	skip  bool
}

// NewNetwork reads the node's rules. pool is how many idle connections are
// kept for one host.
func NewNetwork(n worker.Network, pool int) (*Network, error) {
	g, err := newGuard(n)
	if err != nil {
		return nil, err
	}
	out := &Network{guard: g, roots: n.CABundle, pool: pool, transports: map[trust]*transports{}}
	if out.pool <= 0 {
		out.pool = defaultPoolSize
	}
	out.proxy, err = newProxy(n, g)
	return out, err
}

// Close ends the connections that nobody uses.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.transports {
		t.http1.CloseIdleConnections()
		t.http2.CloseIdleConnections()
	}
}

// transports keep connections. Ranges in parallel want one each, where HTTP/2
// would share a single one: it is only for servers without HTTP/1.1.
type transports struct{ http1, http2 *http.Transport }

// transport returns the connections for those who trust the same roots.
func (n *Network) transport(bundle []byte, skip bool) (*transports, error) {
	key := trust{sha256.Sum256(bundle), skip}
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.transports[key]; t != nil {
		return t, nil
	}
	roots, err := certPool(n.roots, bundle)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		RootCAs:            roots,
		InsecureSkipVerify: skip, //nolint:gosec // only a node's [[endpoint]] can say so
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}
	t := &transports{n.newTransport(c.Clone()), n.newTransport(c.Clone())}
	t.http1.Protocols.SetHTTP1(true)
	t.http1.TLSClientConfig.NextProtos = []string{"http/1.1"} // or a server can't tell us that it doesn't speak it
	t.http2.Protocols.SetHTTP2(true)
	n.transports[key] = t
	return t, nil
}

func (n *Network) newTransport(c *tls.Config) *http.Transport {
	t := &http.Transport{
		TLSClientConfig:        c,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    n.pool,
		DisableCompression:     true,
		ReadBufferSize:         readBuffer,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              new(http.Protocols),
	}
	d := n.dialer()
	if n.proxy != nil {
		t.Proxy, d = n.proxy.pick, n.proxy.dialer(d)
	}
	t.DialContext = dialWith(d)
	return t
}

// certPool holds the system's roots and those of the bundles; nil where those
// are none, which is the system's, read when they are needed.
func certPool(bundles ...[]byte) (*x509.CertPool, error) {
	if len(slices.Concat(bundles...)) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	for _, b := range bundles {
		if len(b) > 0 && !roots.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("the CA bundle holds no PEM certificate: %w", errdefs.ErrInvalidArgument)
		}
	}
	return roots, nil
}
