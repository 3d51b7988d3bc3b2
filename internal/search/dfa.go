package search

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// automaton tells whether lines match an expression. It builds the states of a
// deterministic automaton as they are needed and walks a buffer of many lines at
// one table look-up a byte. It belongs to one goroutine.
//
// A state is the set of instructions that may come next, before any assertion
// (^, $, \b) is decided, since that needs the next character as well; and what
// stood before: the line's beginning, a word character or neither.
type automaton struct {
	prog *syntax.Prog
	// done ends a search whose states are costly to build; asked now and then.
	done    func() bool
	steps   int
	stopped bool

	states []state
	// table has 256 entries a state: the state after a byte, or one of the marks
	// below.
	table []int32
	index map[string]int32
	wide  []wideStep // transitions on characters outside ASCII, as far as they fit
	start int32
	// home are the bytes that are known to lead from start to start: most of a
	// text. Looking them up does not wait for the state before.
	home [256]bool

	set, add sparse // scratch
	key      []byte
}

type state struct {
	pcs   []uint32
	begin bool // at the beginning of a line
	word  bool // behind a word character
}

// wideStep remembers one transition. Its place in the table follows from the
// state and the character; a later one there replaces it.
type wideStep struct {
	from int32
	r    rune
	to   int32
}

const wideSteps = 1 << 12 // a power of two

// Marks in the table.
const (
	unknown int32 = -1 // not computed, or needs a closer look
	matched int32 = -2 // the line matches
	dead    int32 = -3 // nothing can match before the line's end
)

// maxStates bounds the memory of an automaton: about 1 KiB a state. When it is
// reached all are forgotten and built anew.
const maxStates = 4000

// askEvery is after how many computed steps it is asked whether to go on.
const askEvery = 512

// endOfLine stands for the end of a line where a character is expected, badByte
// for a byte that is not UTF-8.
const (
	endOfLine rune = -1
	badByte   rune = -2
)

func newAutomaton(prog *syntax.Prog, done func() bool) *automaton {
	a := &automaton{prog: prog, done: done, set: newSparse(len(prog.Inst)), add: newSparse(len(prog.Inst))}
	a.forget()
	return a
}

// forget drops all states but the first.
func (a *automaton) forget() {
	a.states, a.table = a.states[:0], a.table[:0]
	a.index = map[string]int32{}
	clear(a.wide)
	a.home = [256]bool{}
	a.set.clear()
	a.follow(&a.set, uint32(a.prog.Start))
	a.start = a.intern(&a.set, true, false)
}

// next finds the first line at or after pos that matches. pos is at the
// beginning of a line; the last line of data may lack its newline. end is the
// index of the newline, or len(data).
func (a *automaton) next(data []byte, pos int) (start, end int, ok bool) {
	if a.start == matched {
		return pos, lineEnd(data, pos), pos < len(data)
	}
	s, i, table, home := a.start, pos, a.table, &a.home
	for i < len(data) {
		t := table[uint(s)<<8|uint(data[i])]
		if t >= 0 {
			i++
			if s = t; s == a.start {
				for i < len(data) && home[data[i]] {
					i++
				}
			}
			continue
		}
		width := 1
		if t == unknown && a.stop() {
			return 0, 0, false
		}
		if t == unknown {
			t, width = a.slow(s, data, i)
			if table = a.table; s == a.start && t == s && width == 1 && data[i] < utf8.RuneSelf {
				home[data[i]] = true
			}
		}
		switch t {
		case matched:
			return lineStart(data, i, pos), lineEnd(data, i), true
		case dead:
			i = lineEnd(data, i) + 1
			s = a.start
		default:
			s = t
			i += width
		}
	}
	if i == len(data) && i > pos && data[i-1] != '\n' && a.step(s, endOfLine) == matched {
		return lineStart(data, i, pos), len(data), true
	}
	return 0, 0, false
}

// stop counts the steps that are computed and asks whether to go on.
func (a *automaton) stop() bool {
	if a.steps++; a.steps%askEvery == 0 {
		a.stopped = a.done()
	}
	return a.stopped
}

// line tells whether one line, without its newline, matches. A carriage return
// before the newline is a character of the line, as it is to ripgrep.
func (a *automaton) line(text []byte) bool {
	if len(text) == 0 {
		return a.start == matched || a.step(a.start, endOfLine) == matched
	}
	_, _, ok := a.next(text, 0)
	return ok
}

// slow computes the transition at data[i].
func (a *automaton) slow(s int32, data []byte, i int) (next int32, width int) {
	switch c := data[i]; {
	case c == '\n':
		if next = a.step(s, endOfLine); next != matched {
			next = a.start
		}
		a.table[int(s)<<8|'\n'] = next
		return next, 1
	case c < utf8.RuneSelf:
		count := len(a.states)
		next = a.step(s, rune(c))
		if len(a.states) >= count { // not forgotten meanwhile
			a.table[int(s)<<8|int(c)] = next
		}
		return next, 1
	}
	r, width := utf8.DecodeRune(data[i:])
	if r == utf8.RuneError && width == 1 {
		r = badByte
	}
	if a.wide == nil {
		a.wide = make([]wideStep, wideSteps)
	}
	known := &a.wide[(uint32(s)*0x9e3779b1^uint32(r)*0x85ebca6b)>>8%wideSteps]
	if known.from == s+1 && known.r == r { // zero is nothing
		return known.to, width
	}
	count := len(a.states)
	next = a.step(s, r)
	if len(a.states) >= count {
		*known = wideStep{s + 1, r, next}
	}
	return next, width
}

// step is the state after s on r. With r endOfLine it only tells whether the
// line has matched.
func (a *automaton) step(s int32, r rune) int32 {
	from := a.states[s]
	word := r >= 0 && isWord(r)
	var holds syntax.EmptyOp
	if from.begin {
		holds |= syntax.EmptyBeginLine | syntax.EmptyBeginText
	}
	if r == endOfLine {
		holds |= syntax.EmptyEndLine | syntax.EmptyEndText
	}
	if from.word != word {
		holds |= syntax.EmptyWordBoundary
	} else {
		holds |= syntax.EmptyNoWordBoundary
	}
	a.set.clear()
	for _, pc := range from.pcs {
		a.resolve(&a.set, pc, holds)
	}
	a.add.clear()
	for _, pc := range a.set.list {
		inst := &a.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstMatch:
			return matched
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if r >= 0 && inst.MatchRune(r) {
				a.follow(&a.add, inst.Out)
			}
		}
	}
	if r == endOfLine {
		return dead
	}
	a.follow(&a.add, uint32(a.prog.Start)) // a match may begin anywhere
	return a.intern(&a.add, false, word)
}

// follow adds pc and what it leads to without reading anything; assertions are
// kept as they are.
func (a *automaton) follow(set *sparse, pc uint32) {
	if !set.insert(pc) {
		return
	}
	switch inst := &a.prog.Inst[pc]; inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		a.follow(set, inst.Out)
		a.follow(set, inst.Arg)
	case syntax.InstCapture, syntax.InstNop:
		a.follow(set, inst.Out)
	}
}

// resolve is follow with assertions decided.
func (a *automaton) resolve(set *sparse, pc uint32, holds syntax.EmptyOp) {
	if !set.insert(pc) {
		return
	}
	switch inst := &a.prog.Inst[pc]; inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		a.resolve(set, inst.Out, holds)
		a.resolve(set, inst.Arg, holds)
	case syntax.InstCapture, syntax.InstNop:
		a.resolve(set, inst.Out, holds)
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(inst.Arg)&^holds == 0 {
			a.resolve(set, inst.Out, holds)
		}
	}
}

// intern finds or makes the state of a set.
func (a *automaton) intern(set *sparse, begin, word bool) int32 {
	a.key = a.key[:0]
	pcs := make([]uint32, 0, len(set.list))
	conditions, live := false, false
	for _, pc := range set.list {
		switch inst := &a.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return matched
		case syntax.InstEmptyWidth:
			need := syntax.EmptyOp(inst.Arg)
			if !begin && need&(syntax.EmptyBeginLine|syntax.EmptyBeginText) != 0 {
				continue // never again on this line
			}
			conditions, live = true, true
			pcs = append(pcs, pc)
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			live = true
			pcs = append(pcs, pc)
		}
	}
	if !live && !begin {
		return dead
	}
	if !conditions {
		word = false // nobody asks: fewer states
		begin = begin && len(pcs) == 0
	}
	slices.Sort(pcs)
	for _, pc := range pcs {
		a.key = binary.LittleEndian.AppendUint32(a.key, pc)
	}
	a.key = append(a.key, b2i(begin)<<1|b2i(word))
	if s, ok := a.index[string(a.key)]; ok {
		return s
	}
	if len(a.states) >= maxStates {
		key := string(a.key)
		a.forget()
		if s, ok := a.index[key]; ok {
			return s
		}
		a.key = append(a.key[:0], key...)
	}
	s := int32(len(a.states))
	a.states = append(a.states, state{pcs: pcs, begin: begin, word: word})
	a.index[string(a.key)] = s
	for range 256 {
		a.table = append(a.table, unknown)
	}
	return s
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// lineStart is where the line that holds i begins, not before from.
func lineStart(data []byte, i, from int) int {
	return from + bytes.LastIndexByte(data[from:i], '\n') + 1
}

// lineEnd is the index of the newline at or after i, or len(data).
func lineEnd(data []byte, i int) int {
	if i >= len(data) {
		return len(data)
	}
	if n := bytes.IndexByte(data[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(data)
}

// sparse is a set of small numbers that is cleared at once.
type sparse struct {
	list []uint32
	at   []uint32
}

func newSparse(size int) sparse { return sparse{at: make([]uint32, size)} }

func (s *sparse) clear() { s.list = s.list[:0] }

func (s *sparse) insert(n uint32) bool {
	if i := s.at[n]; int(i) < len(s.list) && s.list[i] == n {
		return false
	}
	s.at[n] = uint32(len(s.list))
	s.list = append(s.list, n)
	return true
}
