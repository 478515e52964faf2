#!/usr/bin/env python3
"""Plants faults, one at a time, runs the tests and lists the faults that no test notices.

    tools/mutate.py --changed [COMMIT]      the lines that differ from COMMIT
                                            (HEAD~1, or HEAD if the tree is dirty)
    tools/mutate.py FILE... [--lines A-B]   these files
    tools/mutate.py --sample 150 --per-room 5
                                            a random sample of all rooms; the seed is printed
    tools/mutate.py ... --list              only prints what would be planted

Works in copies of the tree below build/mutate, so that several runs can share them: each worker has
a copy, a build folder and a lock; what is done is kept by a hash of the file's text and the fault,
and never done twice (--again does). For each fault: builds and runs the tests of the room, then of
the other rooms and whole-program tests, then the scripts; the first failure ends it. Results:
killed (by which test), survived, invalid (did not compile), and equivalent
(tests/mutants_equivalent.txt gives the reason).

The rules are the rows of tools/mutation_rules.py. Exit status 1 if a fault survived, 3 if the time
ran out before the end.
"""

import argparse
import collections
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import mutation_rules

ROOT = pathlib.Path(os.environ.get("EVOQ_MUTATE_ROOT", pathlib.Path(__file__).resolve().parents[1]))
STATE = ROOT / "build/mutate"
EQUIVALENT = ROOT / "tests/mutants_equivalent.txt"
# Scripts that a fault in the code cannot fail, or that find faults by chance only.
NO_KILLERS = {
    "build_times_test.py",
    "fuzz_test.py",
    "inner_loops_test.py",
    "mutate_test.py",
    "rooms_test.py",
    "rows_test.py",
    "run_tests_test.py",
    "style_test.py",
}


class Fault:
    def __init__(self, path, mutant, source):
        self.path, self.mutant, self.source = path, mutant, source
        self.line = source.count("\n", 0, mutant.start) + 1
        self.old = source[mutant.start : mutant.end]

    @functools.cached_property
    def text(self):
        """The line's text."""
        return self.source.splitlines()[self.line - 1].strip()

    @functools.cached_property
    def id(self):
        m = self.mutant
        key = "\0".join([self.path, m.rule, str(m.start), m.text, self.source])
        return hashlib.sha256(key.encode()).hexdigest()[:16]

    @functools.cached_property
    def room(self):
        return self.path.split("/")[1] if self.path.startswith("src/") else self.path.split("/")[0]

    def planted(self):
        return self.source[: self.mutant.start] + self.mutant.text + self.source[self.mutant.end :]

    @property
    def on_one_line(self):
        """What is replaced, and by what."""
        return tuple(re.sub(r"\s+", " ", t) for t in (self.old, self.mutant.text))

    def __str__(self):
        old, new = self.on_one_line
        return f"{self.path}:{self.line}: {self.mutant.rule}: {old} -> {new or 'nothing'}"


def equivalents():
    """{(path, first line's text, old, new): reason} of tests/mutants_equivalent.txt: tab-separated,
    '#' comments; old and new as they are printed, on one line."""
    rows = {}
    for line in EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []:
        if line and not line.startswith("#"):
            path, text, old, new, reason = line.split("\t")
            rows[path, text, old, new] = reason
    return rows


def git(*words):
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def compiler_cache():
    """ccache's folder, or "" where there is no ccache."""
    with contextlib.suppress(OSError):
        return subprocess.run(
            ["ccache", "-k", "cache_dir"], capture_output=True, text=True
        ).stdout.strip()
    return ""


def sources():
    """Files below src/ and python/evoq/ in which faults are planted: no tests, nothing that this
    machine does not run."""
    arm = r"_neon(_\w+)?\.(cc|inl\.h)$"
    no_source = re.compile(rf"(_test|_bench)\.cc$|test_\w+\.h$|_testing\.h$|{arm}")
    files = git("ls-files", "-co", "--exclude-standard", "src", "python/evoq").split()
    return [
        f
        for f in files
        if re.search(r"\.(cc|h|py)$", f) and not no_source.search(f) and (ROOT / f).exists()
    ]


def faults_of(path, lines=None):
    source = (ROOT / path).read_text()
    return [
        Fault(path, m, source) for m in mutation_rules.mutants(source, path.endswith(".py"), lines)
    ]


def changed_lines(commit):
    """{path: numbers of the lines that differ from the commit}."""
    if not commit:
        commit = "HEAD" if git("status", "--porcelain", "-uno").strip() else "HEAD~1"
    lines, path = collections.defaultdict(set), None
    for row in git("diff", "-U0", commit).splitlines():
        if row.startswith("+++ "):
            path = row[6:] if row.startswith("+++ b/") else None
        elif path and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", row)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines[path].update(range(first, first + count))
    known = set(sources())
    return {p: numbers for p, numbers in lines.items() if p in known}


class Sample:
    """A random sample of all rooms: at least `per_room` of each, the rest by the rooms' sizes.

    A line is drawn first, then a fault on it, so that long lines do not count double.
    """

    def __init__(self, count, per_room, seed):
        rooms = collections.defaultdict(lambda: collections.defaultdict(list))
        for path in sources():
            if path.startswith("src/"):
                for fault in faults_of(path):
                    rooms[fault.room][path, fault.line].append(fault)
        self.drawn = {}
        for room, lines in sorted(rooms.items()):
            rng = random.Random(f"{seed} {room}")
            self.drawn[room] = [
                rng.choice(lines[place]) for place in rng.sample(sorted(lines), len(lines))
            ]
        total = sum(map(len, self.drawn.values()))
        rest = max(0, count - per_room * len(rooms))
        self.shares = {
            room: per_room + int(rest * len(faults) / total) for room, faults in self.drawn.items()
        }
        for room in sorted(self.drawn, key=lambda r: -len(self.drawn[r])):
            self.shares[room] += sum(self.shares.values()) < count

    def faults(self, invalid=None):
        """The sample; where `invalid` names faults that do not compile, with further ones of their
        rooms beside them."""
        chosen = []
        for room, faults in self.drawn.items():
            left = self.shares[room]
            for fault in faults:
                if left == 0:
                    break
                chosen.append(fault)
                left -= fault.id not in (invalid or ())
        return chosen


class Worker:
    """A copy of the tree with a build folder, held by a lock; plants a fault, builds, tests,
    restores."""

    def __init__(self, number, lock, args):
        self.folder, self.lock, self.args = STATE / f"w{number}", lock, args
        self.tree, self.build = self.folder / "tree", self.folder / "tree/build/release"
        self.environment = {
            "EVOQ_DATA": str(ROOT.parent / "shared/data"),
            "CCACHE_DIR": compiler_cache(),  # one for all copies, not below XDG_CACHE_HOME
            **os.environ,
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "CCACHE_BASEDIR": str(self.tree),
            "CCACHE_NOHASHDIR": "1",
            "EVOQ_BUILD": str(self.build),
            # Tests name their files by themselves: two copies shall not meet.
            "TMPDIR": str(self.folder / "tmp"),
        }
        (self.folder / "tmp").mkdir(exist_ok=True)

    @staticmethod
    def claim(args):
        """The first worker whose copy nobody uses."""
        for number in range(64):
            (STATE / f"w{number}").mkdir(parents=True, exist_ok=True)
            lock = open(STATE / f"w{number}/lock", "w")
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return Worker(number, lock, args)
        sys.exit("mutate: 64 workers are busy")

    def sync(self):
        """Makes the copy equal to the tree, files written only where they differ, so that only
        those are built again."""
        files = git("ls-files", "-co", "--exclude-standard", "-z").split("\0")
        wanted = {f for f in files if f and ((ROOT / f).is_file() or (ROOT / f).is_symlink())}
        for file in sorted(wanted):
            to = self.tree / file
            if (ROOT / file).is_symlink():
                to.parent.mkdir(parents=True, exist_ok=True)
                to.unlink(missing_ok=True)
                to.symlink_to(os.readlink(ROOT / file))
                continue
            data = (ROOT / file).read_bytes()
            if not to.exists() or to.read_bytes() != data:
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(data)
            to.chmod((ROOT / file).stat().st_mode)
        for top in ("src", "tests", "include", "python", "tools"):
            for path in (self.tree / top).rglob("*"):
                known = str(path.relative_to(self.tree)) in wanted
                if path.is_file() and not known and "__pycache__" not in path.parts:
                    path.unlink()

    def prepare(self):
        self.sync()
        venv = self.tree / "build/venv"
        venv.parent.mkdir(parents=True, exist_ok=True)
        if not venv.exists() and (ROOT / "build/venv").exists():
            venv.symlink_to((ROOT / "build/venv").resolve())
        python = venv / "bin/python"
        binding = (
            python.exists()
            and subprocess.run([python, "-c", "import nanobind"], capture_output=True).returncode
            == 0
        )
        options = [
            "-DEVOQ_TESTS=ON",
            "-DEVOQ_BENCH=OFF",
            f"-DEVOQ_PYTHON={'ON' if binding else 'OFF'}",
            f"-DPython_EXECUTABLE={python}",
        ]
        status, output = self.run(["cmake", "--preset", "release", *options], 600)
        if status != 0:
            sys.exit(f"mutate: cmake failed:\n{output}")
        status, output = self.make([])
        if status != 0:
            sys.exit(f"mutate: the tree does not build:\n{output[-4000:]}")

    def make(self, targets):
        command = ["cmake", "--build", str(self.build), "-j", str(self.args.jobs)]
        return self.run(
            command + (["--target", *targets] if targets else []), self.args.build_limit_s
        )

    def run(self, command, limit_s):
        """(exit status, None if stopped at the limit; output)."""
        with open(self.folder / "output", "w+") as out:
            process = subprocess.Popen(
                command,
                cwd=self.tree,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                status = None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out.seek(0)
            return status, out.read()

    def tests(self):
        """Names of everything that can kill, as paths below the tree."""
        binaries = sorted(self.build.glob("evoq_*_test")) + sorted(
            self.build.glob("tests/evoq_*_test")
        )
        scripts = sorted((self.tree / "tests").glob("*_test.py")) + sorted(
            (self.tree / "tests").glob("*/*_test.py")
        )
        return [
            str(p.relative_to(self.tree)) for p in binaries + scripts if p.name not in NO_KILLERS
        ]

    def test(self, name, limit_s):
        """(passes, what failed)."""
        # A fault in a size shall not take the machine's memory; tests set limits above it.
        memory = "ulimit -Sv 33554432; "
        if name.endswith(".py"):
            python = self.tree / "build/venv/bin/python"
            python = python if python.exists() else sys.executable
            status, _ = self.run(["bash", "-c", f'{memory} exec "{python}" "{name}"'], limit_s)
            return status in (0, 77), f"{name}{'' if status is not None else ' (not done in time)'}"
        status, output = self.run(
            ["bash", "-c", f'{memory} exec "./{name}" --gtest_fail_fast --gtest_brief=1'], limit_s
        )
        failed = re.findall(r"^\[  FAILED  \] (\S+?)[,.]?(?: |$)", output, re.MULTILINE)
        last = (
            failed[0] if failed else ("not done in time" if status is None else f"status {status}")
        )
        return status == 0, f"{pathlib.Path(name).name}: {last}"

    def baseline(self):
        """{test: seconds} of those that pass without a fault, measured once for this state of the
        tree."""
        file = self.folder / "baseline.json"
        state = hashlib.sha256(
            b"".join((self.tree / f).read_bytes() for f in sorted(sources()))
        ).hexdigest()
        known = json.loads(file.read_text()) if file.exists() else {}
        seconds = known.get("seconds", {})
        for name in self.tests():
            if name in seconds and (known.get("state") == state or not self.args.fresh_baseline):
                continue
            start = time.monotonic()
            passes, what = self.test(name, 1800)
            seconds[name] = time.monotonic() - start if passes else None
            if not passes:
                print(f"mutate: {what} fails without a fault: it is left out", flush=True)
        file.write_text(json.dumps({"state": state, "seconds": seconds}))
        self.seconds = {name: s for name, s in seconds.items() if s is not None}

    def order(self, fault, kills):
        """The tests, those of the room first, then by how often they killed its faults a second."""
        own = f"evoq_{fault.room}_test"
        if fault.path.startswith("python/") or fault.room == "python":
            of_python = lambda n: n.endswith(".py") and "python" in n
            return sorted(self.seconds, key=lambda n: (not of_python(n), self.seconds[n]))

        def rank(name):
            kills_per_s = kills[fault.room, name] / (self.seconds[name] + 0.1)
            return (
                pathlib.Path(name).name != own,
                name.endswith(".py"),
                -kills_per_s,
                self.seconds[name],
            )

        return sorted(self.seconds, key=rank)

    def judge(self, fault, kills):
        """{'result', 'by', 'seconds'} of one fault."""
        file = self.tree / fault.path
        start = time.monotonic()

        def result(what, by=""):
            return {"result": what, "by": by, "seconds": round(time.monotonic() - start, 1)}

        file.write_text(fault.planted())
        try:
            built_all = False
            for i, name in enumerate(self.order(fault, kills)):
                own = i == 0 and pathlib.Path(name).name == f"evoq_{fault.room}_test"
                if own or not built_all:
                    status, output = self.make([pathlib.Path(name).name] if own else [])
                    built_all = not own
                    if status is None:
                        return result("unknown", "not built in time")
                    if status != 0:
                        linker = "undefined reference" in output or "undefined symbol" in output
                        return result("invalid", "linker" if linker else "compiler")
                passes, what = self.test(name, 30 + 8 * self.seconds[name])
                if not passes:
                    kills[fault.room, name] += 1
                    return result("killed", what)
                if self.args.room_only:
                    break
            return result("survived")
        finally:
            file.write_text(fault.source)


def kept(fault):
    return STATE / "results" / f"{fault.id}.json"


def summary(faults, results):
    rooms = collections.defaultdict(collections.Counter)
    for fault in faults:
        rooms[fault.room][results[fault.id]["result"] if fault.id in results else "not run"] += 1
    columns = ["killed", "survived", "equivalent", "invalid", "unknown", "not run"]
    print(
        f"\n{'room':12}"
        + "".join(f"{c:>12}" for c in columns)
        + "   killed of those that compile and differ"
    )
    total = ("all", sum(rooms.values(), collections.Counter()))
    for room, counts in [*sorted(rooms.items()), total]:
        judged = counts["killed"] + counts["survived"]
        share = f"{100 * counts['killed'] / judged:.0f}%" if judged else "-"
        print(f"{room:12}" + "".join(f"{counts[c] or '':>12}" for c in columns) + f"   {share:>5}")
    survivors = [f for f in faults if results.get(f.id, {}).get("result") == "survived"]
    print(f"\n{len(survivors)} survived" + (":" if survivors else ""))
    for fault in survivors:
        print(f"{fault}\n    {fault.text}")
    return survivors


def choose(args):
    if args.changed is not None:
        return [
            f for path, lines in changed_lines(args.changed).items() for f in faults_of(path, lines)
        ]
    if args.files:
        lines = None
        if args.lines:
            first, _, last = args.lines.partition("-")
            lines = set(range(int(first), int(last or first) + 1))
        return [
            f
            for path in args.files
            for f in faults_of(str(pathlib.Path(path).resolve().relative_to(ROOT.resolve())), lines)
        ]
    return Sample(args.sample, args.per_room, args.seed)


def result_of(fault, known):
    """What is known of a fault, or None."""
    if (reason := known.get((fault.path, fault.text, *fault.on_one_line))) is not None:
        return {"result": "equivalent", "by": reason}
    return json.loads(kept(fault).read_text()) if kept(fault).exists() else None


def work(faults, args, until):
    """Judges what is not judged yet; other processes may do so at the same time."""
    known, kills, worker = equivalents(), collections.Counter(), None
    for fault in sorted(faults, key=lambda f: (f.room, f.path, f.mutant.start)):
        with open(STATE / "results" / f"{fault.id}.lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # another worker has it
            if result_of(fault, known) or time.monotonic() > until:
                continue
            if worker is None:
                worker = Worker.claim(args)
                worker.prepare()
                worker.baseline()
            result = worker.judge(fault, kills)
            temporary = kept(fault).with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps({**result, "fault": str(fault)}))
            temporary.rename(kept(fault))
            print(
                f"{result['result']:10} {result['seconds']:6.1f} s  {fault}  {result['by']}",
                flush=True,
            )


def run(faults, args, until):
    """work() in as many processes as workers are wanted; what is known of each fault then, by
    id."""
    (STATE / "results").mkdir(parents=True, exist_ok=True)
    children = []
    for _ in range(args.workers - 1):
        pid = os.fork()
        if pid == 0:
            status = 1
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                work(faults, args, until)
                status = 0
            os._exit(status)
        children.append(pid)
    work(faults, args, until)
    for pid in children:
        os.waitpid(pid, 0)
    known = equivalents()
    return {fault.id: result for fault in faults if (result := result_of(fault, known))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    option = parser.add_argument
    option("files", nargs="*")
    option("--lines", help="A-B: only faults on these lines")
    option("--changed", nargs="?", const="", metavar="COMMIT", help="lines that differ from COMMIT")
    option(
        "--sample",
        type=int,
        default=150,
        help="without files: how many, that compile, of all (%(default)s)",
    )
    option("--per-room", type=int, default=5, help="at least so many of each room (%(default)s)")
    option("--seed", type=int, default=None, help="of the sample; drawn and printed if not given")
    option(
        "--limit",
        type=int,
        help="of files or changed lines: at most so many faults, drawn with the seed",
    )
    option("--time-s", type=float, default=float("inf"), help="start no fault after this time")
    option("--workers", type=int, default=1, help="copies of the tree used at once (%(default)s)")
    option("--jobs", type=int, default=os.cpu_count(), help="of each build (%(default)s)")
    option("--build-limit-s", type=float, default=3600, help="for one build (%(default)s)")
    option("--room-only", action="store_true", help="only the tests of the fault's room")
    option(
        "--fresh-baseline",
        action="store_true",
        help="run all tests without a fault first, also those known to pass",
    )
    option("--again", action="store_true", help="forget what is known of these faults first")
    option("--list", action="store_true", help="print the faults and end")
    args = parser.parse_args()
    args.seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10**6)
    until = time.monotonic() + args.time_s
    chosen = choose(args)
    drawn = isinstance(chosen, Sample)
    faults = chosen.faults() if drawn else chosen
    if not drawn and args.limit and len(faults) > args.limit:
        faults = random.Random(args.seed).sample(sorted(faults, key=lambda f: f.id), args.limit)
    print(f"{len(faults)} faults, seed {args.seed}", flush=True)
    if args.list:
        print("\n".join(str(f) for f in faults))
        return 0
    if args.again:
        for fault in faults:
            kept(fault).unlink(missing_ok=True)
    while True:
        results = run(faults, args, until)
        invalid = {i for i, r in results.items() if r["result"] == "invalid"}
        further = chosen.faults(invalid) if drawn else faults
        if len(further) == len(faults) or time.monotonic() > until:
            break
        faults = further
    if summary(faults, results):
        return 1
    return 3 if len(results) < len(faults) else 0


if __name__ == "__main__":
    sys.exit(main())
