package runtimes

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	goruntime "runtime"
)

// The code of a program that does nothing but become another one with its own
// arguments and environment: execve(path, argv, envp), and exit(126) if that
// fails. The path follows the code. To add a machine: its code here, its number
// in stub.
var (
	stubAMD64 = []byte{
		0x48, 0x8b, 0x04, 0x24, // mov rax, [rsp]: argc
		0x48, 0x8d, 0x74, 0x24, 0x08, // lea rsi, [rsp+8]: argv
		0x48, 0x8d, 0x54, 0xc4, 0x10, // lea rdx, [rsp+rax*8+16]: envp
		0x48, 0x8d, 0x3d, 19, 0, 0, 0, // lea rdi, [rip+19]: path
		0xb8, 59, 0, 0, 0, // mov eax, execve
		0x0f, 0x05, // syscall
		0xbf, 126, 0, 0, 0, // mov edi, 126
		0xb8, 60, 0, 0, 0, // mov eax, exit
		0x0f, 0x05, // syscall
	}
	stubARM64 = words(
		0xf94003e0, // ldr x0, [sp]: argc
		0x910023e1, // add x1, sp, #8: argv
		0x8b000c22, // add x2, x1, x0, lsl #3
		0x91002042, // add x2, x2, #8: envp
		0x100000c0, // adr x0, +24: path
		0xd2801ba8, // mov x8, #221: execve
		0xd4000001, // svc #0
		0xd2800fc0, // mov x0, #126
		0xd2800ba8, // mov x8, #93: exit
		0xd4000001, // svc #0
	)
)

func words(code ...uint32) []byte {
	var b []byte
	for _, w := range code {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// stub is an ELF program that becomes the one at path; nil where there is no code
// for the machine. It stands where a start script does that would need a shell:
// what a tool's sandbox shows is then the program that was declared, and no
// shell beside it.
func stub(path string) []byte {
	var code []byte
	var machine uint16
	switch goruntime.GOARCH {
	case "amd64":
		code, machine = stubAMD64, 62
	case "arm64":
		code, machine = stubARM64, 183
	default:
		return nil
	}
	const header, segment, base = 64, 56, 0x400000
	size := uint64(header + segment + len(code) + len(path) + 1)
	le := binary.LittleEndian
	b := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0} // 64 bits, little-endian
	b = le.AppendUint16(b, 2)                                            // an executable
	b = le.AppendUint16(b, machine)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, base+header+segment) // entry
	b = le.AppendUint64(b, header)              // segments
	b = le.AppendUint64(b, 0)                   // no sections
	b = le.AppendUint32(b, 0)
	for _, n := range []uint16{header, segment, 1, 0, 0, 0} {
		b = le.AppendUint16(b, n)
	}
	b = le.AppendUint32(b, 1) // to load
	b = le.AppendUint32(b, 5) // to read and run
	for _, n := range []uint64{0, base, base, size, size, 0x10000} {
		b = le.AppendUint64(b, n)
	}
	return append(append(append(b, code...), path...), 0)
}

// stubFile is a file with the stub for a program, "" if there can be none.
func (r *Runtimes) stubFile(program string) string {
	text := stub(program)
	if text == nil || r.ownDir() == "" || goruntime.GOOS != "linux" {
		return ""
	}
	sum := sha256.Sum256(text)
	path := filepath.Join(r.ownDir(), "start", filepath.Base(program)+"-"+hex.EncodeToString(sum[:8]))
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text) && executable(path) {
		return path
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = writeProgram(path, text)
	}
	if err != nil {
		r.c.Log.Warn("a program is seen only under its own name", "program", program, "error", err)
		return ""
	}
	return path
}

// writeProgram replaces a small executable as a whole.
func writeProgram(path string, text []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, text, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
