"""evoq.nn and evoq.train: networks in code, trained on arrays and files."""

import json
import os
import subprocess
import sys

import evoq
import numpy as np
import onnx
import pytest
from evoq import nn
from models import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests"))
from mnist_files import write_mnist


def bars(count, seed):
    """Bars across or along 8 x 8 images, and which."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    images = rng.normal(0, 0.3, (count, 1, 8, 8)).astype(np.float32)
    for image, label, at in zip(images, labels, rng.integers(0, 8, count)):
        (image[0] if label else image[0].T)[at] += 1
    return images, labels


def small():
    block = nn.Residual(nn.Conv(6, bias=False), nn.BatchNorm(), nn.Activation("gelu"))
    return nn.Network(
        nn.Conv(6, size=3),
        nn.BatchNorm(),
        nn.Activation(),
        block,
        nn.Concat(nn.MaxPool(2), nn.AveragePool(2)),
        nn.Flatten(),
        nn.Linear(2),
        input=(1, 8, 8),
        name="small",
    )


def test_a_network_is_an_onnx_file():
    model = onnx.load_from_string(small().onnx(seed=3))
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node].count("Conv") == 2
    assert small().onnx(seed=3) == small().onnx(seed=3) != small().onnx(seed=4)
    with pytest.raises(evoq.Error, match=r"layer 1: conv: channels is 0"):
        nn.Network(nn.Flatten(), nn.Conv(0), input=(1, 8, 8)).onnx()
    with pytest.raises(evoq.Error, match="a layer is int"):
        nn.Sequential(3)


def test_every_layer_has_a_function():
    names = {row["name"] for row in evoq.list("layers")["items"]}
    made = {
        layer.options["layer"]
        for layer in (
            nn.Conv(1),
            nn.MaxPool(),
            nn.AveragePool(),
            nn.GlobalPool(),
            nn.Flatten(),
            nn.BatchNorm(),
            nn.GroupNorm(1),
            nn.Linear(1),
            nn.LayerNorm(),
            nn.RmsNorm(),
            nn.Embedding(1, 1),
            nn.Positions(1),
            nn.Attention(1),
            nn.Activation(),
            nn.Sequential(),
            nn.Residual(),
            nn.Concat(),
        )
    }
    assert names == made


def test_train_on_arrays(tmp_path):
    images, labels = bars(640, 1)
    test, test_labels = bars(200, 2)
    report = evoq.train(
        small(),
        tmp_path / "small.onnx",
        data=images,
        labels=labels,
        test=test,
        test_labels=test_labels,
        epochs=8,
        batch=32,
        lr=0.01,
        seed=3,
    )
    assert report["test_accuracy"] > 0.95
    scores = evoq.load(tmp_path / "small.onnx").run({"input": test})["logits"]
    assert np.mean(scores.argmax(1) == test_labels) == report["test_accuracy"]
    # as an ONNX file it goes on from its weights
    more = evoq.train(
        small().onnx(seed=3), tmp_path / "more.onnx", data=images, labels=labels, epochs=1
    )
    assert more["parameters"] == report["parameters"]
    with pytest.raises(evoq.Error, match=r"labels of shape \[3\] for data of shape \[640"):
        evoq.train(small(), tmp_path / "x.onnx", data=images, labels=labels[:3])
    with pytest.raises(evoq.Error, match="an array without labels"):
        evoq.train(small(), tmp_path / "x.onnx", data=images)


def test_train_on_tokens(tmp_path):
    tokens = np.arange(3000) % 7
    net = nn.Network(
        nn.Embedding(7, 16),
        nn.Positions(16),
        nn.Residual(nn.LayerNorm(), nn.Attention(2, causal=True)),
        nn.Residual(nn.RmsNorm(), nn.Linear(32), nn.Activation("silu"), nn.Linear(16)),
        nn.Linear(7, bias=False),
        input="tokens",
    )
    report = evoq.train(
        net, tmp_path / "t.onnx", data=tokens, context=16, batch=16, epochs=12, lr=0.02, seed=1
    )
    assert report["test_perplexity"] < 1.5


def test_example(tmp_path):
    write_mnist(tmp_path)
    environment = {
        **os.environ,
        "PYTHONPATH": os.path.dirname(os.path.dirname(evoq.__file__)),
        "TMPDIR": str(tmp_path),
    }
    script = os.path.join(ROOT, "examples/python/network.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path, tmp_path / "small.onnx", "--epochs", "4"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "of 64 test samples right" in done.stdout and "steps int8" in done.stdout
    assert (tmp_path / "small.etm").stat().st_size > 0


def test_the_json_is_the_commands(tmp_path):
    (tmp_path / "net.json").write_text(small().json())
    evoq.tool("zoo", tmp_path / "net.json", output=tmp_path / "a.onnx", seed=3)
    assert (tmp_path / "a.onnx").read_bytes() == small().onnx(seed=3)
    assert json.loads(small().json())["name"] == "small"


def test_train_on_targets(tmp_path):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(256, 5)).astype(np.float32)
    y = np.stack([x.sum(1), x[:, 0] - x[:, 1]], 1)
    net = nn.Network(nn.Linear(16), nn.Activation("relu"), nn.Linear(2), input=(5,))
    report = evoq.train(
        net,
        tmp_path / "r.onnx",
        data=x,
        targets=y,
        test=x,
        test_targets=y,
        epochs=30,
        batch=32,
        lr=0.02,
        seed=1,
    )
    (output,) = evoq.load(tmp_path / "r.onnx").run({"input": x}).values()
    assert report["test_mse"] == pytest.approx(np.mean((output - y) ** 2), rel=1e-5)
    found = evoq.eval(tmp_path / "r.onnx", data=x, targets=y)["targets"][0]
    assert found["mse"] == pytest.approx(report["test_mse"], rel=1e-5)
    assert found["r2"] > 0.9, found
    with pytest.raises(evoq.Error, match="256 samples"):
        evoq.train(net, tmp_path / "x.onnx", data=x, targets=y[:3])
