#!/usr/bin/env python3
"""Gradients of whole networks beside PyTorch's: a step of plain descent is the gradient, which is
held to that of PyTorch in float64 for each parameter, to 1e-4 of its largest number. MobileNetV2,
of 52 layers with Relu6, is so deep that float32 flips some of its kinks, in PyTorch as well: its
whole gradient is held to the error that PyTorch has in float32. Skips (77) without numpy, onnx or
torch."""

import json
import pathlib
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "torch")
import numpy as np
import torch
import torch.nn.functional as F
import torch_graph

BATCH, RATE, BOUND = 8, 16.0, 1e-4
CONTEXT, PIECES = 24, 50
# Of the networks of images: what the inputs of a sample are.
IMAGES = {"lenet": (1, 28, 28), "resnet8": (3, 32, 32)}
DEEP, DEEP_SIZES = "mobilenetv2-small", (3, 32, 32)


def step(folder, model, data, rate, out, *more):
    """One step of plain descent."""
    command = ["train", model, "--data", data, "--epochs", 1, "--batch", BATCH, "--shard", 4]
    command += ["--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--lr", rate]
    command += ["--schedule", "constant", "--warm-up", 0, "--augment", "none", "--clip-norm", 0]
    told = folder / "told.json"
    agree.evoq(*command, "-o", out, "--json", told, *more)
    return json.loads(told.read_text(encoding="utf-8"))


def gradients(path, x, labels, dtype=torch.float64):
    """The loss, and the gradient of each parameter."""
    graph = torch_graph.TorchGraph(path, dtype)
    scores = graph(x.to(dtype) if x.is_floating_point() else x)
    loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))
    loss.backward()
    grads = {n: v.grad.double() for n, v in graph.values.items() if v.grad is not None}
    return loss.item(), {n: g for n, g in grads.items() if g.numel() > 1}


def stepped_by(before, after, names):
    """The gradients that were a step of the rate."""
    old, new = torch_graph.TorchGraph(before).values, torch_graph.TorchGraph(after).values
    return {name: (old[name] - new[name]).detach() / RATE for name in names}


def compare(before, after, x, labels, loss):
    """The largest difference of a gradient, as a share of that parameter's largest number."""
    wanted_loss, wanted = gradients(before, x, labels)
    off = abs(wanted_loss - loss)
    assert off < 1e-5 * (1 + loss), f"the loss is {loss}, PyTorch has {wanted_loss}"
    got = stepped_by(before, after, wanted)
    least = 1e-3 * max(g.abs().max() for g in wanted.values())  # before normalization all is 0
    shares = {
        name: ((got[name] - g).abs().max() / (g.abs().max() + least)).item()
        for name, g in wanted.items()
    }
    name = max(shares, key=shares.get)
    assert shares[name] < BOUND, f"{before.name}: the gradient of {name}: {shares[name]:.1e}"
    return shares[name]


def compare_deep(before, after, x, labels, _):
    """The error of the whole gradient, as a share of its norm."""
    wanted = gradients(before, x, labels)[1]
    norm = sum(g.square().sum() for g in wanted.values()) ** 0.5

    def error(got):
        return (sum((got[n] - g).square().sum() for n, g in wanted.items()) ** 0.5 / norm).item()

    own = error(stepped_by(before, after, wanted))
    theirs = error(gradients(before, x, labels, torch.float32)[1])
    assert own < max(BOUND, 1.5 * theirs), f"{before.name}: {own:.1e}, PyTorch {theirs:.1e}"
    print(f"{before.stem}: whole gradient within {own:.1e}, PyTorch in float32 {theirs:.1e}")


def images(folder, name, sizes, rng, compared=compare):
    x = rng.normal(0, 1, (BATCH, *sizes)).astype(np.float32)
    labels = np.arange(BATCH) % 4
    np.savez(folder / "data.npz", x=x, labels=labels)
    before, after = folder / f"{name}.onnx", folder / f"{name}.after.onnx"
    step(folder, name, folder / "data.npz", 0, before)
    told = step(folder, before, folder / "data.npz", RATE, after)
    x = torch.from_numpy(x).double()
    return compared(before, after, x, torch.from_numpy(labels), told["loss"])


def tokens(folder, rng):
    stream = rng.integers(0, PIECES, BATCH * CONTEXT + 1)
    stream[0] = PIECES - 1  # so that there are as many pieces
    np.save(folder / "data.npy", stream)
    before, after = folder / "tiny-gpt.onnx", folder / "tiny-gpt.after.onnx"
    more = ["--context", CONTEXT, "--hold-out", 0]
    step(folder, "tiny-gpt", folder / "data.npy", 0, before, *more)
    told = step(folder, before, folder / "data.npy", RATE, after, *more)
    x = torch.from_numpy(stream[:-1].reshape(BATCH, CONTEXT))
    labels = torch.from_numpy(stream[1:].reshape(BATCH, CONTEXT))
    return compare(before, after, x, labels, told["loss"])


def main():
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory(prefix="evoq_train_torch_") as name:
        folder = pathlib.Path(name)
        worst = {name: images(folder, name, sizes, rng) for name, sizes in IMAGES.items()}
        images(folder, DEEP, DEEP_SIZES, rng, compare_deep)
        worst["tiny-gpt"] = tokens(folder, rng)
    told = ", ".join(f"{name} {share:.1e}" for name, share in worst.items())
    print(f"gradients beside PyTorch {torch.__version__} in float64, of the largest number: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
