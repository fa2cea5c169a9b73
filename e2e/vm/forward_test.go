package main

import (
	"bytes"
	"io"
	"net"
	"testing"
)

func TestPipeCarriesBothWays(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			heard <- err.Error()
			return
		}
		text, _ := io.ReadAll(conn) // ends when stdin does
		_, _ = io.WriteString(conn, "answer")
		_ = conn.Close()
		heard <- string(text)
	}()
	var out bytes.Buffer
	if err := pipeTo(l.Addr().String(), bytes.NewBufferString("question"), &out); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "question" || out.String() != "answer" {
		t.Errorf("server heard %q, client got %q", got, out.String())
	}
}
