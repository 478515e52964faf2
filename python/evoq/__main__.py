"""The command `evoq`, as the C++ build makes it."""

import pathlib
import sys

from ._evoq import main as run


def main() -> int:
    return run(sys.argv[1:])


def program() -> int:
    """The verb that the script is called by: `graph_opt`, `atc`, `benchmark`, `perf_compare`."""
    return run([pathlib.Path(sys.argv[0]).stem, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
