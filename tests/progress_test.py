#!/usr/bin/env python3
"""Bars of progress: on a terminal once the work takes over a second, gone before anything else is
printed; none where stderr is no terminal.

usage: progress_test.py [EVOQ]
"""

import os
import pty
import re
import subprocess
import sys
import threading

import agree

EVOQ = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else agree.EVOQ
MODEL = str(agree.ROOT / "examples/digits/digits.onnx")


def bench(output):
    words = [EVOQ, "bench", MODEL, "--duration", "2.5", "--warmup-ms", "0"]
    return subprocess.run(words, stdout=output, stderr=output, timeout=300, check=True)


def on_terminal():
    """What the terminal is sent."""
    ours, theirs = pty.openpty()
    sent = bytearray()

    def read():
        try:
            while part := os.read(ours, 65536):
                sent.extend(part)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        bench(theirs)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return bytes(sent)


def main():
    shown = on_terminal()
    # What is printed then, the results or a warning of a busy machine, begins on a clean line.
    bar, cleared = rb"\rmeasuring \[=* *\] +\d+%", rb"\r\x1b\[K([^\r]|\r\n)*"
    assert re.fullmatch(rb"([^\r]|\r\n)*((%s)+%s)+" % (bar, cleared), shown), shown
    assert b"\np50" in shown or b" p50" in shown, shown
    written = bench(subprocess.PIPE).stderr
    assert b"\r" not in written and b"\x1b" not in written, written
    print("progress: a bar on a terminal, none elsewhere")
    return 0


if __name__ == "__main__":
    sys.exit(main())
