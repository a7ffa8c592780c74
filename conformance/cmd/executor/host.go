package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"microvms/agentd/calldata"
)

// The methods that host 1 answers (manager facts, section 8).
const (
	methodConsumeResult = 6
	methodResolve       = 7
	methodRunNested     = 8
)

// smallestResult is the smallest blob that a strict manager takes: code 0 and
// a result of kind "Return" with null data (manager facts, section 8).
var smallestResult = unhex("006e096261636b74726163650004646174610012646174615f666565735f636f6e73756d65642e056576656e74010b6d6573736167655f666565010f6d6573736167655f72656365697074010d6e6f6e6465745f6f7574707574010773746f726167650113646174615f666565735f72656d61696e696e670509656d697373696f6e73050e657865637574696f6e5f6861736883020101010101010101010101010101010101010101010101010101010101010101046b696e643452657475726e0f6c6c6d5f636f6e73756d7074696f6e01136e6f6e6465745f64697361677265656d656e74000e6e6f6e6465745f726573756c7473050a736d616c6c5f68617368830202020202020202020202020202020202020202020202020202020202020202020f73746f726167655f6368616e67657305117761736d5f73746f72655f68617368657306")

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic("executor: internal error: " + err.Error())
	}
	return b
}

var errNoHost1 = errors.New("host 1 is no descriptor of this process")

// send writes one method with a length and its bytes.
func (e *executor) send(method byte, blob []byte) error {
	if e.host1 == nil {
		return errNoHost1
	}
	head := binary.LittleEndian.AppendUint32([]byte{method}, uint32(len(blob)))
	_, err := e.host1.Write(append(head, blob...))
	return err
}

// recv reads n bytes from host 1.
func (e *executor) recv(n int) ([]byte, error) {
	if e.host1 == nil {
		return nil, errNoHost1
	}
	b := make([]byte, n)
	_, err := io.ReadFull(e.host1, b)
	return b, err
}

// consumeResult sends the blob and waits for the single byte of the answer.
func (e *executor) consumeResult(blob []byte) error {
	e.answered = true
	if err := e.send(methodConsumeResult, blob); err != nil {
		return err
	}
	b, err := e.recv(1)
	if err == nil && b[0] != 0 {
		err = fmt.Errorf("the result was answered %d", b[0])
	}
	return err
}

// resolve asks which executor serves a contract and returns the answer's calldata.
func (e *executor) resolve(args []byte) ([]byte, error) {
	if len(args) != 22 {
		return nil, fmt.Errorf("%d bytes of arguments, 22 are needed", len(args))
	}
	if e.host1 == nil {
		return nil, errNoHost1
	}
	if _, err := e.host1.Write(append([]byte{methodResolve}, args...)); err != nil {
		return nil, err
	}
	if b, err := e.recv(1); err != nil || b[0] != 0 {
		return b, err
	}
	return e.counted()
}

// nested sends an envelope and returns the reply.
func (e *executor) nested(envelope []byte) ([]byte, error) {
	if err := e.send(methodRunNested, envelope); err != nil {
		return nil, err
	}
	return e.counted()
}

// counted reads a length and that many bytes.
func (e *executor) counted() ([]byte, error) {
	b, err := e.recv(4)
	if err != nil {
		return nil, err
	}
	return e.recv(int(binary.LittleEndian.Uint32(b)))
}

// dial connects to host 0 and writes its hello data, before anything else.
func (e *executor) dial() error {
	if len(e.hosts) == 0 {
		return errors.New("no host is named")
	}
	network, address := "tcp", e.hosts[0]
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	e.host0 = conn
	hello, err := helloData(e.input)
	if err != nil || len(hello) == 0 {
		return err
	}
	_, err = conn.Write(hello)
	return err
}

// helloData finds what is to be said to host 0 in the execution data.
func helloData(input []byte) ([]byte, error) {
	v, err := calldata.Decode(input)
	if err != nil {
		return nil, fmt.Errorf("standard input is no execution data: %w", err)
	}
	fields, _ := v.(map[string]any)
	entries, ok := fields["host_hello_data"].([]any)
	if !ok {
		return nil, errors.New("the execution data hold no host_hello_data")
	}
	if len(entries) == 0 {
		return nil, nil
	}
	hello, ok := entries[0].([]byte)
	if !ok {
		return nil, errors.New("the hello data of host 0 are no bytes")
	}
	return hello, nil
}
