#!/usr/bin/env python3
"""evoq_sgemm (include/evoq/gemm.h) beside the BLAS that numpy brings, OpenBLAS: GFLOP/s and ratios.

    build/venv/bin/python bench/gemm.py [--threads N] [--rounds N] [--library libevoq.so]

Both are called in turn, `--rounds` times; each figure is of the fastest round. The time of a call
from Python, about a microsecond, is in both."""

import argparse
import ctypes
import os
import pathlib
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--library", type=pathlib.Path)
arguments = parser.parse_args()
os.environ["OPENBLAS_NUM_THREADS"] = str(arguments.threads)

import numpy as np  # after its number of threads is set

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
ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE = 101, 111, 112


def load(path):
    library = ctypes.CDLL(str(path))
    size, pointer, real = ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
    operand = [pointer, size]
    library.evoq_sgemm.argtypes = [
        *[ctypes.c_int] * 3,
        *[size] * 3,
        *[real, *operand, *operand],
        *[real, *operand],
    ]
    return library


def measure(library, shape, transpose_a, transpose_b):
    m, n, k = shape
    random = np.random.default_rng(1)
    a = random.random((k, m) if transpose_a else (m, k), np.float32)
    b = random.random((n, k) if transpose_b else (k, n), np.float32)
    c = np.zeros((m, n), np.float32)

    def ours():
        library.evoq_sgemm(
            ROW_MAJOR,
            TRANSPOSE if transpose_a else NO_TRANSPOSE,
            TRANSPOSE if transpose_b else NO_TRANSPOSE,
            m,
            n,
            k,
            1,
            a.ctypes.data,
            a.shape[1],
            b.ctypes.data,
            b.shape[1],
            0,
            c.ctypes.data,
            n,
        )

    def theirs():
        np.matmul(a.T if transpose_a else a, b.T if transpose_b else b, out=c)

    ours()
    result = c.copy()
    theirs()
    assert np.allclose(result, c, rtol=1e-3), (shape, transpose_a, transpose_b)
    calls = 1 + int(3e7 / (m * n * k))
    best = [float("inf")] * 2
    for _ in range(arguments.rounds):
        for i, call in enumerate((ours, theirs)):
            start = time.perf_counter()
            for _ in range(calls):
                call()
            best[i] = min(best[i], (time.perf_counter() - start) / calls)
    return [2e-9 * m * n * k / seconds for seconds in best]


def main():
    library = load(arguments.library or ROOT / "build/release/include/libevoq.so")
    library.evoq_gemm_set_threads(arguments.threads)
    print(f"{'m n k':>16}  op(A) op(B)    evoq  OpenBLAS  ratio   ({arguments.threads} threads)")
    for shape in SHAPES:
        for transpose_a, transpose_b in ((False, False), (False, True), (True, False)):
            ours, theirs = measure(library, shape, transpose_a, transpose_b)
            operands = f"{'A^T' if transpose_a else 'A':5} {'B^T' if transpose_b else 'B':5}"
            sizes = " ".join(map(str, shape))
            print(f"{sizes:>16}  {operands} {ours:7.1f}   {theirs:7.1f}  {ours / theirs:5.2f}")


if __name__ == "__main__":
    main()
