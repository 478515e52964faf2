#!/usr/bin/env python3
"""Operators of com.microsoft, functions of a model and control flow: evoq's definition beside ONNX
Runtime.

usage: microsoft_test.py [ONNX_TOOL]
Skips (exit status 77) where onnx or onnxruntime is missing.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import agree  # noqa: E402

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOOL = os.path.abspath(
    sys.argv[1]
    if len(sys.argv) > 1
    else os.path.join(os.environ["EVOQ_BUILD"], "tests/onnx/onnx_tool")
)
RNG = np.random.default_rng(11)
TYPES = {
    np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t))
    for t in ("f4", "f8", "i4", "i8", "i1", "u1", "b1")
}


UNUSED_KEYS = ("group_query_ragged", "group_query_ragged_rotary", "group_query_long_past")


def real(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return RNG.integers(-127, 128, shape).astype(np.int8)


def i7(*shape):
    """Pairs of products with bytes fit 16 bits: QAttention has no exact mode without VNNI."""
    return RNG.integers(-63, 64, shape).astype(np.int8)


def f32(v):
    return np.array(v, np.float32)


def cases():
    """(name, operator, inputs (None: omitted; a tuple ("const", array): a constant), attributes,
    outputs to compare)"""
    x = real(2, 6, 16)
    yield "gelu", "Gelu", [x], {}, 1
    yield "fast_gelu", "FastGelu", [x, real(16)], {}, 1
    yield "bias_gelu", "BiasGelu", [x, real(16)], {}, 1
    yield "quick_gelu", "QuickGelu", [x], {"alpha": 1.5}, 1
    yield "quick_gelu_default", "QuickGelu", [x], {}, 1
    yield "fast_gelu_plain", "FastGelu", [x], {}, 1
    # Small values, so that epsilon counts.
    yield "simplified_default", "SimplifiedLayerNormalization", [x / 300, real(16)], {}, 1
    yield (
        "skip_epsilon",
        "SkipLayerNormalization",
        [x / 300, x / 500, real(16), real(16)],
        {"epsilon": 1e-5},
        [0, 3],
    )
    yield "skip_default", "SkipLayerNormalization", [x / 1e6, x / 2e6, real(16)], {}, 1
    yield (
        "skip_simplified_bias",
        "SkipSimplifiedLayerNormalization",
        [x, real(2, 6, 16), real(16), real(16)],
        {"epsilon": 0.1},
        [0, 3],
    )
    yield "simplified", "SimplifiedLayerNormalization", [x, real(16)], {"epsilon": 1e-3}, 1
    yield (
        "skip",
        "SkipLayerNormalization",
        [x, real(2, 6, 16), real(16), real(16), real(16)],
        {},
        [0, 3],
    )
    yield (
        "skip_simplified",
        "SkipSimplifiedLayerNormalization",
        [x, real(2, 6, 16), real(16)],
        {},
        [0, 3],
    )
    ids = RNG.integers(0, 9, (2, 6)).astype(np.int32)
    yield (
        "embed",
        "EmbedLayerNormalization",
        [
            ids,
            ids % 2,
            real(9, 16),
            real(8, 16),
            real(2, 16),
            real(16),
            real(16),
            (ids > 0).astype(np.int32),
        ],
        {},
        [0, 1],
    )
    places = RNG.integers(0, 8, (2, 6)).astype(np.int32)
    yield (
        "embed_places",
        "EmbedLayerNormalization",
        [
            ids,
            None,
            real(9, 16),
            real(8, 16),
            None,
            real(16),
            real(16),
            (ids > 0).astype(np.int32),
            places,
        ],
        {"epsilon": 0.1},
        3,
    )
    yield (
        "embed_small",
        "EmbedLayerNormalization",
        [
            ids,
            None,
            real(9, 16) / 1e6,
            real(8, 16) / 1e6,
            None,
            real(16),
            real(16),
            (ids > 0).astype(np.int32),
        ],
        {},
        2,
    )
    for activation, params in (
        ("Clip", [-0.5, 0.75]),
        ("HardSigmoid", [0.3, 0.4]),
        ("Tanh", []),
        ("Sigmoid", []),
    ):
        attributes = {"activation": activation, **({"activation_params": params} if params else {})}
        yield (
            f"fused_conv_{activation}",
            "FusedConv",
            [real(1, 3, 8, 8), real(4, 3, 3, 3) / 5, real(4)],
            attributes,
            1,
        )
    yield (
        "fused_conv",
        "FusedConv",
        [real(1, 3, 8, 8), real(4, 3, 3, 3), real(4)],
        {"activation": "LeakyRelu", "activation_params": [0.2]},
        1,
    )
    yield (
        "fused_conv_sum",
        "FusedConv",
        [real(1, 3, 8, 8), real(4, 3, 3, 3), real(4), real(1, 4, 6, 6)],
        {"activation": "Relu"},
        1,
    )
    yield (
        "fused_matmul",
        "FusedMatMul",
        [real(2, 5, 3), real(2, 4, 5)],
        {"transA": 1, "transB": 1, "alpha": 0.5},
        1,
    )
    yield "fused_matmul_plain", "FusedMatMul", [real(2, 3, 5), real(2, 5, 4)], {}, 1
    # The matrices' rows stand before the batch: [rows, batch, columns].
    for name, a, b, attributes in (
        ("a", (3, 2, 5), (2, 5, 4), ["transBatchA"]),
        ("b", (2, 3, 5), (5, 2, 4), ["transBatchB"]),
        ("both", (5, 2, 6, 3), (4, 2, 6, 5), ["transA", "transB", "transBatchA", "transBatchB"]),
    ):
        name = f"fused_matmul_batch_{name}"
        yield name, "FusedMatMul", [real(*a), real(*b)], dict.fromkeys(attributes, 1), 1
    yield (
        "integer_to_float",
        "MatMulIntegerToFloat",
        [
            u8(4, 8),
            ("const", i8(8, 5)),
            f32(0.02),
            ("const", real(5) ** 2 + 0.1),
            np.uint8(120),
            ("const", np.zeros(5, np.int8)),
            real(5),
        ],
        {},
        1,
    )
    yield (
        "integer_to_float_plain",
        "MatMulIntegerToFloat",
        [u8(4, 8), ("const", u8(8, 5)), f32(0.02), ("const", f32(0.03))],
        {},
        1,
    )
    yield (
        "integer_to_float_bias",
        "MatMulIntegerToFloat",
        [
            u8(4, 8),
            ("const", u8(8, 5)),
            f32(0.02),
            ("const", f32(0.03)),
            None,
            ("const", np.uint8(7)),
            real(5),
        ],
        {},
        1,
    )
    yield (
        "dynamic_matmul_columns",
        "DynamicQuantizeMatMul",
        [real(4, 8), ("const", i8(8, 5)), ("const", real(5) ** 2 + 0.1), ("const", i8(5))],
        {},
        1,
    )
    yield (
        "dynamic_matmul",
        "DynamicQuantizeMatMul",
        [real(4, 8), ("const", i8(8, 5)), ("const", f32(0.03)), ("const", np.int8(3)), real(5)],
        {},
        1,
    )
    yield (
        "qgemm",
        "QGemm",
        [
            u8(3, 8),
            f32(0.02),
            np.uint8(100),
            ("const", i8(5, 8)),
            ("const", f32(0.01)),
            ("const", np.int8(0)),
            ("const", RNG.integers(-500, 500, 5).astype(np.int32)),
            f32(0.05),
            np.uint8(128),
        ],
        {"transB": 1, "alpha": 1.0},
        1,
    )
    rows = ("const", RNG.integers(-500, 500, 5).astype(np.int32))
    yield (
        "qgemm_real",
        "QGemm",
        [
            u8(3, 8),
            f32(0.02),
            np.uint8(100),
            ("const", i8(8, 5)),
            ("const", f32(0.01)),
            ("const", np.int8(0)),
            rows,
        ],
        {"alpha": 0.5},
        1,
    )
    yield (
        "qgemm_no_bias",
        "QGemm",
        [
            u8(3, 8),
            f32(0.02),
            np.uint8(100),
            ("const", i8(8, 5)),
            ("const", f32(0.01)),
            ("const", np.int8(3)),
            None,
            f32(0.05),
            np.uint8(128),
        ],
        {},
        1,
    )
    grid = [("const", f32(0.04)), ("const", np.uint8(90))]
    yield (
        "qlinear_conv_bias",
        "QLinearConv",
        [
            u8(1, 3, 5, 5),
            f32(0.02),
            np.uint8(100),
            ("const", i8(4, 3, 3, 3)),
            ("const", real(4) ** 2 / 50 + 0.01),
            ("const", np.zeros(4, np.int8)),
            *grid,
            ("const", RNG.integers(-9000, 9000, 4).astype(np.int32)),
        ],
        {"pads": [1, 1, 1, 1]},
        1,
    )
    yield (
        "qlinear_conv_constant",
        "QLinearConv",
        [
            u8(1, 3, 5, 5),
            ("const", f32(0.02)),
            ("const", np.uint8(100)),
            ("const", i8(4, 3, 3, 3)),
            ("const", real(4) ** 2 / 50 + 0.01),
            ("const", np.zeros(4, np.int8)),
            *grid,
            ("const", RNG.integers(-9000, 9000, 4).astype(np.int32)),
        ],
        {},
        1,
    )
    yield (
        "qlinear_add",
        "QLinearAdd",
        [u8(3, 4), f32(0.05), np.uint8(100), u8(4), f32(0.02), np.uint8(3), *grid],
        {},
        1,
    )
    yield (
        "qlinear_leaky",
        "QLinearLeakyRelu",
        [u8(3, 4), ("const", f32(0.05)), ("const", np.uint8(100)), *grid],
        {"alpha": 0.3},
        1,
    )
    yield (
        "qlinear_average",
        "QLinearAveragePool",
        [u8(1, 2, 4, 4), ("const", f32(0.05)), ("const", np.uint8(100)), *grid],
        {"kernel_shape": [2, 2]},
        1,
    )
    yield (
        "qlinear_concat",
        "QLinearConcat",
        [
            *grid,
            u8(2, 3),
            ("const", f32(0.05)),
            ("const", np.uint8(100)),
            u8(2, 2),
            ("const", f32(0.02)),
            ("const", np.uint8(3)),
        ],
        {"axis": 1},
        1,
    )
    for opset, axis in ((12, 1), (12, -1), (13, 0)):
        yield (
            f"qlinear_softmax_{opset}_{axis}",
            "QLinearSoftmax",
            [
                u8(3, 10),
                ("const", f32(0.05)),
                ("const", np.uint8(100)),
                ("const", f32(1 / 256)),
                ("const", np.uint8(0)),
            ],
            {"opset": opset, "axis": axis},
            1,
        )
    yield (
        "qlinear_softmax",
        "QLinearSoftmax",
        [
            u8(3, 10),
            ("const", f32(0.05)),
            ("const", np.uint8(100)),
            ("const", f32(1 / 256)),
            ("const", np.uint8(0)),
        ],
        {"opset": 13, "axis": -1},
        1,
    )
    yield (
        "qlinear_mul",
        "QLinearMul",
        [
            u8(3, 4),
            f32(0.05),
            np.uint8(100),
            u8(4),
            f32(0.02),
            np.uint8(3),
            f32(0.04),
            np.uint8(128),
        ],
        {},
        1,
    )
    for bits, zeros in ((4, False), (4, True), (8, True)):
        k, n, block = 40, 6, 16
        blocks = 3
        inputs = [
            real(3, k),
            ("const", u8(n, blocks, block * bits // 8)),
            ("const", real(n * blocks) ** 2 + 0.01),
        ]
        if zeros:
            inputs.append(("const", u8(n * ((blocks * bits + 7) // 8))))
        yield (
            f"matmul_{bits}_bits_{zeros}",
            "MatMulNBits",
            inputs,
            {"K": k, "N": n, "bits": bits, "block_size": block},
            1,
        )
    packed = [real(3, 40), ("const", u8(6, 3, 8)), ("const", real(18) ** 2 + 0.01)]
    shape = {"K": 40, "N": 6, "block_size": 16}
    yield "matmul_default_bits", "MatMulNBits", packed, shape, 1
    yield (
        "matmul_real_zeros",
        "MatMulNBits",
        packed + [("const", real(18))],
        {**shape, "bits": 4},
        1,
    )
    yield "matmul_bias", "MatMulNBits", packed + [None, None, real(6)], {**shape, "bits": 4}, 1
    weights = [real(2, 6, 16), real(16, 48) / 4, real(48)]
    yield "attention", "Attention", weights, {"num_heads": 4}, 1
    yield "attention_causal", "Attention", weights, {"num_heads": 2, "unidirectional": 1}, 1
    yield (
        "attention_mask",
        "Attention",
        weights + [np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)],
        {"num_heads": 4},
        1,
    )
    yield (
        "attention_lengths",
        "Attention",
        weights + [np.array([4, 6], np.int32)],
        {"num_heads": 4},
        1,
    )
    yield (
        "attention_past",
        "Attention",
        weights + [None, real(2, 2, 4, 3, 4)],
        {"num_heads": 4, "unidirectional": 1},
        2,
    )
    scores, per_query = real(2, 4, 6, 6), np.tril(np.ones((2, 6, 6), np.int32))
    yield "attention_mask_3", "Attention", weights + [per_query], {"num_heads": 4}, 1
    yield "attention_bias", "Attention", weights + [None, None, scores], {"num_heads": 4}, 1
    yield (
        "attention_mask_bias",
        "Attention",
        weights + [np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32), None, scores],
        {"num_heads": 4},
        1,
    )
    yield (
        "attention_sizes",
        "Attention",
        [real(2, 6, 16), real(16, 40) / 4, real(40)],
        {"num_heads": 4, "qkv_hidden_sizes": [16, 16, 8], "scale": 0.3},
        1,
    )
    yield (
        "qattention_causal",
        "QAttention",
        [
            u8(2, 6, 16),
            ("const", i7(16, 48)),
            real(48),
            f32(0.02),
            f32(0.01),
            None,
            np.uint8(120),
            np.int8(3),
        ],
        {"num_heads": 4, "unidirectional": 1},
        1,
    )
    yield (
        "qattention",
        "QAttention",
        [
            u8(2, 6, 16),
            ("const", i7(16, 48)),
            real(48),
            f32(0.02),
            f32(0.01),
            None,
            np.uint8(128),
            np.int8(0),
        ],
        {"num_heads": 4},
        1,
    )
    yield (
        "multi_head",
        "MultiHeadAttention",
        [real(2, 6, 16), real(2, 5, 16), real(2, 5, 8), real(40)],
        {"num_heads": 4},
        1,
    )
    yield (
        "multi_head_mask",
        "MultiHeadAttention",
        [
            real(2, 6, 16),
            real(2, 5, 16),
            real(2, 5, 16),
            None,
            np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32),
        ],
        {"num_heads": 2},
        1,
    )
    yield (
        "multi_head_causal",
        "MultiHeadAttention",
        [real(2, 5, 16), real(2, 5, 16), real(2, 5, 16)],
        {"num_heads": 2, "unidirectional": 1, "scale": 0.4},
        1,
    )
    yield (
        "multi_head_scores",
        "MultiHeadAttention",
        [
            real(2, 6, 16),
            real(2, 5, 16),
            real(2, 5, 16),
            None,
            np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32),
            real(2, 2, 6, 5),
        ],
        {"num_heads": 2},
        1,
    )
    yield (
        "multi_head_past",
        "MultiHeadAttention",
        [
            real(2, 3, 16),
            real(2, 3, 16),
            real(2, 3, 16),
            None,
            None,
            None,
            real(2, 2, 4, 8),
            real(2, 2, 4, 8),
        ],
        {"num_heads": 2},
        3,
    )
    half, places = 4, np.arange(9, dtype=np.float32)[:, None] * f32([1, 0.5, 0.25, 0.125])[None]
    cos, sin = np.cos(places), np.sin(places)
    for i in (0, 1):
        yield (
            f"rotary_{i}",
            "RotaryEmbedding",
            [real(2, 5, 16), np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]], np.int64), cos, sin],
            {"interleaved": i},
            1,
        )
    yield (
        "rotary_heads",
        "RotaryEmbedding",
        [real(2, 2, 5, 8), np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]], np.int64), cos, sin],
        {},
        1,
    )
    yield (
        "rotary_part",
        "RotaryEmbedding",
        [real(2, 5, 24), np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]], np.int64), cos, sin],
        {"num_heads": 2, "rotary_embedding_dim": 8},
        1,
    )
    yield (
        "rotary_one",
        "RotaryEmbedding",
        [real(2, 5, 16), np.array([3], np.int64), cos, sin],
        {},
        1,
    )
    gqa = {"num_heads": 4, "kv_num_heads": 2}
    angles = places[:, :1] * f32([1, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01])[None]
    wide = [np.cos(angles), np.sin(angles)]
    lengths = [np.array([4], np.int32), np.array(5, np.int32)]
    yield (
        "group_query",
        "GroupQueryAttention",
        [real(1, 5, 64), real(1, 5, 32), real(1, 5, 32), None, None] + lengths,
        gqa,
        3,
    )
    yield (
        "group_query_packed",
        "GroupQueryAttention",
        [real(1, 5, 128), None, None, None, None] + lengths,
        {**gqa, "scale": 0.2, "softcap": 2.0},
        3,
    )
    yield (
        "group_query_interleaved",
        "GroupQueryAttention",
        [real(1, 5, 64), real(1, 5, 32), real(1, 5, 32), None, None] + lengths + wide,
        {**gqa, "do_rotary": 1, "rotary_interleaved": 1},
        3,
    )
    yield (
        "group_query_rotary",
        "GroupQueryAttention",
        [real(1, 5, 64), real(1, 5, 32), real(1, 5, 32), None, None] + lengths + wide,
        {**gqa, "do_rotary": 1},
        3,
    )
    yield (
        "group_query_window",
        "GroupQueryAttention",
        [real(1, 5, 64), real(1, 5, 32), real(1, 5, 32), None, None] + lengths,
        {**gqa, "local_window_size": 2},
        3,
    )
    past, ragged = (
        [real(2, 2, 4, 16), real(2, 2, 4, 16)],
        [np.array([4, 2], np.int32), np.array(5, np.int32)],
    )
    step = [real(2, 1, 64), real(2, 1, 32), real(2, 1, 32)]
    yield "group_query_ragged", "GroupQueryAttention", step + past + ragged, gqa, 3
    yield (
        "group_query_ragged_rotary",
        "GroupQueryAttention",
        step + past + ragged + wide,
        {**gqa, "do_rotary": 1},
        3,
    )
    yield (
        "group_query_long_past",
        "GroupQueryAttention",
        step + [real(2, 2, 9, 16), real(2, 2, 9, 16)] + ragged,
        gqa,
        3,
    )
    yield (
        "group_query_past",
        "GroupQueryAttention",
        [real(1, 1, 64), real(1, 1, 32), real(1, 1, 32), real(1, 2, 4, 16), real(1, 2, 4, 16)]
        + lengths
        + wide,
        {**gqa, "do_rotary": 1},
        3,
    )


def operator_model(op, inputs, attrs, outputs):
    names, infos, constants = [], [], []
    for i, value in enumerate(inputs):
        names.append("" if value is None else f"x{i}")
        if isinstance(value, tuple):
            constants.append(numpy_helper.from_array(np.asarray(value[1]), f"x{i}"))
        elif value is not None:
            value = np.asarray(value)
            infos.append(helper.make_tensor_value_info(f"x{i}", TYPES[value.dtype], value.shape))
    wanted = list(range(outputs)) if isinstance(outputs, int) else outputs
    ys = [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    domain = "" if op in ("SimplifiedLayerNormalization", "QLinearConv") else "com.microsoft"
    node = helper.make_node(op, names, ys, domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "g", infos, [helper.make_empty_tensor_value_info(y) for y in ys if y], constants
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )


def function_model():
    """y = f(f(x, b), b) with f(x, b) = leaky(x + b), whose slope is the call's attribute."""
    slope = helper.make_node("LeakyRelu", ["t"], ["y"])
    slope.attribute.append(
        onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    )
    body = [helper.make_node("Add", ["x", "b"], ["t"]), slope]
    function = helper.make_function(
        "own", "F", ["x", "b"], ["y"], body, [helper.make_opsetid("", 17)], ["slope"]
    )
    nodes = [
        helper.make_node("F", ["x", "b"], ["t"], domain="own", slope=0.1),
        helper.make_node("F", ["t", "b"], ["y"], domain="own", slope=0.3),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [3, 4]), helper.make_tensor_value_info("b", 1, [4])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    return helper.make_model(
        graph,
        functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        ir_version=8,
    ), [real(3, 4), real(4)]


def versions_model():
    """A function of operator set 12 in a model of 17: axes of Squeeze as an attribute, Softmax over
    all axes from its own on. ONNX Runtime takes no such function: the third value is what it must
    give."""
    body = [
        helper.make_node("Squeeze", ["x"], ["t"], axes=[0]),
        helper.make_node("Softmax", ["t"], ["y"], axis=1),
    ]
    function = helper.make_function("own", "Old", ["x"], ["y"], body, [helper.make_opsetid("", 12)])
    nodes = [
        helper.make_node("Old", ["x"], ["t"], domain="own"),
        helper.make_node("Softmax", ["t"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 2, 3, 4])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(
        graph,
        functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        ir_version=8,
    )
    softmax = lambda v, axes: np.exp(v) / np.exp(v).sum(axes, keepdims=True)
    x = real(1, 2, 3, 4)
    return model, [x], [softmax(softmax(x[0], (1, 2)), 1)]


def loop_model():
    """A Loop in an If: s += x * i while s's first element is below 20; the condition, x and a
    constant come from outside."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=1),
            helper.make_node("Mul", ["x", "f"], ["step"]),
            helper.make_node("Add", ["s", "step"], ["s2"]),
            helper.make_node("Gather", ["s2", "zero"], ["head"]),
            helper.make_node("Less", ["head", "limit"], ["go"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("c", 9, []),
            helper.make_tensor_value_info("s", 1, None),
        ],
        [
            helper.make_tensor_value_info("go", 9, []),
            helper.make_tensor_value_info("s2", 1, None),
            helper.make_tensor_value_info("step", 1, None),
        ],
        [numpy_helper.from_array(np.array(0, np.int64), "zero")],
    )
    then = helper.make_graph(
        [helper.make_node("Loop", ["count", "", "x"], ["last", "steps"], body=body)],
        "then",
        [],
        [
            helper.make_tensor_value_info("last", 1, None),
            helper.make_tensor_value_info("steps", 1, None),
        ],
    )
    other = helper.make_graph(
        [
            helper.make_node("Neg", ["x"], ["n"]),
            helper.make_node("Unsqueeze", ["n", "axes"], ["u"]),
        ],
        "else",
        [],
        [helper.make_tensor_value_info("n", 1, None), helper.make_tensor_value_info("u", 1, None)],
        [numpy_helper.from_array(np.array([0], np.int64), "axes")],
    )
    graph = helper.make_graph(
        [helper.make_node("If", ["choose"], ["y", "rows"], then_branch=then, else_branch=other)],
        "g",
        [
            helper.make_tensor_value_info("choose", 9, []),
            helper.make_tensor_value_info("x", 1, [3]),
        ],
        [
            helper.make_tensor_value_info("y", 1, None),
            helper.make_tensor_value_info("rows", 1, None),
        ],
        [
            numpy_helper.from_array(np.array(20, np.float32), "limit"),
            numpy_helper.from_array(np.array(9, np.int64), "count"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(process, folder, name, model, feeds, tolerance, expected=None):
    path = f"{folder}/{name}.onnx"
    onnx.save(model, path)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    agree.exact_integers(options)
    try:
        if expected is None:
            session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            expected = session.run(None, {i.name: v for i, v in zip(session.get_inputs(), feeds)})
    except Exception as error:
        return f"ONNX Runtime: {error}"
    words = ["evaluate", path, f"{folder}/{name}"]
    for i, value in enumerate(feeds):
        words.append(f"{folder}/{name}_{i}.pb")
        with open(words[-1], "wb") as f:
            f.write(numpy_helper.from_array(np.asarray(value)).SerializeToString())
    process.stdin.write("\t".join(words) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline().strip()
    if answer != "ok":
        return answer or "the tool died"
    for i, want in enumerate(expected):
        got = np.load(f"{folder}/{name}_{i}.npy")
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"output {i} is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        if i > 0 and name in UNUSED_KEYS:
            continue  # keys behind an item's last one mean nothing
        worst = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)
        limit = 1 if want.dtype.kind in "iu" else tolerance * max(1.0, np.abs(want).max(initial=0))
        if not worst <= limit:
            return f"output {i} differs by {worst}"
    return ""


def main():
    failed = 0
    process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with tempfile.TemporaryDirectory() as folder:
        pending = [
            (
                name,
                operator_model(op, inputs, attrs, outputs),
                [np.asarray(v) for v in inputs if v is not None and not isinstance(v, tuple)],
                0.02 if name in ("integer_to_float", "qattention") else 1e-3,
            )
            for name, op, inputs, attrs, outputs in cases()
        ]
        model, feeds = function_model()
        pending.append(("function", model, feeds, 1e-5))
        model, feeds, expected = versions_model()
        pending.append(("function_versions", model, feeds, 1e-5, expected))
        for choose in (True, False):
            pending.append(
                (
                    f"loop_{choose}",
                    loop_model(),
                    [np.array(choose), np.array([1, 2, 3], np.float32)],
                    1e-6,
                )
            )
        for name, *rest in pending:
            problem = check(process, folder, name, *rest)
            if problem:
                print(f"{name}: {problem}")
                failed += 1
        print(
            f"{len(pending) - failed} of {len(pending)} agree with ONNX Runtime {ort.__version__}"
        )
    sys.exit(1 if failed else 0)


main()
