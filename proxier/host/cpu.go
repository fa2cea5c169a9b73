package host

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// OnlineCPUs counts the online CPUs of the host, whatever this process may use.
// root is Sys.
func OnlineCPUs(root string) (int, error) {
	path := filepath.Join(root, "devices/system/cpu/online")
	text, err := readSetting(path)
	if err != nil {
		return 0, fmt.Errorf("online CPUs: %w", err)
	}
	n, err := countRanges(text)
	if err != nil {
		return 0, fmt.Errorf("online CPUs: %s: %w", path, err)
	}
	return n, nil
}

// countRanges counts the numbers in a list such as "0-3,8,10-11".
func countRanges(text string) (int, error) {
	total := 0
	for _, part := range strings.Split(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err != nil || first < 0 || last < first {
			return 0, fmt.Errorf("%q is no list of ranges", text)
		}
		total += last - first + 1
	}
	return total, nil
}
