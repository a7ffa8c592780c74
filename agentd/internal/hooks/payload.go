package hooks

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"

	"microvms/agentd/api"
	"microvms/agentd/internal/accounts"
	"microvms/agentd/internal/strictjson"
)

// Payload is what a bootstrap installs, as one value. It prints as a redacted
// word: none of it belongs into a log.
type Payload struct {
	Token    string
	Env      map[string]string // nil when the launch sent none; never written after installation
	Identity *Identity         // nil when the launch sent none
}

// Identity is the key pair half and the pinned peer of verified tunnels.
type Identity struct {
	Seed       [32]byte // the VM's x25519 private key
	HostPublic [32]byte // the launching host's x25519 public key
}

// LogValue redacts the payload.
func (Payload) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String redacts the payload.
func (Payload) String() string { return "[redacted]" }

// GoString redacts the payload.
func (Payload) GoString() string { return "[redacted]" }

// ParseEnvelope returns the payload string inside the body of a run hook. It
// reports false when the body is not the envelope or carries no payload; the
// answer to both is the same.
func ParseEnvelope(body []byte) (string, bool) {
	var envelope api.RunHookEnvelope
	if err := strictjson.Unmarshal(body, &envelope); err != nil || envelope.RunHookPayload == nil {
		return "", false
	}
	return *envelope.RunHookPayload, true
}

// ParsePayload reads the payload string. Its error is the text of the refusal:
// it names a key or a shape and quotes no value, since a refusal goes to
// whoever posted the hook. The checks run in the order of the wire facts,
// section 4.2.
func ParsePayload(text string) (Payload, error) {
	var raw struct{ token, env, seed, host jsontext.Value }
	err := strictjson.Members([]byte(text), func(name string, value jsontext.Value) bool {
		// HOOK-10: any other key is passed over, because a newer client must not be refused.
		switch name {
		case api.PayloadToken:
			raw.token = value.Clone()
		case api.PayloadEnv:
			raw.env = value.Clone()
		case api.PayloadIdentitySeed:
			raw.seed = value.Clone()
		case api.PayloadIdentityHostPublic:
			raw.host = value.Clone()
		}
		return true
	})
	var repeated *strictjson.RepeatedKey
	if errors.As(err, &repeated) {
		// HOOK-27: by its name, since of two spellings nobody sees the second.
		return Payload{}, fmt.Errorf("runHookPayload repeats the key %q", repeated.Key)
	}
	if err != nil {
		// HOOK-6: the nesting is named, since forgetting it is the usual mistake.
		return Payload{}, fmt.Errorf("runHookPayload is not a JSON object: it must be a string that holds one, nested inside the request's own JSON")
	}
	var p Payload
	// HOOK-24: token, environment, identity, in this order.
	if p.Token, err = parseToken(raw.token); err != nil {
		return Payload{}, err
	}
	if p.Env, err = parseEnv(raw.env); err != nil {
		return Payload{}, err
	}
	if p.Identity, err = parseIdentity(raw.seed, raw.host); err != nil {
		return Payload{}, err
	}
	return p, nil
}

func parseToken(raw jsontext.Value) (string, error) {
	token, ok := text(raw)
	if !ok {
		return "", fmt.Errorf("%s is missing or not a string", api.PayloadToken)
	}
	if token == "" {
		return "", fmt.Errorf("%s is empty", api.PayloadToken)
	}
	return token, nil
}

// parseEnv accepts an absent env, null and an object of strings.
func parseEnv(raw jsontext.Value) (map[string]string, error) {
	if absent(raw) {
		return nil, nil
	}
	// HOOK-7: a value of another type would silently become another value.
	if raw.Kind() != '{' {
		return nil, fmt.Errorf("%s is not an object of strings", api.PayloadEnv)
	}
	env := map[string]string{}
	bad, found := "", false
	// The whole payload was judged before: only f can end this early.
	_ = strictjson.Members(raw, func(name string, value jsontext.Value) bool {
		s, ok := text(value)
		if !ok {
			bad, found = name, true
			return false
		}
		env[name] = s
		return true
	})
	if found {
		// SECRET-4: the key and never the value: a refusal goes to whoever posted the hook.
		return nil, fmt.Errorf("%s: the value of %q is not a string", api.PayloadEnv, short(bad))
	}
	if name, bad := accounts.BadEntry(env); bad {
		// HOOK-26: here, and not at each start for ever after: nothing replaces an installed environment.
		return nil, fmt.Errorf("%s: the entry %q has an empty name, an equals sign in its name or a NUL byte", api.PayloadEnv, short(name))
	}
	return env, nil
}

// short cuts a key, so that a refusal does not repeat a long one.
func short(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// parseIdentity accepts both keys or neither: one half proves nothing, and a
// tunnel that silently went unverified would be worse than a refused launch.
func parseIdentity(rawSeed, rawHost jsontext.Value) (*Identity, error) {
	halves := [2]struct {
		key string
		raw jsontext.Value
	}{{api.PayloadIdentitySeed, rawSeed}, {api.PayloadIdentityHostPublic, rawHost}}
	var words [2]string
	for i, h := range halves {
		s, ok := text(h.raw)
		if !ok && !absent(h.raw) {
			return nil, fmt.Errorf("%s is not a string", h.key)
		}
		words[i] = s
	}
	// HOOK-8: both halves or none, and each 32 bytes that are not zero.
	switch seedAbsent, hostAbsent := absent(rawSeed), absent(rawHost); {
	case seedAbsent && hostAbsent:
		return nil, nil
	case seedAbsent:
		return nil, fmt.Errorf("%s is missing: the identity keys come together", api.PayloadIdentitySeed)
	case hostAbsent:
		return nil, fmt.Errorf("%s is missing: the identity keys come together", api.PayloadIdentityHostPublic)
	}
	var decoded [2][]byte
	for i, h := range halves {
		var err error
		if decoded[i], err = base64.StdEncoding.Strict().DecodeString(words[i]); err != nil || hasNewline(words[i]) {
			return nil, fmt.Errorf("%s is not standard padded base64", h.key)
		}
	}
	for i, h := range halves {
		if len(decoded[i]) != 32 {
			return nil, fmt.Errorf("%s decodes to %d bytes, want 32", h.key, len(decoded[i]))
		}
	}
	id := &Identity{Seed: [32]byte(decoded[0]), HostPublic: [32]byte(decoded[1])}
	for i, key := range [2][32]byte{id.Seed, id.HostPublic} {
		if key == ([32]byte{}) {
			return nil, fmt.Errorf("%s is 32 zero bytes", halves[i].key)
		}
	}
	return id, nil
}

// hasNewline finds the bytes that Go's base64 decoder skips.
func hasNewline(s string) bool {
	for i := range len(s) {
		if s[i] == '\n' || s[i] == '\r' {
			return true
		}
	}
	return false
}

func absent(raw jsontext.Value) bool { return raw == nil || raw.Kind() == 'n' }

func text(raw jsontext.Value) (string, bool) {
	if raw == nil || raw.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	return string(b), err == nil
}
