#!/usr/bin/env python3
"""Rejects an #include that src/rooms.txt does not allow: a room sees what its row names and what those rows imply."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read_rooms():
    direct = {}
    for line in (ROOT / "src/rooms.txt").read_text().splitlines():
        if match := re.match(r"^([a-z]+): *(.*)$", line):
            room, below = match.group(1), match.group(2).split()
            for other in below:
                if other not in direct:
                    sys.exit(f"src/rooms.txt: {room} names {other}, which does not stand above it")
            direct[room] = below
    allowed = {}
    for room, below in direct.items():  # in order: every room stands after those it names
        allowed[room] = {room}.union(*(allowed[other] for other in below))
    return allowed


def main():
    allowed = read_rooms()
    errors, includes = [], 0
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in {".h", ".cc", ".inc"}:
            continue
        room = path.relative_to(ROOT / "src").parts[0]
        if room not in allowed:
            errors.append(f"{path}: the folder is no room of src/rooms.txt")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include "([a-z]+)/', line)
            if not match or match.group(1) not in allowed:
                continue
            includes += 1
            if match.group(1) not in allowed[room]:
                errors.append(f"{path.relative_to(ROOT)}:{number}: room {room} may not include {match.group(1)}")
    for error in errors:
        print(error)
    print(f"{includes} includes between {len(allowed)} rooms, {len(errors)} not allowed")
    return 1 if errors or includes < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
