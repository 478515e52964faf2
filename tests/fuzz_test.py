#!/usr/bin/env python3
"""Runs the fuzzers for a few seconds each; a crash, a hang over 5 s or 1 GiB of memory fails.
Builds them first.

Skips (exit status 77) where the build has no fuzz targets (g++).
"""

import base64
import glob
import os
import re
import subprocess
import sys
import time
import zlib

from agree import BUILD, ROOT

SECONDS = os.environ.get("EVOQ_FUZZ_SECONDS", "15")
FOUND = re.compile(r"check failed|^==\d+== ?ERROR|runtime error|^ALARM", re.MULTILINE)


def report_finding(name, since, log):
    """What was found, and the input: a machine of continuous integration keeps no files."""
    at = FOUND.search(log)
    print(log[at.start() :][:6000] if at else log[-6000:])
    for pattern in ("crash-*", "oom-*", "timeout-*"):
        for path in glob.glob(f"{BUILD}/fuzz/{name}/{pattern}"):
            if os.path.getmtime(path) < since:
                continue
            with open(path, "rb") as file:
                packed = base64.b64encode(zlib.compress(file.read(), 9)).decode()
            print(f"{path}, zlib and base64:\n{packed}")


def main():
    names = sorted(
        f[: -len("_fuzz.cc")] for f in os.listdir(f"{ROOT}/tests/fuzz") if f.endswith("_fuzz.cc")
    )
    targets = ["fuzz_" + name for name in names]
    built = subprocess.run(
        ["cmake", "--build", BUILD, "--target", *targets], capture_output=True, text=True
    )
    if "unknown target" in built.stderr + built.stdout:
        print("skipped: this build has no fuzz targets (they need clang)")
        return 77
    if built.returncode != 0:
        print(built.stdout[-2000:] + built.stderr[-2000:])
        return 1
    for name in names:
        since = time.time()
        done = subprocess.run(
            ["sh", f"{ROOT}/tests/fuzz/run.sh", name, "--seconds", SECONDS, "--build", BUILD],
            capture_output=True,
            text=True,
        )
        runs = [line for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        print(
            f"fuzz {name}: {SECONDS} s, {runs[0].split()[-1] if runs else '?'} inputs, exit "
            f"status {done.returncode}",
            flush=True,
        )
        if done.returncode != 0:
            report_finding(name, since, done.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
