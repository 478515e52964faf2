#!/usr/bin/env python3
"""tools/inner_loops.py counts what a loop of known instructions is made of."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Two loops, one in the other: the inner one has three products, of 4, 2 x 16 and 4 x 16
# multiply-accumulates, two loads, and an addition with its jump.
SOURCE = """
.text
outer:
  vpdpbusd %zmm1, %zmm2, %zmm3
again:
  vmovups (%rsi), %xmm4
  vpbroadcastd 8(%rsi), %ymm5
  vfmadd231ps %xmm4, %xmm5, %xmm6
  vpdpbusd %ymm1, %ymm2, %ymm3
  vpdpbusd (%rdi), %zmm2, %zmm3
  addq $1, %rax
  jne again
  vaddps %xmm1, %xmm1, %xmm1
  jmp outer
"""


def main():
    clang = shutil.which("clang-19") or shutil.which("clang")
    if not clang or not (shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")):
        print("skipped: no clang or llvm-objdump")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = f"{folder}/loops.s", f"{folder}/loops.o"
        pathlib.Path(source).write_text(SOURCE, encoding="utf-8")
        command = [clang, "--target=x86_64-linux-gnu", "-c", source, "-o", compiled]
        subprocess.run(command, check=True)
        tool = [sys.executable, ROOT / "tools/inner_loops.py", "--least", "1", compiled]
        lines = subprocess.run(tool, capture_output=True, text=True, check=True).stdout.split("\n")
    figures = [line.split() for line in lines[1:] if line]
    # The inner loop alone: 7 instructions, (4 + 32 + 64) / 7 multiply-accumulates each.
    wanted = [["7", "3", "2", "2", "14.3", "loops:", "again"]]
    print(lines[1] if len(lines) > 1 else "no loops")
    return 0 if figures == wanted else f"found {figures}, expected {wanted}"


if __name__ == "__main__":
    sys.exit(main())
