"""A tiny set of images in MNIST's files."""

import gzip
import struct

import numpy as np


def write_mnist(folder):
    """Bars across or along in noise, and which: 192 to train on, 64 to test; gzipped."""
    rng = np.random.default_rng(1)
    for name, count in (("train", 192), ("t10k", 64)):
        labels = rng.integers(0, 2, count).astype(np.uint8)
        images = rng.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        for image, label, at in zip(images, labels, rng.integers(4, 24, count)):
            (image if label else image.T)[at - 1 : at + 2] = 250
        head = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28)
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz", "wb") as file:
            file.write(head + images.tobytes())
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4BI", 0, 0, 8, 1, count) + labels.tobytes())
