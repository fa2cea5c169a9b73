package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/config"
)

// execute runs the command line and returns what it printed.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestHelp of run names every flag once, under a heading, in 80 columns.
func TestHelp(t *testing.T) {
	help, err := execute(t, "run", "--help")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(help) {
		if len(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	raw, f := config.Defaults(), pflag.NewFlagSet("", pflag.ContinueOnError)
	addFlags(f, &raw)
	f.VisitAll(func(flag *pflag.Flag) {
		line := strings.TrimRight("--"+flag.Name+" "+valueName(flag), " ") + "\n"
		if n := strings.Count(help, "\n  "+line) + strings.Count(help, "\n  -v, "+line); n != 1 {
			t.Errorf("--%s is there %d times", flag.Name, n)
		}
	})
	for _, group := range config.Groups() {
		if strings.Count(help, "\n"+string(group)+":\n") != 1 {
			t.Errorf("no single heading %q", group)
		}
	}
}

func valueName(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return name
}

// TestRootTakesFlagsOfRun: without a command it does what run does.
func TestRootTakesFlagsOfRun(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"run", "--version"}, {"version"}} {
		if out, err := execute(t, args...); err != nil || !strings.HasPrefix(out, "kube-ipvs-proxy ") {
			t.Errorf("%q: %q, %v", args, out, err)
		}
	}
}

func TestWriteConfigTo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "written")
	if out, err := execute(t, "--write-config-to", name, "--drain-timeout", "7m", "--cluster-cidr", "10.0.0.0/8"); err != nil || out != "" {
		t.Fatalf("%q, %v", out, err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := config.Read(text)
	if err != nil || r.DrainTimeout.Duration != 7*time.Minute || r.ClusterCIDR != "10.0.0.0/8" {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := execute(t, "--write-config-to", filepath.Join(name, "x")); err == nil || !strings.Contains(err.Error(), "--write-config-to: ") {
		t.Errorf("where nothing can be written: %v", err)
	}
}

// TestRefusedWithStatus2 and before anything is touched, since this needs no root.
func TestRefusedWithStatus2(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("kind: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--ipvs-scheduler", "R R", "--oom-score-adj", "9999"}, "oomScoreAdj"},
		{[]string{"--config", broken}, broken},
		{[]string{"--config", broken + "x"}, "no such file"},
		{[]string{"--init-only", "--config", broken}, broken},
		{[]string{"--write-config-to", broken, "--cluster-cidr", "x"}, "clusterCIDR"},
	} {
		_, err := execute(t, test.args...)
		exit, ok := errors.AsType[exitError](err)
		if !ok || exit.code != 2 || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v", test.args, err)
		}
	}
	if _, err := execute(t, "run", "now"); err == nil {
		t.Error("an argument is accepted")
	}
}

// TestFollower takes over what can be, and ends the process for the rest.
func TestFollower(t *testing.T) {
	now := config.Defaults()
	now.ClusterCIDR = "10.0.0.0/8"
	now.ShowHiddenMetricsForVersion = "1.36" // has a note
	verbose, moved, noted := now, now, now
	verbose.Logging.Verbosity = 4
	noted.ShowHiddenMetricsForVersion = "1.35"
	moved.ClusterCIDR, moved.Manifests = "11.0.0.0/8", "/x"
	for _, test := range []struct {
		name    string
		next    config.Raw
		err     error
		restart string // part of the reason
		log     string
		level   slog.Level
	}{
		{"the same", now, nil, "", `msg="configuration changed" adopted=""`, slog.LevelInfo},
		{"log level", verbose, nil, "", "adopted=logging.verbosity", slog.LevelDebug},
		{"note", noted, nil, "", "1.35 has no effect", slog.LevelInfo},
		{"much", moved, nil, "clusterCIDR, manifests", "", slog.LevelInfo},
		{"refused", now, errors.New("is wrong"), "", `going on with the one before" err="is wrong"`, slog.LevelInfo},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var log bytes.Buffer
		f := follower{now: now, level: new(slog.LevelVar), restart: cancel, log: slog.New(slog.NewTextHandler(&log, nil)),
			read: func() (config.Raw, config.Options, error) {
				options, err := test.next.Validate()
				return test.next, options, errors.Join(err, test.err)
			}}
		var adopted []config.Options
		f.adopt = func(o config.Options) { adopted = append(adopted, o) }
		var took []config.Raw
		f.took = func(raw config.Raw) { took = append(took, raw) }
		f.changed()
		if want := test.err == nil && test.restart == ""; want != (len(adopted) == 1) {
			t.Errorf("%s: adopted %v, want %t", test.name, adopted, want)
		}
		if len(took) != len(adopted) {
			t.Errorf("%s: commands are told of %d configurations, want %d", test.name, len(took), len(adopted))
		}
		cause := context.Cause(ctx)
		if (cause != nil) != (test.restart != "") || cause != nil && !strings.Contains(cause.Error(), test.restart) {
			t.Errorf("%s: ends with %v, want %q", test.name, cause, test.restart)
		}
		if !strings.Contains(log.String(), test.log) || f.level.Level() != test.level {
			t.Errorf("%s: level %v, log %q, want %v, %q", test.name, f.level, log.String(), test.level, test.log)
		}
		if strings.Contains(log.String(), "1.36") {
			t.Errorf("%s: an old note is told again: %q", test.name, log.String())
		}
		cancel(nil)
	}
}

// TestNodePortNotes: where NodePorts are served on every address, it is said.
func TestNodePortNotes(t *testing.T) {
	for _, test := range []struct {
		selectors []string
		families  string
		warning   bool
	}{
		{nil, "IPv4 and IPv6", false},
		{[]string{"all"}, "IPv4 and IPv6", false},
		{[]string{"primary"}, "", false},
		{[]string{"10.0.0.0/8"}, "IPv6", true},
		{[]string{"fd00::/8"}, "IPv4", true},
		{[]string{"10.0.0.0/8", "::/0"}, "IPv6", true},
		{[]string{"10.0.0.0/8", "fd00::/8"}, "", false},
	} {
		notes := nodePortNotes(config.Options{NodePorts: test.selectors})
		if len(notes) == 0 && test.families == "" {
			continue
		}
		if len(notes) != 1 || notes[0].Warning != test.warning || !strings.Contains(notes[0].Text, "every "+test.families+" address") {
			t.Errorf("%q: %+v, want %q, warning %t", test.selectors, notes, test.families, test.warning)
		}
	}
}

// TestStatement95TimeoutsFollowConntrack when none is chosen.
func TestStatement95TimeoutsFollowConntrack(t *testing.T) {
	kernel := ipvsutil.Timeouts{TCP: 900, TCPFin: 120, UDP: 300}
	for _, test := range []struct {
		have        ipvsutil.Timeouts
		chosen      config.Timeouts
		established uint32
		want        ipvsutil.Timeouts
	}{
		{kernel, config.Timeouts{}, 86400, ipvsutil.Timeouts{TCP: 86400, TCPFin: 120, UDP: 300}},
		{kernel, config.Timeouts{}, 0, kernel},
		{kernel, config.Timeouts{}, 1<<32 - 1, ipvsutil.Timeouts{TCP: ipvsutil.MaxTimeout, TCPFin: 120, UDP: 300}},
		{ipvsutil.Timeouts{TCP: 864000, TCPFin: 1, UDP: 1}, config.Timeouts{}, 86400, ipvsutil.Timeouts{TCP: 864000, TCPFin: 1, UDP: 1}},
		{kernel, config.Timeouts{TCP: time.Minute}, 86400, ipvsutil.Timeouts{TCP: 60, TCPFin: 120, UDP: 300}},
		{kernel, config.Timeouts{TCPFin: time.Minute, UDP: time.Hour}, 0, ipvsutil.Timeouts{TCP: 900, TCPFin: 60, UDP: 3600}},
	} {
		if have := wantTimeouts(test.have, test.chosen, test.established); have != test.want {
			t.Errorf("kernel %v, chosen %v, conntrack %d: %v, want %v", test.have, test.chosen, test.established, have, test.want)
		}
	}
}
