#!/usr/bin/env python3
"""`evoq train --targets` beside the same steps in numpy, for each loss of real numbers; training
with integers, a teacher and weights of few bits on targets; what `evoq eval --targets` measures
beside ONNX Runtime; and what is said where targets do not fit. Skips (77) without numpy, onnx
or onnxruntime."""

import json
import pathlib
import subprocess
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime")
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SAMPLES, INPUTS, OUTPUTS, STEPS, RATE = 24, 6, 3, 5, 0.1
rng = np.random.default_rng(5)


def model(path, w, last=None, output_shape=None, hidden=None):
    nodes, names = [], {"w": w, "b": np.zeros(w.shape[1])}
    value = "x"
    if hidden is not None:
        nodes.append(helper.make_node("MatMul", ["x", "h"], ["hx"]))
        nodes.append(helper.make_node("Relu", ["hx"], ["hr"]))
        names["h"], value = hidden, "hr"
    nodes.append(helper.make_node("Gemm", [value, "w", "b"], ["s" if last else "y"]))
    if last == "Squeeze":
        nodes.append(helper.make_node("Squeeze", ["s", "axes"], ["y"]))
    elif last:
        nodes.append(helper.make_node(last, ["s"], ["y"]))
    constants = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in names.items()]
    if last == "Squeeze":
        constants.append(numpy_helper.from_array(np.array([1], np.int64), "axes"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output_shape or ["N", w.shape[1]])],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.save(made, path)


def evoq(*arguments, fails=False):
    done = subprocess.run(
        [agree.EVOQ, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode != 0) == fails, (arguments, done.stdout, done.stderr)
    return done.stderr if fails else done.stdout


def report(folder, *arguments):
    path = folder / "told.json"
    text = evoq(*arguments, "--json", path)
    return json.loads(path.read_text(encoding="utf-8")), text


# loss and its derivative by the scores, of one number each
LOSSES = {
    "mse": (lambda s, q: (s - q) ** 2, lambda s, q: 2 * (s - q)),
    "l1": (lambda s, q: abs(s - q), lambda s, q: np.sign(s - q)),
    "huber": (
        lambda s, q: np.where(abs(s - q) <= 1, (s - q) ** 2 / 2, abs(s - q) - 0.5),
        lambda s, q: np.clip(s - q, -1, 1),
    ),
    "bce": (
        lambda s, q: -q * np.log(1 / (1 + np.exp(-s))) - (1 - q) * np.log(1 / (1 + np.exp(s))),
        lambda s, q: 1 / (1 + np.exp(-s)) - q,
    ),
}
STEPPING = ["--batch", SAMPLES, "--shard", 8, "--optimizer", "sgd", "--momentum", 0, "--lr", RATE]
STEPPING += ["--schedule", "constant", "--epochs", STEPS, "--weight-decay", 0, "--seed", 1]


def run(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})


def check_losses(folder, x, y):
    for name, (loss, slope) in LOSSES.items():
        w = rng.normal(size=(INPUTS, OUTPUTS))
        wanted = 1 / (1 + np.exp(-y)) if name == "bce" else 2 * y
        np.save(folder / "t.npy", wanted.astype(np.float32))
        model(folder / "m.onnx", w, "Sigmoid" if name == "bce" else None)
        found, _ = report(
            *(folder, "train", folder / "m.onnx", "--data", folder / "x.npy", "--loss", name),
            *("--targets", folder / "t.npy", "-o", folder / "o.onnx", *STEPPING),
        )
        w, b, losses = w.astype(np.float32).astype(float), np.zeros(OUTPUTS), []
        for _ in range(STEPS):
            s = x @ w + b
            losses.append(loss(s, wanted).mean())
            g = slope(s, wanted) / (SAMPLES * OUTPUTS)
            w, b = w - RATE * x.T @ g, b - RATE * g.sum(0)
        np.testing.assert_allclose([e["loss"] for e in found["epochs"]], losses, rtol=1e-5)
        trained = {
            c.name: numpy_helper.to_array(c) for c in onnx.load(folder / "o.onnx").graph.initializer
        }
        np.testing.assert_allclose(trained["w"], w, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(trained["b"], b, rtol=1e-4, atol=1e-6)
        assert found["accuracy"] is None and found["test_accuracy"] is None, found


def check_forms(folder, x, y):
    """One file of both, outputs [N], mixup, a test, a folder of arrays; mse is the default."""
    one = y[:, 0].astype(np.float32)
    model(folder / "m.onnx", rng.normal(size=(INPUTS, 1)), "Squeeze", ["N"])
    np.savez(folder / "d.npz", x=x, y=one)
    np.savez(folder / "named.npz", x=x[:7] + 1, y=one[:7])
    train = ["train", folder / "m.onnx", "--data", folder / "d.npz", "--targets", folder / "d.npz"]
    test = ["--test", folder / "named.npz", "--test-targets", folder / "named.npz"]
    found, text = report(folder, *train, *test, "-o", folder / "o.onnx", *STEPPING)
    assert found["recipe"]["loss"] == "mse"
    mse = np.mean((run(folder / "o.onnx", x[:7] + 1)[0] - one[:7]) ** 2)
    np.testing.assert_allclose(found["test_mse"], mse, rtol=1e-5)
    assert f"mean squared error {found['test_mse']:.6g} on 7 test samples" in text, text
    report(folder, *train, "--mixup", 0.5, "-o", folder / "o.onnx", *STEPPING)
    for i, row in enumerate(x):
        (folder / "rows").mkdir(exist_ok=True)
        (folder / "wanted").mkdir(exist_ok=True)
        np.save(folder / "rows" / f"{i:02}.npy", row[None])
        np.save(folder / "wanted" / f"{i:02}.npy", one[i : i + 1])
    train[3], train[5] = folder / "rows", folder / "wanted"
    again, _ = report(folder, *train, "-o", folder / "o2.onnx", *STEPPING)
    assert again["loss"] == found["loss"]


def check_learns(folder):
    """A teacher, integers and weights of 4 bits follow targets, which eval measures."""
    x = rng.normal(size=(512, INPUTS)).astype(np.float32)
    h, w = rng.normal(size=(INPUTS, 64)), rng.normal(size=(64, OUTPUTS)) / 8
    model(folder / "teacher.onnx", w, hidden=h)
    y = run(folder / "teacher.onnx", x)[0]
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    start = folder / "start.onnx"
    model(start, w + 0.1 * rng.normal(size=w.shape), hidden=h + 0.1 * rng.normal(size=h.shape))
    data = ["--data", folder / "x.npy", "--targets", folder / "y.npy"]
    test = ["--test", folder / "x.npy", "--test-targets", folder / "y.npy"]
    before, _ = report(folder, "eval", start, *data)
    for more in (
        [],
        ["--scheme", "int8"],
        ["--scheme", "int4-weights", "--block", "channel"],
        ["--teacher", folder / "teacher.onnx", "--distill-share", "0.9"],
    ):
        options = ["--epochs", 20, "--lr", 0.01, "--seed", 1, *more]
        found, text = report(folder, "train", start, *data, *test, "-o", folder / "o.etm", *options)
        after, shown = report(folder, "eval", folder / "o.etm", *data)
        outputs = after["targets"][0]
        written = found.get("written", {}).get("mse", found["test_mse"])
        np.testing.assert_allclose(outputs["mse"], written, rtol=1e-4)
        assert outputs["mse"] < before["targets"][0]["mse"] / 4, (more, before, after)
        assert f"mean squared error {outputs['mse']:.6g}" in shown, shown
        if "int8" in more:
            agreement = found["agreement"]
            assert agreement == {"samples": 512, "scores": 512}, agreement
            assert "the same outputs, bit for bit, on 512 of 512 test samples" in text, text


def check_eval(folder, x):
    """Of two outputs, in parts too, beside numpy."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Tanh", ["a"], ["b"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", OUTPUTS]) for n in "ab"],
        [numpy_helper.from_array(rng.normal(size=(INPUTS, OUTPUTS)).astype(np.float32), "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.save(made, folder / "two.onnx")
    np.save(folder / "x.npy", x)
    outputs = run(folder / "two.onnx", x)
    wanted = {n: (o + rng.normal(size=o.shape)).astype(np.float32) for n, o in zip("ab", outputs)}
    np.savez(folder / "ab.npz", **wanted)
    (folder / "both").mkdir()
    np.savez(folder / "both" / "ab.npz", **wanted)
    common = ["eval", folder / "two.onnx", "--data", folder / "x.npy"]
    found, _ = report(folder, *common, "--targets", folder / "ab.npz")
    for told_of, name, output in zip(found["targets"], "ab", outputs):
        off, target = output - wanted[name].astype(float), wanted[name].astype(float)
        assert told_of["output"] == name and told_of["elements"] == target.size
        np.testing.assert_allclose(told_of["mse"], np.mean(off**2), rtol=1e-6)
        np.testing.assert_allclose(told_of["rmse"], np.sqrt(np.mean(off**2)), rtol=1e-6)
        np.testing.assert_allclose(told_of["mae"], np.mean(abs(off)), rtol=1e-6)
        spread = np.sum((target - target.mean()) ** 2)
        np.testing.assert_allclose(told_of["r2"], 1 - np.sum(off**2) / spread, rtol=1e-6)
    parts = []
    for k in (1, 2):
        parts += ["--merge", folder / f"p{k}.json"]
        evoq(*common, "--targets", folder / "ab.npz", "--part", f"{k}/2", "--save-part", parts[-1])
    merged, _ = report(folder, "eval", folder / "two.onnx", *parts)
    assert merged["targets"] == found["targets"], merged


def check_errors(folder, x, y):
    model(folder / "m.onnx", rng.normal(size=(INPUTS, OUTPUTS)))
    np.save(folder / "x.npy", x)
    np.save(folder / "t.npy", y)
    np.save(folder / "wide.npy", np.zeros((SAMPLES, OUTPUTS + 1), np.float32))
    np.save(folder / "few.npy", y[:-1])
    nan = y.copy()
    nan[3, 1] = np.nan
    np.save(folder / "nan.npy", nan)
    np.save(folder / "labels.npy", np.zeros(SAMPLES, np.int64))
    train = ["train", folder / "m.onnx", "--data", folder / "x.npy", "-o", folder / "o.onnx"]
    targets = ["--targets", folder / "t.npy"]
    for arguments, sentence in (
        (["--targets", folder / "wide.npy"], "a target of 4 numbers, the model's output has 3"),
        (["--targets", folder / "few.npy"], "23 targets of 24 samples: expected one for each"),
        (["--targets", folder / "nan.npy"], "nan.npy[3]: element 1 is nan, expected a finite"),
        (targets + ["--loss", "cross-entropy"], "real numbers: mse, l1, huber, bce"),
        (targets + ["--label-smoothing", "0.1"], "of labels, not of --targets"),
        (targets + ["--labels", folder / "labels.npy"], "in place of --labels"),
        (targets + ["--test", folder / "x.npy"], "expected --test-targets"),
        (["--test-targets", folder / "t.npy"], "--targets"),
    ):
        said = evoq(*train, "--batch", 8, "--shard", 8, *arguments, fails=True)
        assert sentence in said, (arguments, said)
    common = ["eval", folder / "m.onnx", "--data", folder / "x.npy"]
    for name, sentence in (("few", "23 targets of 24 samples"), ("wide", "a target of 4 numbers")):
        said = evoq(*common, "--targets", folder / f"{name}.npy", fails=True)
        assert sentence in said, said
    # Real numbers beside samples are no labels, and calibrate as well without them.
    np.savez(folder / "real.npz", x=x, y=y)
    evoq("quantize", folder / "m.onnx", "--calib", folder / "real.npz", "-o", folder / "q.etm")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        x = rng.normal(size=(SAMPLES, INPUTS)).astype(np.float32)
        y = rng.normal(size=(SAMPLES, OUTPUTS)).astype(np.float32)
        np.save(folder / "x.npy", x)
        check_losses(folder, x, y)
        check_forms(folder, x, y)
        check_learns(folder)
        check_eval(folder, x)
        check_errors(folder, x, y)


main()
