#!/usr/bin/env python3
"""Counts the instructions of the innermost loops of compiled kernels: where no machine is at hand
to measure (tools/cross.sh), they say how much of a loop is products.

    tools/inner_loops.py OBJECT... [--least N]

For each function's innermost loops with at least N products (8): instructions, products, loads, the
rest, and multiply-accumulates per instruction. Needs llvm-objdump (Debian's llvm-19).
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

# Multiply-accumulates of one instruction on registers of 128 bits; wider ones do 2 and 4 times as
# many.
PRODUCTS = {
    r"(s|u|us)mmla": 32,
    r"(s|u|us|su)dot": 16,
    r"bfmmla": 16,
    r"bfdot": 8,
    r"fmla": 4,
    r"vpdpbusds?": 16,
    r"vdpbf16ps": 8,
    r"vfmadd\d*ps": 4,
    r"vfmadd\d*pd": 2,
}
# Address, mnemonic (behind a prefix that names its encoding), operands.
LINE = re.compile(r"^ *([0-9a-f]+):\s+(?:\{\w+\}\s+)?(\S+)[ \t]*(.*)$", re.MULTILINE)
LOADS = r"ld\d?r?|ldr\w*|ldp|ldur\w*|v?mov\w*|vpbroadcast\w*|vbroadcast\w*"


def width(operands):
    """Registers of 128 bits in one."""
    return 4 if "%zmm" in operands else 2 if "%ymm" in operands else 1


def products(mnemonic, operands):
    for pattern, count in PRODUCTS.items():
        if re.fullmatch(pattern, mnemonic):
            doubles = 2 if ".2d" in operands else 1
            return count * width(operands) // doubles
    return 0


def is_load(mnemonic, operands):
    reads = "[" in operands or re.search(r"\(%r", operands.rpartition(",")[0])
    return bool(re.fullmatch(LOADS, mnemonic) and reads)


def functions(path):
    """(name, [(address, mnemonic, operands)])."""
    tool = shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")
    if tool is None:
        sys.exit("inner_loops.py: llvm-objdump is missing (Debian's llvm-19)")
    command = [tool, "-d", "-C", "--no-show-raw-insn", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name, body in re.findall(r"^[0-9a-f]+ <(.*)>:\n((?: .*\n)+)", text, re.MULTILINE):
        lines = LINE.findall(body)
        yield name, [(int(a, 16), m, o) for a, m, o in lines]


def loops(lines):
    """The innermost loops: what lies between a jump back and where it goes."""
    found = []
    first = lines[0][0] if lines else 0
    for i, (address, mnemonic, operands) in enumerate(lines):
        target = re.search(r"\b(?:0x)?([0-9a-f]+)\b(?: <|$)", operands)
        if not re.match(r"j|b\b|b\.|cb|tb", mnemonic) or not target:
            continue
        to = int(target[1], 16)
        if first <= to < address:
            begin = next((k for k, line in enumerate(lines) if line[0] >= to), i)
            found.append((begin, i + 1))
    return [
        (b, e)
        for b, e in found
        if not any((c, f) != (b, e) and b <= c and f <= e for c, f in found)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("objects", nargs="+")
    parser.add_argument("--least", type=int, default=8)
    arguments = parser.parse_args()
    print("instructions  products  loads  rest  MACs each  function")
    found = [
        (pathlib.Path(path).name.split(".")[0], name, lines)
        for path in arguments.objects
        for name, lines in functions(path)
    ]
    for file, name, lines in found:
        name = re.sub(r"^void |evoq::|\(anonymous namespace\)::", "", name)
        for begin, end in loops(lines):
            body = lines[begin:end]
            macs = [products(m, o) for _, m, o in body]
            count = sum(1 for n in macs if n)
            if count < arguments.least:
                continue
            loads = sum(is_load(m, o) for _, m, o in body if not products(m, o))
            print(
                f"{len(body):12}  {count:8}  {loads:5}  {len(body) - count - loads:4}  "
                f"{sum(macs) / len(body):9.1f}  {file}: {name.partition('(')[0]}"
            )


if __name__ == "__main__":
    main()
