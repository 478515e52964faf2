"""What the tests share: where things are, evoq's runs and verbs, the processor, sessions of ONNX
Runtime to compare with. Tests that lack what they need skip (exit status 77)."""

import importlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = os.environ.get("EVOQ_DATA", os.path.join(ROOT, "../shared/data"))
BUILD = pathlib.Path(os.environ.get("EVOQ_BUILD", ROOT / "build/release")).resolve()
EVOQ = str(BUILD / "bin/evoq")
SANITIZED = re.search("san", BUILD.name) is not None  # the presets with sanitizers


def need(*modules):
    """Skips where one of these packages from PyPI is missing."""
    for module in modules:
        try:
            missing = importlib.import_module(module).__file__ is None  # the folder tests/onnx
        except ImportError:
            missing = True
        if missing:
            print(f"skipped: no package {module}")
            sys.exit(77)


def need_data():
    """Skips without the data folder."""
    if not os.path.isdir(DATA):
        print(f"skipped: no data folder {DATA} (set EVOQ_DATA)")
        sys.exit(77)


def evoq(*arguments):
    """Runs a verb, what it prints; RuntimeError with its message where it fails."""
    done = subprocess.run([EVOQ, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"evoq {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def verbs():
    """The verbs' names, in the order of the program's help."""
    return re.findall(r"^  ([a-z_]+)  ", evoq("--help").split("Subcommands:")[1], re.MULTILINE)


def cpu_flags():
    """What the processor can do, by the names of /proc/cpuinfo; empty where there is none."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    found = re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)
    return set(found[1].split()) if found else set()


def session(path, exact=True):
    """ONNX Runtime on the CPU, one thread; `exact`: with exact_integers()."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if exact:
        exact_integers(options)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def own_weights(path):
    """The .onnx file with constants of their own for integer products that share their weights, as
    ONNX Runtime needs it with exact_integers(): where it is."""
    import onnx

    model = onnx.load(path)
    constants = {c.name: c for c in model.graph.initializer}
    for i, node in enumerate(model.graph.node):
        if node.op_type in ("ConvInteger", "MatMulInteger") and node.input[1] in constants:
            own = onnx.TensorProto()
            own.CopyFrom(constants[node.input[1]])
            own.name = node.input[1] = f"{node.input[1]}.{i}"
            model.graph.initializer.append(own)
    changed = f"{path}.own.onnx"
    onnx.save(model, changed)
    return changed


def exact_integers(options):
    """On x86 processors without VNNI, ONNX Runtime's products of uint8 by int8 saturate at 16 bits
    unless its sessions are told otherwise: what evoq's exact sums are compared with must not."""
    options.add_session_config_entry("session.x64quantprecision", "1")
