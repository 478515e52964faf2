#!/usr/bin/env python3
"""Writes the ONNX files that the benchmarks compare.

    bench/generate.py blocks|forms|gemm|chains -o DIR [--only REGEX] [--list] [--check]

blocks: the small blocks, each as float32, QDQ u8s8, QDQ s8s8 and some dynamic:
        NAME_{fp32,qdq_u8s8,qdq_s8s8,dynamic_s8}.onnx.
forms:  ResNet-50 and MobileNetV2 (batch free, "N") in every form of int8: NET_FORM.onnx.
gemm:   matrix products as MatMul, MatMulInteger and MatMul between Q/DQ:
        MxKxN_{f32,u8s8,u8s8u8}.onnx.
chains: 1000 tiny operators behind each other: what dispatch costs.
Opset 17, seeded random weights (He), activations of scale 0.05: for speed and for comparing
outputs, not for accuracy. --check loads each file in ONNX Runtime and runs it once. Needs onnx and
numpy from PyPI.
"""

import argparse
import os
import re
import sys

import numpy as np
import onnx

import blocks
import networks
import products

SETS = {
    "blocks": blocks.files,
    "forms": networks.files,
    "gemm": products.gemm_files,
    "chains": products.chain_files,
}


def check(path, name):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(1)
        feed = {}
        for i in session.get_inputs():
            x = rng.uniform(-1, 1, [d if isinstance(d, int) else 1 for d in i.shape])
            feed[i.name] = (
                x.astype(np.float32)
                if i.type == "tensor(float)"
                else (x * 100 + 128).clip(0, 255).astype(np.uint8)
            )
        outputs = session.run(None, feed)
    except Exception as e:  # the runtime's own classes: any of them is a refusal
        known = name in networks.REFUSED_BY_ONNXRUNTIME
        return known, ("refused by ONNX Runtime, as known: " if known else "REFUSED: ") + str(
            e
        ).splitlines()[0][:160]
    return bool(
        np.isfinite(outputs[0]).all() and outputs[0].std() > 0
    ), f"runs; output deviation {outputs[0].std():.3f}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=SETS)
    parser.add_argument("-o", "--out", default=".")
    parser.add_argument("--only", default="", help="names that match this regular expression")
    parser.add_argument("--list", action="store_true", help="print names and write nothing")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    bad = 0
    os.makedirs(args.out, exist_ok=True)
    for name, make in SETS[args.set]():
        if not re.search(args.only, name):
            continue
        if args.list:
            print(name)
            continue
        path = os.path.join(args.out, name + ".onnx")
        onnx.save(make(), path)
        ok, text = check(path, name) if args.check else (True, "written")
        bad += not ok
        print(f"{name:44} {text}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
