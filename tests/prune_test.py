#!/usr/bin/env python3
"""Pruning from the command line: what `evoq prune` sets to 0 is 0 in the file, int8 products skip
it on each instruction set to the same outputs, the .etm is smaller and its bytes add up; patterns
that nothing skips change neither size nor kernels, and the command says so.

Skips (exit status 77) where numpy or onnx from PyPI is missing.
"""

import json
import os
import pathlib
import subprocess
import tempfile

import agree

agree.need("numpy", "onnx")
import numpy as np
import onnx
from onnx import numpy_helper

QUICK = ["--duration-s", "0.05", "--threads", "1"]


def told(folder, *arguments, environment=None):
    path = os.path.join(folder, "told.json")
    command = [agree.EVOQ, *map(str, arguments), "--json", path]
    environment = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8")), done.stdout


def write_net(path):
    """Two convolutions of 3x3 and three of 1x1, with weights that are worth nothing equal."""
    random = np.random.default_rng(5)
    nodes, weights, value = [], [], "x"
    layers = [(3, 256, 3), (256, 256, 1), (256, 48, 1), (48, 256, 3), (256, 128, 1)]
    for i, (inputs, outputs, size) in enumerate(layers):
        w = random.normal(0, 1 / np.sqrt(inputs * size * size), (outputs, inputs, size, size))
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{i}"))
        pads = [size // 2] * 4
        nodes.append(onnx.helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], f"c{i}", pads=pads))
        value = f"c{i}" if i == len(layers) - 1 else f"r{i}"
        if value == f"r{i}":
            nodes.append(onnx.helper.make_node("Relu", [f"c{i}"], [value], value))
    image = [1, 3, 24, 24]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, image)
    y = onnx.helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, [1, 128, 24, 24])
    graph = onnx.helper.make_graph(nodes, "net", [x], [y], weights)
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def weights_of(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


def variants(folder, model):
    profile, _ = told(folder, "profile", model, *QUICK)
    return {s["name"]: s["kernel"] + " " + s["variant"] for s in profile["steps"]}


def check_blocks(folder, model, pattern, columns, depth):
    out = os.path.join(folder, "p.onnx")
    report, text = told(folder, "prune", model, "--pattern", pattern, "-o", out)
    assert "skip blocks that are 0" in text, text
    assert 0.74 < report["sparsity"] < 0.76, report["sparsity"]
    assert [left["node"] for left in report["left"]] == ["c0"], report["left"]
    before, after = weights_of(model), weights_of(out)
    for layer in report["layers"]:
        was, now = before[layer["weight"]], after[layer["weight"]]
        assert int((now == 0).sum()) == layer["zeros"]
        assert ((now == was) | (now == 0)).all()
        m, c, height, width = now.shape
        blocks = now.reshape(m // columns, columns, c // depth, depth, height, width)
        used = (blocks != 0).any((1, 3))
        assert int(used.sum()) == layer["blocks_left"], layer
        assert ((blocks != 0).all((1, 3)) == used).all()
    etm = os.path.join(folder, "p.etm")
    told(folder, "quantize", out, "--calib-random", 2, "-o", etm)
    names = variants(folder, etm)
    skipping = [name for name, plan in names.items() if " blocks, " in plan]
    # c3 may be Winograd's, and AMX skips nothing
    assert "amx" in str(names) or {"c1", "c2", "c4"} <= set(skipping), names
    outputs = {}
    sample = os.path.join(folder, "x.npy")
    np.save(sample, np.random.default_rng(1).normal(0, 1, (1, 3, 24, 24)).astype(np.float32))
    for target in ("", "SCALAR"):
        result = os.path.join(folder, "y" + target)
        environment = {"EVOQ_TARGET": target} if target else None
        told(
            folder,
            "run",
            etm,
            "--input",
            f"x={sample}",
            "--output-dir",
            result,
            environment=environment,
        )
        found = sorted(pathlib.Path(result).glob("*.npy"))
        outputs[target] = [np.load(path) for path in found]
    assert outputs[""], "no outputs"
    for a, b in zip(outputs[""], outputs["SCALAR"]):
        assert np.array_equal(a, b), "instruction sets disagree"
    return os.path.getsize(etm)


def check_channels(folder, model, size):
    """Whole channels go, the last layer's stay; explain says what that was in bytes."""
    out, etm = os.path.join(folder, "c.onnx"), os.path.join(folder, "c.etm")
    report, text = told(folder, "prune", model, "--pattern", "channel", "-o", out)
    before, after = weights_of(model), weights_of(out)
    layers = {layer["node"]: layer for layer in report["layers"]}
    for i in range(5):
        layer, now = layers[f"c{i}"], after[f"w{i}"]
        assert now.shape[0] == layer["channels"] == before[f"w{i}"].shape[0] // (1 + (i < 4))
        assert now.shape[1] == (layers[f"c{i - 1}"]["channels"] if i else 3), now.shape
        assert now.size == layer["weights"]
    assert report["left"] == [{"node": "c4", "why": "they are the output c4"}], report["left"]
    assert report["float_weight_bytes"] == sum(w.nbytes for w in after.values())
    assert report["macs"] < 0.4 * report["macs_before"], report
    told(folder, "quantize", out, "--calib-random", 2, "-o", etm)
    assert os.path.getsize(etm) < 0.5 * size, (os.path.getsize(etm), size)
    explained, text = told(folder, "explain", etm, *QUICK)
    unpruned = explained["bytes"]["unpruned_float_file"]
    assert unpruned == sum(w.nbytes for w in before.values()), unpruned
    assert "pruned channels: of " in text, text
    # A model that ends in what mixes its channels cannot lose any.
    refused = subprocess.run(
        [agree.EVOQ, "prune", model, "--pattern", "channel", "--layers", "c4", "-o", out + "x"],
        capture_output=True,
        text=True,
    )
    assert refused.returncode != 0 and "expected a name that ends in .onnx" in refused.stderr
    refused = subprocess.run(
        [agree.EVOQ, "prune", model, "--pattern", "channel", "--layers", "c4", "-o", out],
        capture_output=True,
        text=True,
    )
    assert "no channel can go: c4: they are the output c4" in refused.stderr, refused.stderr


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_prune_") as folder:
        model = os.path.join(folder, "net.onnx")
        write_net(model)
        dense = os.path.join(folder, "dense.etm")
        told(folder, "quantize", model, "--calib-random", 2, "-o", dense)
        size = os.path.getsize(dense)
        for pattern, columns, depth in (("block-4x4", 4, 4), ("block-1x16", 1, 16)):
            sparse = check_blocks(folder, model, pattern, columns, depth)
            assert sparse < 0.6 * size, (pattern, sparse, size)
        for pattern, sparsity in (("2:4", []), ("unstructured", ["--sparsity", "0.75"])):
            out, etm = os.path.join(folder, "u.onnx"), os.path.join(folder, "u.etm")
            _, text = told(folder, "prune", model, "--pattern", pattern, *sparsity, "-o", out)
            assert "no faster and no smaller" in text, text
            told(folder, "quantize", out, "--calib-random", 2, "-o", etm)
            assert not any(" blocks, " in plan for plan in variants(folder, etm).values())
        check_channels(folder, model, size)
    print(
        "blocks of 4x4 and 1x16 are skipped and not stored; 2:4 and single weights are not; "
        "channels are gone"
    )


if __name__ == "__main__":
    main()
