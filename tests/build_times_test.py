#!/usr/bin/env python3
"""tools/build_times.py on a log that is written here."""

import pathlib
import subprocess
import sys
import tempfile

from agree import ROOT

# start and end in milliseconds, a time stamp, what was made, a hash of the command
LOG = """# ninja log v5
0\t9000\t1\tCMakeFiles/evoq_cli.dir/src/cli/cli.cc.o\ta
0\t2000\t2\tCMakeFiles/evoq_cli.dir/src/cli/cli.cc.o\ta
2000\t2500\t3\tCMakeFiles/evoq_kernels_avx2.dir/src/kernels/x_each.cc.o\tb
2500\t3250\t4\tCMakeFiles/evoq_kernels_scalar.dir/src/kernels/x_each.cc.o\tc
3000\t4000\t5\tCMakeFiles/evoq_cli_test.dir/src/cli/common_test.cc.o\td
4000\t4100\t6\tlibevoq_cli.a\te
"""

EXPECTED = """     4.3 s in 4 files
     2.0 s src/cli
     1.2 s src/kernels
     1.0 s src/cli tests
     0.1 s links

the slowest 2:
     2.0 s src/cli/cli.cc
     1.2 s src/kernels/x_each.cc
"""


def build_times(*arguments):
    command = [sys.executable, ROOT / "tools/build_times.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        missing = build_times(folder)
        if missing.returncode != 2 or ".ninja_log: not found" not in missing.stderr:
            print(f"without a log: {missing}")
            wrong += 1
        (pathlib.Path(folder) / ".ninja_log").write_text(LOG)
        done = build_times(folder, "--top", "2")
        if done.returncode != 0 or done.stdout != EXPECTED:
            print(f"expected\n{EXPECTED}\ngot\n{done.stdout}{done.stderr}")
            wrong += 1
    print(f"{2 - wrong} passed, {wrong} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
