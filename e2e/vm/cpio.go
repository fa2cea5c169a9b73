package main

import (
	"fmt"
	"io"
)

// archiveFile is one entry of the initramfs. A nil body is a directory.
type archiveFile struct {
	name string // without a leading slash
	mode uint32 // permission bits
	body []byte
}

const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

// writeArchive writes files as a cpio archive in the "newc" form, the one that
// the kernel unpacks (Documentation/driver-api/early-userspace/buffer-format).
// Directories must come before what they hold.
func writeArchive(w io.Writer, files []archiveFile) error {
	for i, f := range files {
		mode := f.mode | modeFile
		if f.body == nil {
			mode = f.mode | modeDir
		}
		if err := writeEntry(w, i+1, mode, f.name, f.body); err != nil {
			return fmt.Errorf("initramfs, %s: %w", f.name, err)
		}
	}
	return writeEntry(w, 0, 0, "TRAILER!!!", nil)
}

func writeEntry(w io.Writer, inode int, mode uint32, name string, body []byte) error {
	// magic, ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor,
	// rdevmajor, rdevminor, namesize, check
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		inode, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name)+1, 0)
	if _, err := io.WriteString(w, head+name+"\x00"+padding(len(head)+len(name)+1)); err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return err
	}
	_, err := io.WriteString(w, padding(len(body)))
	return err
}

// padding is the zero bytes that bring n to a multiple of four.
func padding(n int) string { return "\x00\x00\x00"[:(4-n%4)%4] }
