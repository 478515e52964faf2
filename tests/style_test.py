#!/usr/bin/env python3
"""Holds the tree to its form: C++ is as clang-format 19 writes it, Python as ruff writes it, and no
line that people write is longer than 100 columns.

Exempt from the columns: tables and code blocks of Markdown, lines with a long address, and inside
raw strings of C++ the text of graphs, which has one node a line, and tables. Skips (exit status 77)
outside of a git checkout and where clang-format-19 is missing.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

from agree import ROOT

COLUMNS = 100
CHUNK = 40  # files for one run of clang-format

# Which files people write. Data has other endings, or stands in a folder of DATA.
WRITTEN = re.compile(
    r"\.(cc|h|inc|fbs|py|pyi|sh|cmake|md|toml|html)$|(^|/)CMakeLists\.txt$|^src/rooms\.txt$"
    r"|(^|/)README(\.\w+)?$|^\.ci/|^Makefile$"
)
DATA = re.compile(r"^tests/(fuzz/corpus|must_fail|golden|craft)/.*(?<!\.py)(?<!\.cc)(?<!\.h)$")
# A line of a graph's text: `name: %y: uint8[N, 4] = Conv{...}(%x)`.
GRAPH_LINE = re.compile(r"^ *(?:[\w.{}]+: )?%[^=]* = |^ *(?:input|const|output) %")
RAW_STRING = re.compile(r'R"([^()\s]*)\(.*?\)\1"', re.DOTALL)
ADDRESS = re.compile(r"https?://\S{60,}")


def long_lines(name, text):
    """The errors of one file."""
    if max(map(len, text.split("\n"))) <= COLUMNS:
        return []
    free = set()  # numbers of lines that may be longer
    lines = text.split("\n")
    if name.endswith(".md"):
        inside = False
        for number, line in enumerate(lines, 1):
            fence = re.match(r"\s*(```|~~~)", line)
            code = inside or fence or re.match(r" {4}|\t", line)
            if code or line.lstrip().startswith("|"):
                free.add(number)
            inside = inside != bool(fence)
    if re.search(r"\.(cc|h)$", name):
        for raw in RAW_STRING.finditer(text):
            first = text.count("\n", 0, raw.start()) + 1
            for number in range(first, first + raw.group().count("\n") + 1):
                line = lines[number - 1]
                if GRAPH_LINE.match(line) or line.startswith("|"):
                    free.add(number)
    return [
        f"{name}:{number}: {len(line)} columns, expected at most {COLUMNS}"
        for number, line in enumerate(lines, 1)
        if len(line) > COLUMNS and number not in free and not ADDRESS.search(line)
    ]


def check_long_lines():
    """What may be long is told from what may not."""
    x = "x" * 101
    graph = f"c: %y: uint8[N] = Conv{{name={x}}}(%x)"
    for name, text, wrong in [
        ("a.py", f"# {x[:98]}\n", []),
        ("a.py", f"\n# {x}\n", [2]),
        ("a.py", "# " + "\u00e4" * 98 + "\n", []),  # columns, not bytes
        ("a.py", f"# https://{x}\n", []),
        ("a.md", f"{x}\n", [1]),
        ("a.md", f"| {x} |\n\n    {x}\n\n```\n{x}\n```\n{x}\n", [8]),
        ("a.cc", f'const char* k = R"(a\n{graph}\n{x})";\n// {x}\n', [3, 4]),
        ("a.cc", f"// {graph}\n", [1]),
    ]:
        got = [int(error.split(":")[1]) for error in long_lines(name, text)]
        assert got == wrong, f"{name} {text!r}: lines {got}, expected {wrong}"


def formatted_cc(files):
    """The errors of these C++ files."""
    done = subprocess.run(
        ["clang-format-19", "--dry-run", "-Werror", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^(\S+?:\d+):\d+: error: .*$", done.stderr, re.MULTILINE)
    errors = [
        f"{place}: another form, expected that of clang-format-19 -i"
        for place in dict.fromkeys(found)
    ]
    return errors if errors or done.returncode == 0 else [f"clang-format-19: {done.stderr}"]


def formatted_py(files):
    """The errors of these Python files."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--no-cache", "--diff", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    # number: of the next line; None behind a hunk's first fault
    errors, name, number = [], "", None
    for line in done.stdout.splitlines():
        if line.startswith("--- "):
            name, number = line[4:], None
        elif hunk := re.match(r"@@ -(\d+)", line):
            number = int(hunk[1])
        elif number is not None and line[:1] in "+-":
            errors.append(f"{name}:{number}: another form, expected that of ruff format")
            number = None
        elif number is not None:
            number += 1
    return errors if errors or done.returncode == 0 else [f"ruff: {done.stderr}"]


def main():
    check_long_lines()
    git = ["git", "ls-files", "-z"]
    listed = shutil.which("git") and subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
    if not listed or listed.returncode != 0:
        print("skipped: not in a git checkout, so which files are meant is not known")
        return 77
    files = [f for f in listed.stdout.split("\0") if f and (ROOT / f).is_file()]
    written = [f for f in files if WRITTEN.search(f) and not DATA.search(f)]
    cc = [f for f in files if re.search(r"\.(cc|h)$", f)]
    py = [f for f in files if f.endswith(".py")]
    errors = []
    for name in written:
        errors += long_lines(name, (ROOT / name).read_text(encoding="utf-8"))
    ruff = subprocess.run([sys.executable, "-m", "ruff", "--version"], capture_output=True)
    if ruff.returncode == 0:
        errors += formatted_py(py)
    else:
        print("Python is not compared with ruff's form: no ruff here (pip install ruff)")
    clang = shutil.which("clang-format-19")
    if clang:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(
                formatted_cc, [cc[i : i + CHUNK] for i in range(0, len(cc), CHUNK)]
            ):
                errors += found
    for error in errors:
        print(error)
    print(f"{len(written)} files, {len(cc)} of C++, {len(py)} of Python, {len(errors)} errors")
    if errors or len(cc) < 100 or len(py) < 50:
        return 1
    if not clang:
        print("skipped: no clang-format-19 (tools/setup.sh --test installs it)")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
