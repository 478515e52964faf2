#!/usr/bin/env python3
"""QONNX's operators (Quant, BipolarQuant, Trunc) and FINN's MultiThreshold beside their definitions
in numpy: a real network of Brevitas, and small ones with every rounding, sign, width and layout.
Skips without onnx and the data folder."""

import json
import pathlib
import sys
import tempfile

from agree import DATA, evoq, need, need_data

need("numpy", "onnx")
need_data()

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

GENERAL = "qonnx.custom_op.general"
DOMAINS = ["onnx.brevitas", GENERAL, "finn.custom_op.general"]
ROUNDINGS = {
    "ROUND": np.round,
    "ceil": np.ceil,  # as Brevitas writes them
    "FLOOR": np.floor,
    "UP": lambda y: np.sign(y) * np.ceil(np.abs(y)),
    "DOWN": np.fix,
    "HALF_UP": lambda y: np.sign(y) * np.floor(np.abs(y) + 0.5),
    "HALF_DOWN": lambda y: np.sign(y) * np.ceil(np.abs(y) - 0.5),
}


def bounds(signed, narrow, bits):
    """The integers of so many bits."""
    if signed:
        return -(2 ** (bits - 1)) + (1 if narrow else 0), 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - (1 if narrow else 0)


def quant(x, scale, zero, bits, signed=1, narrow=0, rounding_mode="ROUND"):
    y = x / scale + zero
    if bits == 1 and signed:
        y = np.where(y >= 0, 1, -1)
    else:
        y = ROUNDINGS[rounding_mode](np.clip(y, *bounds(signed, narrow, int(bits))))
    return ((y - zero) * scale).astype(np.float32)


def bipolar(x, scale):
    return (np.where(x >= 0, 1, -1) * scale).astype(np.float32)


def trunc(x, scale, zero, bits, *rest, signed=1, narrow=0, rounding_mode="FLOOR"):
    y = np.round(x / scale + zero)
    if len(rest) == 1:
        y = ROUNDINGS[rounding_mode](y / 2.0 ** (bits - rest[0]))
        return ((y - zero) * scale).astype(np.float32)
    out_scale, out_bits = rest[0], rest[-1]
    power = 2.0 ** np.round(np.log2(out_scale / scale))
    y = np.clip(y / power, *bounds(signed, narrow, int(out_bits)))
    return ((ROUNDINGS[rounding_mode](y) - zero / power) * out_scale).astype(np.float32)


def multi_threshold(x, thresholds, out_scale=1.0, out_bias=0.0, data_layout="NCHW", **_):
    axis = 1 if data_layout == "NCHW" and x.ndim in (2, 4) else x.ndim - 1
    moved = np.moveaxis(x, axis, -1)[..., None]
    count = np.moveaxis((moved >= thresholds).sum(-1), -1, axis)
    return (out_scale * count + out_bias).astype(np.float32)


def norm(x, scale, bias, mean, variance, epsilon=1e-5, **_):
    def along(values):
        return values.reshape(-1, *[1] * (x.ndim - 2))

    y = (x - along(mean)) * along(scale / np.sqrt(variance + epsilon)) + along(bias)
    return y.astype(np.float32)


def operator(domain, name, function, defaults):
    """An operator of onnx's reference evaluator."""

    def _run(self, *inputs, **attributes):
        told = {key: value for key, value in attributes.items() if value is not None}
        return (function(*inputs, **{**defaults, **told}),)

    return type(name, (OpRun,), {"op_domain": domain, "_run": _run})


def reference(model):
    quants = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
    # That of the reference evaluator trains before operator set 14.
    operators = [operator("", "BatchNormalization", norm, {})]
    for domain in DOMAINS:
        operators += [
            operator(domain, "Quant", quant, quants),
            operator(domain, "BipolarQuant", bipolar, {}),
            operator(domain, "Trunc", trunc, {**quants, "rounding_mode": "FLOOR"}),
            operator(domain, "MultiThreshold", multi_threshold, {}),
        ]
    return ReferenceEvaluator(model, new_ops=operators)


def ran(folder, path, x):
    """evoq's first output, from an .etm."""
    np.save(folder / "x.npy", x)
    evoq("compile", path, "-o", folder / "m.etm")
    (folder / "out").mkdir(exist_ok=True)
    for old in (folder / "out").iterdir():
        old.unlink()
    evoq("run", folder / "m.etm", "--input", folder / "x.npy", "--output-dir", folder / "out")
    (output,) = (folder / "out").iterdir()
    return np.load(output)


def real_network(folder):
    """Whole, and each part between two activations on the definition's values: one that rounds to
    the other side of a tie moves many behind it, by whole steps of 4 bits."""
    path = f"{DATA}/quantized/espcn_subpixel_qonnx.onnx"
    model = onnx.load(path)
    x = np.random.default_rng(1).random((1, 3, 128, 128)).astype(np.float32)
    start = model.graph.input[0].name
    weights = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    steps = {n.output[0]: float(weights[n.input[1]]) for n in model.graph.node
             if n.op_type == "Quant" and n.input[0] not in weights}  # fmt: skip
    values = x
    for target, step in steps.items():
        part = part_of(model, start, values.shape, target)
        onnx.save(part, folder / "part.onnx")
        wanted = reference(part).run(None, {start: values})[0]
        got = ran(folder, folder / "part.onnx", values)
        apart = np.abs(got - wanted) / step
        equal = (apart < 0.01).mean()
        print(f"espcn to {target}: {equal:.4%} equal, at most {apart.max():.2f} steps apart")
        assert apart.max() < 1.01 and equal > 0.98, target
        # The next part begins with this Quant, which leaves its own numbers as they are.
        start = next(n.input[0] for n in model.graph.node if target in n.output)
        values = wanted
    whole = np.abs(ran(folder, path, x) - values)
    print(f"espcn whole: at most {whole.max():.4f} apart, {whole.mean():.2e} on average")
    assert whole.mean() < 0.5 * step
    evoq("inspect", folder / "m.etm", "--json", folder / "inspect.json")
    told = json.loads((folder / "inspect.json").read_text(encoding="utf-8"))
    assert told["weight_bytes"] < 2 * told["parameters"], told  # integers


def part_of(model, start, shape, target):
    """The model from one value to another."""
    part = onnx.ModelProto.FromString(model.SerializeToString())
    needed, nodes = {target}, []
    for node in reversed(model.graph.node):
        if set(node.output) & needed and start not in node.output:
            nodes.insert(0, node)
            needed |= set(node.input)
    del part.graph.node[:], part.graph.input[:], part.graph.output[:]
    part.graph.node.extend(nodes)
    part.graph.input.append(helper.make_tensor_value_info(start, TensorProto.FLOAT, shape))
    part.graph.output.append(helper.make_tensor_value_info(target, TensorProto.FLOAT, None))
    return part


def small(folder, node, x, constants, domain=GENERAL):
    """One operator, then an Add that its type must pass through."""
    initializers = [
        helper.make_tensor(name, TensorProto.FLOAT, np.shape(value), np.ravel(value))
        for name, value in constants.items()
    ]
    graph = helper.make_graph(
        [node, helper.make_node("Add", ["q", "q"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        initializers,
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8)
    path = folder / "small.onnx"
    onnx.save(model, path)
    wanted = reference(model).run(None, {"x": x})[0]
    got = ran(folder, path, x)
    assert np.allclose(got, wanted, rtol=1e-6, atol=1e-6), f"{node}\n{got}\n{wanted}"
    return 1


def small_networks(folder):
    x = np.linspace(-3, 3, 2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    channels = np.array([0.25, 0.5, 1], np.float32).reshape(1, 3, 1, 1)
    count = 0
    for mode in ROUNDINGS:
        for signed, narrow, bits in ((1, 0, 3), (1, 1, 8), (0, 0, 4), (1, 0, 1), (0, 0, 1),
                                     (1, 0, 24), (0, 1, 32)):  # fmt: skip
            for scale in (np.float32(0.25), channels):
                node = helper.make_node("Quant", ["x", "s", "z", "b"], ["q"], domain=GENERAL,
                                        signed=signed, narrow=narrow,
                                        rounding_mode=mode)  # fmt: skip
                constants = {"s": scale, "z": np.float32(0), "b": np.float32(bits)}
                count += small(folder, node, x, constants)
        for inputs, constants in (
            (["x", "s", "z", "b", "o"], {"b": 8, "o": 5}),
            (["x", "s", "z", "b", "t", "u", "o"], {"b": 8, "t": 1.0, "u": 0, "o": 3}),
            (["x", "s", "z", "b", "t", "o"], {"b": 8, "t": 0.5, "o": 4}),
        ):
            node = helper.make_node("Trunc", inputs, ["q"], domain=GENERAL, rounding_mode=mode)
            scales = {"s": 0.125, "z": 0, **constants}
            count += small(folder, node, x, {k: np.float32(v) for k, v in scales.items()})
    for domain in DOMAINS:
        node = helper.make_node("BipolarQuant", ["x", "s"], ["q"], domain=domain)
        count += small(folder, node, x, {"s": channels}, domain)
    thresholds = np.sort(np.random.default_rng(2).uniform(-3, 3, (3, 7)), axis=1)
    for layout, at, t in (("NCHW", x, thresholds), ("NCHW", x, thresholds[:1]),
                          ("NHWC", np.moveaxis(x, 1, -1).copy(), thresholds),
                          ("NCHW", x[:, :, 0, 0].copy(), thresholds),
                          ("NCHW", np.moveaxis(x[0], 0, -1).copy(), thresholds)):  # fmt: skip
        for attributes in ({}, {"out_scale": 0.5, "out_bias": -1.5}, {"out_bias": 0.3}):
            told = {"out_dtype": "UINT3", "data_layout": layout, **attributes}
            node = helper.make_node("MultiThreshold", ["x", "t"], ["q"], domain=GENERAL, **told)
            count += small(folder, node, at, {"t": t.astype(np.float32)})
    print(f"{count} small networks agree")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        real_network(folder)
        small_networks(folder)


if __name__ == "__main__":
    sys.exit(main())
