#!/usr/bin/env python3
"""Holds the pages to the tree and the program: what README, docs and the public headers name is
there. Links and their headings, files and folders, test and benchmark programs, tests by name,
verbs, and the options of the commands that are shown. Skips (exit status 77) outside of a git
checkout."""

import re
import shlex
import subprocess
import sys

import agree
from agree import ROOT


# Where a path in a page may begin: at the top, in src (kernels/kernel.h), in a room (rules.inc).
FILE = re.compile(
    r"(?<![\w./<$~-])((?:[\w.-]+/)*[\w-]+\.(?:h|cc|c|inc|py|sh|md|fbs|tsv|txt|inl\.h))"
    r"(?![\w/-]|\.\w)"
)
FOLDER = re.compile(
    r"(?<![\w./-])((?:src|docs|tests|bench|tools|include|examples|python|cmake)/[\w./-]*\w)"
    r"(?![\w*-])"
)
# Names that stand for any (NAME, ROOM, the end of a name), for the reader's own files, and for
# those of another project. Never a page.
OWN = re.compile(
    r"(?!.*\.md$)(.*[/_]|)(NAME|ROOM|FAMILY|ISA)([._/]|$)|_\w+\.cc$|(images/)?labels\.tsv$"
    r"|test\.txt$"
    r"|src/passes/(my_pass\.cc|golden/my-pass\.txt)$|(a/b/)?c\.txt$|llama2\.c$|(gpt2_)?merges\.txt$"
)
PROGRAMS = ("_test", "_bench")  # whose file is made by the build
PROGRAM = re.compile(r"\bevoq_(\w+)_(test|bench)\b")
TEST = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")


def pages():
    names = ["README.md", "CONTRIBUTING.md", *sorted(map(str, ROOT.glob("docs/*.md")))]
    headers = [*ROOT.glob("include/evoq/*.h"), *ROOT.glob("src/**/*.h"), *ROOT.glob("src/**/*.cc")]
    return [ROOT / name for name in names] + sorted([*headers, *ROOT.glob("python/evoq/*.py")])


def anchor(heading):
    """The name by which GitHub's pages call a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", ""))
    return kept.replace(" ", "-")


def headings(text):
    return {anchor(line.lstrip("#")) for line in re.findall(r"^#+ .*$", text, re.MULTILINE)}


def broken_links(page, text):
    errors = []
    for target in re.findall(r"\[[^\]\n]*\]\(([^)\s]+)\)", text):
        if re.match(r"https?:", target):
            continue
        path, _, place = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists():
            errors.append(f"links to {target}, which is not there")
        elif place and place not in headings(file.read_text(encoding="utf-8")):
            errors.append(f"links to {target}: no such heading")
    return errors


class Tree:
    """What is in the tree, by the ways in which pages call it."""

    def __init__(self):
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        self.files = [f for f in listed.stdout.splitlines() if (ROOT / f).exists()]
        self.ends = set()  # every path, from each of its folders on
        self.folders = set()
        for name in self.files:
            parts = name.split("/")
            self.ends.update("/".join(parts[i:]) for i in range(len(parts)))
            self.folders.update("/".join(parts[:i]) for i in range(1, len(parts)))
        sources = [f for f in self.files if f.startswith(("src/", "tests/", "bench/"))]
        self.tests, self.programs = set(), set()
        for name in sources:
            if match := re.match(r"src/(\w+)/.*_(test|bench)\.cc$", name):
                self.programs.add(match.groups())
            text = (ROOT / name).read_text(encoding="utf-8") if name.endswith(".cc") else ""
            self.tests.update(re.findall(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", text, re.M))
            if name.endswith("CMakeLists.txt"):
                text = (ROOT / name).read_text(encoding="utf-8")
                self.programs.update((n, "test") for n in re.findall(r"evoq_add_test\((\w+)", text))
                self.programs.update(re.findall(r"evoq_(\w+)_(test|bench)\b", text))
        self.suites = {suite for suite, _ in self.tests}

    def missing(self, text, strict=False):
        """`strict`: all that reads like a test's name is one."""
        errors = []
        for name in set(FILE.findall(text)):
            if OWN.match(name) or name in self.ends:
                continue
            errors.append(f"names {name}, which is not there")
        for name in set(FOLDER.findall(text)):
            name = name.rstrip(".")
            known = name in self.ends or name in self.folders or name.endswith(PROGRAMS)
            if not known and not FILE.fullmatch(name) and not OWN.match(name):
                errors.append(f"names {name}, which is not there")
        for program in set(PROGRAM.findall(text)):
            if program[0] != "ROOM" and program not in self.programs:
                errors.append(f"names evoq_{program[0]}_{program[1]}, which no file makes")
        for suite, case in set(TEST.findall(text)):
            if (strict or suite in self.suites) and (suite, case) not in self.tests:
                errors.append(f"names the test {suite}.{case}, which is not there")
        return errors


class Program:
    """The verbs and their options, by the program's help."""

    def __init__(self):
        self.options = {}

    def verbs(self):
        if not self.options:
            for verb in agree.verbs():
                text = agree.evoq(verb, "--help")
                known = re.findall(r"(?<![\w-])(--[\w-]+|-\w)(?![\w-])", text)
                self.options[verb] = set(known)
        return self.options

    def missing(self, text):
        """Of commands in code: 'evoq VERB ... --option'."""
        errors = []
        for command in commands(text):
            try:
                words = shlex.split(command, comments=True)
            except ValueError:
                words = command.split()
            verb = words[1] if len(words) > 1 else ""
            if not re.fullmatch(r"[a-z_]+", verb):
                continue
            if verb not in self.verbs():
                errors.append(f"'{command}': no verb {verb}")
                continue
            for word in words[2:]:
                option = re.match(r"\[?(--[a-z][\w-]*|-[a-z])(?=$|[=\]])", word, re.IGNORECASE)
                if option and option[1] not in self.verbs()[verb]:
                    errors.append(f"'{command}': {verb} has no option {option[1]}")
        return errors


def commands(text):
    """What stands as a command of evoq: `evoq ...`, and lines of code that begin with it."""
    found = [re.sub(r"\s+", " ", c) for c in re.findall(r"`(evoq [^`]*)`", text)]
    for line in re.findall(r"^ {4,}(?:\$ )?(evoq .*)$", text, re.MULTILINE):
        found.append(re.split(r" {2,}|\s\|", line)[0])
    return [c for c in found if not re.match(r"evoq (on|is|makes)\b", c)]


def makes(text):
    """Targets of `make TARGET...`, alone or at the beginning of a line of code."""
    found = re.findall(
        r"`make ([a-z][a-z -]*)`|^ {4,}make ((?:[a-z][a-z-]* ?)+)", text, re.MULTILINE
    )
    return {word for pair in found for word in " ".join(pair).split()}


def functions(text):
    """Names of the Python package: evoq.quantize(...)."""
    return set(re.findall(r"(?<![\w./:`])`?evoq\.([a-z]\w*)\(", text))


def options(text):
    """Options that stand alone: `--tune`."""
    return set(re.findall(r"`(--[a-z][a-z-]*)(?:[ =][^`]*)?`", text))


def check_readers(tree, program):
    """What is wrong is found, and nothing else."""
    readme = ROOT / "README.md"
    assert broken_links(readme, "[a](docs/none.md) [b](docs/etm.md#none) [c](docs/etm.md)") == [
        "links to docs/none.md, which is not there",
        "links to docs/etm.md#none: no such heading",
    ]
    wrong = "src/base/nothing.h evoq_nothing_bench RoundTrip `tests/none`"
    assert len(tree.missing(wrong)) == 3, tree.missing(wrong)
    assert tree.missing("`src/base/result.h` base/result.h evoq_base_test src/base") == []
    for gone in ("CLI.md", "READMY.md", "src/base/ABC_gone.cc", "src/passes/my_gone.cc", "NAME.md"):
        assert len(tree.missing(gone)) == 1, gone
    assert tree.missing("src/ops/NAME.cc src/ROOM NAME_each.cc dwconv_ISA.cc _avx2.cc") == []
    suite, case = min(tree.tests)
    assert tree.missing(f"`{suite}.{case}`") == []
    assert len(tree.missing(f"`{suite}.{case}Not`")) == 1
    assert len(tree.missing("`NoSuite.NoCase`", strict=True)) == 1
    assert makes("`make a b` make c\n    make d   # e\n") == {"a", "b", "d"}
    assert functions("`evoq.load(x)` evoq.run(evoq::f.g(1))") == {"load", "run"}
    assert program.missing("`evoq quantize m.onnx --calib d -o m.etm`") == []
    assert program.missing("    evoq bench m --tune      # --no-such\n") == []
    assert len(program.missing("`evoq bench m --calib d` `evoq calibrates m`")) == 2


def main():
    if not (ROOT / ".git").exists():
        print("skipped: no git checkout")
        return 77
    tree, program = Tree(), Program()
    check_readers(tree, program)
    # Options of other programs that the pages name.
    others = "\n".join(
        (ROOT / f).read_text(encoding="utf-8")
        for f in tree.files
        if re.match(r"(bench|tools|tests)/.*\.(py|sh|cc)$", f)
    )
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    package = "\n".join(f.read_text(encoding="utf-8") for f in ROOT.glob("python/evoq/*.py"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = 0
    errors = [
        f"README.md: docs/{f.name} is not named"
        for f in sorted(ROOT.glob("docs/*.md"))
        if f.name not in readme
    ]
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if page.suffix in (".h", ".cc"):
            text = "\n".join(re.findall(r"(?://|^ ?\*|/\*)(.*)$", text, re.MULTILINE))
        shown += len(commands(text))
        known = set().union(*program.verbs().values())
        strange = [
            f"names {option}, which neither evoq nor a tool of the tree has"
            for option in sorted(options(text))
            if option not in known and f'"{option}"' not in others and f"{option})" not in others
        ]
        strange += [f"names make {name}, which is none" for name in makes(text) - targets]
        strange += [
            f"names evoq.{name}(), which the package lacks"
            for name in functions(text)
            if page.suffix == ".md" and not re.search(rf"\b{name}\b", package)
        ]
        for error in (
            broken_links(page, text)
            + tree.missing(text, page.name == "testing.md")
            + program.missing(text)
            + strange
        ):
            errors.append(f"{page.relative_to(ROOT)}: {error}")
    for error in errors:
        print(error)
    counts = f"{shown} commands, {len(program.verbs())} verbs, {len(errors)} errors"
    print(f"{len(pages())} pages and sources, {counts}")
    return 1 if errors or shown < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
