// SPDX-License-Identifier: Apache-2.0

// Command bare fetches a file over two connections into another and checks
// nothing: the least work that a downloader in Go can do, to compare with.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
)

const (
	connections = 2
	bufferSize  = 1 << 20
)

func main() {
	if err := fetch(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fetch(url, to string) error {
	head, err := http.Head(url)
	if err != nil {
		return err
	}
	head.Body.Close()
	size := head.ContentLength
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	var wg sync.WaitGroup
	errs := make([]error, connections)
	for i := range int64(connections) {
		wg.Go(func() { errs[i] = part(url, f, size*i/connections, size*(i+1)/connections) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func part(url string, f *os.File, off, end int64) error {
	req, err := http.NewRequest(http.MethodGet, url, nil) //nolint:noctx // it lives as long as its request
	if err != nil {
		return err
	}
	req.Header.Set("Range", "bytes="+strconv.FormatInt(off, 10)+"-"+strconv.FormatInt(end-1, 10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	buf := make([]byte, bufferSize)
	for off < end {
		n, err := io.ReadFull(resp.Body, buf[:min(bufferSize, end-off)])
		if _, failed := f.WriteAt(buf[:n], off); failed != nil {
			return failed
		}
		off += int64(n)
		if err != nil && off < end {
			return err
		}
	}
	return nil
}
