#include "textflag.h"

// func vfork(flags uintptr) uintptr
//
// The child runs on the parent's stack while the parent stands still. A return
// address kept there would be overwritten by the child's calls, so it waits in a
// register.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-16
	MOVQ	flags+0(FP), DI
	MOVQ	$0, SI
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	MOVQ	$56, AX	// clone
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	MOVQ	AX, ret+8(FP)
	RET
