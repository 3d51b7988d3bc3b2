#include "textflag.h"

// func vfork(flags uintptr) uintptr
//
// The child runs on the parent's stack while the parent stands still. The return
// address stays in the link register, where the child's calls cannot reach it.
TEXT ·vfork(SB),NOSPLIT,$0-16
	MOVD	flags+0(FP), R0
	MOVD	$0, R1
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	MOVD	$220, R8	// clone
	SVC
	MOVD	R0, ret+8(FP)
	RET
