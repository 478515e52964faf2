#!/usr/bin/env python3
"""Runs every test binary and script of a build folder and adds up their counts: 'N passed, N failed, N skipped'.

    tools/run_tests.py BUILD_DIR [--limit-s SECONDS] [--only NAME...]

Scripts are tests/*_test.py and tests/*/*_test.py; exit status 77 means skipped. They use build/venv's Python where it is.
A binary or script that is not done after the limit is stopped and counts as failed: what it was doing is printed, with
the stacks of its threads where gdb is installed.
"""
import argparse
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77


def run(command, environment, limit_s):
    """Runs to the end or the limit: (exit status or None for the limit, output, seconds)."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
            print_stacks(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        return status, out.read().decode(errors="replace"), time.monotonic() - start


def print_stacks(pid):
    if gdb := shutil.which("gdb"):
        subprocess.run([gdb, "-p", str(pid), "-batch", "-ex", "thread apply all bt 20"], timeout=120, check=False)
    else:
        subprocess.run(["ps", "-L", "-o", "pid,lwp,stat,pcpu,wchan:20,comm", "-p", str(pid)], check=False)


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def ends(kind, output):
    """How many tests ended that way, by googletest's line for each: '[       OK ] Suite.Name (3 ms)'."""
    return len(re.findall(rf"^\[ *{kind} *\] \S+.* \(\d+ ms\)$", output, re.MULTILINE))


def run_binary(binary, limit_s):
    status, output, seconds = run([str(binary)], None, limit_s)
    passed, failed, skipped = ends("OK", output), ends("FAILED", output), ends("SKIPPED", output)
    print(f"== {binary.name}: {passed} passed in {seconds:.1f} s", flush=True)
    if status != 0:
        print(output)
        if status is None:
            begun = re.findall(r"^\[ RUN +\] (\S+)", output, re.MULTILINE)
            print(f"{binary.name} was not done after {limit_s} s: stopped in {begun[-1] if begun else 'its beginning'}")
        elif failed == 0:
            print(f"{binary.name} ended with status {status}")
        failed = max(failed, 1)
    elif skipped:
        print("\n".join(line for line in output.splitlines() if re.search(r"SKIPPED|Skipped|_test\.cc:\d+:", line)))
    return passed, failed, skipped


def run_script(script, build, limit_s):
    python = "build/venv/bin/python"
    python = python if os.access(python, os.X_OK) else sys.executable
    status, output, seconds = run([python, str(script)], {**os.environ, "EVOQ_BUILD": str(build)}, limit_s)
    print(output, end="")
    if status is None:
        print(f"{script} was not done after {limit_s} s")
    print(f"== {script}: {'passed' if status == 0 else 'skipped' if status == SKIPPED else 'FAILED'} in {seconds:.1f} s", flush=True)
    return int(status == 0), int(status not in (0, SKIPPED)), int(status == SKIPPED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--limit-s", type=float, default=900, help="for each binary and script (%(default)s)")
    parser.add_argument("--only",
                        nargs="+",
                        metavar="NAME",
                        help="these test binaries, and no scripts")
    args = parser.parse_args()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    print(f"machine: {processor()}, {len(os.sched_getaffinity(0))} cores", flush=True)
    counts = [0, 0, 0]
    binaries = sorted(args.build.glob("evoq_*_test")) + sorted(args.build.glob("tests/evoq_*_test"))
    if args.only:
        if missing := set(args.only) - {b.name for b in binaries}:
            sys.exit(f"run_tests.py: {args.build} has no {', '.join(sorted(missing))}")
        binaries = [b for b in binaries if b.name in args.only]
    results = [lambda b=b: run_binary(b, args.limit_s) for b in binaries if os.access(b, os.X_OK)]
    scripts = [] if args.only else sorted(pathlib.Path().glob("tests/*_test.py")) + sorted(
        pathlib.Path().glob("tests/*/*_test.py"))
    results += [lambda s=s: run_script(s, args.build, args.limit_s) for s in scripts]
    for result in results:
        counts = [a + b for a, b in zip(counts, result())]
    passed, failed, skipped = counts
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
