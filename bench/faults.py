"""Faults of Q/DQ placement, planted in a well-placed ONNX file: what published models have. Each
takes a ModelProto and returns whether it found a place."""

import numpy as np
import onnx
from onnx import helper, numpy_helper


def readers(graph, name):
    return [n for n in graph.node if name in n.input]


def producer(graph, name):
    return next((n for n in graph.node if name in n.output), None)


def constant(graph, name):
    return next((i for i in graph.initializer if i.name == name), None)


def pairs(graph):
    """(QuantizeLinear, its DequantizeLinear nodes) of activations."""
    for node in list(graph.node):
        if node.op_type == "QuantizeLinear":
            yield (
                node,
                [n for n in readers(graph, node.output[0]) if n.op_type == "DequantizeLinear"],
            )


def replace_reads(graph, old, new, of=None):
    for node in graph.node if of is None else of:
        for i, name in enumerate(node.input):
            if name == old:
                node.input[i] = new


def shortcut_in_float(model):
    """The shortcut of each residual sum reads the value before its QuantizeLinear."""
    graph, found = model.graph, 0
    for add in [n for n in graph.node if n.op_type == "Add"]:
        dequantize = producer(graph, add.input[1])
        if dequantize is None or dequantize.op_type != "DequantizeLinear":
            continue
        quantize = producer(graph, dequantize.input[0])
        if quantize is not None and quantize.op_type == "QuantizeLinear":
            add.input[1] = quantize.input[0]
            found += 1
    return found


def pool_in_float(model):
    """No pair behind average pooling."""
    graph, found = model.graph, 0
    for quantize, dequantizers in pairs(graph):
        pool = producer(graph, quantize.input[0])
        if pool is not None and pool.op_type in ("AveragePool", "GlobalAveragePool"):
            for d in dequantizers:
                replace_reads(graph, d.output[0], quantize.input[0])
            found += 1
    return found


def signed(model):
    """int8 activations: the same numbers."""
    graph, found = model.graph, 0
    for quantize, dequantizers in pairs(graph):
        zero = numpy_helper.to_array(constant(graph, quantize.input[2])).astype(np.int32)
        name = quantize.output[0] + "/signed_zero"
        graph.initializer.append(numpy_helper.from_array((zero - 128).astype(np.int8), name))
        for node in [quantize, *dequantizers]:
            node.input[2] = name
        found += 1
    del graph.value_info[:]
    return found


def relu_kept(model):
    """Scales behind Relu and Clip reach below 0, as symmetric quantizers write them."""
    graph, found = model.graph, 0
    for quantize, dequantizers in pairs(graph):
        before = producer(graph, quantize.input[0])
        if (
            before is None
            or before.op_type not in ("Conv", "Relu", "Clip")
            or len(readers(graph, before.output[0])) != 1
        ):
            continue
        zero = constant(graph, quantize.input[2])
        if numpy_helper.to_array(zero) != 0:
            continue
        scale = 2 * numpy_helper.to_array(constant(graph, quantize.input[1]))
        graph.initializer.append(
            numpy_helper.from_array(np.asarray(scale, np.float32), quantize.output[0] + "/wide")
        )
        graph.initializer.append(
            numpy_helper.from_array(np.asarray(128, np.uint8), quantize.output[0] + "/middle")
        )
        for node in [quantize, *dequantizers]:
            node.input[1], node.input[2] = (
                quantize.output[0] + "/wide",
                quantize.output[0] + "/middle",
            )
        found += 1
        if before.op_type != "Conv":
            continue
        relu = helper.make_node(
            "Relu", [before.output[0]], [before.output[0] + "/relu"], name=before.name + "/relu"
        )
        graph.node.insert(list(graph.node).index(quantize), relu)
        quantize.input[0] = relu.output[0]
    return found


def batch_norm(model):
    """A BatchNormalization behind each Conv that a pair follows."""
    graph, found = model.graph, 0
    for quantize, _ in pairs(graph):
        conv = producer(graph, quantize.input[0])
        if conv is None or conv.op_type != "Conv":
            continue
        weights = constant(graph, producer(graph, conv.input[1]).input[0])
        channels = weights.dims[0]
        for key, value in (("scale", 1.0), ("bias", 0.0), ("mean", 0.0), ("var", 1.0)):
            graph.initializer.append(
                numpy_helper.from_array(
                    np.full(channels, value, np.float32), f"{conv.name}/bn_{key}"
                )
            )
        names = [f"{conv.name}/bn_{key}" for key in ("scale", "bias", "mean", "var")]
        node = helper.make_node(
            "BatchNormalization",
            [conv.output[0], *names],
            [conv.output[0] + "/bn"],
            name=conv.name + "/bn",
            epsilon=1e-12,
        )
        graph.node.insert(list(graph.node).index(quantize), node)
        quantize.input[0] = node.output[0]
        found += 1
    return found


def parameters(graph, data_type):
    """(DequantizeLinear, its initializer) where that is of this type."""
    for node in graph.node:
        value = constant(graph, node.input[0]) if node.op_type == "DequantizeLinear" else None
        if value is not None and value.data_type == data_type:
            yield node, value


def give(graph, node, index, suffix, array):
    """Input `index` of the node becomes this constant."""
    graph.initializer.append(numpy_helper.from_array(array, node.output[0] + suffix))
    node.input[index] = node.output[0] + suffix


def unsigned_weights(model):
    """Weights as uint8 with zero point 128."""
    graph, found = model.graph, 0
    for node, weights in parameters(graph, onnx.TensorProto.INT8):
        give(graph, node, 2, "/middle", np.full(constant(graph, node.input[2]).dims, 128, np.uint8))
        give(
            graph,
            node,
            0,
            "/unsigned",
            (numpy_helper.to_array(weights).astype(np.int32) + 128).astype(np.uint8),
        )
        found += 1
    return found


def bias_int8(model):
    """Biases as int8 with one scale."""
    graph, found = model.graph, 0
    for node, bias in parameters(graph, onnx.TensorProto.INT32):
        real = numpy_helper.to_array(bias) * numpy_helper.to_array(constant(graph, node.input[1]))
        scale = np.asarray(max(np.abs(real).max(), 1e-6) / 127, np.float32)
        give(graph, node, 0, "/int8", np.rint(real / scale).astype(np.int8))
        give(graph, node, 1, "/scale", scale)
        del node.attribute[:]
        found += 1
    return found


def conv_only(model):
    """Pairs on the inputs of Conv and Gemm alone: sums, pooling and activations in float, no pair
    behind them."""
    graph, found = model.graph, 0
    for quantize, dequantizers in pairs(graph):
        for d in dequantizers:
            others = [
                n
                for n in readers(graph, d.output[0])
                if n.op_type not in ("Conv", "Gemm", "MatMul")
            ]
            replace_reads(graph, d.output[0], quantize.input[0], others)
            found += len(others)
    return found


FAULTS = (
    shortcut_in_float,
    pool_in_float,
    signed,
    relu_kept,
    batch_norm,
    unsigned_weights,
    bias_int8,
    conv_only,
)


def plant(fault, source, target):
    model = onnx.load(source)
    if not fault(model):
        return False
    # Nodes that nothing reads any more.
    graph = model.graph
    while True:
        used = {o.name for o in graph.output} | {i for n in graph.node for i in n.input}
        dead = [n for n in graph.node if not any(o in used for o in n.output)]
        if not dead:
            break
        for n in dead:
            graph.node.remove(n)
    onnx.save(model, target)
    return True
