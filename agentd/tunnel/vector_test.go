package tunnel

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// The test vector of wire facts, section 10.3.
const (
	vectorHostPublic = "57db4b359f23ae5e146e4e2512056704722506348c150c14753d0c933d04d421"
	vectorVMPublic   = "13be4feaeaf204c7fd3358fc9c00721881d174278128227ec674f37f7fe97b6d"
	vectorPrologue   = "6d6963726f766d732d74756e6e656c004e6f6973655f4b4b5f32353531395f436861436861506f6c795f424c414b4532730032002f76312f746370001f90"
	vectorMessage1   = "7b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13ff1cb610985e8d45378852f25e0a4f9049"
	vectorMessage2   = "0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f20eb0c3ae5637db87ad13164b08321d456e2"
	vectorReady      = "bdd3c653c00dc425102ee1e79bc1a9776285b3271f758471f8d92ea2db675cbc4d32aac414"
	vectorHello      = "0e28b68c27fca44a89cb5a24a7523cff04c283194f"
	vectorCallerEnd  = "404a3dd95e15aaa22167548804c6779d"
	vectorHELLO      = "c9ab1b5a89800642523dcf733b471d0d47f29f3d78"
	vectorGuestEnd   = "bb050ce4140b191799b876185665825a"

	vectorPort = 8080
)

func key(b byte) (k [KeySize]byte) {
	for i := range k {
		k[i] = b
	}
	return k
}

// vectorKeys are the two sides' keys of the vector.
func vectorKeys(t testing.TB) (host, vm Keys) {
	t.Helper()
	hostPublic, err := PublicKey(key(9))
	if err != nil {
		t.Fatal(err)
	}
	vmPublic, err := PublicKey(key(7))
	if err != nil {
		t.Fatal(err)
	}
	return Keys{Private: key(9), Peer: vmPublic}, Keys{Private: key(7), Peer: hostPublic}
}

// pair runs the handshake of the vector and returns both sessions with both
// messages.
func pair(t testing.TB, offerHost, offerVM bool) (client, daemon *Session, message1, message2 []byte) {
	t.Helper()
	host, vm := vectorKeys(t)
	ephemeral := func(b byte) *bytes.Reader { k := key(b); return bytes.NewReader(k[:]) }
	i, message1, err := initiate(host, vectorPort, offerHost, ephemeral(0x11))
	if err != nil {
		t.Fatal(err)
	}
	daemon, message2, err = respond(vm, vectorPort, message1, offerVM, ephemeral(0x22))
	if err != nil {
		t.Fatal(err)
	}
	if client, err = i.Finish(message2); err != nil {
		t.Fatal(err)
	}
	return client, daemon, message1, message2
}

func same(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("%s is %x, want %s", what, got, want)
	}
}

func must(t *testing.T) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// TestVector makes every byte of the facts' vector again.
func TestVector(t *testing.T) {
	t.Attr("requirement", "TUNNEL-6")
	t.Attr("requirement", "TUNNEL-7")
	host, vm := vectorKeys(t)
	same(t, "the host's public key", vm.Peer[:], vectorHostPublic)
	same(t, "the VM's public key", host.Peer[:], vectorVMPublic)
	same(t, "the prologue", Prologue(vectorPort), vectorPrologue)
	client, daemon, message1, message2 := pair(t, true, true)
	same(t, "message 1", message1, vectorMessage1)
	same(t, "message 2", message2, vectorMessage2)
	if !client.PeerOffersEnd() || !daemon.PeerOffersEnd() {
		t.Error("an offer was lost")
	}
	up := [][]byte{must(t)(client.SealReady(nil)), must(t)(client.Seal(nil, []byte("hello"))), must(t)(client.SealEnd(nil))}
	for i, want := range []string{vectorReady, vectorHello, vectorCallerEnd} {
		same(t, "a record of the client", up[i], want)
	}
	down := [][]byte{must(t)(daemon.Seal(nil, []byte("HELLO"))), must(t)(daemon.SealEnd(nil))}
	for i, want := range []string{vectorHELLO, vectorGuestEnd} {
		same(t, "a record of the daemon", down[i], want)
	}
	if err := daemon.OpenReady(up[0]); err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct {
		s       *Session
		records [][]byte
		want    string
	}{{daemon, up[1:], "hello"}, {client, down, "HELLO"}} {
		data, end, err := d.s.Open(nil, d.records[0])
		if string(data) != d.want || end || err != nil {
			t.Errorf("opened %q, end %v, %v", data, end, err)
		}
		if data, end, err = d.s.Open(nil, d.records[1]); len(data) != 0 || !end || err != nil {
			t.Errorf("opened %q, end %v, %v, want the end of stream", data, end, err)
		}
		if _, _, err = d.s.Open(nil, d.records[1]); err != ErrEnded {
			t.Errorf("after the end: %v", err)
		}
	}
}
