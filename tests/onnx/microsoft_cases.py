"""The operators of com.microsoft that microsoft_test.py compares: inputs and attributes of each."""

import numpy as np

RNG = np.random.default_rng(11)


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
    yield "unfold", "UnfoldTensor", [x], {"dim": 1, "size": 3, "step": 2}, 1
    yield "unfold_default", "UnfoldTensor", [x], {"size": 5}, 1
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
    # Each row of the data is rounded by itself here, all of it with one scale there.
    for name, directions, by_rows, narrow in (
        ("lstm_rows", 1, True, i8),
        ("lstm_rows_both", 2, True, u8),
        ("lstm_one_scale_both", 2, False, i8),
    ):
        scales = (directions, 64) if by_rows else (directions,)
        zeros = np.full(scales, 128, np.uint8) if narrow is u8 else np.zeros(scales, np.int8)
        sizes = [("const", np.full(scales, 0.004, np.float32)), ("const", zeros)]
        yield (
            name,
            "DynamicQuantizeLSTM",
            [
                real(5, 2, 24),
                ("const", narrow(directions, 24, 64)),
                ("const", narrow(directions, 16, 64)),
                ("const", real(directions, 128)),
                None,
                real(directions, 2, 16) / 3,
                real(directions, 2, 16),
                ("const", real(directions, 48) / 3),
                *sizes,
                *sizes,
            ],
            {"hidden_size": 16, "direction": "bidirectional" if directions == 2 else "forward"},
            3,
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
    lengths, hidden = np.array([4, 2], np.int32), np.array([[0] * 6, [0, 0, 1, 1, 1, 0]], np.int32)
    for name, mask in (("lengths", lengths), ("hidden", hidden)):
        for causal in (0, 1):
            yield (
                f"attention_{name}_{causal}",
                "Attention",
                weights + [mask],
                {"num_heads": 4, "unidirectional": causal},
                1,
            )
    yield (
        "attention_filter_value",
        "Attention",
        weights + [hidden],
        {"num_heads": 4, "mask_filter_value": -2.0},
        1,
    )
    yield (
        "attention_past_mask",
        "Attention",
        weights + [np.array([[0] * 3 + [1] * 6, [1] * 9], np.int32), real(2, 2, 4, 3, 4)],
        {"num_heads": 4, "unidirectional": 1},
        2,
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
        "multi_head_hidden",
        "MultiHeadAttention",
        [real(2, 6, 16), real(2, 5, 16), real(2, 5, 16), None, hidden[:, :5]],
        {"num_heads": 2},
        1,
    )
    yield (
        "multi_head_causal_lengths",
        "MultiHeadAttention",
        [real(2, 5, 16), real(2, 5, 16), real(2, 5, 16), None, np.array([3, 5], np.int32)],
        {"num_heads": 2, "unidirectional": 1},
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
    yield (
        "multi_head_cross",
        "MultiHeadAttention",
        [real(2, 6, 16), real(2, 2, 5, 8), real(2, 2, 5, 8)],
        {"num_heads": 2},
        1,
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
    yield (
        "rotary_one_heads",
        "RotaryEmbedding",
        [real(2, 2, 5, 8), np.array([3], np.int64), cos, sin],
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
