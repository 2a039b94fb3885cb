// SPDX-License-Identifier: Apache-2.0

// Package dns is a name server for tests that says what a test wants, as the
// name server of a pod may.
package dns

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

// Server answers over UDP.
type Server struct {
	conn    net.PacketConn
	answers map[string]netip.Addr
}

// Start serves the IPv4 addresses of some names, and of no others, at port 53
// of an address.
func Start(address string, answers map[string]netip.Addr) (*Server, error) {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(address, "53"))
	if err != nil {
		return nil, fmt.Errorf("start name server: %w", err)
	}
	s := &Server{conn, answers}
	go s.serve()
	return s, nil
}

// Close ends the server.
func (s *Server) Close() error { return s.conn.Close() }

func (s *Server) serve() {
	packet := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(packet)
		if err != nil {
			return // closed
		}
		if reply, err := s.reply(packet[:n]); err == nil {
			_, _ = s.conn.WriteTo(reply, from) // the client asks again
		}
	}
}

func (s *Server) reply(packet []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(packet); err != nil || len(message.Questions) != 1 {
		return nil, fmt.Errorf("a strange question: %w", err)
	}
	question := message.Questions[0]
	answer := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: message.ID, Response: true, Authoritative: true, RecursionAvailable: true},
		Questions: message.Questions,
	}
	address, ok := s.answers[question.Name.String()]
	if !ok {
		answer.RCode = dnsmessage.RCodeNameError
	}
	if ok && question.Type == dnsmessage.TypeA {
		answer.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 1},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return answer.Pack()
}
