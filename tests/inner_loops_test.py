#!/usr/bin/env python3
"""tools/inner_loops.py counts what a loop of known instructions is made of."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Two loops, one in the other: the inner one has four products, of 4, 2 x 16, 2 x 16 and 4 x 16
# multiply-accumulates, two loads, and an addition with its jump.
X86 = """
.text
outer:
  vpdpbusd %zmm1, %zmm2, %zmm3
again:
  vmovups (%rsi), %xmm4
  vpbroadcastd 8(%rsi), %ymm5
  vfmadd231ps %xmm4, %xmm5, %xmm6
  vpdpbusd %ymm1, %ymm2, %ymm3
  {vex} vpdpbusd %ymm1, %ymm2, %ymm3
  vpdpbusd (%rdi), %zmm2, %zmm3
  addq $1, %rax
  jne again
  vaddps %xmm1, %xmm1, %xmm1
  jmp outer
"""
# Products of 4, 8, 16, 16 and 32, two loads.
ARM = """
.text
again:
  ld1r { v4.4s }, [x0]
  ldp q5, q6, [x1], #32
  fmla v0.4s, v4.4s, v5.4s
  bfdot v1.4s, v5.8h, v6.8h
  sdot v2.4s, v5.16b, v6.4b[1]
  sudot v2.4s, v5.16b, v6.4b[2]
  usmmla v3.4s, v5.16b, v6.16b
  subs x2, x2, #1
  b.ne again
"""
# Of the inner loop alone: multiply-accumulates over instructions.
CASES = [
    ("x86_64-linux-gnu", [], X86, ["8", "4", "2", "2", f"{132 / 8:.1f}", "loops:", "again"]),
    (
        "aarch64-linux-gnu",
        ["-march=armv8.6-a"],
        ARM,
        ["9", "5", "2", "2", f"{76 / 9:.1f}", "loops:", "again"],
    ),
]


def figures_of(target, flags, text, clang):
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = f"{folder}/loops.s", f"{folder}/loops.o"
        pathlib.Path(source).write_text(text, encoding="utf-8")
        command = [clang, f"--target={target}", *flags, "-c", source, "-o", compiled]
        subprocess.run(command, check=True)
        tool = [sys.executable, ROOT / "tools/inner_loops.py", "--least", "1", compiled]
        lines = subprocess.run(tool, capture_output=True, text=True, check=True).stdout.split("\n")
    return [line.split() for line in lines[1:] if line]


def main():
    clang = shutil.which("clang-19") or shutil.which("clang")
    if not clang or not (shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")):
        print("skipped: no clang or llvm-objdump")
        return 77
    for target, flags, text, wanted in CASES:
        found = figures_of(target, flags, text, clang)
        if found != [wanted]:
            return f"{target}: found {found}, expected {[wanted]}"
        print(target, " ".join(wanted))
    return 0


if __name__ == "__main__":
    sys.exit(main())
