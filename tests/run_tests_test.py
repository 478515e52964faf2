#!/usr/bin/env python3
"""tools/run_tests.py on a build folder that is written here: the counts, what took longest the
last time first, and what failed once more at the end."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from agree import ROOT

# name: what the binary does
TESTS = {
    "evoq_a_test": "echo '[       OK ] A.One (0 ms)'",
    "evoq_b_test": "sleep 0.2; echo '[  SKIPPED ] B.One (0 ms)'; echo '[       OK ] B.Two (0 ms)'",
    "evoq_c_test": "echo '[       OK ] C.Two (0 ms)'; echo 'c_test.cc:3: Failure'; "
    "echo '[  FAILED  ] C.One (0 ms)'; exit 1",
}
FAILS = "evoq_c_test"
AGAIN = [
    f"failed: {FAILS}",
    f"== {FAILS}: 1 passed",
    "c_test.cc:3: Failure",
    "[  FAILED  ] C.One (0 ms)",
]
CRASHES = "echo '[       OK ] D.One (0 ms)'; echo '[ RUN      ] D.Two'; kill -SEGV $$"


def run(build, *only):
    """(status, names in the order in which they ran, the last line, what is printed again)."""
    words = [sys.executable, ROOT / "tools/run_tests.py", build, "--only", *only]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    *lines, last = re.sub(r" in \S+ s$", "", done.stdout, flags=re.M).splitlines()
    again = lines.index(AGAIN[0]) if AGAIN[0] in lines else len(lines)
    names = re.findall(r"^== (\w+):", "\n".join(lines[:again]), re.M)
    return done.returncode, names, last, lines[again:]


def main():
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        for name, does in TESTS.items():
            (build / name).write_text(f"#!/bin/sh\n{does}\n")
            (build / name).chmod(0o755)
        kept, names = build / "test_seconds.json", list(TESTS)
        first = run(build, *names)
        assert first == (1, names, "3 passed, 1 failed, 1 skipped", AGAIN), first
        seconds = json.loads(kept.read_text())
        assert set(seconds) == set(names) and seconds["evoq_b_test"] >= 0.2, seconds
        kept.write_text('{"evoq_a_test": 1, "evoq_b_test": 90, "evoq_c_test": 5}')
        # Part of a binary says nothing of the whole.
        assert run(build, "evoq_b_test:B.Two")[::3] == (0, [])
        found = run(build, *names)
        assert found == (1, [names[1], names[2], names[0]], *first[2:]), found
        kept.write_text('{"evoq_a_test": 1, "evoq_b_test": 90}')
        assert run(build, *names)[1] == [names[2], names[1], names[0]], "what is new is first"
        kept.write_text("[damaged")
        assert run(build, *names) == first
        (build / FAILS).write_text(f"#!/bin/sh\n{CRASHES}\n")
        status, _, counts, again = run(build, FAILS)
        assert (status, counts) == (1, "1 passed, 1 failed, 0 skipped"), (status, counts)
        assert again[-1] == f"{FAILS} ended by SIGSEGV in D.Two", again
    print("run_tests: 6 runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
