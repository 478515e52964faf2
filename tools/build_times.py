#!/usr/bin/env python3
"""Says what a build spent its time on: the folders of the tree, then the slowest files.

    cmake --preset release -B build/cold
    CCACHE_DISABLE=1 cmake --build build/cold --target evoq
    tools/build_times.py build/cold [--top N]

Reads what ninja wrote of the last time that it made each file: seconds from start to end, so build
on an otherwise idle machine, with as many jobs as it has cores."""

import argparse
import collections
import pathlib
import re

SOURCE = re.compile(r"\.dir/(.+\.cc)\.o$")


def read_log(text):
    """{what was made: seconds}: a source for its object file, else the file itself. A source that
    several targets compile counts for each."""
    last = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 5:
            last[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    seconds = collections.Counter()
    for made, spent in last.items():
        source = SOURCE.search(made)
        seconds[source[1] if source else made] += spent
    return seconds


def folder(made):
    """src/ROOM, tests of rooms apart; "links" for what is not compiled."""
    if not made.endswith(".cc"):
        return "links"
    parts = made.split("/")
    name = "/".join(parts[:2])
    return f"{name} tests" if made.endswith("_test.cc") and parts[0] == "src" else name


def report(seconds, top):
    folders = collections.Counter()
    for made, spent in seconds.items():
        folders[folder(made)] += spent
    lines = [f"{sum(seconds.values()):8.1f} s in {len(seconds)} files"]
    lines += [f"{spent:8.1f} s {name}" for name, spent in folders.most_common()]
    lines += ["", f"the slowest {min(top, len(seconds))}:"]
    lines += [f"{spent:8.1f} s {made}" for made, spent in seconds.most_common(top)]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="a build folder that ninja has built")
    parser.add_argument("--top", type=int, default=15, help="files to list (default: 15)")
    arguments = parser.parse_args()
    log = arguments.build / ".ninja_log"
    if not log.is_file():
        parser.error(f"{log}: not found, expected a folder that ninja has built")
    print(report(read_log(log.read_text()), arguments.top))


if __name__ == "__main__":
    main()
