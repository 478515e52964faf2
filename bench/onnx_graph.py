"""Writes a network once and emits it in any of the forms in which int8 arrives (see Form).

A network calls Graph's layers; the form decides which nodes they become. Values are float tensors
throughout: in a quantized form, the outputs of DequantizeLinear.
"""

from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
SCALE = 0.05  # of activations, as no calibration takes part


@dataclass(frozen=True)
class Form:
    """How layers are written.

    kind: "float", "qdq" (QuantizeLinear/DequantizeLinear pairs), "dynamic" (DynamicQuantizeLinear
        and ConvInteger or MatMulInteger, Cast, Mul, Add) or "weights" (only weights int8, each
        behind DequantizeLinear).
    activations: "u8" (zero point 0 behind a Relu, else 128) or "s8" (-128 and 0).
    symmetric: zero point 0 everywhere.
    weights: "s8" or, in the dynamic form, "u8" (zero point 128).
    per_channel: one weight scale per output channel, else one per tensor.
    relu: in the form with Q/DQ everywhere, Relu and Clip are "dropped" (the zero point does their
        work), stay "before" Q, or stay "behind" the Q/DQ of the layer before them, with a Q/DQ of
        their own.
    around: "all" layers carry Q/DQ, or only "linear" ones, at their inputs (Relu, Add, pooling stay
        float).
    outputs: with around "linear", the layers' outputs carry Q/DQ too.
    batch_norm: BatchNormalization stays between the convolution (without bias) and what follows.
    scale_shape: () or (1,): the shape of per-tensor scales and zero points.
    silu: networks whose activations can be exchanged use SiLU.
    """

    kind: str = "float"
    activations: str = "u8"
    symmetric: bool = False
    weights: str = "s8"
    per_channel: bool = True
    relu: str = "dropped"
    around: str = "all"
    outputs: bool = False
    batch_norm: bool = False
    scale_shape: tuple = ()
    silu: bool = False

    def with_(self, **changes):
        return replace(self, **changes)


@dataclass(frozen=True)
class Value:
    name: str
    channels: int
    positive: bool = False  # never below 0
    scale: float = 0.0  # of the Q/DQ pair it comes out of; 0: it comes out of none


class Graph:
    def __init__(self, form, seed=1):
        self.form = form
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers, self.inputs, self.outputs, self.constants = (
            [],
            [],
            [],
            [],
            {},
        )
        # value name -> its Value behind Q/DQ, where inputs are wrapped one by one
        self.quantized = {}

    def op(self, kind, inputs, **attributes):
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def const(self, array):
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 4 else None
        if key not in self.constants or key is None:
            name = f"c{len(self.initializers)}"
            self.initializers.append(numpy_helper.from_array(array, name))
            if key is None:
                return name
            self.constants[key] = name
        return self.constants[key]

    def input(self, shape, name="x", channels=None):
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return self.finish(Value(name, channels or shape[1]))

    def output(self, value):
        name = f"y{len(self.outputs)}"
        self.nodes.append(helper.make_node("Identity", [value.name], [name], name="out_" + name))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    def model(self, name):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="evoq bench"
        )
        model.ir_version = 8
        drop_identity_outputs(model.graph)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        del model.graph.value_info[:]
        onnx.checker.check_model(model)
        return model

    # Quantization.

    def fake_quantize(self, value, scale=SCALE):
        """Q and DQ of a value."""
        signed = self.form.activations == "s8"
        dtype, low = (np.int8, -128) if signed else (np.uint8, 0)
        zero = 0 if self.form.symmetric else low if value.positive else low + 128
        if self.form.symmetric and value.positive:
            scale *= 2
        shape = self.form.scale_shape
        s, z = (
            self.const(np.full(shape, scale, np.float32)),
            self.const(np.full(shape, zero, dtype)),
        )
        q = self.op("QuantizeLinear", [value.name, s, z])
        return replace(
            value, name=self.op("DequantizeLinear", [q, s, z]), scale=float(np.float32(scale))
        )

    def finish(self, value, scale=SCALE):
        """A layer's output: behind Q/DQ where every layer has them."""
        return (
            self.fake_quantize(value, scale)
            if self.form.kind == "qdq" and self.form.around == "all"
            else value
        )

    def linear_input(self, value):
        """What a linear layer reads: behind Q/DQ where only linear layers have them."""
        if self.form.kind != "qdq" or value.scale > 0:
            return value
        if value.name not in self.quantized:
            self.quantized[value.name] = self.fake_quantize(value)
        return self.quantized[value.name]

    def int8_weight(self, w, axis):
        """(initializer's name, scales): symmetric, per channel of `axis` or per tensor."""
        axes = tuple(i for i in range(w.ndim) if i != axis) if self.form.per_channel else None
        scale = (np.maximum(np.abs(w).max(axis=axes), 1e-6) / 127).astype(np.float32)
        shape = [1] * w.ndim
        if self.form.per_channel:
            shape[axis] = -1
        q = np.clip(np.rint(w / scale.reshape(shape)), -127, 127).astype(np.int8)
        return q, scale

    def weight(self, w, axis, bias, x):
        """Names of a float layer's weight and bias inputs, behind DequantizeLinear in the quantized
        forms."""
        if self.form.kind == "float":
            return [self.const(w)] + ([] if bias is None else [self.const(bias)])
        q, scale = self.int8_weight(w, axis)
        attributes = {"axis": axis} if scale.ndim else {}
        one = self.form.scale_shape if not scale.ndim else scale.shape
        names = [
            self.op(
                "DequantizeLinear",
                [self.const(q), self.const(scale.reshape(one)), self.const(np.zeros(one, np.int8))],
                **attributes,
            )
        ]
        if bias is None:
            return names
        if self.form.kind == "weights":
            return names + [self.const(bias)]
        s = (np.float32(x.scale) * scale).astype(np.float32)
        s = np.broadcast_to(s, bias.shape) if not s.ndim else s
        b = np.clip(np.rint(bias / s), -(2**31), 2**31 - 1).astype(np.int32)
        return names + [
            self.op(
                "DequantizeLinear",
                [self.const(b), self.const(s), self.const(np.zeros(s.shape, np.int32))],
                axis=0,
            )
        ]

    def dynamic(self, kind, x, w, bias, **attributes):
        """DynamicQuantizeLinear, ConvInteger or MatMulInteger, Cast, Mul by both scales, Add of the
        bias."""
        if x.name not in self.quantized:
            outputs = [f"{x.name}_{part}" for part in ("q", "scale", "zero")]
            self.nodes.append(
                helper.make_node(
                    "DynamicQuantizeLinear", [x.name], outputs, name=x.name + "_quantize"
                )
            )
            self.quantized[x.name] = outputs
        xq, x_scale, x_zero = self.quantized[x.name]
        scale = np.float32(np.abs(w).max() / 127)
        q = np.clip(np.rint(w / scale), -127, 127).astype(np.int8)
        zero = np.int8(0)
        if self.form.weights == "u8":
            q, zero = (q.astype(np.int16) + 128).astype(np.uint8), np.uint8(128)
        y = self.op(kind, [xq, self.const(q), x_zero, self.const(zero)], **attributes)
        y = self.op(
            "Mul",
            [
                self.op("Cast", [y], to=TensorProto.FLOAT),
                self.op("Mul", [x_scale, self.const(scale)]),
            ],
        )
        if bias is None:
            return y
        return self.op(
            "Add",
            [
                y,
                self.const(
                    bias.reshape([-1] + [1] * (w.ndim - 2) if kind == "ConvInteger" else [-1])
                ),
            ],
        )

    # Layers.

    def conv(
        self,
        x,
        out,
        kernel,
        stride=1,
        group=1,
        act=None,
        gain=None,
        bias=True,
        pad=None,
        transpose=False,
    ):
        fan_in = x.channels // group * kernel * kernel
        deviation = np.sqrt((gain or (2.0 if act else 1.0)) / fan_in)
        shape = (
            (x.channels, out // group, kernel, kernel)
            if transpose
            else (out, x.channels // group, kernel, kernel)
        )
        w = (self.rng.standard_normal(shape) * deviation).astype(np.float32)
        b = (
            (self.rng.standard_normal(out) * 0.1).astype(np.float32)
            if bias and not self.form.batch_norm
            else None
        )
        p = (kernel - 1) // 2 if pad is None else pad
        attributes = dict(
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[p] * 4, group=group
        )
        kind = "ConvTranspose" if transpose else "Conv"
        if self.form.kind == "dynamic" and not transpose:
            y = self.dynamic("ConvInteger", x, w, b, **attributes)
        else:
            x = self.linear_input(x)
            y = self.op(kind, [x.name] + self.weight(w, 1 if transpose else 0, b, x), **attributes)
        if self.form.batch_norm:
            y = self.op(
                "BatchNormalization",
                [y]
                + [
                    self.const(a.astype(np.float32))
                    for a in (
                        self.rng.uniform(0.8, 1.2, out),
                        self.rng.normal(0, 0.1, out),
                        self.rng.normal(0, 0.1, out),
                        self.rng.uniform(0.8, 1.2, out),
                    )
                ],
            )
        return self.activate(Value(y, out), act, linear=True)

    def dense(self, x, out, act=None, bias=True):
        """x [M, channels] times weights, plus bias."""
        w = (
            self.rng.standard_normal((out, x.channels))
            * np.sqrt((2.0 if act else 1.0) / x.channels)
        ).astype(np.float32)
        b = (self.rng.standard_normal(out) * 0.1).astype(np.float32) if bias else None
        if self.form.kind == "dynamic":
            return self.activate(
                Value(self.dynamic("MatMulInteger", x, np.ascontiguousarray(w.T), b), out),
                act,
                linear=True,
            )
        x = self.linear_input(x)
        return self.activate(
            Value(self.op("Gemm", [x.name] + self.weight(w, 0, b, x), transB=1), out),
            act,
            linear=True,
        )

    def activate(self, y, act, linear=False):
        """The activation behind a layer, and the Q/DQ that belong to both. act: None, relu, relu6,
        silu, hswish, leaky."""
        if self.form.silu and act in ("relu", "relu6"):
            act = "silu"
        qdq = self.form.kind == "qdq"
        if qdq and self.form.around == "linear" and self.form.outputs and linear:
            y = self.fake_quantize(y)
        if act is None:
            return self.finish(y)
        if act in ("relu", "relu6"):
            top = SCALE if act == "relu" else 6 / 255
            positive = replace(y, positive=True, scale=0.0)
            if qdq and self.form.around == "all" and self.form.relu == "dropped":
                return self.finish(positive, top)
            if self.form.relu == "behind":
                positive = replace(self.finish(y), positive=True, scale=0.0)
            name = positive.name
            name = (
                self.op("Relu", [name])
                if act == "relu"
                else self.op("Clip", [name, self.const(np.float32(0)), self.const(np.float32(6))])
            )
            return self.finish(replace(positive, name=name), top)
        y = self.finish(y)
        if act == "silu":
            s = self.finish(Value(self.op("Sigmoid", [y.name]), y.channels, positive=True), 1 / 255)
            return self.finish(Value(self.op("Mul", [y.name, s.name]), y.channels))
        if act == "hswish":
            return self.finish(Value(self.op("HardSwish", [y.name]), y.channels))
        if act == "leaky":
            return self.finish(Value(self.op("LeakyRelu", [y.name], alpha=0.1), y.channels))
        raise ValueError(act)

    def unary(self, kind, x, scale=None, positive=None, channels=None, inputs=(), **attributes):
        """An operator with one value among its inputs."""
        y = Value(
            self.op(kind, [x.name, *inputs], **attributes),
            channels or x.channels,
            x.positive if positive is None else positive,
        )
        return self.finish(y, scale or SCALE)

    def binary(self, kind, a, b, act=None, scale=SCALE):
        y = Value(self.op(kind, [a.name, b.name]), a.channels, a.positive and b.positive)
        return self.activate(y, act) if act else self.finish(y, scale)

    def max_pool(self, x, kernel, stride, pad):
        return self.unary(
            "MaxPool",
            x,
            scale=x.scale,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
        )

    def average_pool(self, x, kernel, stride, pad):
        return self.unary(
            "AveragePool",
            x,
            scale=x.scale,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
        )

    def global_average_pool(self, x):
        return self.unary("GlobalAveragePool", x, scale=x.scale)

    def flatten(self, x):
        return replace(x, name=self.op("Flatten", [x.name], axis=1))


def drop_identity_outputs(graph):
    """Lets the producers of Identity nodes that make an output write the output themselves."""
    final = {n.input[0]: n.output[0] for n in graph.node if n.op_type == "Identity"}
    kept = [n for n in graph.node if n.op_type != "Identity"]
    for node in kept:
        node.input[:] = [final.get(i, i) for i in node.input]
        node.output[:] = [final.get(o, o) for o in node.output]
    del graph.node[:]
    graph.node.extend(kept)
