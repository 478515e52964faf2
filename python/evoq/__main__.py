"""The command `evoq`, as the C++ build makes it."""

import sys

from ._evoq import main as run


def main() -> int:
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
