#!/usr/bin/env python3
"""The command while its files fail: killed, interrupted or out of disk before each step of writing.

Whatever the moment, an output is the old file or the whole new one; nothing else stays beside it,
but what a kill between two system calls leaves and the next write removes. EVOQ_LONG=1: every kind
of fault in every verb.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from agree import BUILD, EVOQ, ROOT  # noqa: E402

SHIM = os.path.join(BUILD, "tests/evoq_fault_shim.so")
DIGITS = os.path.join(ROOT, "examples/digits/digits.onnx")
LONG = os.environ.get("EVOQ_LONG") == "1"
SIGNALS = {
    "kill": signal.SIGKILL,
    "term": signal.SIGTERM,
    "int": signal.SIGINT,
    "hup": signal.SIGHUP,
}
OLD = "what stood there before\n"


def evoq(arguments, fault="", **variables):
    environment = {**os.environ, "EVOQ_TUNING_CACHE": "", "EVOQ_LIMITS_CACHE": "", **variables}
    if fault or "EVOQ_NO_TMPFILE" in variables:
        environment["LD_PRELOAD"] = SHIM
        # A sanitizer's library wants to be the first.
        environment["ASAN_OPTIONS"] = (
            environment.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        )
    if fault:
        environment["EVOQ_FAULT"] = fault
    return subprocess.run(
        [EVOQ, *arguments], capture_output=True, text=True, env=environment, timeout=300
    )


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Verb:
    """A verb that writes `output` into a folder; `whole` says of bytes whether they are all."""

    def __init__(self, name, output, arguments, whole, variables=None):
        self.name, self.output, self.arguments, self.whole, self.variables = (
            name,
            output,
            arguments,
            whole,
            variables or {},
        )

    def run(self, folder, fault="", **more):
        put = lambda text: text.replace("@", folder)
        variables = {key: put(value) for key, value in self.variables.items()}
        return evoq([put(a) for a in self.arguments], fault, **variables, **more)


def is_json(data):
    try:
        json.loads(data)
        return True
    except ValueError:
        return False


def is_etm(data):
    return data[:8] == b"EvoTiny\n" and int.from_bytes(data[16:24], "little") == len(data)


def is_html(data):
    return data.rstrip().endswith(b"</html>")


def is_onnx(data):
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(data)
        file.flush()
        return evoq(["inspect", file.name]).returncode == 0


def verbs(folder):
    etm = os.path.join(folder, "digits.etm")
    assert evoq(["compile", DIGITS, "-o", etm]).returncode == 0
    short = ["--duration-s", "0.02", "--warmup-ms", "1", "--threads", "1"]
    return [
        Verb("compile", "o.etm", ["compile", DIGITS, "-o", "@/o.etm"], is_etm),
        Verb(
            "quantize",
            "o.etm",
            ["quantize", DIGITS, "--scheme", "int8-dynamic", "-o", "@/o.etm"],
            is_etm,
        ),
        Verb(
            "quantize to ONNX",
            "o.onnx",
            ["quantize", DIGITS, "--scheme", "int8-weights", "-o", "@/o.onnx"],
            is_onnx,
        ),
        Verb("optimize", "o.onnx", ["optimize", DIGITS, "-o", "@/o.onnx"], is_onnx),
        Verb("zoo", "o.onnx", ["zoo", "lenet", "-o", "@/o.onnx"], is_onnx),
        Verb("--json", "o.json", ["inspect", etm, "--json", "@/o.json"], is_json),
        Verb(
            "tuning cache",
            "t.json",
            ["bench", etm, "--tune", *short],
            is_json,
            {"EVOQ_TUNING_CACHE": "@/t.json"},
        ),
        Verb("bench", "o.json", ["bench", etm, "--export-times", "@/o.json", *short], is_json),
        Verb("profile", "o.json", ["profile", etm, "--trace", "@/o.json", *short], is_json),
        Verb(
            "explain",
            "o.html",
            ["explain", etm, "--report", "@/o.html", "--duration-s", "0.02", "--threads", "1"],
            is_html,
        ),
    ]


def walk(verb, kind, old, failures, **variables):
    """The fault before step 1, 2, ... until the verb ends without having met it. Returns how
    many."""
    for n in range(1, 200):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, verb.output)
            if old:
                with open(path, "w") as file:
                    file.write(OLD)
            done = verb.run(folder, f"{kind}:{n}", **variables)
            where = f"{verb.name}, {kind} before step {n}, {old=}, {variables}"
            whole = os.path.exists(path) and verb.whole(read(path))
            untouched = (
                read(path) == OLD.encode()
                if old and os.path.exists(path)
                else not old and not os.path.exists(path)
            )
            if not whole and not untouched:
                failures.append(f"{where}: the output is neither the old file nor a whole new one")
            met = done.returncode != 0 or "shim: " in done.stderr
            if not met:
                if not whole:
                    failures.append(f"{where}: success without an output")
                return n - 1
            expected = -SIGNALS[kind] if kind in SIGNALS else 3
            # A cache that cannot be kept is a warning; without unnamed files there are named ones.
            if done.returncode != expected and not (kind == "full" and done.returncode == 0):
                failures.append(
                    f"{where}: exit status {done.returncode}, expected {expected}: {done.stderr}"
                )
            if kind == "full" and done.returncode == 0 and whole and n > 1:  # 1: the opening
                failures.append(f"{where}: success in spite of it")
            if kind == "full" and not whole and "No space left on device" not in done.stderr:
                failures.append(f"{where}: no reason given: {done.stderr}")
            others = [name for name in os.listdir(folder) if name != verb.output]
            if others and kind != "kill":
                failures.append(f"{where}: leaves {others}")
            if any(not name.startswith(".evoq-tmp-") for name in others) or len(others) > 1:
                failures.append(f"{where}: leaves {others}")
            if others:  # swept by the next write
                if verb.run(folder).returncode != 0 or os.listdir(folder) != [verb.output]:
                    failures.append(f"{where}: {os.listdir(folder)} after the next write")
    failures.append(f"{verb.name}: no end of steps")
    return 0


def has_unnamed_files(folder):
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
        return True
    except OSError:
        return False


def interrupted(folder, failures):
    # open, fchmod, write, fsync, linkat onto the old file, linkat, rename; or, where there are no
    # unnamed files, open in vain, open, fchmod, write, fsync, rename. Without fsync a power cut
    # would cost both files.
    least = 7 if has_unnamed_files(folder) else 6
    for verb in verbs(folder):
        for kind in [*SIGNALS, "full"] if LONG else ["kill"]:
            met = walk(verb, kind, old=True, failures=failures)
            if met < least:
                failures.append(f"{verb.name}: only {met} steps of writing were seen, not {least}")
        # All write by the same function: the fastest stands for all. A new file: open, write,
        # fsync, linkat. Without unnamed files: open, fchmod, write, fsync, rename.
        if LONG or verb.name == "--json":
            for kind in [*SIGNALS, "full"]:
                for met, least_here in (
                    (walk(verb, kind, old=False, failures=failures), 4),
                    (walk(verb, kind, old=True, failures=failures, EVOQ_NO_TMPFILE="1"), 5),
                ):
                    if met < least_here:
                        failures.append(
                            f"{verb.name}, {kind}: only {met} steps were seen, not {least_here}"
                        )


def full_disk(folder, failures):
    """A real one, where we may mount it."""
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], capture_output=True
        ).returncode
        != 0
    ):
        print("full disk: not root or no tmpfs: only simulated")
        return
    try:
        done = evoq(["compile", DIGITS, "-o", f"{disk}/o.etm"])
        if done.returncode != 3 or "No space left on device" not in done.stderr or os.listdir(disk):
            failures.append(f"full disk: {done.returncode} {done.stderr} {os.listdir(disk)}")
    finally:
        subprocess.run(["umount", disk], check=True)


def limit_on_files(folder, failures):
    path = os.path.join(folder, "limited.etm")
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 1; exec "$0" compile "$1" -o "$2"', EVOQ, DIGITS, path],
        capture_output=True,
        text=True,
    )
    if done.returncode != 3 or "File too large" not in done.stderr or os.path.exists(path):
        failures.append(f"ulimit -f: {done.returncode} {done.stderr}")


def devices(folder, failures):
    def check(what, good):
        if not good:
            failures.append(f"devices: {what}")

    null = "/dev/null"
    if os.geteuid() == 0:  # one of our own: a fault here must not cost the machine its /dev/null
        null = os.path.join(folder, "null")
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    etm = os.path.join(folder, "digits.etm")
    done = evoq(["inspect", etm, "--json", null])
    check(
        f"--json {null}: {done.stderr}",
        done.returncode == 0 and stat.S_ISCHR(os.stat(null).st_mode),
    )
    text = evoq(["inspect", etm]).stdout
    done = evoq(["inspect", etm, "--json", "/dev/stdout"])
    check(
        f"--json /dev/stdout: {done.stderr}",
        done.returncode == 0 and is_json(done.stdout) and done.stderr == text,
    )
    # Into a file, behind what is there, and as another user.
    out = os.path.join(folder, "out.txt")
    with open(out, "w") as file:
        file.write("before\n")
        file.flush()
        drop = (lambda: os.setresuid(65534, 65534, 65534)) if os.geteuid() == 0 else None
        readable = os.path.join(tempfile.mkdtemp(), "digits.etm")
        shutil.copy(etm, readable)
        os.chmod(os.path.dirname(readable), 0o755)
        command = [EVOQ, "inspect", readable, "--json", "/dev/stdout"]
        run = lambda who: subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, text=True, preexec_fn=who
        )
        try:
            done = run(drop)
        except OSError:  # the build is not readable by others
            done = run(None)
        shutil.rmtree(os.path.dirname(readable))
    found = read(out).decode()
    check(
        f"> file: {done.stderr}",
        done.returncode == 0
        and found.startswith("before\n")
        and is_json(found[found.rindex("\n{\n") + 1 :]),
    )
    # A pipe by name.
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    reader = subprocess.Popen(["timeout", "60", "cat", fifo], stdout=subprocess.PIPE)
    done = evoq(["inspect", etm, "--json", fifo])
    check(
        f"FIFO: {done.stderr}",
        done.returncode == 0
        and is_json(reader.communicate()[0])
        and stat.S_ISFIFO(os.stat(fifo).st_mode),
    )
    # Standard output that is full.
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [EVOQ, "inspect", etm], stdout=full, stderr=subprocess.PIPE, text=True
        )
    check(
        f"> /dev/full: {done.returncode} {done.stderr}",
        done.returncode == 3 and done.stderr.startswith("evoq: "),
    )
    # A link is followed.
    os.makedirs(os.path.join(folder, "deep"), exist_ok=True)
    link = os.path.join(folder, "link.etm")
    os.symlink("deep/target.etm", link)
    done = evoq(["compile", DIGITS, "-o", link])
    check(
        f"link: {done.stderr}",
        done.returncode == 0
        and os.path.islink(link)
        and is_etm(read(os.path.join(folder, "deep/target.etm"))),
    )
    done = evoq(["compile", DIGITS, "-o", ""])
    check(f"-o '': {done.returncode} {done.stderr}", done.returncode == 2)


def read_only_folder(folder, failures):
    locked = os.path.join(folder, "locked")
    os.mkdir(locked, 0o555)
    os.chmod(folder, 0o755)
    drop = (lambda: os.setresuid(65534, 65534, 65534)) if os.geteuid() == 0 else None
    try:
        done = subprocess.run(
            [EVOQ, "compile", DIGITS, "-o", f"{locked}/o.etm"],
            capture_output=True,
            text=True,
            preexec_fn=drop,
        )
    except (PermissionError, OSError):
        print("read-only folder: the build is not readable by others: not tried")
        return
    if done.returncode not in (3, 127) or os.listdir(locked):
        failures.append(f"read-only folder: {done.returncode} {done.stderr}")


def main():
    if not os.path.exists(SHIM):
        print(f"skipped: {SHIM} is not built")
        return 77
    # Started in the background, or with nohup, this process may ignore them; the command is not to.
    for number in SIGNALS.values():
        if number != signal.SIGKILL and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    failures = []
    for test in (interrupted, full_disk, limit_on_files, devices, read_only_folder):
        before = len(failures)
        with tempfile.TemporaryDirectory() as folder:
            if test is not interrupted:
                evoq(["compile", DIGITS, "-o", os.path.join(folder, "digits.etm")])
            test(folder, failures)
        print(f"{test.__name__}: {'ok' if len(failures) == before else 'FAILED'}", flush=True)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
