package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
)

// teller answers the operator's commands on agentSocket. It reads what the source has
// read already and what the loop left for it: an answer makes the loop do nothing.
type teller struct {
	source *source
	node   string
	config atomic.Pointer[config.Raw]
	// drains and changes are written by the loop.
	drains  atomic.Pointer[[]reconcile.Drain]
	changes atomic.Uint64
}

// serve answers until the context ends. Another agent in this network namespace may
// have the socket: that is said, and the agent works all the same.
func (t *teller) serve(ctx context.Context, log *slog.Logger) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: agentSocket})
	if err != nil {
		log.Warn("the operator's commands cannot ask this agent", "err", err)
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+stateRoute, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, t.state) })
	mux.HandleFunc("GET "+drainsRoute, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, t.draining) })
	mux.HandleFunc("GET "+namesRoute, func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, t.names) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(trusted{listener}); !errors.Is(err, http.ErrServerClosed) {
		log.Warn("the operator's commands cannot ask this agent any more", "err", err)
	}
}

func answerJSON[T any](w http.ResponseWriter, read func() (T, error)) {
	value, err := read()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the other side went
}

func (t *teller) state() (agentState, error) {
	raw := t.config.Load()
	text, err := raw.Text()
	if err != nil {
		return agentState{}, err
	}
	s := agentState{Version: versionText(), NodeName: t.node, Config: string(text), Problems: t.source.problems()}
	s.Node, s.NodeKnown = t.source.Node()
	for _, name := range t.source.Names() {
		service, endpoints := t.source.Service(name)
		s.Services = append(s.Services, agentService{Name: name, Service: service, Endpoints: endpoints})
	}
	return s, nil
}

func (t *teller) draining() (agentDrains, error) {
	d := agentDrains{Changes: t.changes.Load(), Drains: []agentDrain{}}
	if list := t.drains.Load(); list != nil {
		for _, e := range *list {
			d.Drains = append(d.Drains, agentDrain{Server: e.Server.String(), Real: e.Real.String(), Since: e.Since, Deadline: e.Deadline})
		}
	}
	return d, nil
}

// names are those of Services that are there, for shells that complete them.
func (t *teller) names() ([]plan.ServiceName, error) {
	var names []plan.ServiceName
	for _, name := range t.source.Names() {
		if service, _ := t.source.Service(name); service != nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// took notes the configuration that counts now.
func (t *teller) took(raw config.Raw) { t.config.Store(&raw) }

// ended notes what a round left; the loop calls it.
func (t *teller) ended(dirty int, drains []reconcile.Drain) {
	if dirty > 0 {
		t.changes.Add(1)
	}
	t.drains.Store(&drains)
}

// trusted lets in only root and the user of this process.
type trusted struct{ *net.UnixListener }

// Accept closes what others open: an error would end the server.
func (l trusted) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peer(conn); err == nil && (uid == 0 || uid == uint32(os.Getuid())) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// peer is the user that opened the connection.
func peer(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return 0, errors.Join(err, credErr)
	}
	return cred.Uid, nil
}
