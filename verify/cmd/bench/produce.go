package main

import (
	"fmt"
	"io"
	"os"
)

// produceCmd is the command whose output is streamed or polled.
type produceCmd struct {
	Bytes int64 `help:"How many bytes to write." required:""`
	Text  bool  `help:"Write log lines instead of zero bytes."`
	// Credits paces it: a reader that falls behind more than the daemon's window loses output, by contract, and then
	// less than everything would be measured.
	Credits string `help:"FIFO from which each byte read allows the next 64 KiB."`
}

const (
	creditBytes = 64 << 10
	// window is how far the producer may be ahead of the reader: below the daemon's 1 MiB of replay.
	window = 768 << 10
)

func produce(c produceCmd, stdout io.Writer) error {
	if c.Text {
		_, err := io.WriteString(stdout, heldText(int(c.Bytes)))
		return err
	}
	if c.Credits == "" {
		return paced(stdout, c.Bytes, nil)
	}
	f, err := os.Open(c.Credits)
	if err != nil {
		return fmt.Errorf("cannot open the credits: %w", err)
	}
	defer f.Close()
	return paced(stdout, c.Bytes, f)
}

// paced writes n bytes, at most the window ahead of the credits; nil: as fast as
// they are taken.
func paced(w io.Writer, n int64, credits io.Reader) error {
	block := make([]byte, creditBytes)
	got := make([]byte, 64)
	ahead := int64(window)
	for n > 0 {
		for credits != nil && ahead < creditBytes {
			k, err := credits.Read(got)
			if err != nil {
				return fmt.Errorf("the reader's credits ended: %w", err)
			}
			ahead += int64(k) * creditBytes
		}
		k, err := w.Write(block[:min(n, creditBytes)])
		if err != nil {
			return err
		}
		n, ahead = n-int64(k), ahead-int64(k)
	}
	return nil
}
