// SPDX-License-Identifier: Apache-2.0

// Package dns is the name server of a test's pod network: it knows the names
// that a test gives it, and denies all others at once.
package dns

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// Server answers questions over UDP.
type Server struct {
	conn net.PacketConn

	mu    sync.Mutex
	names map[string]netip.Addr // without the last dot; guarded by mu
}

// Start answers at an address, on the port where resolvers ask.
func Start(address string) (*Server, error) {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(address, "53"))
	if err != nil {
		return nil, fmt.Errorf("start name server: %w", err)
	}
	s := &Server{conn: conn, names: map[string]netip.Addr{}}
	go s.serve()
	return s, nil
}

// Set gives a name an IPv4 address.
func (s *Server) Set(name string, address netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[strings.ToLower(name)] = address
}

// Close ends the server.
func (s *Server) Close() error { return s.conn.Close() }

func (s *Server) serve() {
	buf := make([]byte, 512)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return // closed
		}
		if reply, err := s.answer(buf[:n]); err == nil {
			_, _ = s.conn.WriteTo(reply, from)
		}
	}
}

func (s *Server) answer(packet []byte) ([]byte, error) {
	var query dnsmessage.Message
	if err := query.Unpack(packet); err != nil {
		return nil, err
	}
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionDesired: query.RecursionDesired},
		Questions: query.Questions,
	}
	for _, question := range query.Questions {
		address, ok := s.lookup(question.Name.String())
		if !ok {
			reply.RCode = dnsmessage.RCodeNameError
			continue
		}
		if question.Type != dnsmessage.TypeA {
			continue // the name exists, without such a record
		}
		reply.Answers = append(reply.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: address.As4()},
		})
	}
	return reply.Pack()
}

func (s *Server) lookup(name string) (netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	address, ok := s.names[strings.ToLower(strings.TrimSuffix(name, "."))]
	return address, ok
}
