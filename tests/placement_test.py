#!/usr/bin/env python3
"""What `evoq quantize --target` writes has no fault that `evoq explain --target` knows; of files
with faults (bench/faults.py), the forecast for ONNX Runtime equals its profile, and --fix
--accept-changes keeps the outputs and leaves nothing to repair.

Builds with sanitizers, which are ten times as slow, take a part of it: the cases of each rule run
under them in src/foreign/forecasts/placement_test.cc. Skips (exit status 77) where numpy, onnx or
onnxruntime from PyPI is missing.
"""

import os
import sys
import tempfile

import agree

sys.path.insert(0, str(agree.ROOT / "bench"))
try:
    import faults
    import forecast
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RUNTIMES = {"ort": "ort-cpu", "tensorrt": "tensorrt", "openvino": "openvino"}
NETWORKS = {"lenet": RUNTIMES, "mobilenetv2": RUNTIMES, "resnet18": RUNTIMES}
FAULTS = faults.FAULTS
if agree.SANITIZED:
    NETWORKS = {"lenet": RUNTIMES, "mobilenetv2": ["ort"]}
    FAULTS = [faults.shortcut_in_float, faults.conv_only]
# The largest difference of outputs that a repair may make, as a share of the largest output. Random
# weights and data: rounding once more where nothing was rounded shows fully.
TOLERANCE = 0.25


def main():
    failures = []

    def check(holds, what):
        print(("ok      " if holds else "FAILED  ") + what, flush=True)
        if not holds:
            failures.append(what)

    with tempfile.TemporaryDirectory() as folder:
        for network, targets in NETWORKS.items():
            source = os.path.join(folder, network + ".onnx")
            forecast.evoq("zoo", network, "-o", source)
            for target in targets:
                quantized = os.path.join(folder, f"{network}.{target}.onnx")
                forecast.evoq(
                    "quantize",
                    source,
                    "-o",
                    quantized,
                    "--scheme",
                    "int8",
                    "--target",
                    target,
                    "--calib-random",
                    1,
                )
                told = forecast.forecast(quantized, folder, target=RUNTIMES[target])
                found = [f["code"] for f in told["findings"] if f["code"] != "no-integer-kernel"]
                check(
                    not found and told["fates"]["integer"] > 0,
                    f"{network} for {target}: {told['fates']} {found}",
                )
        good, fixed = (
            os.path.join(folder, "mobilenetv2.ort.onnx"),
            os.path.join(folder, "fixed.onnx"),
        )
        for fault in FAULTS:
            planted = os.path.join(folder, "planted.onnx")
            if not faults.plant(fault, good, planted):
                continue
            told = forecast.forecast(planted, folder, fixed)
            count, _, wrong = forecast.compare(told, forecast.executed(planted, folder))
            check(
                not wrong and count[True][0] + count[False][0] > 50,
                f"{fault.__name__}: forecast as executed {wrong[:2]}",
            )
            left = sum(f["repairable"] for f in told["fixed"]["findings"])
            more = told["fixed"]["fates"]["integer"] >= told["fates"]["integer"]
            differs = forecast.difference(forecast.session(planted), forecast.session(fixed))
            repaired = ", ".join(r["code"] for r in told["repairs"])
            check(
                told["repairs"] and not left and more and differs <= TOLERANCE,
                f"{fault.__name__}: {repaired}, differs by {differs:.4f}, {left} left",
            )
            _, _, wrong = forecast.compare(told["fixed"], forecast.executed(fixed, folder))
            check(not wrong, f"{fault.__name__}, repaired: forecast as executed {wrong[:2]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
