#!/usr/bin/env python3
"""Bars of progress: on a terminal once the work takes over a second, and gone at the end; none
where stderr is no terminal.

usage: progress_test.py [EVOQ]
"""
import os
import pty
import subprocess
import sys
import threading

EVOQ = os.path.abspath(
    sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ["EVOQ_BUILD"], "bin/evoq"))
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/digits/digits.onnx")


def bench(seconds, stderr):
    words = [EVOQ, "bench", MODEL, "--duration", str(seconds), "--warmup-ms", "0"]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=stderr, timeout=300, check=True)


def on_terminal(seconds):
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
        bench(seconds, theirs)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return bytes(sent)


def main():
    shown = on_terminal(2.5)
    assert b"\rmeasuring [" in shown and b"%" in shown, shown
    assert shown.rindex(b"\r\x1b[K") > shown.rindex(b"%"), shown  # the line is cleared at the end
    written = bench(2.5, subprocess.PIPE).stderr
    assert b"\r" not in written and b"\x1b" not in written, written
    print("progress: a bar on a terminal, none elsewhere")
    return 0


if __name__ == "__main__":
    sys.exit(main())
