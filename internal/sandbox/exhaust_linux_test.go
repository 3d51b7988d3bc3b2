package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// exhaustArg makes the test binary a program that takes all it can get. Such a
// program has a cap of its own and a deadline, so that it ends also where no
// limit holds it.
const exhaustArg = "sandboxtest-exhaust"

// exhaustDeadline ends every program.
const exhaustDeadline = 20 * time.Second

// exhausters take something step by step: a step takes 1 MiB, a file or a
// descriptor and says so by no error. The error of a step ends the program, with
// code 0. To add one: a line here and its case in exhaustions.
var exhausters = map[string]func(dir string, i int) error{
	"heap": func(string, int) error {
		held = append(held, bytes.Repeat([]byte{1}, 1<<20))
		return nil
	},
	"mmap": func(string, int) error {
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		if err == nil {
			held = append(held, b)
			for at := 0; at < len(b); at += 4096 {
				b[at] = 1
			}
		}
		return err
	},
	"files": func(dir string, i int) error {
		return os.WriteFile(filepath.Join(dir, "flood"+strconv.Itoa(i)), mebibyte, 0o600)
	},
	"one file": func(dir string, i int) error { return grow(filepath.Join(dir, "flood"), i) },
	"deep": func(dir string, i int) error { // until no path reaches that far
		if i == 0 {
			if err := os.Chdir(dir); err != nil {
				return err
			}
		}
		name := string(bytes.Repeat([]byte{'d'}, 200))
		if err := os.Mkdir(name, 0o700); err != nil {
			return err
		}
		if err := os.Chdir(name); err != nil {
			return err
		}
		return os.WriteFile("flood", mebibyte, 0o600)
	},
	"memfd": func(string, int) error {
		fd, err := unix.MemfdCreate("flood", unix.MFD_CLOEXEC)
		if err == nil {
			_, err = unix.Write(fd, mebibyte)
		}
		return err
	},
	"unlinked": func(dir string, i int) error {
		name := filepath.Join(dir, "flood")
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		kept = append(kept, f)
		if _, err = f.Write(mebibyte); err == nil {
			err = os.Remove(name)
		}
		return err
	},
	"inodes": func(dir string, i int) error {
		for n := range 100 {
			f, err := os.Create(filepath.Join(dir, fmt.Sprintf("flood%d.%d", i, n)))
			if err != nil {
				return err
			}
			f.Close()
		}
		return nil
	},
	"hard links": func(dir string, i int) error { // which take no room
		name := filepath.Join(dir, "flood")
		if i == 0 {
			return os.WriteFile(name, mebibyte, 0o600)
		}
		return os.Link(name, name+strconv.Itoa(i))
	},
	"descriptors": func(string, int) error {
		f, err := os.Open(os.DevNull)
		kept = append(kept, f)
		return err
	},
	"output": func(string, int) error {
		_, err := os.Stdout.Write(mebibyte)
		return err
	},
}

var (
	held     [][]byte
	kept     []*os.File
	mebibyte = bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
)

func grow(name string, _ int) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(mebibyte)
	return err
}

// exhaust takes up to most steps. From the step "after" on it leaves, at every
// step, when that was: the last bytes of the file at stamp.
func exhaust(name, dir string, most, after int, stamp string) {
	time.AfterFunc(exhaustDeadline, func() { os.Exit(3) })
	if name == "cpu" {
		spin()
	}
	if most <= 0 {
		os.Exit(2)
	}
	times, err := os.OpenFile(stamp, os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	for i := range most {
		if i >= after {
			_, _ = times.WriteAt(fmt.Appendf(nil, "%020d", time.Now().UnixNano()), 0)
		}
		if err := exhausters[name](dir, i); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(0)
		}
	}
	os.Exit(0)
}

// spin ignores what can be ignored and keeps two processors busy.
func spin() {
	signal.Ignore()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGXCPU, syscall.SIGTERM)
	for range 2 {
		go func() {
			for turn := uint64(1); turn != 0; turn++ {
			}
		}()
	}
	select {}
}
