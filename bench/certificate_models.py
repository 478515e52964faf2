"""Small models that are more than one fixed list of steps, with seeded random weights: for
bench/certificate.py."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Builder:
    """Collects nodes and weights."""

    def __init__(self, seed):
        self.random, self.nodes, self.weights = np.random.default_rng(seed), [], []

    def weight(self, name, shape, deviation):
        self.weights.append(
            numpy_helper.from_array(
                self.random.normal(0, deviation, shape).astype(np.float32), name
            )
        )
        return name

    def constant(self, name, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, outputs, **attributes):
        self.nodes.append(
            helper.make_node(op, inputs, outputs, f"{op}_{len(self.nodes)}", **attributes)
        )
        return outputs[0]

    def conv(self, x, name, features, channels, kernel=3, stride=1, relu=True):
        w = self.weight(
            f"{name}_w",
            (channels, features, kernel, kernel),
            np.sqrt(2 / (features * kernel * kernel)),
        )
        y = self.node("Conv", [x, w], [name], pads=[kernel // 2] * 4, strides=[stride] * 2)
        return self.node("Relu", [y], [f"{name}_r"]) if relu else y

    def save(self, path, inputs, outputs):
        def info(values):
            return [
                helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in values
            ]

        graph = helper.make_graph(self.nodes, "net", info(inputs), info(outputs), self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def detector_nms(path):
    """A backbone, boxes and scores for each place, and NonMaxSuppression: the number of boxes
    depends on the picture."""
    b, size = Builder(2), 96
    x, features = "x", 3
    for i, channels in enumerate((24, 32, 48)):
        x = b.conv(x, f"down{i}", features, channels, stride=2)
        x = b.conv(x, f"mix{i}", channels, channels)
        features = channels
    places = (size // 8) ** 2
    boxes = b.conv(x, "box", features, 4, kernel=1, relu=False)
    scores = b.conv(x, "score", features, 1, kernel=1, relu=False)
    boxes = b.node(
        "Reshape",
        [boxes, b.constant("box_shape", np.array([1, 4, places], np.int64))],
        ["box_rows"],
    )
    boxes = b.node("Transpose", [boxes], ["boxes"], perm=[0, 2, 1])
    scores = b.node(
        "Reshape",
        [scores, b.constant("score_shape", np.array([1, 1, places], np.int64))],
        ["score_rows"],
    )
    scores = b.node("Sigmoid", [scores], ["scores"])
    options = [
        b.constant("most", np.array([20], np.int64)),
        b.constant("overlap", np.array([0.5], np.float32)),
        b.constant("least", np.array([0.5], np.float32)),
    ]
    b.node("NonMaxSuppression", [boxes, scores] + options, ["selected"], center_point_box=1)
    b.save(
        path,
        [("x", TensorProto.FLOAT, [1, 3, size, size])],
        [
            ("boxes", TensorProto.FLOAT, [1, places, 4]),
            ("scores", TensorProto.FLOAT, [1, 1, places]),
            ("selected", TensorProto.INT64, [None, 3]),
        ],
    )


def lstm_state(path):
    """Frames of features through an LSTM whose state goes in and comes out."""
    b, frames, width, hidden = Builder(3), 16, 64, 128
    b.node("MatMul", ["x", b.weight("in_w", (width, hidden), np.sqrt(1 / width))], ["features"])
    b.node("Relu", ["features"], ["active"])
    weights = [
        b.weight("w", (1, 4 * hidden, hidden), np.sqrt(1 / hidden)),
        b.weight("r", (1, 4 * hidden, hidden), np.sqrt(1 / hidden)),
        b.weight("bias", (1, 8 * hidden), 0.1),
    ]
    b.node(
        "LSTM", ["active"] + weights + ["", "h", "c"], ["all", "h_out", "c_out"], hidden_size=hidden
    )
    b.node("Squeeze", ["all", b.constant("axis", np.array([1], np.int64))], ["rows"])
    b.node("MatMul", ["rows", b.weight("out_w", (hidden, width), np.sqrt(1 / hidden))], ["y"])
    state = [1, 1, hidden]
    b.save(
        path,
        [
            ("x", TensorProto.FLOAT, [frames, 1, width]),
            ("h", TensorProto.FLOAT, state),
            ("c", TensorProto.FLOAT, state),
        ],
        [
            ("y", TensorProto.FLOAT, [frames, 1, width]),
            ("h_out", TensorProto.FLOAT, state),
            ("c_out", TensorProto.FLOAT, state),
        ],
    )


def transformer_free(path):
    """Two blocks of attention and a feed-forward part over a sequence of any length."""
    b, width = Builder(4), 96
    x = "x"
    for i in range(2):

        def linear(value, name, inputs, outputs):
            return b.node(
                "MatMul",
                [value, b.weight(f"{name}{i}_w", (inputs, outputs), np.sqrt(1 / inputs))],
                [f"{name}{i}"],
            )

        q, k, v = (linear(x, name, width, width) for name in "qkv")
        k = b.node("Transpose", [k], [f"kt{i}"], perm=[0, 2, 1])
        scores = b.node("MatMul", [q, k], [f"scores{i}"])
        scores = b.node(
            "Mul", [scores, b.constant(f"scale{i}", np.float32(width**-0.5))], [f"scaled{i}"]
        )
        shares = b.node("Softmax", [scores], [f"shares{i}"], axis=-1)
        mixed = linear(b.node("MatMul", [shares, v], [f"mixed{i}"]), "o", width, width)
        x = b.node("Add", [x, mixed], [f"attended{i}"])
        inner = b.node("Relu", [linear(x, "up", width, 4 * width)], [f"inner{i}"])
        x = b.node("Add", [x, linear(inner, "down", 4 * width, width)], [f"block{i}"])
    b.node("Identity", [x], ["y"])
    b.save(
        path,
        [("x", TensorProto.FLOAT, [1, "length", width])],
        [("y", TensorProto.FLOAT, [1, "length", width])],
    )


def branch_if(path):
    """A backbone, and one of two heads by the mean of what it gives."""
    b = Builder(5)
    x = b.conv("x", "first", 3, 32, stride=2)
    x = b.conv(x, "second", 32, 48)
    mean = b.node("ReduceMean", [x], ["mean"], keepdims=0)
    condition = b.node("Greater", [mean, b.constant("limit", np.float32(0.3))], ["condition"])

    def branch(name, kernel):
        inner = Builder(6 + kernel)
        y = inner.conv(x, name, 48, 48, kernel=kernel)
        info = helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 48, 24, 24])
        return helper.make_graph(inner.nodes, name, [], [info], inner.weights)

    y = b.node(
        "If",
        [condition],
        ["chosen"],
        then_branch=branch("wide", 3),
        else_branch=branch("narrow", 1),
    )
    b.node("GlobalAveragePool", [y], ["y"])
    b.save(
        path, [("x", TensorProto.FLOAT, [1, 3, 48, 48])], [("y", TensorProto.FLOAT, [1, 48, 1, 1])]
    )


WRITERS = {
    "detector_nms": detector_nms,
    "lstm_state": lstm_state,
    "transformer_free": transformer_free,
    "branch_if": branch_if,
}
