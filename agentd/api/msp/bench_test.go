package msp

import (
	"bytes"
	"encoding/json"
	"math/big"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"microvms/agentd/calldata"
)

// ordinary is a request such as a node sends: a call with a kilobyte of
// calldata, fees, a few gas constants and the results of a leader.
func ordinary() *RunRequest {
	r := smallest()
	r.IsSync, r.Token, r.Deadline = false, ptr("5b0e2f6c-tx-0x91d8a4-leader-0"), ptr(Duration(90_000))
	r.Selector = Selector{IsVersion: true, Version: "v0.2.17"}
	r.Message.ChainID, r.Message.Value = calldata.NewInt(61999), calldata.IntOf(power(80))
	for i := range 20 {
		r.Message.ContractAddress[i], r.Message.SenderAddress[i] = byte(i), byte(255-i)
	}
	for i := range 12 {
		r.BucketTotals = append(r.BucketTotals, calldata.NewInt(int64(i)<<(5*i)))
	}
	r.HostData = `{"node_address":"0x0000000000000000000000000000000000000001","tx_id":"0x91d8a4"}`
	r.Calldata, r.Code = bytes.Repeat([]byte("calldata"), 128), bytes.Repeat([]byte("code"), 1024)
	r.GasData = map[string]string{"call": "700", "create": "32000", "load": "2100", "store": "20000", "transfer": "21000"}
	for i := range 4 {
		r.LeaderNondetResults = append(r.LeaderNondetResults, bytes.Repeat([]byte{byte(i)}, 200))
	}
	leaf := FeeNode{Recipient: &r.Message.ContractAddress, Budget: u256(90), On: "accepted", Params: FeeParams{External: &ExternalFee{u256(20), u256(40)}}}
	inner := InternalFee{u256(1), u256(2), u256(60), []calldata.U256{u256(3), u256(4)}, u256(70), u256(30), u256(31)}
	r.MessageFeeAllocation = []FeeNode{{CallKey: new([32]byte), Budget: u256(200), On: "finalized", Params: FeeParams{Internal: &inner}, Children: []FeeNode{leaf, leaf}}}
	r.RecordActions = []string{"runner_load", "vm_spawn"}
	r.HostHello = [][]byte{[]byte("hello")}
	return r
}

func power(exponent int) *big.Int {
	n := big.NewInt(1)
	return n.Lsh(n, uint(exponent))
}

func u256(exponent int) calldata.U256 {
	u, _ := calldata.U256Of(calldata.IntOf(power(exponent)))
	return u
}

// BenchmarkRunRequest encodes and decodes the same Go value as calldata, as JSON
// and as CBOR.
func BenchmarkRunRequest(b *testing.B) {
	r := ordinary()
	r.Timestamp = At(time.Unix(1.7e9, 0))
	enc, err := cbor.EncOptions{Sort: cbor.SortCanonical, TextMarshaler: cbor.TextMarshalerTextString}.EncMode()
	if err != nil {
		b.Fatal(err)
	}
	dec, err := cbor.DecOptions{TextUnmarshaler: cbor.TextUnmarshalerTextString}.DecMode()
	if err != nil {
		b.Fatal(err)
	}
	for _, peer := range []struct {
		name      string
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{
		{"calldata", calldata.Marshal, calldata.Unmarshal},
		{"json", json.Marshal, json.Unmarshal},
		{"cbor", enc.Marshal, dec.Unmarshal},
	} {
		encoded, err := peer.marshal(r)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("encode/"+peer.name, func(b *testing.B) {
			b.ReportAllocs()
			b.ReportMetric(float64(len(encoded)), "B/value")
			for b.Loop() {
				if _, err := peer.marshal(r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decode/"+peer.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := peer.unmarshal(encoded, new(RunRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
