package msp

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDurations holds the strings of manager facts, section 2.7.
func TestDurations(t *testing.T) {
	t.Attr("requirement", "CALLDATA-14")
	for _, tc := range []struct {
		text string
		want uint64
	}{
		{"0s", 0}, {"5ms", 5}, {"1s", 1000}, {"1.5s", 1500}, {".5s", 500}, {"2m", 120_000}, {"1h", 3_600_000}, {"0.0001s", 0}, {"0.0019s", 1},
		{"0.9ms", 0}, {"1.999999999999ms", 1}, {"0.33333333333333333333333333333333333333h", 1_199_999}, {"00012s", 12_000},
		{"18446744073709551615ms", math.MaxUint64}, {"18446744073709551.615s", math.MaxUint64}, {"18446744073709551.6159s", math.MaxUint64},
		{"0." + strings.Repeat("9", 38) + "s", 999},
	} {
		got, err := ParseDuration(tc.text)
		if err != nil || uint64(got) != tc.want {
			t.Errorf("%q is %d ms, %v, want %d", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "s", "ms", "5.s", ".s", ".", "1.2.3s", "-1s", "+1s", " 1s", "1 s", "1s ", "1e3s", "1S", "5", "1d", "1sm", "1us", "١s",
		"0." + strings.Repeat("1", 39) + "s", "18446744073709551616ms", "18446744073709551.616s", "99999999999999999999999999s", "1.5", "1ms1s", "1_0s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q reads as %d ms, want an error", text, got)
		}
	}
	// Dividing the whole fraction at once gives the same as digit by digit.
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[0-9]{1,38}`).Draw(t, "fraction")
		for unit, ms := range map[string]int64{"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000} {
			n, _ := new(big.Int).SetString(digits, 10)
			n.Mul(n, big.NewInt(ms))
			n.Quo(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(digits))), nil))
			if got, err := ParseDuration("." + digits + unit); err != nil || uint64(got) != n.Uint64() {
				t.Fatalf(".%s%s is %d ms, %v, want %d", digits, unit, got, err, n)
			}
		}
	})
	if d := Duration(math.MaxUint64); d.Std() != math.MaxInt64 || d.String() != "18446744073709551615ms" {
		t.Errorf("the longest duration is %v, %v", d.Std(), d)
	}
	if d := DurationOf(1999 * time.Microsecond); d != 1 || DurationOf(-time.Second) != 0 {
		t.Errorf("1.999 ms is %v", d)
	}
}

func TestTimestamps(t *testing.T) {
	t.Attr("requirement", "CALLDATA-15")
	for _, tc := range []struct{ text, want string }{
		{"2026-01-01T00:00:00Z", ""}, {"2026-01-01T00:00:00.123Z", ""}, {"2024-11-26T06:42:42.424242Z", ""}, {"2026-01-01T00:00:00.000000001Z", ""},
		{"0000-01-01T00:00:00Z", ""}, {"9999-12-31T23:59:59Z", ""},
		{"2026-01-01T02:30:00+02:30", "2026-01-01T00:00:00Z"}, {"2025-12-31T19:00:00-05:00", "2026-01-01T00:00:00Z"},
		{"2026-01-01t00:00:00z", "2026-01-01T00:00:00Z"}, {"2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.100Z"},
		{"2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00Z"}, {"2026-01-01T00:00:00.12345Z", "2026-01-01T00:00:00.123450Z"},
		{"2026-01-01T00:00:00-00:00", "2026-01-01T00:00:00Z"}, {"2026-01-01T23:59:00+23:59", "2026-01-01T00:00:00Z"},
	} {
		want := tc.want
		if want == "" {
			want = tc.text
		}
		got, err := ParseTimestamp(tc.text)
		if err != nil || got.String() != want {
			t.Errorf("%q reads as %v, %v, want %s", tc.text, got, err, want)
		}
	}
	for _, text := range []string{"", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01T0:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T25:00:00Z",
		"2026-01-01T00:00:00,5Z", "2026-01-01T00:00Z", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00+00:60", "2026-01-01T00:00:00-24:00", "2026-01-01T00:60:00Z", "2026-01-01T00:00:00+0100", "2026-01-01T00:00:00 +01:00", "1767225600", "2026-01-01T00:00:00.Z", "10000-01-01T00:00:00Z",
		"0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"} {
		if got, err := ParseTimestamp(text); err == nil {
			t.Errorf("%q reads as %v, want an error", text, got)
		}
	}
	// Moments are compared with ==, whatever their zone and clock reading were.
	now := time.Now()
	if At(now) != At(now.In(time.FixedZone("x", 3600)).Round(0)) {
		t.Error("one moment gives two timestamps")
	}
	if _, err := At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)).MarshalText(); err == nil {
		t.Error("the year 10000 has a text")
	}
	b, err := json.Marshal(At(time.Unix(0, 0)))
	var back Timestamp
	if err != nil || json.Unmarshal(b, &back) != nil || back != At(time.Unix(0, 0)) {
		t.Errorf("JSON %s reads as %v", b, back)
	}
}
