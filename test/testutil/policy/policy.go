// SPDX-License-Identifier: Apache-2.0

// Package policy puts a firewall rule into a pod's network namespace, as
// plugins do that keep NetworkPolicies. test/policy is such a plugin.
package policy

import (
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Annotation of a pod says what may not leave it: a verdict and a protocol.
const Annotation = "policy.test/deny"

// What Annotation can say of TCP.
const (
	Drop     = "drop tcp"     // no answer ever comes
	Refuse   = "refuse tcp"   // ICMP: port unreachable
	Prohibit = "prohibit tcp" // ICMP: administratively prohibited
)

const table = "policy"

var verdicts = map[string]expr.Any{
	"drop":     &expr.Verdict{Kind: expr.VerdictDrop},
	"refuse":   &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3},
	"prohibit": &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 13},
}

var protocols = map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP}

// Apply makes a rule in the namespace at a path.
func Apply(netns, rule string) error {
	verdict, protocol, _ := strings.Cut(rule, " ")
	does, number := verdicts[verdict], protocols[protocol]
	if does == nil || number == 0 {
		return fmt.Errorf("there is no rule %q", rule)
	}
	return in(netns, func(c *nftables.Conn) error {
		t := c.AddTable(&nftables.Table{Name: table, Family: nftables.TableFamilyIPv4})
		chain := c.AddChain(&nftables.Chain{
			Name: "output", Table: t, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
		})
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
			&expr.Counter{},
			does,
		}})
		return c.Flush()
	})
}

// Hits is how many packets the rule has met.
func Hits(netns string) (hits uint64, err error) {
	err = in(netns, func(c *nftables.Conn) error {
		t := &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}
		rules, err := c.GetRules(t, &nftables.Chain{Name: "output", Table: t})
		if err != nil {
			return err
		}
		for _, rule := range rules {
			for _, e := range rule.Exprs {
				if counter, ok := e.(*expr.Counter); ok {
					hits += counter.Packets
				}
			}
		}
		return nil
	})
	return hits, err
}

// Lift removes the rule.
func Lift(netns string) error {
	return in(netns, func(c *nftables.Conn) error {
		c.DelTable(&nftables.Table{Name: table, Family: nftables.TableFamilyIPv4})
		return c.Flush()
	})
}

func in(netns string, do func(*nftables.Conn) error) error {
	f, err := os.Open(netns)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := nftables.New(nftables.WithNetNSFd(int(f.Fd())))
	if err != nil {
		return err
	}
	if err := do(c); err != nil {
		return fmt.Errorf("nftables in %s: %w", netns, err)
	}
	return nil
}
