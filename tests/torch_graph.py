"""ONNX graphs computed by PyTorch, with gradients: what tests and benchmarks of training compare
with. Normalization is that of training: over the batch."""

import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper


def pads_of(attributes):
    """Symmetric pads, as torch has them."""
    pads = attributes.get("pads", [0, 0, 0, 0])
    half = len(pads) // 2
    assert pads[:half] == pads[half:], pads
    return pads[:half]


def convolved(a, x, w, b=None):
    stride, dilation = a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    return F.conv2d(x, w, b, stride, pads_of(a), dilation, a.get("group", 1))


def product(a, x, w, b=None):
    y = (x.T if a.get("transA") else x) @ (w.T if a.get("transB") else w)
    return y * a.get("alpha", 1.0) + (0 if b is None else a.get("beta", 1.0) * b)


def sliced(_, x, begins, ends, axes):
    for begin, end, axis in zip(begins.tolist(), ends.tolist(), axes.tolist()):
        index = [slice(None)] * x.ndim
        index[axis] = slice(begin, end)
        x = x[tuple(index)]
    return x


def reshaped(_, x, shape):
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape.tolist())])


def sizes(a, x):
    return torch.tensor(list(x.shape)[a.get("start", 0) : a.get("end")], dtype=torch.int64)


def pool(function):
    return lambda a, x: function(x, a["kernel_shape"], a.get("strides", [1, 1]), pads_of(a))


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "AveragePool": pool(F.avg_pool2d),
    "BatchNormalization": lambda a, x, g, b, m, v: F.batch_norm(
        x, None, None, g, b, training=True, eps=a.get("epsilon", 1e-5)
    ),
    "Cast": lambda a, x: x.to({1: torch.float32, 7: torch.int64, 9: torch.bool}[a["to"]]),
    "Clip": lambda a, x, low, high: x.clamp(low.item(), high.item()),
    "Concat": lambda a, *parts: torch.cat(parts, a["axis"]),
    "ConstantOfShape": lambda a, shape: torch.full(shape.tolist(), a["value"].item()),
    "Conv": convolved,
    "Flatten": lambda a, x: x.flatten(a.get("axis", 1)),
    "Gather": lambda a, x, i: F.embedding(i, x),
    "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", b"none").decode()),
    "Gemm": product,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "LayerNormalization": lambda a, x, g, b: F.layer_norm(x, g.shape, g, b, a.get("epsilon", 1e-5)),
    "MatMul": lambda a, x, y: x @ y,
    "MaxPool": pool(F.max_pool2d),
    "Mul": lambda a, x, y: x * y,
    "Relu": lambda a, x: F.relu(x),
    "Reshape": reshaped,
    "Shape": sizes,
    "Slice": sliced,
    "Softmax": lambda a, x: F.softmax(x, a.get("axis", -1)),
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Trilu": lambda a, x: torch.triu(x) if a.get("upper", 1) else torch.tril(x),
    "Where": lambda a, c, x, y: torch.where(c, x, y),
}


def value_of(attribute):
    value = helper.get_attribute_value(attribute)
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


class TorchGraph:
    """A graph of one input and one output, in float64 or float32. Parameters are its float
    initializers."""

    def __init__(self, path, dtype=torch.float64):
        graph = onnx.load(path).graph
        self.nodes = [(n, {a.name: value_of(a) for a in n.attribute}) for n in graph.node]
        self.input, self.output = graph.input[0].name, graph.output[0].name
        self.values = {}
        for initializer in graph.initializer:
            value = torch.from_numpy(numpy_helper.to_array(initializer).copy())
            if value.is_floating_point():
                value = value.to(dtype).requires_grad_()
            self.values[initializer.name] = value

    def __call__(self, x):
        values = {**self.values, self.input: x}
        for node, attributes in self.nodes:
            inputs = [values[name] if name else None for name in node.input]
            values[node.output[0]] = OPERATORS[node.op_type](attributes, *inputs)
        return values[self.output]
