#include "textflag.h"

// func indexPairAVX2(p *byte, n, d int, a0, a1, b0, b1 byte) int
//
// Compares 32 positions at a time; the last block overlaps the one before.
TEXT ·indexPairAVX2(SB), NOSPLIT, $0-40
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ d+16(FP), DX
	VPBROADCASTB a0+24(FP), Y0
	VPBROADCASTB a1+25(FP), Y1
	VPBROADCASTB b0+26(FP), Y2
	VPBROADCASTB b1+27(FP), Y3
	LEAQ (SI)(DX*1), DI
	XORQ AX, AX
	SUBQ $32, CX

loop:
	CMPQ AX, CX
	JGT  tail

block:
	VMOVDQU (SI)(AX*1), Y4
	VMOVDQU (DI)(AX*1), Y5
	VPCMPEQB Y4, Y0, Y6
	VPCMPEQB Y4, Y1, Y7
	VPOR Y6, Y7, Y6
	VPCMPEQB Y5, Y2, Y8
	VPCMPEQB Y5, Y3, Y9
	VPOR Y8, Y9, Y8
	VPAND Y6, Y8, Y6
	VPMOVMSKB Y6, BX
	TESTL BX, BX
	JNZ  found
	ADDQ $32, AX
	JMP  loop

tail:
	LEAQ 32(CX), DX
	CMPQ AX, DX
	JGE  none
	MOVQ CX, AX
	JMP  block

found:
	BSFL BX, BX
	ADDQ BX, AX
	VZEROUPPER
	MOVQ AX, ret+32(FP)
	RET

none:
	VZEROUPPER
	MOVQ $-1, ret+32(FP)
	RET
