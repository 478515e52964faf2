#!/usr/bin/env python3
"""Which lines of the readers no input of a fuzzer's corpus reaches.

    tests/fuzz/coverage.py NAME [--build DIR] [--corpus DIR ...] [--sources GLOB]

Builds the fuzzer with clang's line coverage in build/coverage, runs it once over
tests/fuzz/corpus/NAME, over what the runs of run.sh found in DIR (build/release and
build/asan-ubsan unless given), and over inputs of its own for five seconds; prints the share of
lines reached of each source, then the lines that none reached. Needs llvm-cov-19 and
llvm-profdata-19 (package llvm-19).
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = {"data": "src/data/*.cc", "etm": "src/program/*.cc", "onnx": "src/onnx/*.cc"}
FLAGS = "-fprofile-instr-generate -fcoverage-mapping"


def build(name, folder):
    subprocess.run(
        [
            "cmake",
            "-S",
            ROOT,
            "-B",
            folder,
            "-G",
            "Ninja",
            "-DCMAKE_CXX_COMPILER=clang++-19",
            "-DCMAKE_BUILD_TYPE=Debug",
            "-DEVOQ_TESTS=OFF",
            "-DEVOQ_FUZZ=ON",
            f"-DCMAKE_CXX_FLAGS=-O1 {FLAGS}",
            f"-DCMAKE_EXE_LINKER_FLAGS={FLAGS}",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        ["cmake", "--build", folder, "--target", f"fuzz_{name}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder / f"tests/fuzz/fuzz_{name}"


def reached(program, corpora, sources):
    """{source: {line: times}} of one run over the corpora and five seconds of inputs made from
    them."""
    with tempfile.TemporaryDirectory() as folder:
        new = pathlib.Path(folder) / "new"
        new.mkdir()
        profile = pathlib.Path(folder) / "profile"
        done = subprocess.run(
            [program, "-max_total_time=5", "-keep_seed=1", "-max_len=16384", new, *corpora],
            capture_output=True,
            text=True,
            cwd=folder,
            env={"LLVM_PROFILE_FILE": str(profile), "PATH": "/usr/bin:/bin"},
        )
        if done.returncode != 0:
            sys.exit(done.stderr[-2000:])
        subprocess.run(
            ["llvm-profdata-19", "merge", "-sparse", profile, "-o", f"{profile}.data"], check=True
        )
        lcov = subprocess.run(
            [
                "llvm-cov-19",
                "export",
                "-format=lcov",
                f"-instr-profile={profile}.data",
                program,
                *sources,
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    lines, source = {}, None
    for line in lcov.splitlines():
        if line.startswith("SF:"):
            source = lines.setdefault(line[3:], {})
        elif line.startswith("DA:"):
            number, times = line[3:].split(",")[:2]
            source[int(number)] = int(times)
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/coverage")
    parser.add_argument(
        "--corpus",
        type=pathlib.Path,
        nargs="*",
        default=[ROOT / "build/release", ROOT / "build/asan-ubsan"],
    )
    parser.add_argument("--sources", help="what is measured, from the source folder on")
    args = parser.parse_args()
    if not shutil.which("llvm-cov-19"):
        sys.exit("coverage.py: llvm-cov-19 is not installed (package llvm-19)")
    pattern = args.sources or SOURCES.get(args.name)
    if not pattern:
        sys.exit(f"coverage.py: --sources says what is measured for {args.name}")
    sources = [
        p for p in sorted(ROOT.glob(pattern)) if not p.name.endswith(("_test.cc", "_bench.cc"))
    ]
    corpora = [ROOT / "tests/fuzz/corpus" / args.name] + [
        folder / "fuzz" / args.name / part for folder in args.corpus for part in ("start", "found")
    ]
    lines = reached(build(args.name, args.build), [c for c in corpora if c.is_dir()], sources)
    total = hit = 0
    for source, counts in sorted(lines.items()):
        missed = sum(times == 0 for times in counts.values())
        total, hit = total + len(counts), hit + len(counts) - missed
        name = pathlib.Path(source).relative_to(ROOT)
        print(f"{name}: {len(counts) - missed} of {len(counts)} lines")
    print(f"{hit} of {total} lines of {len(lines)} sources, {100 * hit / max(total, 1):.1f}%")
    for source, counts in sorted(lines.items()):
        text = pathlib.Path(source).read_text().splitlines()
        for number, times in sorted(counts.items()):
            if times == 0:
                print(
                    f"{pathlib.Path(source).relative_to(ROOT)}:{number}: {text[number - 1].strip()}"
                )


if __name__ == "__main__":
    main()
