#!/usr/bin/env python3
"""Top-1 of float32 and int8, and the file's size, for the classifiers of a data folder.

    bench/accuracy.py --data DIR [--evoq build/release/bin/evoq] [--scheme int8]
                      [--quantize-option=...]

DIR holds models/, quantized/, images/, cifar10/, mnist/. Calibration takes 100 images (every fifth
of the 500, and training samples of CIFAR-10 and MNIST); accuracy is measured on the others: no
image is used for both.
"""

import argparse
import os
import tempfile

from runners import run_evoq

IMAGES = ["mobilenetv2", "squeezenet1.1", "tiny_darknet"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evoq", default="build/release/bin/evoq")
    parser.add_argument("--data", required=True)
    parser.add_argument("--scheme", default="int8")
    parser.add_argument("--quantize-option", action="append", default=[])
    args = parser.parse_args()
    data = os.path.abspath(args.data)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        calib, score = os.path.join(folder, "calib"), os.path.join(folder, "score")
        os.mkdir(calib), os.mkdir(score)
        images = sorted(os.listdir(f"{data}/images/imagenet"))
        for i, name in enumerate(images):
            os.symlink(
                f"{data}/images/imagenet/{name}", os.path.join(calib if i % 5 == 0 else score, name)
            )
        jobs = [
            (
                m,
                f"{data}/models/{m}.onnx",
                calib,
                ["--data", score, "--labels", f"{data}/images/labels.tsv"],
            )
            for m in IMAGES
        ]
        jobs.append(
            (
                "resnet20_cifar10",
                f"{data}/models/resnet20_cifar10.onnx",
                f"{data}/cifar10/train_5000.bin",
                ["--data", f"{data}/cifar10/test_1000.bin"],
            )
        )
        jobs.append(
            (
                "mnist_cntk",
                f"{data}/models/mnist_cntk.onnx",
                f"{data}/mnist/train-images-idx3-ubyte.gz",
                [
                    "--data",
                    f"{data}/mnist/t10k-images-idx3-ubyte.gz",
                    "--labels",
                    f"{data}/mnist/t10k-labels-idx1-ubyte.gz",
                ],
            )
        )
        for name, model, calibration, scoring in jobs:
            preprocess = ["--preprocess", f"{data}/models/{name}.preprocess.json"]
            etm = os.path.join(folder, name + ".etm")
            q = run_evoq(
                [
                    args.evoq,
                    "quantize",
                    model,
                    "--scheme",
                    args.scheme,
                    "--calib",
                    calibration,
                    "--calib-limit",
                    "100",
                    "-o",
                    etm,
                ]
                + preprocess
                + args.quantize_option,
                out,
            )
            real = run_evoq([args.evoq, "eval", model] + scoring + preprocess, out)
            quantized = run_evoq(
                [args.evoq, "eval", etm, "--reference", model] + scoring + preprocess, out
            )
            rows.append(
                (
                    name,
                    real["samples"],
                    real["top1"],
                    quantized["top1"],
                    quantized["agreement"],
                    q["output_bytes"] / q["float_weight_bytes"],
                )
            )
            print(
                f"{name:18} {real['samples']:6} samples  float {real['top1']:.4f}  {args.scheme} "
                f"{quantized['top1']:.4f}  "
                f"({100 * (quantized['top1'] - real['top1']):+.2f} points)  agreement "
                f"{quantized['agreement']:.4f}  "
                f"file/weights {rows[-1][-1]:.4f}  signal/noise {quantized.get('sqnr_db', 0):.1f} "
                "dB",
                flush=True,
            )


if __name__ == "__main__":
    main()
