#!/usr/bin/env python3
"""pytest over the Python package as the build folder has it (-DEVOQ_PYTHON=ON).

Skips (exit status 77) where the package was not built or pytest, numpy, onnx or ml_dtypes from PyPI
is missing. Arguments go to pytest: package_test.py -k threads
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(
    os.path.dirname(os.path.dirname(HERE)), os.environ.get("EVOQ_BUILD", "build/release"), "python"
)
sys.path.insert(0, PACKAGE)
try:
    import ml_dtypes  # noqa: F401
    import onnx  # noqa: F401
    import pytest

    import evoq
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

if __name__ == "__main__":
    sys.path.insert(0, HERE)
    print(f"evoq {evoq.__version__} of {os.path.dirname(evoq.__file__)}")
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", HERE, HERE, *sys.argv[1:]]))
