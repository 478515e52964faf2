#!/usr/bin/env python3
"""Trains the demo's network on drawn digits and writes digits.onnx.

    pip install numpy onnx
    python3 examples/digits/train.py --evoq build/release/bin/evoq -o examples/digits/digits.onnx

The digits are drawn by `evoq demo --draw-digits`. The network: convolution 3x3 (16), convolution
3x3 stride 2 (48), a residual block of a depthwise 3x3 and a pointwise convolution, convolution 3x3
stride 2 (96), global average pooling, dense (10). Plain numpy: Adam, cross entropy, no other
dependency; about five minutes on two cores.
"""

import argparse
import os
import subprocess
import tempfile

import numpy as np


def draw(evoq, count, seed):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [evoq, "demo", "--draw-digits", str(count), "--seed", str(seed), "-o", folder],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        images = np.load(os.path.join(folder, "images.npy"))
        labels = np.load(os.path.join(folder, "labels.npy"))
    return images.transpose(0, 2, 3, 1).copy(), labels  # N, H, W, C


def windows(x, stride):
    """3x3 windows of x with one pixel of padding: N, H', W', 3, 3, C."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return view[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)


def spread(d, shape, stride):
    """The gradient of `windows`."""
    n, h, w, c = shape
    out = np.zeros((n, h + 2, w + 2, c), np.float32)
    for i in range(3):
        for j in range(3):
            out[:, i : i + d.shape[1] * stride : stride, j : j + d.shape[2] * stride : stride] += d[
                :, :, :, i, j
            ]
    return out[:, 1:-1, 1:-1]


class Conv:
    def __init__(self, rng, cin, cout, stride):
        self.w = rng.normal(0, np.sqrt(2 / (9 * cin)), (9 * cin, cout)).astype(np.float32)
        self.b = np.zeros(cout, np.float32)
        self.stride = stride

    def forward(self, x):
        self.shape = x.shape
        patches = windows(x, self.stride)
        self.columns = np.ascontiguousarray(patches).reshape(-1, self.w.shape[0])
        return (self.columns @ self.w + self.b).reshape(*patches.shape[:3], -1)

    def backward(self, d):
        flat = d.reshape(-1, d.shape[-1])
        self.grads = [self.columns.T @ flat, flat.sum(0)]
        return spread((flat @ self.w.T).reshape(*d.shape[:3], 3, 3, -1), self.shape, self.stride)

    def onnx(self):
        cin = self.w.shape[0] // 9
        return self.w.reshape(3, 3, cin, -1).transpose(3, 2, 0, 1), dict(
            kernel_shape=[3, 3], strides=[self.stride] * 2, pads=[1, 1, 1, 1]
        )


class Depthwise:
    def __init__(self, rng, channels):
        self.w = rng.normal(0, np.sqrt(2 / 9), (3, 3, channels)).astype(np.float32)
        self.b = np.zeros(channels, np.float32)

    def forward(self, x):
        self.shape, self.patches = x.shape, windows(x, 1)
        return np.einsum("nhwijc,ijc->nhwc", self.patches, self.w, optimize=True) + self.b

    def backward(self, d):
        self.grads = [
            np.einsum("nhwijc,nhwc->ijc", self.patches, d, optimize=True),
            d.sum((0, 1, 2)),
        ]
        return spread(d[:, :, :, None, None, :] * self.w, self.shape, 1)

    def onnx(self):
        channels = self.w.shape[-1]
        return self.w.transpose(2, 0, 1)[:, None], dict(
            kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=channels
        )


class Dense:
    """On the last axis; as a convolution it is pointwise."""

    def __init__(self, rng, cin, cout):
        self.w = rng.normal(0, np.sqrt(2 / cin), (cin, cout)).astype(np.float32)
        self.b = np.zeros(cout, np.float32)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, d):
        flat, x = d.reshape(-1, d.shape[-1]), self.x.reshape(-1, self.x.shape[-1])
        self.grads = [x.T @ flat, flat.sum(0)]
        return d @ self.w.T

    def onnx(self):
        return self.w.T[:, :, None, None], dict(kernel_shape=[1, 1])


class Network:
    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.layers = [
            Conv(rng, 1, 16, 1),
            Conv(rng, 16, 48, 2),
            Depthwise(rng, 48),
            Dense(rng, 48, 48),
            Conv(rng, 48, 96, 2),
            Dense(rng, 96, 10),
        ]

    def forward(self, x):
        c1, c2, dw, pw, c3, fc = self.layers
        self.a1 = np.maximum(c1.forward(x), 0)
        self.a2 = np.maximum(c2.forward(self.a1), 0)
        self.a3 = np.maximum(dw.forward(self.a2), 0)
        self.a4 = np.maximum(pw.forward(self.a3) + self.a2, 0)
        self.a5 = np.maximum(c3.forward(self.a4), 0)
        return fc.forward(self.a5.mean((1, 2)))

    def backward(self, d):
        c1, c2, dw, pw, c3, fc = self.layers
        n, h, w, c = self.a5.shape
        d = np.broadcast_to(fc.backward(d)[:, None, None, :] / np.float32(h * w), self.a5.shape) * (
            self.a5 > 0
        )
        d4 = c3.backward(d) * (self.a4 > 0)
        d3 = pw.backward(d4) * (self.a3 > 0)
        d2 = (dw.backward(d3) + d4) * (self.a2 > 0)
        c1.backward(c2.backward(d2) * (self.a1 > 0))

    def parameters(self):
        return [(layer, i) for layer in self.layers for i in range(2)]


def train(network, images, labels, epochs, batch=128):
    rng = np.random.default_rng(3)
    moments = [[0.0, 0.0] for _ in network.parameters()]
    steps, total = 0, epochs * (len(labels) // batch)
    for epoch in range(epochs):
        order, losses = rng.permutation(len(labels)), []
        for at in range(0, len(labels) - batch + 1, batch):
            pick = order[at : at + batch]
            logits = network.forward(images[pick])
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            losses.append(-np.log(p[np.arange(batch), labels[pick]] + 1e-9).mean())
            p[np.arange(batch), labels[pick]] -= 1
            network.backward(p / batch)
            steps += 1
            rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * steps / total))
            for m, (layer, i) in zip(moments, network.parameters()):
                g = layer.grads[i]
                m[0] = 0.9 * m[0] + 0.1 * g
                m[1] = 0.999 * m[1] + 0.001 * g * g
                step = (
                    rate * (m[0] / (1 - 0.9**steps)) / (np.sqrt(m[1] / (1 - 0.999**steps)) + 1e-8)
                )
                if i == 0:
                    layer.w -= step.astype(np.float32)
                else:
                    layer.b -= step.astype(np.float32)
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)


def accuracy(network, images, labels):
    right = 0
    for at in range(0, len(labels), 500):
        right += int(
            (network.forward(images[at : at + 500]).argmax(1) == labels[at : at + 500]).sum()
        )
    return right / len(labels)


def export(network, path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights = [], []

    def conv(layer, x, y, name):
        w, attributes = layer.onnx()
        weights.append(numpy_helper.from_array(np.ascontiguousarray(w), name + ".weight"))
        weights.append(numpy_helper.from_array(layer.b, name + ".bias"))
        nodes.append(
            helper.make_node(
                "Conv", [x, name + ".weight", name + ".bias"], [y], name=name, **attributes
            )
        )

    c1, c2, dw, pw, c3, fc = network.layers
    conv(c1, "image", "c1", "conv1")
    nodes.append(helper.make_node("Relu", ["c1"], ["r1"], name="relu1"))
    conv(c2, "r1", "c2", "conv2")
    nodes.append(helper.make_node("Relu", ["c2"], ["r2"], name="relu2"))
    conv(dw, "r2", "c3", "depthwise")
    nodes.append(helper.make_node("Relu", ["c3"], ["r3"], name="relu3"))
    conv(pw, "r3", "c4", "pointwise")
    nodes.append(helper.make_node("Add", ["c4", "r2"], ["sum"], name="residual"))
    nodes.append(helper.make_node("Relu", ["sum"], ["r4"], name="relu4"))
    conv(c3, "r4", "c5", "conv3")
    nodes.append(helper.make_node("Relu", ["c5"], ["r5"], name="relu5"))
    nodes.append(helper.make_node("GlobalAveragePool", ["r5"], ["pool"], name="pool"))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"], name="flatten"))
    weights.append(numpy_helper.from_array(np.ascontiguousarray(fc.w), "dense.weight"))
    weights.append(numpy_helper.from_array(fc.b, "dense.bias"))
    nodes.append(
        helper.make_node("Gemm", ["flat", "dense.weight", "dense.bias"], ["scores"], name="dense")
    )
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 28, 28])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 10])],
        weights,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="examples/digits/train.py"
    )
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evoq", default="build/release/bin/evoq")
    parser.add_argument("-o", "--output", default="examples/digits/digits.onnx")
    parser.add_argument("--samples", type=int, default=12000)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    images, labels = draw(args.evoq, args.samples, seed=1)
    network = Network(seed=2)
    train(network, images, labels, args.epochs)
    print(f"accuracy on 2000 others: {accuracy(network, *draw(args.evoq, 2000, seed=2)):.4f}")
    export(network, args.output)


if __name__ == "__main__":
    main()
