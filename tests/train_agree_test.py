#!/usr/bin/env python3
"""`evoq train` beside a numpy implementation of the same network and optimizer in float64: six
steps of the whole set from the same weights, then every weight and the loss of every step. And what
the command line says where training cannot be done. Skips (77) without numpy or onnx."""

import json
import pathlib
import subprocess
import sys
import tempfile

import agree

agree.need("numpy", "onnx")
import numpy as np
import onnx
from mnist_files import write_mnist
from onnx import TensorProto, helper, numpy_helper

SAMPLES, SIDE, CLASSES, EPOCHS = 24, 10, 4, 6
RATE, MOMENTUM, DECAY, SMOOTHING, EPSILON = 0.05, 0.9, 0.01, 0.1, 1e-5


def make_model(path, weights):
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], pads=[1, 1, 1, 1], strides=[2, 1]),
        helper.make_node("BatchNormalization", ["c", "g", "s", "m", "v"], ["n"], epsilon=EPSILON),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def columns(x):
    """[n, positions, taps] of 3 x 3 windows with a pad of 1 and strides 2 and 1."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2]
    n, c, h, w = windows.shape[:4]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, h * w, c * 9), h, w


def step(w, x, labels):
    """The loss and the gradients; w's moving averages follow."""
    col, h, width = columns(x)
    k = w["w1"].shape[0]
    c = (col @ w["w1"].reshape(k, -1).T + w["b1"]).transpose(0, 2, 1).reshape(-1, k, h, width)
    mean, var = c.mean((0, 2, 3), keepdims=True), c.var((0, 2, 3), keepdims=True)
    count = c.size / k
    w["m"] = 0.9 * w["m"] + 0.1 * mean.ravel()
    w["v"] = 0.9 * w["v"] + 0.1 * var.ravel() * count / (count - 1)
    inverse = 1 / np.sqrt(var + EPSILON)
    u = (c - mean) * inverse
    scale = w["g"].reshape(1, k, 1, 1)
    n = u * scale + w["s"].reshape(1, k, 1, 1)
    r = np.maximum(n, 0)
    windows = r[:, :, : h // 2 * 2, : width // 2 * 2].reshape(-1, k, h // 2, 2, width // 2, 2)
    windows = windows.transpose(0, 1, 2, 4, 3, 5).reshape(-1, k, h // 2, width // 2, 4)
    best = windows.argmax(-1)
    f = windows.max(-1).reshape(len(x), -1)
    y = f @ w["w2"].T + w["b2"]
    log_p = y - y.max(1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    target = np.full(y.shape, SMOOTHING / CLASSES)
    target[np.arange(len(x)), labels] += 1 - SMOOTHING
    loss = -(target * log_p).sum() / len(x)
    dy = (np.exp(log_p) - target) / len(x)
    grads = {"w2": dy.T @ f, "b2": dy.sum(0)}
    df = (dy @ w["w2"]).reshape(best.shape)
    spread = np.zeros(windows.shape)
    np.put_along_axis(spread, best[..., None], df[..., None], -1)
    spread = spread.reshape(-1, k, h // 2, width // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    dr = np.zeros(r.shape)
    dr[:, :, : h // 2 * 2, : width // 2 * 2] = spread.reshape(-1, k, h // 2 * 2, width // 2 * 2)
    dn = dr * (n > 0)
    grads["g"], grads["s"] = (dn * u).sum((0, 2, 3)), dn.sum((0, 2, 3))
    means = dn.mean((0, 2, 3), keepdims=True) + u * (dn * u).mean((0, 2, 3), keepdims=True)
    dc = scale * inverse * (dn - means)
    flat = dc.reshape(len(x), k, -1)
    grads["w1"] = np.einsum("nkp,npt->kt", flat, col).reshape(w["w1"].shape)
    grads["b1"] = dc.sum((0, 2, 3))
    return loss, grads


def check_weights(folder):
    rng = np.random.default_rng(7)
    features = 3 * 2 * 5
    weights = {
        "w1": rng.normal(0, 0.3, (3, 2, 3, 3)),
        "b1": rng.normal(0, 0.1, 3),
        "g": rng.uniform(0.5, 1.5, 3),
        "s": rng.normal(0, 0.1, 3),
        "m": np.zeros(3),
        "v": np.ones(3),
        "w2": rng.normal(0, 0.3, (CLASSES, features)),
        "b2": rng.normal(0, 0.1, CLASSES),
    }
    weights = {k: v.astype(np.float32).astype(np.float64) for k, v in weights.items()}
    x = rng.normal(0, 1, (SAMPLES, 2, SIDE, SIDE)).astype(np.float32)
    labels = rng.integers(0, CLASSES, SAMPLES)
    make_model(folder / "net.onnx", weights)
    np.savez(folder / "data.npz", x=x, labels=labels)
    command = ["train", folder / "net.onnx", "--data", folder / "data.npz", "--batch", SAMPLES]
    command += ["--shard", 8, "--epochs", EPOCHS, "--optimizer", "sgd", "--lr", RATE]
    command += ["--momentum", MOMENTUM, "--weight-decay", DECAY, "--label-smoothing", SMOOTHING]
    command += ["--schedule", "constant", "-o", folder / "out.onnx", "--json", folder / "out.json"]
    agree.evoq(*command)
    losses, speed = [], {k: np.zeros_like(v) for k, v in weights.items()}
    for _ in range(EPOCHS):
        loss, grads = step(weights, x.astype(np.float64), labels)
        losses.append(loss)
        for name, g in grads.items():
            g = g + (DECAY * weights[name] if weights[name].ndim > 1 else 0)
            speed[name] = MOMENTUM * speed[name] + g
            weights[name] = weights[name] - RATE * speed[name]
    told = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    worst = max(abs(e["loss"] - loss) for e, loss in zip(told["epochs"], losses))
    trained = {
        t.name: numpy_helper.to_array(t) for t in onnx.load(folder / "out.onnx").graph.initializer
    }
    for name, wanted in weights.items():
        off = np.abs(trained[name] - wanted).max() / np.abs(wanted).max()
        worst = max(worst, off)
        assert off < 1e-5, f"{name} is off by {off:.2e} of its largest value"
    assert worst < 1e-5, f"the loss is off by {worst:.2e}"
    return worst


def refused(folder, arguments, message, status=3):
    done = subprocess.run(
        [agree.EVOQ, "train", *map(str, arguments)], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == status, f"{arguments}: {done.returncode} {done.stderr}"
    assert message in done.stderr, f"{arguments}: {done.stderr}"


def training_mode(path, to):
    """The network as torch exports it while it trains."""
    model = onnx.load(path)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            node.attribute.append(helper.make_attribute("training_mode", 1))
            node.output.extend(["moved_mean", "moved_variance"])
    onnx.save(model, to)


def check_refusals(folder):
    out = ["-o", "refused.onnx"]
    data = ["--data", "data.npz"]
    refused(folder, ["lenett", *data, *out], "no such file, and none of the networks lenet")
    refused(folder, ["net.onnx", *data, "-o", "x.txt"], "ends in .onnx or .etm", 2)
    refused(folder, ["net.onnx", *data, *out, "--optimizer", "sdg"], "expected one of sgd", 2)
    np.savez(folder / "plain.npz", x=np.zeros((8, 2, SIDE, SIDE), np.float32))
    refused(folder, ["net.onnx", "--data", "plain.npz", *out], "no label; training takes labelled")
    bad = np.zeros((8, 2, SIDE, SIDE), np.float32)
    bad[5, 0, 0, 1] = np.nan
    np.savez(folder / "bad.npz", x=bad, y=np.zeros(8, np.int64))
    refused(folder, ["net.onnx", "--data", "bad.npz", *out],
            "bad.npz[5]: element 1 is nan, expected a finite number")  # fmt: skip
    agree.evoq("compile", folder / "net.onnx", "-o", folder / "net.etm", "--no-tune")
    refused(folder, ["net.etm", *data, *out], "net.etm is compiled already; give the .onnx")
    training_mode(folder / "net.onnx", folder / "mode.onnx")
    refused(folder, ["mode.onnx", *data, *out], "trains when it is exported in evaluation mode")
    for verb in (["compile"], ["quantize", "--scheme", "int8-dynamic"]):
        told = subprocess.run(
            [agree.EVOQ, *verb, "mode.onnx", "-o", "mode.etm"],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        assert told.returncode == 0, told.stderr
        assert ") is in training mode: a sample's result depends on the others" in told.stderr, (
            told.stderr
        )
    for option, needs in (
        (["--distill", "3"], "--distill changes nothing: expected --teacher"),
        (["--distill-share", "0.5"], "--distill-share changes nothing: expected --teacher"),
        (["--distill-features-weight", "2"], "changes nothing: expected --distill-features"),
        (["--scheme", "int8", "--block", "64"], "--block changes nothing: expected --scheme of"),
        (["--optimizer", "sgd", "--beta2", "0.9"], "--beta2 changes nothing: expected --optimizer"),
        (["--freeze", "w3"], "--freeze w3: no parameter of that name; the nearest is w1"),
        (["--scheme", "int8", "--exclude", "cov"], "--exclude cov: no node of the optimized"),
        (["--scheme", "int8", "--weight-bits", "z*=4"], "--weight-bits z*: no node of"),
    ):
        refused(folder, ["net.onnx", *data, *out, *option], needs, 2)
    refused(folder, ["net.onnx", *data, *out, "--resume", "net.onnx", "--batch", "8"], "net.onnx")
    assert not (folder / "refused.onnx").exists()


def keep_equal_once(path, to):
    """The network as PyTorch's exporter writes it: equal tensors once, others by an Identity."""
    model = onnx.load(path)
    first, kept, names = {}, [], []
    for tensor in model.graph.initializer:
        key = numpy_helper.to_array(tensor).tobytes()
        if first.setdefault(key, tensor.name) == tensor.name:
            kept.append(tensor)
        else:
            names.append(helper.make_node("Identity", [first[key]], [tensor.name]))
    assert len(names) == 3, names
    nodes = names + list(model.graph.node)
    for field, values in (("initializer", kept), ("node", nodes)):
        model.graph.ClearField(field)
        getattr(model.graph, field).extend(values)
    onnx.save(model, to)


def check_equal_parameters(folder):
    """Ones and zeros that a file holds once are trained as the parameters that they are."""
    rng = np.random.default_rng(5)
    weights = {
        "w1": rng.normal(0, 0.3, (4, 2, 3, 3)),
        "b1": np.zeros(4),
        "g": np.ones(4),
        "s": np.zeros(4),
        "m": np.zeros(4),
        "v": np.ones(4),
        "w2": rng.normal(0, 0.3, (CLASSES, 4 * 2 * 5)),
        "b2": rng.normal(0, 0.1, CLASSES),
    }
    make_model(folder / "each.onnx", weights)
    keep_equal_once(folder / "each.onnx", folder / "once.onnx")
    for options in ([], ["--scheme", "int8"]):
        for name in ("each", "once"):
            command = ["train", folder / f"{name}.onnx", "--data", folder / "data.npz"]
            command += [
                "--batch",
                8,
                "--shard",
                8,
                "--epochs",
                2,
                "--lr",
                0.01,
                "--seed",
                1,
                *options,
            ]
            agree.evoq(*command, "-o", folder / f"{name}.trained.onnx")
        each, once = (
            sorted(
                numpy_helper.to_array(t).tobytes()
                for t in onnx.load(folder / f"{name}.trained.onnx").graph.initializer
            )
            for name in ("each", "once")
        )
        assert each == once, options


def make_layers(path, rng, biases):
    nodes, value = [], "x"
    weights = {}
    for i in range(3):
        weights[f"w{i}"] = rng.normal(0, 0.4, (CLASSES, CLASSES)).astype(np.float32)
        weights[f"b{i}"] = biases[i].astype(np.float32)
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"g{i}"], name=f"n{i}"))
        nodes.append(helper.make_node("Relu", [f"g{i}"], [f"r{i}"]))
        value = f"r{i}"
    graph = helper.make_graph(
        nodes[:-1],
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", CLASSES])],
        [helper.make_tensor_value_info("g2", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def check_equal_biases(folder):
    """Layers whose biases are equal when the training with integers begins keep their own."""
    rng = np.random.default_rng(6)
    make_layers(folder / "equal.onnx", rng, np.zeros((3, CLASSES)))
    make_layers(folder / "other.onnx", rng, rng.normal(0, 1, (3, CLASSES)))
    x = rng.normal(0, 1, (64, CLASSES)).astype(np.float32)
    np.savez(folder / "points.npz", x=x, labels=x.argmax(1))
    parameters = []
    for name in ("equal", "other"):
        command = ["train", folder / f"{name}.onnx", "--data", folder / "points.npz"]
        command += [
            "--batch",
            16,
            "--shard",
            16,
            "--epochs",
            1,
            "--scheme",
            "int8",
            "--json",
            folder / "told.json",
        ]
        agree.evoq(*command, "-o", folder / "layers.trained.onnx")
        told = json.loads((folder / "told.json").read_text(encoding="utf-8"))
        parameters.append(told["parameters"])
    assert parameters[0] == parameters[1], parameters


def check_told(folder):
    """What stays float32 is said with its reason, and that ONNX Runtime does not load a file."""
    make_layers(folder / "told.onnx", np.random.default_rng(8), np.zeros((3, CLASSES)))
    for model, bits, options, wanted in (
        ("told", 4, ["--exclude", "n1"], "float:   1 (n1): excluded: the name matches"),
        ("each", 2, [], "warning: ONNX Runtime 1.32 does not load this file: it has no conv"),
    ):
        data = "points" if model == "told" else "data"
        command = [
            "train",
            folder / f"{model}.onnx",
            "--data",
            folder / f"{data}.npz",
            "--batch",
            8,
        ]
        command += ["--shard", 8, "--epochs", 1, "--scheme", "int8", "--weight-bits", bits]
        command += [*options, "-o", folder / "said.onnx"]
        done = subprocess.run(
            [agree.EVOQ, *map(str, command)], capture_output=True, text=True, check=True
        )
        assert wanted in done.stdout + done.stderr, done.stdout + done.stderr
        assert ("float:" in done.stdout) == (model == "told"), done.stdout


def check_lenet(folder):
    """From MNIST's files to a model that `evoq eval` agrees with; resumed in the middle."""
    mnist = folder / "mnist"
    mnist.mkdir()
    write_mnist(mnist)
    common = ["train", "lenet", "--data", mnist, "--epochs", 3, "--lr", 0.002]
    files = ["--checkpoint", folder / "c.npz", "--log", folder / "log.jsonl"]
    told = folder / "lenet.json"
    agree.evoq(*common, *files, "-o", folder / "a.onnx", "--json", told)
    accuracy = json.loads(told.read_text(encoding="utf-8"))["test_accuracy"]
    assert accuracy > 0.9, f"test accuracy {accuracy}"
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3], lines
    agree.evoq(*common, "--resume", folder / "c.npz", "-o", folder / "b.onnx", "--threads", 1)
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()
    agree.evoq(*common, "-o", folder / "c.etm", "--threads", 1)
    for model in ("a.onnx", "c.etm"):
        measured = ["eval", folder / model, "--data", mnist / "t10k-images-idx3-ubyte.gz"]
        labels = mnist / "t10k-labels-idx1-ubyte.gz"
        agree.evoq(*measured, "--labels", labels, "--json", folder / "eval.json")
        top1 = json.loads((folder / "eval.json").read_text(encoding="utf-8"))["top1"]
        assert top1 == accuracy, f"{model}: eval says {top1}, training {accuracy}"
    return accuracy


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_train_") as name:
        folder = pathlib.Path(name)
        worst = check_weights(folder)
        check_refusals(folder)
        check_equal_parameters(folder)
        check_equal_biases(folder)
        check_told(folder)
        accuracy = check_lenet(folder)
    print(
        f"{EPOCHS} steps: weights and losses within {worst:.1e} of float64; LeNet on bars: "
        f"{accuracy:.3f} on the test set, equal in .onnx, .etm and eval"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
