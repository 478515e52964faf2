#!/usr/bin/env python3
"""tools/replay.py finds what differs between two programs, and nothing where nothing does: the same
program twice, and programs that change one thing each of what it does."""

import pathlib
import stat
import subprocess
import sys
import tempfile

from agree import EVOQ, ROOT

# What a changed program does after evoq: one faulty thing, and the result that must be named.
FAULTS = {
    'if [ "$1" = compile ]; then printf x >> "$4"; fi': "file",
    'if [ "$1" = run ]; then for f in outputs/*.npy; do printf x >> $f; done; fi': "output ",
    'if [ "$1" = compile ]; then echo one more line; fi': "printed",
    'if [ "$1" = explain ]; then sed -i s/float32/float23/ explained.json; fi': "explain --json",
    'if [ "$1" = compile ]; then exit 3; fi': "printed",
}


def replay(before, after, data):
    done = subprocess.run(
        [sys.executable, ROOT / "tools/replay.py", before, after]
        + ["--data", data, "--recipe", "compile", "--jobs", "1"],
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def main():
    failures = []
    with tempfile.TemporaryDirectory(prefix="evoq_replay_test_") as name:
        folder = pathlib.Path(name)
        data = folder / "data"
        data.mkdir()
        model = str(data / "lenet.onnx")
        subprocess.run([EVOQ, "zoo", "lenet", "-o", model], check=True, capture_output=True)
        code, out = replay(EVOQ, EVOQ, data)
        if code != 0 or "1 equal, 0 different" not in out:
            failures.append(f"the same program twice: exit code {code}\n{out}")
        for fault, result in FAULTS.items():
            changed = folder / "changed"
            changed.write_text(f'#!/bin/sh\n"{EVOQ}" "$@" || exit $?\n{fault}\n')
            changed.chmod(changed.stat().st_mode | stat.S_IXUSR)
            code, out = replay(EVOQ, changed, data)
            if code != 1 or f"\n  {result}" not in out or "0 equal, 1 different" not in out:
                failures.append(f"{fault}: exit code {code}, expected a line of '{result}'\n{out}")
    for failure in failures:
        print(failure)
    print(f"{len(FAULTS)} faults, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
