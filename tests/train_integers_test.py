#!/usr/bin/env python3
"""`evoq train --scheme int8` through the command line: a step of it beside a numpy implementation
in float64 of integers with learned steps (Esser et al., 2020); the simulation's scores are the
compiled model's on every test sample; the same bits for any number of threads and for a run that
was resumed; what is refused. Skips (77) without numpy or onnx."""

import json
import pathlib
import subprocess
import sys
import tempfile

import agree

agree.need("numpy", "onnx")
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SAMPLES, SIDE, CLASSES, RATE = 64, 8, 4, 0.05


def make_model(path, weights):
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], name="linear", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def make_data(folder):
    """Bars in noise, along one of four directions."""
    rng = np.random.default_rng(3)
    for name, count in (("train", SAMPLES), ("test", 96)):
        x = rng.normal(0, 0.3, (count, 1, SIDE, SIDE)).astype(np.float32)
        labels = rng.integers(0, CLASSES, count)
        lines = np.add.outer(np.arange(SIDE), np.arange(SIDE))
        for image, label, at in zip(x, labels, rng.integers(2, 6, count)):
            rows, columns = np.indices((SIDE, SIDE))
            bars = (rows == at, columns == at, lines == SIDE - 1, rows == columns)
            image[0][bars[label]] += 2
        np.savez(folder / f"{name}.npz", x=x, labels=labels)


def make_weights():
    rng = np.random.default_rng(5)
    features = 6 * (SIDE // 2) ** 2
    return {
        "w1": rng.normal(0, 0.4, (6, 1, 3, 3)),
        "b1": rng.normal(0, 0.1, 6),
        "w2": rng.normal(0, 0.2, (CLASSES, features)),
        "b2": rng.normal(0, 0.1, CLASSES),
    }


def short(scale):
    """At least the scale, with 12 significant bits."""
    fraction, exponent = np.frexp(np.asarray(scale, np.float64))
    return np.ldexp(np.ceil(np.ldexp(fraction, 12)), exponent - 12)


class Steps:
    """Numbers as integers of a step: q, and how gradients pass."""

    def __init__(self, v, step, low, high):
        self.v, self.step, self.low, self.high = v / step, step, low, high
        self.q = np.clip(np.rint(self.v), low, high)
        self.real = self.q * step
        self.inside = (self.v >= low) & (self.v <= high)

    def of_log_step(self, dy, count, axes=None):
        """Of log(step): equation 3 of the paper, the factor of its section 2.2, over the step."""
        term = np.where(self.v < self.low, self.low, np.rint(self.v) - self.v)
        term = np.where(self.v > self.high, self.high, term)
        return (dy * term).sum(axes) / np.sqrt(count * self.high) / np.ravel(self.step)


def columns(x):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, c, h, w = windows.shape[:4]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h * w, c * 9)


def integer_bias(bias, x, w):
    """The bias in steps of the sums: those of weights that are held in 8 bits, times a power of
    two (FinerWeights)."""
    factor = 1
    while factor < 64 and w.q.min() * factor * 2 >= -128 and w.q.max() * factor * 2 <= 127:
        factor *= 2
    step = x.step * w.step.ravel() / factor
    return np.rint(bias / step) * step


def gradients(p, x, labels, bits):
    """The loss, and the gradient of each parameter p: weights by name, "NAME.step" log steps. Zero
    points: `x` has p["x.zero"]; what Relu gives has none."""
    most = 2 ** (bits - 1)
    step = {name: short(np.exp(np.float64(p[name]))) for name in p if name.endswith(".step")}
    zero = p["x.zero"]
    w1 = Steps(p["w1"].reshape(6, 9), step["w1.step"].reshape(6, 1), -most, most - 1)
    w2 = Steps(p["w2"], step["w2.step"].reshape(CLASSES, 1), -most, most - 1)
    xq = Steps(columns(x), step["x.step"], -zero, 255 - zero)
    c = (
        (xq.real @ w1.real.T + integer_bias(p["b1"], xq, w1))
        .transpose(0, 2, 1)
        .reshape(-1, 6, SIDE, SIDE)
    )
    rq = Steps(np.maximum(c, 0), step["r.step"], 0, 255)
    half = SIDE // 2
    windows = rq.real.reshape(-1, 6, half, 2, half, 2).transpose(0, 1, 2, 4, 3, 5)
    windows = windows.reshape(-1, 6, half, half, 4)
    best = windows.argmax(-1)
    f = windows.max(-1).reshape(len(x), -1)
    y = f @ w2.real.T + integer_bias(p["b2"], rq, w2)
    log_p = y - y.max(1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    loss = -log_p[np.arange(len(x)), labels].mean()
    dy = np.exp(log_p)
    dy[np.arange(len(x)), labels] -= 1
    dy /= len(x)
    dw2 = dy.T @ f
    df = (dy @ w2.real).reshape(best.shape)
    spread = np.zeros(windows.shape)
    np.put_along_axis(spread, best[..., None], df[..., None], -1)
    dr = spread.reshape(-1, 6, half, half, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    dr = dr.reshape(-1, 6, SIDE, SIDE)
    dc = dr * (c > 0) * rq.inside
    flat = dc.reshape(len(x), 6, -1)
    dw1 = np.einsum("nkp,npt->kt", flat, xq.real)
    dx = np.einsum("nkp,kt->npt", flat, w1.real)
    return loss, {
        "w1": (dw1 * w1.inside).reshape(p["w1"].shape),
        "b1": dc.sum((0, 2, 3)),
        "w2": dw2 * w2.inside,
        "b2": dy.sum(0),
        "w1.step": w1.of_log_step(dw1, 9, 1),
        "w2.step": w2.of_log_step(dw2, p["w2"].shape[1], 1),
        "r.step": rq.of_log_step(dr, 6 * SIDE * SIDE),
        # Every pixel is read by up to nine taps; those of the padding are no pixels.
        "x.step": pixels_step(dx, x, step["x.step"], zero),
    }


def pixels_step(dx, x, step, zero):
    total = np.zeros((len(x), SIDE + 2, SIDE + 2))
    taps = dx.reshape(len(x), SIDE, SIDE, 3, 3)
    for i in range(3):
        for j in range(3):
            total[:, i : i + SIDE, j : j + SIDE] += taps[..., i, j]
    pixels = Steps(x[:, 0], step, -zero, 255 - zero)
    return pixels.of_log_step(total[:, 1:-1, 1:-1], SIDE * SIDE)


def check_step(folder, bits):
    """One step of SGD from a checkpoint: it has the parameters before in float32."""
    data = np.load(folder / "train.npz")
    common = ["train", folder / "net.onnx", "--data", folder / "train.npz", "--scheme", "int8"]
    common += ["--weight-bits", bits, "--batch", SAMPLES, "--shard", 16, "--optimizer", "sgd"]
    common += ["--momentum", 0, "--schedule", "constant", "-o", folder / "step.etm"]
    states = []
    for rate in (0, RATE):  # without a step, and after one
        path = folder / f"step{rate}.npz"
        agree.evoq(
            *common, "--epochs", 1, "--lr", rate, "--checkpoint", path, "--json", folder / "j"
        )
        arrays = np.load(path)
        states.append(
            {k[8:]: arrays[k].astype(np.float64) for k in arrays if k.startswith("weights/")}
        )
    before, after = states
    names = {n for n in before if n.endswith(".step")}
    x_name = next(n for n in names if n.startswith("x"))
    r_name = next(n for n in names if n[:2] not in ("w1", "w2", x_name[:2]))
    rename = {x_name: "x.step", r_name: "r.step"}
    for name in before:  # a Gemm became a MatMul, whose weight has a name of its own
        if name.startswith("w2"):
            rename[name] = "w2.step" if name in names else "w2"
    p = {rename.get(n, n): v for n, v in before.items()}
    w2_turned = p["w2"].shape[0] != CLASSES
    if w2_turned:
        p["w2"] = p["w2"].T
    x = data["x"].astype(np.float64)
    step = short(np.exp(p["x.step"]))[0]
    p["x.zero"] = float(np.rint(-min(x.min(), 0) / step))
    loss, wanted = gradients(p, x, data["labels"], bits)
    told = json.loads((folder / "j").read_text(encoding="utf-8"))
    assert abs(told["epochs"][0]["loss"] - loss) < 1e-4 * loss, (told["epochs"][0]["loss"], loss)
    worst = 0
    for name, value in before.items():
        own = rename.get(name, name)
        moved = (value - after[name]) / RATE
        if own == "w2" and w2_turned:
            moved = moved.T
        off = np.abs(moved - wanted[own]).max() / max(np.abs(wanted[own]).max(), 1e-9)
        assert off < 0.005, (
            f"{bits} bits: the gradient of {name} is off by {off:.3f} of its largest"
        )
        worst = max(worst, off)
    return worst


def check_whole(folder):
    """Agreement, threads, resume, and the files that come out."""
    common = ["train", folder / "net.onnx", "--data", folder / "train.npz", "--scheme", "int8"]
    common += ["--test", folder / "test.npz", "--epochs", 6, "--batch", 32, "--lr", 0.01]
    common += ["--weight-bits", 4, "--weight-bits", "conv=8"]
    told = folder / "told.json"
    files = ["--checkpoint", folder / "c.npz", "--json", told]
    agree.evoq(*common, *files, "-o", folder / "a.etm", "--threads", 2)
    report = json.loads(told.read_text(encoding="utf-8"))
    agreement = report["agreement"]
    assert agreement["samples"] == agreement["classes"] == agreement["scores"] == 96, agreement
    assert report["test_accuracy"] == agreement["correct"] / 96, report
    assert report["test_accuracy"] > 0.8, report["test_accuracy"]
    agree.evoq(*common, "-o", folder / "b.etm", "--threads", 1)
    assert (folder / "a.etm").read_bytes() == (folder / "b.etm").read_bytes(), "threads"
    agree.evoq(*common, "--resume", folder / "c.npz", "-o", folder / "c.etm")
    assert (folder / "a.etm").read_bytes() == (folder / "c.etm").read_bytes(), "resume"
    agree.evoq(*common, "-o", folder / "d.onnx", "--json", told)
    exported = json.loads(told.read_text(encoding="utf-8"))["test_accuracy"]
    for model, wanted in (("a.etm", report["test_accuracy"]), ("d.onnx", exported)):
        agree.evoq(
            "eval", folder / model, "--data", folder / "test.npz", "--json", folder / "eval.json"
        )
        top1 = json.loads((folder / "eval.json").read_text(encoding="utf-8"))["top1"]
        assert top1 == wanted, f"{model}: eval says {top1}, training {wanted}"
    types = {t.data_type for t in onnx.load(folder / "d.onnx").graph.initializer}
    assert TensorProto.INT4 in types and TensorProto.INT8 in types, types
    teacher = [*common, "--teacher", folder / "net.onnx", "--distill", 2]
    agree.evoq(*teacher, "-o", folder / "e.etm", "--threads", 1)
    agree.evoq(*teacher, "-o", folder / "f.etm", "--threads", 2)
    assert (folder / "e.etm").read_bytes() == (folder / "f.etm").read_bytes(), "teacher"
    assert (folder / "e.etm").read_bytes() != (folder / "a.etm").read_bytes(), "teacher"
    check_features(folder, teacher)


def check_features(folder, teacher):
    """What lies in memory as integers learns to be the teacher's real numbers; recomputation
    changes no bit."""
    features = [*teacher, "--distill-features", "r", "--distill-features", "p"]
    features.append("--distill-features-weight")
    losses, memory = {}, []
    for name, more in (("g", [2]), ("h", [2, "--recompute", "--threads", 1]), ("i", [0])):
        told = folder / "told.json"
        agree.evoq(*features, *more, "-o", folder / f"{name}.etm", "--json", told)
        report = json.loads(told.read_text(encoding="utf-8"))
        losses[name] = report["epochs"][0]["loss"]
        memory.append(report["memory_bytes"])
    read = {name: (folder / f"{name}.etm").read_bytes() for name in "eghi"}
    assert read["g"] == read["h"], "recomputed"
    assert memory[1] < memory[0], memory
    assert read["g"] != read["e"], "features teach nothing"
    assert read["i"] == read["e"], "features of no weight teach"
    assert losses["g"] > losses["i"], losses


def check_zeros(folder):
    """What was pruned stays 0 in the integers, and what is pruned while they learn becomes 0."""
    agree.evoq(
        *("prune", folder / "net.onnx", "--pattern", "unstructured", "--sparsity", 0.6),
        *("-o", folder / "pruned.onnx"),
    )
    common = ["--data", folder / "train.npz", "--scheme", "int8", "--weight-bits", 4]
    common += ["--epochs", 3, "--batch", 32, "--lr", 0.01, "-o", folder / "z.onnx"]

    def zeros(path):
        found = {}
        for tensor in onnx.load(path).graph.initializer:
            values = numpy_helper.to_array(tensor)
            if values.ndim > 1:
                rows = values if values.shape[0] < values.shape[1] or values.ndim > 2 else values.T
                found[values.size] = rows.astype(np.float32) == 0
        return found

    agree.evoq("train", folder / "pruned.onnx", "--prune", "zeros", *common)
    before, after = zeros(folder / "pruned.onnx"), zeros(folder / "z.onnx")
    assert len(before) == 2 and before.keys() == after.keys(), (before.keys(), after.keys())
    for size, mask in before.items():
        assert 0.55 * size < mask.sum() < 0.65 * size, (size, mask.sum())
        assert (after[size] | ~mask).all(), f"{size} weights: zeros came back"
    agree.evoq("train", folder / "pruned.onnx", *common)  # without --prune they do
    assert not all((zeros(folder / "z.onnx")[n] | ~mask).all() for n, mask in before.items())
    pattern = ["--prune", "unstructured", "--sparsity", 0.5]
    agree.evoq("train", folder / "net.onnx", *pattern, *common)
    for size, mask in zeros(folder / "z.onnx").items():
        assert mask.sum() >= 0.49 * size, (size, mask.sum())


def refused(folder, arguments, message, status=2):
    done = subprocess.run(
        [agree.EVOQ, "train", *map(str, arguments)], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == status, f"{arguments}: {done.returncode} {done.stderr}"
    assert message in done.stderr, f"{arguments}: {done.stderr}"


def check_refusals(folder):
    data = ["--data", "train.npz", "-o", "refused.etm"]
    refused(folder, ["lenet", *data, "--scheme", "int8"], "random weights; train it, then")
    refused(folder, ["net.onnx", *data, "--scheme", "bf16"], "expected int8, whose arithmetic")
    refused(folder, ["net.onnx", *data, "--weight-bits", "4"], "of training with integers")
    bits = ["--scheme", "int8", "--weight-bits", "conv=3"]
    refused(folder, ["net.onnx", *data, *bits], "--weight-bits conv=3: expected 8, 4, 2 or 1")
    bits = ["--scheme", "int8", "--activation-bits", "1"]
    refused(folder, ["net.onnx", *data, *bits], "--activation-bits 1: expected 8, 4 or 2")
    nothing = ["--scheme", "int8", "--exclude", "*"]
    refused(folder, ["net.onnx", *data, *nothing], "nothing becomes integer arithmetic", 3)
    teacher = ["--scheme", "int8", "--teacher", "nobody.onnx"]
    refused(folder, ["net.onnx", *data, *teacher], "nobody.onnx", 3)
    features = ["--distill-features", "r"]
    refused(folder, ["net.onnx", *data, *features], "expected the model that has them as --teacher")
    of_etm = ["--teacher", "a.etm", *features]
    refused(folder, ["net.onnx", *data, *of_etm], "a.etm is compiled, expected the .onnx")
    frozen = ["--teacher", "net.onnx", *features, "--freeze", "*1"]
    refused(folder, ["net.onnx", *data, *frozen], "no parameter that is trained changes it")
    resumed = ["--scheme", "int8", "--epochs", 6, "--batch", 32, "--lr", 0.01, "--resume", "c.npz"]
    refused(folder, ["net.onnx", *data, *resumed], "weight_bits is", 3)
    assert not (folder / "refused.etm").exists()


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_integers_") as name:
        folder = pathlib.Path(name)
        make_model(folder / "net.onnx", make_weights())
        make_data(folder)
        worst = max(check_step(folder, bits) for bits in (4, 2))
        check_whole(folder)
        check_zeros(folder)
        check_refusals(folder)
    print(
        f"gradients of weights and steps within {worst:.1e} of float64; simulated and compiled "
        "scores equal on 96 of 96 samples; the same bits for 1 and 2 threads and resumed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
