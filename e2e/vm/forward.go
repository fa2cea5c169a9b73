package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The one server of the host that a QEMU machine may reach: its port on the
// host's loopback is the machine's 10.0.2.100:6443. QEMU starts this executable
// for each connection and speaks to it through stdin and stdout.
const (
	forwardTarget = "10.0.2.100:6443"
	guestAddr     = "10.0.2.15"
	guestMask     = "255.255.255.0"
	guestDevice   = "eth0"
	pipeCommand   = "pipe-to" // os.Args[1] of that executable; the address follows
)

// forwardModules drive the network device of a machine that has a forward.
var forwardModules = []string{"virtio_net"}

// forwardArgs are QEMU's arguments for a network on which nothing but the
// target answers. self is the path of this executable.
func forwardArgs(port int, self string) []string {
	command := fmt.Sprintf("%s %s 127.0.0.1:%d", shellQuote(self), pipeCommand, port)
	return []string{
		"-netdev", "user,id=api,restrict=on,ipv6=off,guestfwd=tcp:" + forwardTarget + "-cmd:" + strings.ReplaceAll(command, ",", ",,"),
		"-device", "virtio-net-pci,netdev=api,romfile=",
	}
}

// shellQuote makes one word of s for those that split a command as a shell does.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// pipeTo connects stdin and stdout with a TCP server until either side ends.
func pipeTo(addr string, in io.Reader, out io.Writer) error {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("no TCP connection: %T", conn)
	}
	go func() {
		_, _ = io.Copy(tcp, in) // an end by an error is an end
		_ = tcp.CloseWrite()
	}()
	_, err = io.Copy(out, tcp)
	return err
}

// forwardUp gives the machine's network device its address and brings it up.
func forwardUp() error {
	if err := awaitFile(filepath.Join("/sys/class/net", guestDevice), 10*time.Second); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s up: %w", guestDevice, err)
	}
	defer func() { _ = unix.Close(fd) }()
	for _, step := range []struct {
		request uint
		addr    string
	}{{unix.SIOCSIFADDR, guestAddr}, {unix.SIOCSIFNETMASK, guestMask}} {
		ifr, err := unix.NewIfreq(guestDevice)
		if err != nil {
			return err
		}
		if err := errors.Join(ifr.SetInet4Addr(net.ParseIP(step.addr).To4()), unix.IoctlIfreq(fd, step.request, ifr)); err != nil {
			return fmt.Errorf("%s: address %s: %w", guestDevice, step.addr, err)
		}
	}
	return linkUp(guestDevice)
}

// awaitFile waits until a file is there.
func awaitFile(path string, limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(path)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
