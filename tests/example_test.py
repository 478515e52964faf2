#!/usr/bin/env python3
"""examples/toolchain, as the build made it from public headers alone: 40 lines that quantize a
model, explain it and run it.

usage: example_test.py [BUILD]
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import agree
from agree import ROOT

BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else agree.BUILD


def main():
    program = BUILD / "examples/toolchain"
    if not program.exists():
        print("the examples are not built")
        return 77
    source = (ROOT / "examples/toolchain/toolchain.cc").read_text()
    assert len(source.splitlines()) <= 40, len(source.splitlines())
    assert re.findall(r'#include "(.*)"', source) == ["evoq/toolchain.h"]
    with tempfile.TemporaryDirectory() as folder:
        etm = pathlib.Path(folder) / "digits.etm"

        def run(model):
            return subprocess.run(
                [program, model, etm], capture_output=True, text=True, timeout=300, check=False
            )

        done = run(ROOT / "examples/digits/digits.onnx")
        assert done.returncode == 0, done.stderr
        said = re.fullmatch(
            r"(\d+) of (\d+) steps int8, ([\d.]+)x as fast, 10 values\n", done.stdout
        )
        assert said and said[1] == said[2] and float(said[3]) > 0, done.stdout
        assert etm.stat().st_size > 0
        told = {line.rpartition(" ")[0] for line in done.stderr.splitlines()}
        assert {"calibrating", "writing", "measuring"} <= told, told
        failed = run(pathlib.Path(folder) / "none.onnx")
        assert failed.returncode == 1 and "none.onnx" in failed.stderr, failed.stderr
    print("example: quantized, explained and run in", len(source.splitlines()), "lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
