#!/usr/bin/env python3
"""The command with little memory (RLIMIT_AS): it works, or says so in one sentence and exits with
3.

Skips (exit status 77) for a build with sanitizers, which takes terabytes of address space.
EVOQ_LONG=1: more limits.
"""

import os
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from agree import EVOQ, ROOT  # noqa: E402

DIGITS = os.path.join(ROOT, "examples/digits/digits.onnx")
LONG = os.environ.get("EVOQ_LONG") == "1"
MB = 1 << 20


def run(arguments, limit):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = {**os.environ, "EVOQ_TUNING_CACHE": "", "EVOQ_LIMITS_CACHE": ""}
    return subprocess.run(
        [EVOQ, *arguments],
        capture_output=True,
        text=True,
        preexec_fn=limited,
        env=environment,
        timeout=600,
    )


def least():
    """The least address space, in MB, with which the command prints its version."""
    low, high = 1, 4096
    while low < high:
        middle = (low + high) // 2
        if run(["--version"], middle * MB).returncode == 0:
            high = middle
        else:
            low = middle + 1
    return low


def says_so(done):
    lines = done.stderr.strip().splitlines()
    return (
        done.returncode == 3
        and len([line for line in lines if line.startswith("evoq: ")]) == 1
        and "abort" not in done.stderr
    )


def main():
    start = least()
    if start >= 4096:
        print("skipped: a build with sanitizers")
        return 77
    failures = []
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "o.etm")
        lenet = os.path.join(folder, "lenet.onnx")
        run(["zoo", "lenet", "-o", lenet], 4096 * MB)
        for arguments in (
            ["compile", DIGITS, "-o", output],
            ["compile", lenet, "-o", output],
            ["quantize", lenet, "--scheme", "int8-dynamic", "-o", output],
        ):
            seen = set()
            for extra in range(0, 120, 1 if LONG else 8):
                if os.path.exists(output):
                    os.remove(output)
                done = run(arguments, (start + extra) * MB)
                seen.add(done.returncode)
                if done.returncode != 0 and not says_so(done):
                    failures.append(
                        f"{arguments[:2]} with {start + extra} MB: {done.returncode} "
                        f"{done.stderr[-300:]}"
                    )
                if (done.returncode == 0) != os.path.exists(output) or set(os.listdir(folder)) - {
                    "o.etm",
                    "lenet.onnx",
                }:
                    failures.append(
                        f"{arguments[:2]} with {start + extra} MB: leaves {os.listdir(folder)}"
                    )
            outcomes.append(seen)
        # 1023 threads' stacks do not fit.
        for limit in (start + 200, 2048):
            done = run(["bench", DIGITS, "--threads", "1024", "--duration-s", "0.01"], limit * MB)
            if not says_so(done):
                failures.append(
                    f"bench --threads 1024 with {limit} MB: {done.returncode} {done.stderr[-300:]}"
                )
            done = run(
                ["bench", DIGITS, "--streams", "256", "--threads", "1", "--duration-s", "0.01"],
                limit * MB,
            )
            if not says_so(done):
                failures.append(
                    f"bench --streams 256 with {limit} MB: {done.returncode} {done.stderr[-300:]}"
                )
    if not any(3 in seen for seen in outcomes) or not any(0 in seen for seen in outcomes):
        failures.append(f"no limit was too little, or none was enough: {outcomes}")
    for failure in failures:
        print(failure)
    print(f"memory: least {start} MB, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
