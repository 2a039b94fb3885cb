// SPDX-License-Identifier: Apache-2.0

package archive

// sinkError marks an error of the sink, so that it isn't taken for damage.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// SinkError marks an error that a Sink returns as its own.
func SinkError(err error) error {
	if err == nil {
		return nil
	}
	return &sinkError{err}
}
