#!/usr/bin/env python3
"""Outputs of `evoq run` beside ONNX Runtime's on real models: within 1e-3 relative of the largest output.

Skips (exit status 77) where numpy or onnxruntime from PyPI, or the data folder, is missing.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnxruntime as ort
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.environ.get("EVOQ_DATA", os.path.join(ROOT, "../shared/data"))
EVOQ = os.path.join(os.environ.get("EVOQ_BUILD", os.path.join(ROOT, "build/release")), "bin/evoq")
# model, sizes of its symbols, range of the input, least share of equal classes for outputs of integers
CASES = [
    ("models/yolox_nano_bigisland.onnx", {}, (0, 255)),
    ("models/fastestdet.onnx", {}, (0, 1)),
    ("models/ultraface_version-slim-320_simplified.onnx", {}, (-1, 1)),
    ("models/yunet_n_dynamic.onnx", {"batch": 1, "height": 320, "width": 256}, (0, 255)),
    ("models/deeplabv3_mnv2_pascal.onnx", {"H": 257, "W": 321}, (-1, 1)),
    ("models/brainchop_model11_gw_ae.onnx", {"D": 48, "H": 40, "W": 56}, (0, 1)),
    ("models/squeezenet_fp16_winml.onnx", {}, (0, 255)),
    ("models/magika_standard_v3_3.onnx", {"unk__214": 2}, (0, 255)),
    ("models/resnet56_cifar10.onnx", {"N": 3}, (-2, 2)),
    ("models/resnet8_cifar10_mlperf.onnx", {}, (0, 255)),
]
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int32)": np.int32, "tensor(int64)": np.int64}


def compare(path, symbols, low, high, folder):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rng, feeds, arguments = np.random.default_rng(5), {}, []
    for i, info in enumerate(session.get_inputs()):
        shape = [d if isinstance(d, int) else symbols[d] for d in info.shape]
        values = rng.uniform(low, high, shape).astype(TYPES[info.type])
        feeds[info.name] = values
        np.save(f"{folder}/in{i}.npy", values)
        arguments += ["--input", f"{info.name}={folder}/in{i}.npy"]
    expected = session.run(None, feeds)
    done = subprocess.run([EVOQ, "run", path, "--output-dir", folder + "/out", "--json", folder + "/out.json"] + arguments,
                          capture_output=True, text=True)
    if done.returncode != 0:
        return f"evoq: {done.stderr.strip()}", 0
    import json
    with open(folder + "/out.json") as f:
        outputs = json.load(f)["outputs"]
    worst = 0.0
    for entry, want in zip(outputs, expected):
        got = np.load(entry["file"])
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{entry['name']}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}", 0
        if np.issubdtype(want.dtype, np.integer):
            equal = float((got == want).mean())
            if equal < 0.999:
                return f"{entry['name']}: {equal:.4f} of the integers are equal", 0
            continue
        scale = max(float(np.abs(want).max()), 1e-6)
        worst = max(worst, float(np.abs(got.astype(np.float64) - want).max()) / scale)
    return ("" if worst <= 1e-3 else f"differs by {worst:.2e} of the largest output"), worst


def main():
    if not os.path.isdir(DATA):
        print(f"skipped: no data folder {DATA} (set EVOQ_DATA)")
        return 77
    failures = 0
    for model, symbols, (low, high) in CASES:
        with tempfile.TemporaryDirectory() as folder:
            problem, worst = compare(os.path.join(DATA, model), symbols, low, high, folder)
        print(f"{os.path.basename(model):48} {problem or f'agrees, largest difference {worst:.1e} of the largest output'}", flush=True)
        failures += bool(problem)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
