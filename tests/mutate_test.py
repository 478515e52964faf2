#!/usr/bin/env python3
"""tools/mutate.py: its rules on a few lines, and whole runs on a toy project whose tests notice
some faults and not others."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from agree import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import mutate  # noqa: E402
import mutation_rules  # noqa: E402

# A line, and for each rule what it makes of it.
RULES = [
    ("if (a <= b) f();", "comparison", ["if (a < b) f();"]),
    ("x = std::vector<int>(n);", "comparison", []),
    ("if (a && b(1, c)) f();", "logic", ["if (a || b(1, c)) f();"]),
    ("if (a && b(1, c)) f();", "clause", ["if (a ) f();", "if ( b(1, c)) f();"]),
    ("void f(T&& a);", "logic", []),
    ("return !a.empty();", "negation", ["return a.empty();"]),
    ("return n - 3;", "constant", ["return n - 4;", "return n - 2;"]),
    ("return n * 0.5f;", "constant", ["return n * (1.25f * 0.5f);"]),
    ("return 0.0;", "constant", ["return 1.0;"]),
    ("return a + b;", "arithmetic", ["return a - b;"]),
    ("return f(-x);", "sign", ["return f(x);"]),
    ("return std::max(a, b);", "partner", ["return std::min(a, b);"]),
    ("y = _mm256_packs_epi32(a, b);", "saturation", ["y = _mm256_packus_epi32(a, b);"]),
    ("return sizes[axis];", "axis", ["return sizes[(axis + 1)];", "return sizes[(axis - 1)];"]),
    ("return f(a, b + 1);", "arguments", ["return f(b + 1, a);"]),
    ("int f(int a, int b);", "arguments", []),
    ("{ if (n < 0) return false; return g(); }", "exit", ["{ ; return g(); }"]),
    ("EVOQ_TRY(Check(x));", "exit", ["(Check(x));"]),
    ("{ total += x; }", "statement", ["{ ; }"]),
    ("{ list.push_back(x); }", "statement", ["{ ; }"]),
    ("{ int total = x; }", "statement", []),
    ("for (int i = 0; i < n; ++i) f();", "statement", []),
    ("EVOQ_CHECK(a < b);", "comparison", []),
    ("{ state.grain = Grain(n, 5, threads); }", "constant", []),
    ("{ state.grain = Grain(n, 5, threads); }", "statement", []),
    ("{ values.reserve(n + 1); }", "arithmetic", []),
    ('Fail("a < b", 1);  // a < b', "comparison", []),
    ("#include <a> // a < b\nint x;", "comparison", []),
]

TOY = {
    "CMakePresets.json": json.dumps(
        {
            "version": 3,
            "configurePresets": [{"name": "release", "binaryDir": "${sourceDir}/build/release"}],
            "buildPresets": [{"name": "release", "configurePreset": "release"}],
        }
    ),
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.22)
project(toy LANGUAGES CXX)
add_library(evoq_base STATIC src/base/limit.cc)
add_executable(evoq_base_test src/base/limit_test.cc)
target_link_libraries(evoq_base_test evoq_base)
""",
    "src/base/limit.cc": """bool Within(int x, int limit) { return x <= limit; }
bool Unwatched(int x, int limit) { return x < limit; }
int Three() { return 3; }
void Nothing(int x) {
  if (x < 0)
    return;
}
""",
    # --gtest options are ignored: the exit status tells.
    "src/base/limit_test.cc": """bool Within(int, int);
bool Unwatched(int, int);
int main() { return Within(3, 3) && !Within(4, 3) ? 0 : 1; }
""",
    "tests/mutants_equivalent.txt": """\
src/base/limit.cc\tint Three() { return 3; }\t3\t4\tonly for this test
src/base/limit.cc\tif (x < 0)\tif (x < 0) return;\t;\tof two lines
""",
    # A copy holds links as they are, and tests may set limits of their own.
    "tests/copy_test.py": """import os, resource
assert os.path.islink("tests/link")
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
assert soft == 1 << 35 and hard == resource.RLIM_INFINITY
""",
    ".gitignore": "/build/\n",
}


def check_rules():
    for line, rule, wanted in RULES:
        got = [
            line[: m.start] + m.text + line[m.end :]
            for m in mutation_rules.mutants(line)
            if m.rule == rule
        ]
        assert got == wanted, f"{rule} on {line!r}: {got}, expected {wanted}"
    assert {rule for _, rule, wanted in RULES if wanted} == {
        row[0] for row in mutation_rules.RULES
    }, "a rule has no case"


def run(root, *options):
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/mutate.py"), *options],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "EVOQ_MUTATE_ROOT": str(root)},
    )
    return done.returncode, done.stdout + done.stderr


def verdicts(output):
    return {
        (int(line), change): result
        for result, line, change in re.findall(
            r"^(\w+) +[\d.]+ s +src/base/limit\.cc:(\d+): \w+: (.+?)  ", output, re.MULTILINE
        )
    }


def check_runs(root):
    for name, text in TOY.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tests/link").symlink_to("/etc/hostname")
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "toy"], check=True)

    status, output = run(root, "src/base/limit.cc", "--workers", "2", "--jobs", "1")
    seen = verdicts(output)
    assert status == 1 and "left out" not in output, output
    assert seen.get((1, "<= -> <")) == "killed", output
    assert seen[2, "< -> <="] == "survived" and seen[2, "< -> >"] == "survived", output
    assert (3, "3 -> 4") not in seen, output  # listed as equivalent
    assert (5, "if (x < 0) return; -> ;") not in seen and seen[5, "0 -> 1"] == "survived", output
    assert "src/base/limit.cc:2: comparison: < -> <=" in output.split("survived:")[1], output
    # killed, survived, two equivalent
    assert re.search(r"^base +\d+ +\d+ +2 ", output, re.MULTILINE), output

    # Judged once: a second run only reports, and a fault's text that changes is judged anew.
    assert not verdicts(run(root, "src/base/limit.cc")[1]), "judged twice"
    assert run(root, "--changed", "HEAD")[1].startswith("0 faults"), "nothing has changed"
    path = root / "src/base/limit.cc"
    path.write_text(path.read_text().replace("return x < limit", "return x > limit"))
    status, output = run(root, "--changed")
    assert status == 1 and {line for line, _ in verdicts(output)} == {2}, output
    assert run(root, "src/base/limit.cc", "--time-s", "0")[0] == 1, "the rest is not judged"
    # What does not build without a fault is said, not counted.
    path.write_text(path.read_text() + "nonsense\n")
    status, output = run(root, "--changed", "--lines", "1")
    assert status == 1 and "does not build" in output or "0 faults" in output, output


def check_sample():
    """At least so many of each room, the rest by size, the same for the same seed; the next of the
    room for an invalid one."""
    rooms = ["base", "graph", "reference"]
    files = [
        f
        for room in rooms
        for f in [f for f in mutate.sources() if f.split("/")[1] == room and f.endswith(".cc")][
            : 16 if room == "reference" else 2
        ]
    ]
    mutate.sources, real = lambda: files, mutate.sources
    draw = lambda seed: [str(f) for f in mutate.Sample(40, 5, seed).faults()]
    assert draw(7) == draw(7) != draw(8)
    sample = mutate.Sample(40, 5, 7)
    faults = sample.faults()
    counts = [sum(f.room == room for f in faults) for room in rooms]
    assert sum(counts) in (40, 41) and min(counts) >= 5 and counts[2] > counts[1], counts
    further = sample.faults({faults[-1].id})
    assert (
        len(further) == len(faults) + 1
        and set(faults) < set(further)
        and further[-1].room == "reference"
    )
    mutate.sources = real
    assert not [f for f in mutate.sources() if "neon" in f], "no test on x86-64 runs them"
    wanted = re.findall(r"^([a-z]+):", (ROOT / "src/rooms.txt").read_text(), re.MULTILINE)
    assert {f.split("/")[1] for f in mutate.sources() if f.startswith("src/")} == set(wanted)


def check_equivalents():
    """What tests/mutants_equivalent.txt speaks of is still there."""
    for path, text, _, _ in mutate.equivalents():
        source = ROOT / path
        assert source.exists() and text in source.read_text(), f"{path} has no line {text!r}"


def main():
    check_rules()
    check_equivalents()
    check_sample()
    if not shutil.which("cmake"):
        print("skipped: no cmake")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        check_runs(pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
