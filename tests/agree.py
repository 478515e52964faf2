"""What the comparisons with ONNX Runtime share: where things are, evoq's runs and sessions. Tests
that lack what they need skip (exit status 77)."""

import importlib
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.environ.get("EVOQ_DATA", os.path.join(ROOT, "../shared/data"))
EVOQ = os.path.join(os.environ.get("EVOQ_BUILD", os.path.join(ROOT, "build/release")), "bin/evoq")


def need(*modules):
    """Skips where one of these packages from PyPI, or the data folder, is missing."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"skipped: {error}")
            sys.exit(77)
    if not os.path.isdir(DATA):
        print(f"skipped: no data folder {DATA} (set EVOQ_DATA)")
        sys.exit(77)


def evoq(*arguments):
    """Runs a verb; RuntimeError with its message where it fails."""
    done = subprocess.run([EVOQ, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"evoq {' '.join(arguments)}: {done.stderr.strip()}")


def session(path, exact=True):
    """ONNX Runtime on the CPU, one thread; `exact`: with exact_integers()."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if exact:
        exact_integers(options)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def exact_integers(options):
    """On x86 processors without VNNI, ONNX Runtime's products of uint8 by int8 saturate at 16 bits
    unless its sessions are told otherwise: what evoq's exact sums are compared with must not."""
    options.add_session_config_entry("session.x64quantprecision", "1")
