// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// newInit speaks the arguments of Sedna's initializer image
// (kubeedge/sedna, build/storage-initializer), so that it can stand in for it.
func newInit() *cobra.Command {
	return &cobra.Command{
		Use:   "init SRC DST [SRC DST]...",
		Short: "Download each SRC into the folder DST, as Sedna's init container does",
		Long: `Download each SRC into the folder DST, as Sedna's init container does.

The arguments and the environment are those of Sedna's storage-initializer
image. A SRC that begins with @ is the URL of an index file, whose lines are
fetched.`,
		Example: `  sedna-storage init s3://models/yolo/ /downloads/models @https://host/train.txt /downloads/host`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args)%2 != 0 {
				return usageError{errors.New("init wants pairs of SRC and DST; see sedna-storage init --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for i := 0; i < len(args); i += 2 {
				src, dst := args[i], args[i+1]
				o := fetchOptions{unpack: "auto", addressing: "auto", concurrency: defaultConnections}
				src, o.index = strings.CutPrefix(src, "@")
				if err := o.run(cmd.Context(), []string{src}, dst, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
