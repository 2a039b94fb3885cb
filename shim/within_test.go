// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/containerd/errdefs"
)

func TestAPreparationThatHangsIsGivenUp(t *testing.T) {
	for name, ctxOf := range map[string]func() (context.Context, context.CancelFunc){
		"when its time is over": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 10*time.Millisecond)
		},
		"when it is cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := ctxOf()
			defer cancel()
			forever := make(chan struct{})
			defer close(forever)
			var touch touching
			err := touch.within(ctx, time.Second, func() error {
				touch.now("the pod's volume %q", "models")
				<-forever
				return nil
			})
			if !errors.Is(err, errHangs) || !errdefs.IsUnavailable(err) {
				t.Errorf("got %v", err)
			}
			if what, _ := touch.last(); what != `the pod's volume "models"` {
				t.Errorf("it hung at %q", what)
			}
		})
	}
}

func TestACancelledPreparationMayCleanUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var touch touching
	cleaned := errors.New("cleaned up")
	err := touch.within(ctx, time.Second, func() error {
		<-ctx.Done()
		return cleaned
	})
	if !errors.Is(err, cleaned) {
		t.Errorf("got %v", err)
	}
}
