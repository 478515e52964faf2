#!/usr/bin/env python3
"""Benchmarks of several processors stand beside each other: a run replaces its own rows only, and
tables and bars are of one processor each."""

import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))

try:
    import peers
    import tables
except ModuleNotFoundError as e:
    print(f"skipped: no package {e.name}")
    sys.exit(77)


def row(cpu, threads, ns):
    return {
        "what": "chain",
        "threads": threads,
        "ms": {"evoq": ns / 1000},
        "ns_per_node": {"evoq": ns},
        "commit": "HEAD",
        "cpu": cpu,
    }


def main():
    with tempfile.TemporaryDirectory() as folder:
        for cpu, threads, ns in (
            ("one", 1, 50),
            ("two", 1, 300),
            ("one", 2, 60),
            ("one", 1, 70),
            ("two", 2, 80),
        ):
            machine = {"isa": cpu + "'s"}
            peers.store(folder, "system", ("what", "threads"), row(cpu, threads, ns), machine)
        with open(os.path.join(folder, "system.json")) as f:
            stored = json.load(f)
        assert {cpu: m["isa"] for cpu, m in stored["machines"].items()} == {
            "one": "one's",
            "two": "two's",
        }
        kept = [(r["cpu"], r["threads"], r["ns_per_node"]["evoq"]) for r in stored["rows"]]
        assert kept == [("one", 1, 70), ("two", 1, 300), ("one", 2, 60), ("two", 2, 80)], kept

        page = os.path.join(folder, "page.md")
        with open(page, "w") as f:
            f.write(
                "a\n<!-- bench:bars -->\n<!-- end -->\n"
                "b\n<!-- bench:system -->\nold\n<!-- end -->\nc\n"
            )
        tables.write(page, folder)
        with open(page) as f:
            text = f.read()
        bars, table = text.split("\nb\n")
        assert bars.index("**one**\n\n2 of 2 bars are met.") < bars.index(
            "**two**\n\n1 of 2 bars are met. Missed:"
        ), bars
        assert "old" not in table and table.endswith("\nc\n"), table
        one, two = table.split("**two**")
        assert "evoq 0.07 " in one and "evoq 0.06 " in one and "evoq 0.3 " not in one, one
        assert "evoq 0.3 " in two and "evoq 0.08 " in two, two
    return 0


if __name__ == "__main__":
    sys.exit(main())
