package client_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"microvms/client"
	"microvms/client/folder"
	"microvms/client/microvmtest"
)

// A folder of the VM is a file system for whatever reads one.
func ExampleSession_FS() {
	srv := microvmtest.New()
	defer srv.Close()
	srv.WriteFile("/srv/app/main.go", []byte("package main\n"), 0o644)
	srv.WriteFile("/srv/app/lib/lib.go", []byte("package lib\n"), 0o644)
	session, err := client.New("http://any.example", srv.Token, client.WithHTTPClient(srv.Client()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	view, err := session.FS(context.Background(), "/srv/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	fs.WalkDir(view, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := fs.ReadFile(view, name)
			fmt.Printf("%s: %s", name, text)
		}
		return err
	})
	// Output:
	// lib/lib.go: package lib
	// main.go: package main
}

// A folder comes out of the VM as an archive, which package folder extracts
// without leaving the local folder.
func ExampleSession_GetTar() {
	srv := microvmtest.New()
	defer srv.Close()
	srv.WriteFile("/srv/app/run.sh", []byte("exit\n"), 0o755)
	srv.Symlink("/etc/passwd", "/srv/app/link")
	session, err := client.New("http://any.example", srv.Token, client.WithHTTPClient(srv.Client()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	archive, err := session.GetTar(context.Background(), "/srv/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer archive.Close()
	sum, err := folder.Unpack(dir, archive, folder.Excludes{}, func(name, why string) { fmt.Println("skipped", name) })
	fmt.Println(sum.Files, sum.Bytes, err)
	// Output:
	// skipped link
	// 1 5 <nil>
}

// A file is written from any reader, with its mode.
func ExampleSession_PutFile() {
	srv := microvmtest.New()
	defer srv.Close()
	session, err := client.New("http://any.example", srv.Token, client.WithHTTPClient(srv.Client()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	err = session.PutFile(context.Background(), "/etc/app.conf", strings.NewReader("a=1"), client.PutFileOptions{Mode: 0o600})
	data, _ := srv.ReadFile("/etc/app.conf")
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// a=1 <nil>
}

// A session with a VM behind the platform's proxy mints the tokens that the proxy
// wants. The function asks the control plane, here it pretends to.
func ExampleWithProxy() {
	srv := microvmtest.New()
	defer srv.Close()
	mint := func(_ context.Context, ports []uint16) (client.ProxyToken, error) {
		fmt.Println("a token for ports", ports)
		return client.NewProxyToken(map[string]string{"X-aws-proxy-auth": "secret"}), nil
	}
	session, err := client.New("http://any.example", srv.Token, client.WithHTTPClient(srv.Client()), client.WithProxy(mint, 9000, 0))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	session.Health(context.Background())
	session.Health(context.Background())
	h, err := session.ConnectHeaders(context.Background(), 8080)
	fmt.Println(h.Get(client.HeaderProxyPort), err)
	// Output:
	// a token for ports [9000]
	// a token for ports [8080 9000]
	// 8080 <nil>
}
