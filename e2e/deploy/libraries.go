package deploy

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckLibraries reads every executable and library below a root file system and tells
// which of the libraries and interpreters that they need is not there. It is an error
// if none needs anything.
func CheckLibraries(root string) error {
	have, need := map[string]bool{}, map[string]string{} // need: library to one that needs it
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		have[entry.Name()] = true
		if !entry.Type().IsRegular() {
			return nil
		}
		names, err := needed(path)
		for _, name := range names {
			need[name] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(need) == 0 {
		return fmt.Errorf("%s: no executable needs a library", root)
	}
	var errs []error
	for name, by := range need {
		if !have[filepath.Base(name)] {
			errs = append(errs, fmt.Errorf("%s needs %s, which is not in %s", by, name, root))
		}
	}
	return errors.Join(errs...)
}

// needed are the libraries of a file and its interpreter; none for files that are not ELF.
func needed(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, []byte(elf.ELFMAG)) {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	names, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if interpreter := f.Section(".interp"); interpreter != nil {
		text, err := interpreter.Data()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		names = append(names, string(bytes.TrimRight(text, "\x00")))
	}
	return names, nil
}
