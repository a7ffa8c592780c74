package manager

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// upgradeRows are what may be wrong with the head of an upgrade.
func upgradeRows() []Row {
	without := func(line string) string { return strings.Replace(goodUpgrade, line+"\r\n", "", 1) }
	instead := func(line, other string) string {
		return strings.Replace(goodUpgrade, line+"\r\n", other+"\r\n", 1)
	}
	const keyLine, versionLine = "Sec-WebSocket-Key: " + key, "Sec-WebSocket-Version: 13"
	var cases []Case
	for _, c := range []struct {
		name, input string
		status      []int
	}{
		{"no key", without(keyLine), []int{400}},
		{"an empty key", instead(keyLine, "Sec-WebSocket-Key:"), []int{400}},
		{"a key of 15 bytes", instead(keyLine, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAA"), []int{400}},
		{"a key that is no base64", instead(keyLine, "Sec-WebSocket-Key: !!!!!!!!!!!!!!!!!!!!!!=="), []int{400}},
		{"a key of 1 KiB", instead(keyLine, "Sec-WebSocket-Key: "+strings.Repeat("A", 1024)), []int{400}},
		{"two keys", instead(keyLine, keyLine+"\r\n"+keyLine), []int{400}},
		{"two keys in one line", instead(keyLine, keyLine+", "+key), []int{400}},
		{"no version", without(versionLine), []int{400}},
		{"version 12", instead(versionLine, "Sec-WebSocket-Version: 12"), []int{400}},
		{"versions 13 and 12", instead(versionLine, "Sec-WebSocket-Version: 13, 12"), []int{400}},
		{"version 13 twice", instead(versionLine, versionLine+"\r\n"+versionLine), []int{400}},
		{"a foreign origin", instead(keyLine, keyLine+"\r\nOrigin: http://evil.example"), []int{403}},
		{"an origin of the same name", instead(keyLine, keyLine+"\r\nOrigin: http://localhost"), []int{403}},
		{"the origin null", instead(keyLine, keyLine+"\r\nOrigin: null"), []int{403}},
		{"an empty origin", instead(keyLine, keyLine+"\r\nOrigin:"), []int{403}},
		{"an origin without a key", instead(keyLine, "Origin: http://evil.example"), []int{403}},
		{"no upgrade", without("Upgrade: websocket"), []int{426}},
		{"an upgrade to h2c", instead("Upgrade: websocket", "Upgrade: h2c"), []int{426}},
		{"no connection header", without("Connection: Upgrade"), []int{426}},
		{"the word upgrade inside another", instead("Connection: Upgrade", "Connection: upgrades"), []int{426}},
		{"HTTP/1.0", strings.Replace(goodUpgrade, "HTTP/1.1", "HTTP/1.0", 1), []int{426}},
		{"POST", strings.Replace(goodUpgrade, "GET ", "POST ", 1), []int{404, 405}},
		{"no host", without("Host: localhost"), []int{400}},
		{"another path", strings.Replace(goodUpgrade, "/ws", "/ws/", 1), []int{404}},
		{"a path that a cleaner would mend", strings.Replace(goodUpgrade, "/ws", "/status/../ws", 1), []int{404}},
		{"a header of 2 MiB", instead(keyLine, keyLine+"\r\nX: "+strings.Repeat("x", 2<<20)), []int{431}},
	} {
		cases = append(cases, Case{c.name, answered(c.input, c.status...)})
	}
	cases = append(cases, Case{"a rebound name", func(ctx context.Context, p *probe) error {
		if p.Network != "tcp" {
			return skipped("names mean something over TCP only")
		}
		return answered(instead("Host: localhost", "Host: localhost.evil.example"), 403)(ctx, p)
	}}, Case{"an extension and a sub-protocol", selectsNothing})
	return []Row{{
		ID: "W4", Name: "upgrades with broken keys, versions, origins and names",
		Expect:       "400, 403 or 426 before the upgrade",
		Requirements: []string{"SOCKET-2", "SOCKET-3", "SOCKET-4", "SOCKET-5", "SOCKET-6"},
		Cases:        cases,
	}}
}

// answered sends bytes on a fresh connection and wants one of the statuses. The
// manager need not read all of them.
func answered(input string, statuses ...int) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		c, err := p.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(c, input) // a manager that has answered may have closed
		}()
		status, body, err := c.answer()
		c.Close()
		<-sent
		if err != nil {
			return err
		}
		if !slices.Contains(statuses, status) {
			return fmt.Errorf("answered %d with %.100q, want %v", status, body, statuses)
		}
		return nil
	}
}

// selectsNothing offers what the manager must not take, and then speaks.
func selectsNothing(ctx context.Context, p *probe) error {
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	offer := "Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Protocol: msp, soap\r\n\r\n"
	if _, err := io.WriteString(c, strings.TrimSuffix(goodUpgrade, "\r\n")+offer); err != nil {
		return err
	}
	var head strings.Builder
	for line := ""; line != "\r\n"; head.WriteString(line) {
		if line, err = c.br.ReadString('\n'); err != nil {
			return err
		}
	}
	if text := strings.ToLower(head.String()); !strings.HasPrefix(text, "http/1.1 101 ") || strings.Contains(text, "sec-websocket-extensions") ||
		strings.Contains(text, "sec-websocket-protocol") {
		return fmt.Errorf("the upgrade was answered %.300q", text)
	}
	if _, _, err := c.message(); err != nil { // the hello
		return err
	}
	return c.serves()
}
