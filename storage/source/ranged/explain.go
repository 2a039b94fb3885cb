// SPDX-License-Identifier: Apache-2.0

package ranged

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"

	"github.com/sedna-io/containerd-shim-sedna/storage/source"
)

// explain tells what went wrong on the way in words that hold no URL. The
// request's own end comes first: everything fails once it is cancelled.
func explain(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var known *source.Error
	if errors.As(err, &known) {
		return known
	}
	if e := explainDial(u, err); e != nil {
		return e
	}
	if e := explainTLS(u, err); e != nil {
		return e
	}
	e := &source.Error{Kind: errdefs.ErrUnavailable, Transient: true, Err: err}
	var timeout net.Error
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Why = "the connection to " + u.Host + " ended in the middle of the file"
	case errors.Is(err, io.EOF):
		e.Why = u.Host + " closed the connection without an answer"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Why = u.Host + " reset the connection"
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Why = u.Host + " did not answer in time"
	case strings.Contains(err.Error(), "malformed HTTP"):
		e.Why = u.Host + " does not answer in HTTP"
		e.Hint = "check the port and whether it wants https"
	default:
		e.Why = "the connection to " + u.Host + " failed"
	}
	return e
}

func explainDial(u *url.URL, err error) *source.Error {
	e := &source.Error{Kind: errdefs.ErrUnavailable, Early: true, Err: err}
	var (
		dns *net.DNSError
		op  *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		e.Why = "the name " + u.Hostname() + " can't be resolved"
		e.Transient = !dns.IsNotFound
		if dns.IsNotFound {
			e.Hint = "check its spelling; a name within the cluster needs the pod's DNS and its full form, like minio.NAMESPACE.svc.cluster.local"
		} else {
			e.Why += " now (the DNS server doesn't answer)"
			e.Hint = "check the pod's name servers, and whether a network policy lets it ask them"
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Why = "the connection to " + u.Host + " was refused"
		e.Hint = "check host and port, that the server runs, and that no network policy refuses it"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Why = "there is no route to " + u.Host
		e.Hint = "check the address, the pod's network, and what its policies forbid"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		e.Why = "the connection to " + u.Host + " was not permitted"
		e.Hint = "a firewall or network policy forbids it"
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		e.Early, e.Transient = false, true
		e.Why = u.Host + " did not answer in time"
		e.Hint = "check the address, and whether a network policy or firewall drops what is sent there"
	default:
		return nil
	}
	return e
}

func explainTLS(u *url.URL, err error) *source.Error {
	e := &source.Error{Kind: errdefs.ErrPermissionDenied, Err: err}
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &authority):
		e.Why = "the certificate of " + u.Host + " is signed by an unknown authority"
		e.Hint = "put its CA into the secret as ca.crt, or into the node's [storage] ca_file"
	case errors.As(err, &name):
		e.Why = "the certificate of " + u.Host + " is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e.Why = "the certificate of " + u.Host + " has expired or is not yet valid"
		e.Hint = "check the node's clock"
	case errors.As(err, &verify):
		e.Why = "the certificate of " + u.Host + " can't be verified"
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		e.Kind = errdefs.ErrInvalidArgument
		e.Why = u.Host + " does not speak TLS"
		e.Hint = `use http, or s3-usehttps "0" for S3`
	case alert(err) != "":
		e.Why = u.Host + " refused the TLS connection (" + strings.TrimPrefix(alert(err), "tls: ") + ")"
	default:
		return nil
	}
	return e
}
