#!/usr/bin/env python3
"""evoq_sgemm and evoq_dgemm (include/evoq/gemm.h) beside the BLAS that numpy brings, OpenBLAS:
GFLOP/s and ratios.

    build/venv/bin/python bench/gemm.py [--type sgemm|dgemm] [--threads N] [--rounds N]
                                        [--library libevoq.so]

Both are called in turn, `--rounds` times, through the same C interface with arguments made before;
each figure is of the fastest round. What a call from Python takes by itself, measured with a
product of no rows, is taken off."""

import argparse
import ctypes
import functools
import glob
import os
import pathlib
import time

import numpy as np

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--type", choices=("sgemm", "dgemm"), default="sgemm")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--library", type=pathlib.Path)
arguments = parser.parse_args()

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = [  # m, n, k
    *[(s, s, s) for s in (32, 64, 128, 256, 512, 1024, 2048)],
    (1, 4096, 4096),
    (4, 1024, 1024),
    (8, 4096, 1024),
    (100, 1000, 300),
    (1000, 10, 1000),
    (3000, 64, 576),
    (49, 512, 4608),
    (128, 768, 768),
]
REAL = np.float32 if arguments.type == "sgemm" else np.float64
ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112


class Blas:
    """A library with the arguments of CBLAS."""

    def __init__(self, path, gemm, set_threads):
        library = ctypes.CDLL(str(path))
        self.gemm = getattr(library, gemm)
        self.gemm.restype = None
        getattr(library, set_threads)(arguments.threads)

    def call(self, m, n, k, a, b, c, transpose_a, transpose_b):
        """The product as a function without arguments."""
        size, real = ctypes.c_int64, ctypes.c_float if REAL == np.float32 else ctypes.c_double
        address = lambda x: ctypes.c_void_p(x.ctypes.data)
        flags = [TRANSPOSE if t else NO_TRANSPOSE for t in (transpose_a, transpose_b)]
        given = [ctypes.c_int(v) for v in (ROW_MAJOR, *flags)] + [size(v) for v in (m, n, k)]
        given += [real(1), address(a), size(a.shape[1]), address(b), size(b.shape[1])]
        given += [real(0), address(c), size(c.shape[1])]
        return functools.partial(self.gemm, *given)


def numpys_openblas():
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    found = glob.glob(os.path.join(folder, "libscipy_openblas64_*.so"))
    if not found:
        raise SystemExit(f"bench/gemm.py: no libscipy_openblas64_*.so in {folder}")
    return found[0]


def seconds(call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def measure(libraries, shape, transpose_a, transpose_b):
    m, n, k = shape
    random = np.random.default_rng(1)
    a = random.random((k, m) if transpose_a else (m, k), REAL)
    b = random.random((n, k) if transpose_b else (k, n), REAL)
    results = [np.zeros((m, n), REAL) for _ in libraries]
    rest = (n, k, a, b)
    calls = [
        [x.call(rows, *rest, c, transpose_a, transpose_b) for rows in (m, 0)]
        for x, c in zip(libraries, results)
    ]
    for product, _ in calls:
        product()
    assert np.allclose(*results, rtol=1e-3), (shape, transpose_a, transpose_b)
    count = 1 + int(3e7 / (m * n * k))
    best = [[float("inf")] * 2 for _ in libraries]
    for _ in range(arguments.rounds):
        for i, pair in enumerate(calls):
            for j, call in enumerate(pair):
                best[i][j] = min(best[i][j], seconds(call, count))
    return [2e-9 * m * n * k / (product - nothing) for product, nothing in best]


def main():
    path = arguments.library or ROOT / "build/release/include/libevoq.so"
    libraries = [
        Blas(path, f"evoq_{arguments.type}", "evoq_gemm_set_threads"),
        Blas(
            numpys_openblas(),
            f"scipy_cblas_{arguments.type}64_",
            "scipy_openblas_set_num_threads64_",
        ),
    ]
    print(f"{'m n k':>16}  op(A) op(B)    evoq  OpenBLAS  ratio   ({arguments.threads} threads)")
    for shape in SHAPES:
        for transpose_a, transpose_b in ((False, False), (False, True), (True, False)):
            ours, theirs = measure(libraries, shape, transpose_a, transpose_b)
            operands = f"{'A^T' if transpose_a else 'A':5} {'B^T' if transpose_b else 'B':5}"
            sizes = " ".join(map(str, shape))
            print(f"{sizes:>16}  {operands} {ours:7.1f}   {theirs:7.1f}  {ours / theirs:5.2f}")


if __name__ == "__main__":
    main()
