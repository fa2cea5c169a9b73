package statements

import (
	"slices"
	"testing"
)

// TestUnaskedAndListAgree: what cannot be asked through an API server is told once: of a
// statement by its line, of another test by api.txt. What the list has a verdict for is
// asked, and each n/a leaves a test out.
func TestUnaskedAndListAgree(t *testing.T) {
	packets, list := testsOf(t, "e2e/packets"), all(t)
	byName, err := UnaskedByName()
	if err != nil {
		t.Fatal(err)
	}
	for i, u := range byName {
		if u.Why == "" || !slices.Contains(packets, u.Test) || Numbers(u.Test) != nil ||
			slices.ContainsFunc(byName[:i], func(o Unasked) bool { return o.Test == u.Test }) {
			t.Errorf("api.txt: %+v: want each test of e2e/packets without a number once, with why", u)
		}
	}
	asked, not, err := AskedByAPI(packets)
	if err != nil {
		t.Fatal(err)
	}
	if len(asked)+len(not) != len(packets) || len(asked) == 0 {
		t.Errorf("%d tests asked and %d not, of %d", len(asked), len(not), len(packets))
	}
	left, names := map[int]bool{}, len(byName)
	for _, u := range not {
		numbers := Numbers(u.Test)
		if numbers == nil {
			names--
		}
		for _, n := range numbers {
			left[n] = true
			if list[n-1].API != Useless || u.Why != list[n-1].Note {
				t.Errorf("%s is left out (%q), and statement %d has %q, %q", u.Test, u.Why, n, list[n-1].API, list[n-1].Note)
			}
		}
	}
	if names != 0 {
		t.Errorf("%d tests of api.txt more or less are left out", names)
	}
	for _, s := range list {
		if (s.API == Useless) != left[s.Number] {
			t.Errorf("statement %d: %q, and its test is left out: %v", s.Number, s.API, left[s.Number])
		}
	}
}
