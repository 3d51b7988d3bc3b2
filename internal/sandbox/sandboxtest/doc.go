// Package sandboxtest is the contract of a sandbox: what a command must not be
// able to do, what it must be able to do, and how it ends. Every level and
// driver runs it.
//
// What it must not be able to do is the attack corpus, in
// internal/sandbox/testdata/attacks: see [Attack] for its form. An attack runs
// first outside, as the same user, where it must succeed: one that cannot succeed
// anywhere proves nothing, and is counted as not applicable. Then it runs inside,
// where it must get to its attempt, and where nothing of its success may show.
// Success is looked for from outside wherever that is possible (a file is not as
// it was, a server was reached, a process lives on, a token that nothing else
// tells was printed): what an attack says of itself counts only for calls of
// the kernel that leave no trace.
//
// To add an attack: a paragraph in the file of its category. To run one:
//
//	go test ./internal/sandbox -run 'TestContract$/^L2$/attacks/corpus/races' -v
package sandboxtest
