#!/usr/bin/env python3
"""tools/inner_loops.py counts what a loop of known instructions is made of."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

from agree import ROOT

# For each processor's options: functions, and the rows of their loops. Of two loops, one in the
# other, the inner one counts.
CASES = {
    # Products of 4, 2 x 16 and 4 x 16 multiply-accumulates, two loads, an addition with its jump;
    # then two products in AVX-VNNI's encoding, a subtraction and a jump.
    "--target=x86_64-linux-gnu": (
        """
nested:
.Louter:
  vpdpbusd %zmm1, %zmm2, %zmm3
.Lagain:
  vmovups (%rsi), %xmm4
  vpbroadcastd 8(%rsi), %ymm5
  vfmadd231ps %xmm4, %xmm5, %xmm6
  vpdpbusd %ymm1, %ymm2, %ymm3
  vpdpbusd (%rdi), %zmm2, %zmm3
  addq $1, %rax
  jne .Lagain
  vaddps %xmm1, %xmm1, %xmm1
  jmp .Louter
prefixed:
  {vex} vpdpbusd %ymm1, %ymm2, %ymm3
  {vex} vpdpbusd (%rdi), %ymm2, %ymm3
  subq $1, %rax
  jne prefixed
""",
        [
            ["7", "3", "2", "2", "14.3", "loops:", "nested"],
            ["4", "2", "0", "2", "16.0", "loops:", "prefixed"],
        ],
    ),
    # A load, products of 2, 4, 8, 16 and 32, a subtraction and a jump.
    "--target=aarch64-linux-gnu -march=armv8.6-a": (
        """
neon:
  ldr q1, [x0]
  fmla v2.2d, v1.2d, v3.2d
  fmla v2.4s, v1.4s, v3.s[0]
  bfdot v2.4s, v1.8h, v3.8h
  sudot v2.4s, v1.16b, v3.4b[2]
  smmla v2.4s, v1.16b, v3.16b
  subs x1, x1, #1
  b.ne neon
""",
        [["8", "5", "1", "2", "7.8", "loops:", "neon"]],
    ),
}


def found(clang, options, source):
    with tempfile.TemporaryDirectory() as folder:
        text, compiled = f"{folder}/loops.s", f"{folder}/loops.o"
        pathlib.Path(text).write_text(source, encoding="utf-8")
        subprocess.run([clang, *options.split(), "-c", text, "-o", compiled], check=True)
        tool = [sys.executable, ROOT / "tools/inner_loops.py", "--least", "1", compiled]
        lines = subprocess.run(tool, capture_output=True, text=True, check=True).stdout.split("\n")
    return [line.split() for line in lines[1:] if line]


def main():
    clang = shutil.which("clang-19") or shutil.which("clang")
    if not clang or not (shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")):
        print("skipped: no clang or llvm-objdump")
        return 77
    for options, (source, wanted) in CASES.items():
        rows = found(clang, options, source)
        if rows != wanted:
            return f"{options}: found {rows}, expected {wanted}"
    print(f"inner_loops: the loops of {len(CASES)} processors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
