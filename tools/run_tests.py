#!/usr/bin/env python3
"""Runs every test binary and script of a build folder and adds up their counts:
'N passed, N failed, N skipped'.

    tools/run_tests.py BUILD_DIR [--limit-s SECONDS] [--jobs N] [--only NAME[:FILTER]...]
                       [--runner COMMAND]

Scripts are tests/*_test.py and tests/*/*_test.py; exit status 77 means skipped. They use
build/venv's Python where it is. A binary or script that is not done after the limit is stopped and
counts as failed: what it was doing is printed, with the stacks of its threads where gdb is
installed. FILTER is googletest's: evoq_kernels_test:*RandomShapes. COMMAND runs binaries of another
processor; scripts are left out then.

What took longest the last time starts first, so that no long one runs alone at the end: the seconds
of each are kept in BUILD_DIR/test_seconds.json. What is new there starts before all others. What
failed is printed once more at the end, so that the last lines of a long log say it.
"""

import argparse
import concurrent.futures
import json
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
LINES_AGAIN = 30


def run(command, environment, limit_s):
    """Runs to the end or the limit: (exit status or None for the limit, output, seconds)."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        stacks = ""
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
            stacks = stacks_of(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        return status, out.read().decode(errors="replace") + stacks, time.monotonic() - start


def stacks_of(pid):
    if gdb := shutil.which("gdb"):
        command = [gdb, "-p", str(pid), "-batch", "-ex", "thread apply all bt 20"]
    else:
        command = ["ps", "-L", "-o", "pid,lwp,stat,pcpu,wchan:20,comm", "-p", str(pid)]
    done = subprocess.run(command, timeout=120, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def processor():
    for line in (
        pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if os.path.exists("/proc/cpuinfo")
        else []
    ):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def ends(kind, output):
    """How many tests ended that way, by googletest's line for each:
    '[       OK ] Suite.Name (3 ms)'."""
    return len(re.findall(rf"^\[ *{kind} *\] \S+.* \(\d+ ms\)$", output, re.MULTILINE))


def run_binary(binary, pattern, limit_s, runner=()):
    """(name, seconds, (passed, failed, skipped), what to print)."""
    command = [*runner, str(binary)] + ([f"--gtest_filter={pattern}"] if pattern else [])
    status, output, seconds = run(command, None, limit_s)
    counts = [ends(kind, output) for kind in ("OK", "FAILED", "SKIPPED")]
    lines = [f"== {binary.name}: {counts[0]} passed in {seconds:.1f} s"]
    if status != 0:
        lines.append(output)
        begun = re.findall(r"^\[ RUN +\] (\S+)", output, re.MULTILINE)
        place = begun[-1] if begun else "its beginning"
        if status is None:
            lines.append(f"{binary.name} was not done after {limit_s} s: stopped in {place}")
        elif status < 0:
            lines.append(f"{binary.name} ended by {signal.Signals(-status).name} in {place}")
        elif counts[1] == 0:
            lines.append(f"{binary.name} ended with status {status}")
        counts[1] = max(counts[1], 1)
    elif counts[2]:
        skips = re.compile(r"SKIPPED|Skipped|_test\.cc:\d+:")
        lines += [line for line in output.splitlines() if skips.search(line)]
    return binary.name, seconds, counts, "\n".join(lines)


def run_script(script, build, limit_s):
    """As run_binary."""
    python = "build/venv/bin/python"
    python = python if os.access(python, os.X_OK) else sys.executable
    environment = {**os.environ, "EVOQ_BUILD": str(build)}
    status, output, seconds = run([python, str(script)], environment, limit_s)
    if status is None:
        output += f"{script} was not done after {limit_s} s\n"
    result = "passed" if status == 0 else "skipped" if status == SKIPPED else "FAILED"
    counts = [int(status == 0), int(status not in (0, SKIPPED)), int(status == SKIPPED)]
    return str(script), seconds, counts, f"{output}== {script}: {result} in {seconds:.1f} s"


def failure(text):
    """The end of what a failed binary or script printed, without the tests that passed."""
    lines = text.splitlines()
    passed = re.compile(r"^\[ +OK \] |^\[ RUN +\] |^\[-+\]")
    lines = [line for line in lines if not passed.search(line)]
    return "\n".join(lines[-LINES_AGAIN:])


def seconds_of(path):
    """What was kept of the last runs, by name; nothing where it cannot be read."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): float(seconds) for name, seconds in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    option = parser.add_argument
    option("build", type=pathlib.Path)
    option("--limit-s", type=float, default=900, help="for each binary and script (%(default)s)")
    option("--jobs", type=int, default=1, help="binaries and scripts at once (%(default)s)")
    option("--only", nargs="+", metavar="NAME[:FILTER]", help="these binaries, and no scripts")
    option("--runner", default="", help="what runs binaries of another processor")
    args = parser.parse_args()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    print(f"machine: {processor()}, {len(os.sched_getaffinity(0))} cores", flush=True)
    binaries = sorted(args.build.glob("evoq_*_test")) + sorted(args.build.glob("tests/evoq_*_test"))
    only = dict(name.partition(":")[::2] for name in args.only or [])
    if missing := set(only) - {b.name for b in binaries}:
        sys.exit(f"run_tests.py: {args.build} has no {', '.join(sorted(missing))}")
    scripts = sorted(pathlib.Path().glob("tests/*_test.py"))
    scripts += sorted(pathlib.Path().glob("tests/*/*_test.py"))
    counts, failures = [0, 0, 0], []
    kept = args.build / "test_seconds.json"
    seconds = seconds_of(kept)
    tasks = [
        (b.name, run_binary, b, only.get(b.name), args.limit_s, args.runner.split())
        for b in binaries
        if os.access(b, os.X_OK) and (not only or b.name in only)
    ]
    if not only and not args.runner:
        tasks += [(str(s), run_script, s, args.build, args.limit_s) for s in scripts]
    tasks.sort(key=lambda task: -seconds.get(task[0], float("inf")))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(*task[1:]) for task in tasks]
        for done in concurrent.futures.as_completed(runs):
            name, took, more, text = done.result()
            counts = [a + b for a, b in zip(counts, more)]
            if not only.get(name):
                seconds[name] = round(took, 1)
            print(text, flush=True)
            if more[1]:
                failures.append(f"failed: {name}\n{failure(text)}")
    kept.write_text(json.dumps(seconds, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    passed, failed, skipped = counts
    print(*failures, sep="\n", end="\n" if failures else "")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
