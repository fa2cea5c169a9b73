package health

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestBindAddress(t *testing.T) {
	for in, want := range map[string]string{
		"":                "",
		"0.0.0.0":         "0.0.0.0:10256",
		"0.0.0.0:1":       "0.0.0.0:1",
		"127.0.0.1:10249": "127.0.0.1:10249",
		"::":              "[::]:10256",
		"[::]":            "[::]:10256",
		"[::1]:99":        "[::1]:99",
		"fd00::1":         "[fd00::1]:10256",
		"localhost:80":    "error",
		"10.0.0.1:":       "error",
		"10.0.0.1:70000":  "error",
		"[":               "error",
		"10.0.0.0/8":      "error",
		"0.0.0.0:1 ":      "error",
	} {
		got, err := BindAddress(in, HealthPort)
		if err != nil {
			got = "error"
			if !strings.Contains(err.Error(), in) {
				t.Errorf("%q: error without the address: %v", in, err)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// get asks once, on a connection of its own; an error is told as text.
func get(url string) (*http.Response, string) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return nil, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err.Error()
	}
	return response, string(body)
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func said(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeText(w, 200, text) })
}

// TestServerRetries: a taken address is told once, tried again and again, and
// served once it is free; the end of the context ends the server.
func TestServerRetries(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	failures := make(chan error, 100)
	ended := make(chan error)
	s := Server{
		Name: "test server", Address: taken.Addr().String(), Handler: said("hello"),
		Failed: func(err error) { failures <- err }, retry: time.Millisecond,
	}
	go func() { ended <- s.Run(ctx) }()
	time.Sleep(50 * s.retry)
	if err := <-failures; !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "test server") {
		t.Errorf("failure %v", err)
	}
	if len(failures) > 0 {
		t.Errorf("told %d times more", len(failures))
	}
	taken.Close()
	eventually(t, func() bool { _, body := get("http://" + s.Address); return body == "hello" })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if _, body := get("http://" + s.Address); !strings.Contains(body, "refused") {
		t.Errorf("after the end: %q", body)
	}
}

func TestServerHardFail(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	err := Server{Name: "metrics server", Address: taken.Addr().String(), HardFail: true}.Run(t.Context())
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, want address in use", err)
	}
}

func TestServerWithoutAddress(t *testing.T) {
	if err := (Server{HardFail: true}).Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServerTellsAHandlersPanic(t *testing.T) {
	address := freeAddress(t)
	failures := make(chan error, 10)
	s := Server{
		Name: "test server", Address: address,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("in the handler") }),
		Failed:  func(err error) { failures <- err },
	}
	go func() { _ = s.Run(t.Context()) }() // ends with the test
	eventually(t, func() bool {
		get("http://" + address)
		return len(failures) > 0
	})
	if err := <-failures; !strings.Contains(err.Error(), "in the handler") {
		t.Error(err)
	}
}

// freeAddress returns an address of the loopback that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	l.Close()
	return l.Addr().String()
}

// eventually waits for what another goroutine does with a real socket.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("did not happen within 10 s")
		}
	}
}
