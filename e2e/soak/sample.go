package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// sample is what a node has: node-2, whose agent is never ended.
type sample struct {
	RSS        float64 // bytes
	Goroutines float64
	Files      float64 // open ones
	// Servers counts the lines of ipvsadm, Members those of the sets, Addresses those of
	// kube-ipvs0, Rules those of both families.
	Servers, Members, Addresses, Rules int
}

func (s sample) print(at string) {
	fmt.Printf("%-8s  node-2: RSS %.1f MiB, %.0f goroutines, %.0f files; IPVS %d, members %d, addresses %d, rules %d\n",
		at, s.RSS/(1<<20), s.Goroutines, s.Files, s.Servers, s.Members, s.Addresses, s.Rules)
}

// sample looks at node-2.
func (s *soak) sample(ctx context.Context) (sample, error) {
	h := s.lab.Host(testbed.Node2)
	var now sample
	metrics, err := metricsOf(h)
	if err != nil {
		return now, err
	}
	for name, value := range map[string]*float64{
		"process_resident_memory_bytes": &now.RSS, "go_goroutines": &now.Goroutines, "process_open_fds": &now.Files,
	} {
		v, ok := metrics[name]
		if !ok {
			return now, fmt.Errorf("no metric %s", name)
		}
		*value = v
	}
	for _, c := range []struct {
		count   *int
		prefix  string
		command []string
	}{
		{&now.Servers, "-", []string{"ipvsadm", "-Sn"}},
		{&now.Members, "add ", []string{"ipset", "save"}},
		{&now.Addresses, "", []string{"ip", "-o", "address", "show", "dev", "kube-ipvs0"}},
		{&now.Rules, "-A ", []string{"iptables-save"}},
		{&now.Rules, "-A ", []string{"ip6tables-save"}},
	} {
		out, err := h.Exec(ctx, c.command[0], c.command[1:]...)
		if err != nil {
			return now, err
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, c.prefix) {
				*c.count++
			}
		}
	}
	return now, nil
}

// metricsOf reads the metrics of a node's agent that have no labels.
func metricsOf(h *testbed.Host) (values map[string]float64, err error) {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (c net.Conn, err error) {
			err = h.Do(func() error {
				c, err = net.DialTimeout("tcp", "127.0.0.1:10249", 20*time.Second)
				return err
			})
			return c, err
		},
	}}
	answer, err := client.Get("http://127.0.0.1:10249/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	return parse(answer.Body)
}

func parse(r io.Reader) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") || strings.Contains(name, "{") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		values[name] = v
	}
	return values, lines.Err()
}

// same wants the kernel of the end to be that of the begin.
func same(first, last sample) error {
	first.RSS, first.Goroutines, first.Files = 0, 0, 0
	last.RSS, last.Goroutines, last.Files = 0, 0, 0
	if first != last {
		return fmt.Errorf("the kernel of node-2 had %+v, and has %+v on the same Services", first, last)
	}
	return nil
}

// flat wants what the agent uses not to grow: the second half's least is no more than
// the first half's most, with some room for the memory that Go keeps.
func flat(samples []sample) error {
	if len(samples) < 4 {
		return nil
	}
	half := len(samples) / 2
	var errs []error
	for _, c := range []struct {
		name string
		room float64
		of   func(sample) float64
	}{
		{"RSS", 8 << 20, func(s sample) float64 { return s.RSS }},
		{"goroutines", 2, func(s sample) float64 { return s.Goroutines }},
		{"open files", 2, func(s sample) float64 { return s.Files }},
	} {
		most, least := c.of(samples[0]), c.of(samples[half])
		for _, s := range samples[:half] {
			most = max(most, c.of(s))
		}
		for _, s := range samples[half:] {
			least = min(least, c.of(s))
		}
		if least > most+c.room {
			errs = append(errs, fmt.Errorf("%s grow: at most %.0f in the first half, at least %.0f in the second", c.name, most, least))
		}
	}
	return errors.Join(errs...)
}
