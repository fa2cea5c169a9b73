package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kube-ipvs-proxy/e2e/statements"
)

// packetSuite is the folder of the tests with the statements' numbers.
const packetSuite = "e2e/packets"

// askableByAPI takes out of the packet tests what cannot be asked where a real API server
// has the objects, and says of each why. A suite without a test is none.
func askableByAPI(out io.Writer, suites []suite) ([]suite, error) {
	var left []suite
	for _, s := range suites {
		if strings.HasSuffix(s.Package, "/"+packetSuite) {
			asked, not, err := statements.AskedByAPI(s.Tests)
			if err != nil {
				return nil, err
			}
			for _, u := range not {
				if _, err := fmt.Fprintf(out, "not asked through an API server: %s: %s\n", u.Test, u.Why); err != nil {
					return nil, err
				}
			}
			s.Tests = asked
		}
		if len(s.Tests) > 0 {
			left = append(left, s)
		}
	}
	return left, nil
}

// showStatements prints the tables of the statements and of the field reports if the
// packet tests were to run, as they ended: all lines or those that were asked. Without a log (the machine did
// not come so far) there is none.
func showStatements(out io.Writer, suites []suite, results string, all bool) error {
	for _, s := range suites {
		if !strings.HasSuffix(s.Package, "/"+packetSuite) {
			continue
		}
		log, err := os.Open(filepath.Join(results, s.name()+".log"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
		outcomes, err := outcomesOf(log, s.Tests)
		if err != nil {
			return fmt.Errorf("statements: %w", err)
		}
		if err := statements.WriteTable(out, outcomes, all); err != nil {
			return err
		}
		return statements.WriteCases(out, outcomes, all)
	}
	return nil
}

// outcomesOf reads the ends of tests from what -test.v printed. A test that was to run
// and has no end did not pass.
func outcomesOf(log io.Reader, tests []string) (statements.Results, error) {
	ends := statements.Results{}
	for _, test := range tests {
		ends[test] = false
	}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		if rest, ok := strings.CutPrefix(line, "--- PASS: "); ok {
			test, _, _ := strings.Cut(rest, " ")
			ends[strings.TrimSpace(test)] = true
		}
		if errors.Is(err, io.EOF) {
			return ends, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
