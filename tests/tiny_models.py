"""Small ONNX models of every kind that a verb may meet, made with the onnx package."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

F, I = TensorProto.FLOAT, TensorProto.INT64


class Net:
    """A graph in the making: constants have random values from a seed, nodes are named after their
    output."""

    def __init__(self, seed=0):
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(seed)

    def const(self, name, values):
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weight(self, name, *sizes):
        fan = max(int(np.prod(sizes[1:] if len(sizes) == 4 else sizes[:-1])), 1)
        return self.const(
            name, (self.random.standard_normal(sizes) / np.sqrt(fan)).astype(np.float32)
        )

    def add(self, op, inputs, outputs, **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(
            helper.make_node(op, inputs, outputs, name=outputs[0] + "_node", **attributes)
        )
        return outputs[0]

    def conv(self, name, x, channels, filters, size=3, **attributes):
        pads = [size // 2] * 4
        return self.add(
            "Conv",
            [
                x,
                self.weight(name + ".w", filters, channels, size, size),
                self.weight(name + ".b", filters),
            ],
            name,
            pads=pads,
            **attributes,
        )

    def graph(self, name, inputs, outputs):
        return helper.make_graph(self.nodes, name, inputs, outputs, self.constants)

    def save(self, path, inputs, outputs, opset=17):
        model = helper.make_model(
            self.graph("g", inputs, outputs), opset_imports=[helper.make_opsetid("", opset)]
        )
        model.ir_version = 8
        save(model, path)


def value(name, *sizes, dtype=F):
    return helper.make_tensor_value_info(name, dtype, list(sizes))


def image_net(path, n="N", h="H", w="W"):
    net = Net(1)
    a = net.add("Relu", [net.conv("c1", "x", 3, 8)], "r1")
    b = net.add("Relu", [net.conv("c2", a, 8, 16, strides=[2, 2])], "r2")
    c = net.add("GlobalAveragePool", [net.add("Relu", [net.conv("c3", b, 16, 16)], "r3")], "gap")
    flat = net.add("Flatten", [c], "flat")
    net.add("Gemm", [flat, net.weight("fc.w", 16, 10), net.weight("fc.b", 10)], "y")
    net.save(path, [value("x", n, 3, h, w)], [value("y", n, 10)])


def dense_image_net(path):
    """Its output is as large as its input: height and width are found by shape arithmetic."""
    net = Net(2)
    a = net.add("Relu", [net.conv("c1", "x", 3, 8, strides=[2, 2])], "r1")
    shape = net.add("Shape", ["x"], "shape")
    hw = net.add(
        "Slice", [shape, net.const("two", np.array([2])), net.const("four", np.array([4]))], "hw"
    )
    sizes = net.add(
        "Concat",
        [
            net.add(
                "Slice",
                [net.add("Shape", [a], "sa"), net.const("zero", np.array([0])), "two"],
                "nc",
            ),
            hw,
        ],
        "sizes",
        axis=0,
    )
    up = net.add("Resize", [a, "", "", sizes], "up", mode="nearest")
    net.conv("y", up, 8, 4)
    net.save(path, [value("x", "N", 3, "H", "W")], [value("y", "N", 4, "H", "W")])


def attention(path, b="B", s="S"):
    net = Net(3)
    parts = [net.add("MatMul", ["x", net.weight(p + ".w", 16, 16)], p) for p in "qkv"]
    turned = net.add("Transpose", [parts[1]], "kt", perm=[0, 2, 1])
    weights = net.add(
        "Softmax", [net.add("MatMul", [parts[0], turned], "scores")], "weights", axis=-1
    )
    mixed = net.add("Add", [net.add("MatMul", [weights, parts[2]], "mixed"), "x"], "sum")
    hidden = net.add("Relu", [net.add("MatMul", [mixed, net.weight("up.w", 16, 64)], "up")], "act")
    net.add("MatMul", [hidden, net.weight("down.w", 64, 16)], "y")
    net.save(path, [value("x", b, s, 16)], [value("y", b, s, 16)])


def nonzero(path):
    """A convolution, then the places where it is positive, then work on what was found."""
    net = Net(4)
    a = net.conv("c1", "x", 3, 8)
    b = net.add("Relu", [net.conv("c2", a, 8, 8)], "r")
    found = net.add("Transpose", [net.add("NonZero", [b], "nz")], "rows", perm=[1, 0])
    as_float = net.add("Cast", [found], "f", to=F)
    net.add("MatMul", [as_float, net.weight("m.w", 4, 6)], "y")
    net.save(path, [value("x", 1, 3, 16, 16)], [value("r", 1, 8, 16, 16), value("y", "K", 6)])


def detector(path, n=1):
    """Boxes and scores from convolutions, NonMaxSuppression, and the chosen boxes."""
    net = Net(5)
    a = net.add("Relu", [net.conv("c1", "x", 3, 16, strides=[2, 2])], "r1")
    b = net.add("Relu", [net.conv("c2", a, 16, 16)], "r2")
    shape = net.const("rows", np.array([0, 4, -1]))
    boxes = net.add(
        "Transpose",
        [net.add("Reshape", [net.conv("boxes.c", b, 16, 4), shape], "b4")],
        "boxes",
        perm=[0, 2, 1],
    )
    scores = net.add(
        "Reshape",
        [
            net.add("Sigmoid", [net.conv("scores.c", b, 16, 1)], "s"),
            net.const("one", np.array([0, 1, -1])),
        ],
        "scores",
    )
    net.add(
        "NonMaxSuppression",
        [
            boxes,
            scores,
            net.const("most", np.array([20])),
            net.const("iou", np.float32([0.5])),
            net.const("least", np.float32([0.5])),
        ],
        "chosen",
    )
    which = net.add("Gather", ["chosen", net.const("last", np.array(2))], "which", axis=1)
    net.add("Gather", [boxes, which], "y", axis=1)
    net.save(path, [value("x", n, 3, 24, 24)], [value("y", n, "K", 4), value("scores", n, 1, 144)])


def branches(path):
    """An If on the sum of the input: one branch multiplies, the other adds; convolutions before
    it."""
    net, yes, no = Net(6), Net(7), Net(8)
    a = net.add("Relu", [net.conv("c1", "x", 3, 8)], "r1")
    net.conv("c2", a, 8, 8)
    yes.conv("t", "c2", 8, 8)
    no.add("Add", ["c2", no.const("half", np.float32(0.5))], "e")
    total = net.add("ReduceSum", ["x"], "total", keepdims=0)
    condition = net.add("Greater", [total, net.const("nought", np.float32(0))], "condition")
    out = [value("t", 1, 8, 12, 12)], [value("e", 1, 8, 12, 12)]
    net.add(
        "If",
        [condition],
        "y",
        then_branch=yes.graph("then", [], out[0]),
        else_branch=no.graph("else", [], out[1]),
    )
    net.save(path, [value("x", 1, 3, 12, 12)], [value("y", 1, 8, 12, 12)])


def loop(path):
    """As many rounds of a product as the input `n` says."""
    net, body = Net(9), Net(10)
    body.add("Tanh", [body.add("MatMul", ["s_in", body.weight("body.w", 16, 16)], "p")], "s_out")
    body.add("Identity", ["c_in"], "c_out")
    inner = body.graph(
        "body",
        [value("i", dtype=I), value("c_in", dtype=TensorProto.BOOL), value("s_in", 4, 16)],
        [value("c_out", dtype=TensorProto.BOOL), value("s_out", 4, 16)],
    )
    first = net.add("MatMul", ["x", net.weight("w", 16, 16)], "first")
    net.add("Loop", ["n", net.const("go", np.array(True)), first], "last", body=inner)
    net.add("MatMul", ["last", net.weight("w2", 16, 8)], "y")
    net.save(path, [value("x", 4, 16), value("n", dtype=I)], [value("y", 4, 8)])


def lstm(path, s="S"):
    net = Net(11)
    net.add(
        "LSTM",
        [
            "x",
            net.weight("lw", 1, 64, 8),
            net.weight("lr", 1, 64, 16),
            net.weight("lb", 1, 128),
            "",
            "h",
            "c",
        ],
        ["all", "hn", "cn"],
        hidden_size=16,
    )
    flat = net.add("Squeeze", ["all", net.const("one", np.array([1]))], "flat")
    net.add("MatMul", [flat, net.weight("out.w", 16, 4)], "y")
    net.save(
        path,
        [value("x", s, 1, 8), value("h", 1, 1, 16), value("c", 1, 1, 16)],
        [value("y", s, 1, 4), value("hn", 1, 1, 16), value("cn", 1, 1, 16)],
    )


def two_by_two(path):
    net = Net(12)
    both = net.add(
        "Add",
        [
            net.add("MatMul", ["a", net.weight("wa", 8, 16)], "ma"),
            net.add("MatMul", ["b", net.weight("wb", 4, 16)], "mb"),
        ],
        "both",
    )
    net.add("Relu", [both], "y")
    net.add("MatMul", ["y", net.weight("wz", 16, 3)], "z")
    net.save(
        path, [value("a", "N", 8), value("b", "N", 4)], [value("y", "N", 16), value("z", "N", 3)]
    )


def no_inputs(path):
    net = Net(13)
    net.add("RandomUniform", [], "u", shape=[2, 8], seed=1.0)
    net.add("MatMul", ["u", net.weight("w", 8, 4)], "y")
    net.save(path, [], [value("y", 2, 4)])


def passes_through(path):
    net = Net(14)
    net.add("MatMul", ["x", net.weight("w", 8, 4)], "y")
    net.save(path, [value("x", 2, 8)], [value("y", 2, 4), value("x", 2, 8)])


def scalar(path):
    net = Net(15)
    net.add("Mul", ["x", net.const("two", np.float32(2))], "y")
    net.save(path, [value("x")], [value("y")])


def strings(path):
    net = Net(16)
    net.add("Identity", ["x"], "y")
    net.save(
        path,
        [value("x", "N", dtype=TensorProto.STRING)],
        [value("y", "N", dtype=TensorProto.STRING)],
    )
