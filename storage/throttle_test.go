// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sedna-io/containerd-shim-sedna/storage"
	"github.com/sedna-io/containerd-shim-sedna/storage/storagetest"
	"github.com/sedna-io/containerd-shim-sedna/storage/worker"
)

// metered fetches so many files with a meter whose asks go to the channel.
func metered(ctx context.Context, t *testing.T, files, size int, use func(ask <-chan struct{}, grant func(int64))) (*worker.Report, error) {
	t.Helper()
	b := storagetest.NewBucket("b")
	for i := range files {
		b.Put(fmt.Sprintf("m/%d", i), storagetest.Bytes(size))
	}
	s := storagetest.Serve(t, b, nil)
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	asks := make(chan struct{}, 100)
	meter := storage.NewMeter(func() { asks <- struct{}{} })
	done := make(chan struct{})
	granting := make(chan struct{})
	go func() {
		defer close(granting)
		for {
			select {
			case <-done:
				return
			default:
				use(asks, meter.Grant)
			}
		}
	}()
	defer func() { close(done); close(asks); <-granting }()
	return storage.Run(ctx, root, request(s3Item(t, s.URL, "s3://b/m/", "m")), func(worker.Event) {}, storage.Metered(meter))
}

func TestAMeteredRunAsksForAllThatItReads(t *testing.T) {
	const total, grant = 8 << 20, 1 << 20
	for _, files := range []int{1, 512} {
		asked := 0
		report, err := metered(t.Context(), t, files, total/files, func(asks <-chan struct{}, give func(int64)) {
			if _, ok := <-asks; ok {
				asked++
				give(grant)
			}
		})
		if err != nil || report.Bytes != total {
			t.Fatalf("%d files: got %+v, %v", files, report, err)
		}
		// One more may be under way for what doesn't come.
		if asked < total/grant || asked > total/grant+1 {
			t.Errorf("%d files: it asked %d times for %d bytes, to read %d", files, asked, grant, total)
		}
	}
}

// Nobody's grant is no stall, and ends with the run.
func TestAMeteredRunWaitsForItsGrant(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("the pod was killed")
	asked := 0
	_, err := metered(ctx, t, 1, 8<<20, func(asks <-chan struct{}, _ func(int64)) {
		if _, ok := <-asks; ok {
			asked++
			time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
		}
	})
	if !errors.Is(err, why) || asked != 1 {
		t.Errorf("after %d asks: %v", asked, err)
	}
}
