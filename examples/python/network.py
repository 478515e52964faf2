"""Builds a network, trains it on MNIST's files and quantizes it:  network.py FOLDER OUT.onnx"""

import argparse
import pathlib

import evoq
from evoq import nn

PREPROCESS = '{"color": "GRAY", "scale": 0.00392156862745098, "mean": [0.1307], "std": [0.3081]}'


def small():
    block = nn.Residual(
        nn.Conv(16), nn.BatchNorm(), nn.Activation("relu"), nn.Conv(16), nn.BatchNorm()
    )
    return nn.Network(
        nn.Conv(16, size=5, stride=2),
        nn.BatchNorm(),
        nn.Activation("relu"),
        block,
        nn.Activation("relu"),
        nn.MaxPool(2),
        nn.Flatten(),
        nn.Linear(10),
        input=(1, 28, 28),
        name="small",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="a folder with MNIST's files")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=0, help="train on the first images only")
    args = parser.parse_args()
    preprocess = args.output.with_suffix(".mnist.json")
    preprocess.write_text(PREPROCESS, encoding="utf-8")
    report = evoq.train(
        small(),
        args.output,
        data=args.folder,
        preprocess=preprocess,
        epochs=args.epochs,
        limit=args.limit,
        lr=0.003,
    )
    print(report.text, end="")
    images = pathlib.Path(args.folder) / "train-images-idx3-ubyte.gz"
    etm = args.output.with_suffix(".etm")
    print(
        evoq.quantize(
            args.output,
            etm,
            calibration=images,
            calibration_limit=64,
            preprocess=args.output.with_suffix(".preprocess.json"),
        ).text,
        end="",
    )


if __name__ == "__main__":
    main()
