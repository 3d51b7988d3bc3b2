//go:build amd64 || arm64

package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/launch"
)

// program collects the system calls of one launch. Each call gets a sentence
// for the error that is shown if it fails.
type program struct {
	sections  [launch.Sections][]launch.Op
	names     [launch.Sections][]string
	section   int
	blob      []byte
	strings   map[string]uint32
	relocs    []uint32
	clone     uint64
	supervise bool
	more      bool
	path      uint32
	argv      uint32
	envp      uint32
	cgroupFD  uint32
}

func newProgram() *program {
	return &program{blob: make([]byte, 16, 16<<10), strings: map[string]uint32{}}
}

// arg is one argument of a system call.
type arg struct {
	kind  uint32
	value uint64
}

func num[T ~int | ~uint64 | ~uint32](v T) arg { return arg{launch.Imm, uint64(v)} }

// at is the address of something in the blob.
func at(offset uint32) arg { return arg{launch.Addr, uint64(offset)} }

// load is an int32 in the blob, where an earlier call left its result.
func load(offset uint32) arg { return arg{launch.Load, uint64(offset)} }

// str is the address of a NUL-terminated string. Equal strings are kept once.
func (p *program) str(s string) arg { return at(p.cstring(s)) }

func (p *program) cstring(s string) uint32 {
	if offset, ok := p.strings[s]; ok {
		return offset
	}
	offset := uint32(len(p.blob))
	p.blob = append(append(p.blob, s...), 0)
	p.strings[s] = offset
	return offset
}

// data puts bytes into the blob, aligned for any struct.
func (p *program) data(b []byte) uint32 {
	for len(p.blob)%8 != 0 {
		p.blob = append(p.blob, 0)
	}
	offset := uint32(len(p.blob))
	p.blob = append(p.blob, b...)
	return offset
}

// slot reserves room for an int32 result.
func (p *program) slot() uint32 {
	offset := p.data(make([]byte, 4))
	*(*int32)(unsafe.Pointer(&p.blob[offset])) = -1
	return offset
}

// object puts the memory of *v into the blob.
func object[T any](p *program, v *T) uint32 {
	return p.data(unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)))
}

// pointAt makes the 8 bytes at field hold the address of target.
func (p *program) pointAt(field, target uint32) {
	*(*uint64)(unsafe.Pointer(&p.blob[field])) = uint64(target)
	p.relocs = append(p.relocs, field)
}

// array puts a NULL-terminated array of strings into the blob, for execve.
func (p *program) array(list []string) uint32 {
	targets := make([]uint32, len(list))
	for i, s := range list {
		targets[i] = p.cstring(s)
	}
	offset := p.data(make([]byte, 8*(len(list)+1)))
	for i, target := range targets {
		p.pointAt(offset+uint32(8*i), target)
	}
	return offset
}

// call adds a system call to the current section. The result can be changed
// with the methods of *op until the next call is added.
func (p *program) call(name string, nr uintptr, args ...arg) *op {
	var o launch.Op
	o.NR = uint32(nr)
	for i, a := range args {
		o.Kinds |= a.kind << (2 * i)
		o.Args[i] = a.value
	}
	s := p.section
	p.sections[s] = append(p.sections[s], o)
	p.names[s] = append(p.names[s], name)
	return (*op)(&p.sections[s][len(p.sections[s])-1])
}

type op launch.Op

// store keeps the result in a slot.
func (o *op) store(slot uint32) *op { o.Store = slot; return o }

// allow takes one error for success.
func (o *op) allow(errno unix.Errno) *op { o.Errno = uint16(errno); return o }

// ignore takes every error for success.
func (o *op) ignore() *op { o.Errno = launch.AnyErrno; return o }

// name says what the failed call of a message was for.
func (p *program) name(index int32) string {
	switch index {
	case launch.ExecOp:
		return "execute the command"
	case launch.CloneOp:
		return "create the process"
	}
	for s := range p.names {
		if int(index) < len(p.names[s]) {
			return p.names[s][index]
		}
		index -= int32(len(p.names[s]))
	}
	return "unknown step"
}

// encode is the program as the launcher reads it.
func (p *program) encode() []byte {
	for len(p.blob)%8 != 0 {
		p.blob = append(p.blob, 0)
	}
	head := launch.Header{
		Magic: launch.Magic, NumRelocs: uint32(len(p.relocs)), Clone: p.clone,
		Path: p.path, Argv: p.argv, Envp: p.envp, CgroupFD: p.cgroupFD,
	}
	if p.supervise {
		head.Supervise = 1
	}
	if p.more {
		head.More = 1
	}
	size := int(unsafe.Sizeof(head)) + (len(p.relocs)*4+7)&^7 + len(p.blob)
	for s := range p.sections {
		head.NumOps[s] = uint32(len(p.sections[s]))
		size += len(p.sections[s]) * int(unsafe.Sizeof(launch.Op{}))
	}
	head.Size = uint32(size)

	out := make([]byte, 0, size)
	out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&head)), unsafe.Sizeof(head))...)
	for s := range p.sections {
		out = append(out, raw(p.sections[s])...)
	}
	out = append(out, raw(p.relocs)...)
	if len(p.relocs)%2 != 0 {
		out = append(out, 0, 0, 0, 0)
	}
	return append(out, p.blob...)
}

func raw[T any](list []T) []byte {
	if len(list) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), len(list)*int(unsafe.Sizeof(list[0])))
}
