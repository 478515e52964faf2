"""The small blocks in which int8 tends to lose against float32: float, QDQ u8s8, QDQ s8s8 and, for
some, dynamic."""

import re

import numpy as np

from onnx_graph import Form, Graph

FORMS = {
    "fp32": Form(),
    "qdq_u8s8": Form(kind="qdq"),
    "qdq_s8s8": Form(kind="qdq", activations="s8"),
    "dynamic_s8": Form(kind="dynamic", per_channel=False),
}
DYNAMIC = {"dw3x3_c144_56", "dw3x3_c960_7", "conv1x1_c64_56", "conv1x1_c256_14", "conv3x3_c64_56"}
CHAIN = 4  # layers behind each other, unless a block says otherwise

NAMES = """
avgpool3x3_c64_56 maxpool3x3_c64_56 softmax_12x128x128 dw3x3_c6_224 gconv3x3_c128_g32_56
stem3x3s1_16 stem3x3s2 dw3x3_c32_112 transpose_12x128x64 attention_12x128x64 mlp_16x64 mlp_1x64
dw3x3_c144_56 mul_se_c240_14 resize_nearest_c64_28 attention_12x16x64 dw3x3_silu_c240_14
dw3x3_silu_c64_56 add_64x14x14 dw3x3_c192_28 dw3x3_c384_14 mlp_512x32 dw3x3_c96_56 conv3x3_c8_112
stem7x7s2 se_block_c240_14 convtranspose_c64_28 dw5x5_c240_28 add_256x56x56 resize_linear_c64_28
mlp_128x64 conv1x1_silu_c64_56 conv1x1_c16_112 gconv3x3_c256_g32_28 sigmoid_100k dw5x5_c672_14
dw3x3_c960_7 conv1x1_c24_56 conv1x1_hswish_c64_56 mlp_1x256 gconv1x1_c240_g3_28 conv3x3_c16_112
conv1x1_silu_c128_40_yolo conv1x1_c64_56 conv1x1_hswish_c240_14 conv1x1_silu_c240_14 mlp_128x256
conv3x3_silu_c64_80_yolo conv3x3_c32_56 conv1x1_c256_14 conv3x3_c64_56 conv3x3_leaky_c64_56
conv1x1_c512_7 conv3x3_c24_56 mlp_1x1024
""".split()


def convolutions(g, name):
    """{dw,conv,gconv}KxK[_ACT]_cCHANNELS[_gGROUPS]_SIZE: a chain, Relu or ACT behind each."""
    kind, kernel, act, channels, groups, size = re.fullmatch(
        r"(dw|conv|gconv)(\d)x\d(?:_(silu|hswish|leaky))?_c(\d+)(?:_g(\d+))?_(\d+)(?:_yolo)?", name
    ).groups()
    channels, size = int(channels), int(size)
    x = g.input([1, channels, size, size])
    for _ in range(CHAIN):
        x = g.conv(
            x,
            channels,
            int(kernel),
            group=channels if kind == "dw" else int(groups or 1),
            act=act or "relu",
        )
    return x


def stem(g, name):
    """A first layer on a 224 x 224 image, alone."""
    kernel, stride, channels = {
        "stem3x3s1_16": (3, 1, 16),
        "stem3x3s2": (3, 2, 32),
        "stem7x7s2": (7, 2, 64),
    }[name]
    return g.conv(g.input([1, 3, 224, 224]), channels, kernel, stride=stride, act="relu")


def pool(g, name):
    x = g.input([1, 64, 56, 56])
    for _ in range(CHAIN):
        x = g.max_pool(x, 3, 1, 1) if name.startswith("max") else g.average_pool(x, 3, 1, 1)
    return x


def mlp(g, name):
    """mlp_ROWSxWIDTH"""
    rows, width = map(int, name.removeprefix("mlp_").split("x"))
    x = g.input([rows, width])
    for _ in range(CHAIN):
        x = g.dense(x, width, act="relu")
    return x


def softmax(g, name):
    x = g.input([1, 12, 128, 128])
    for _ in range(CHAIN):
        x = g.unary("Softmax", x, scale=1 / 255, positive=True, axis=-1)
    return x


def sigmoid(g, name):
    x = g.input([1, 100000])
    for _ in range(CHAIN):
        x = g.unary("Sigmoid", x, scale=1 / 255, positive=True)
    return x


def attention(g, name):
    """softmax(q k^T / sqrt(d)) v, alone: attention_HEADSxLENGTHxD."""
    heads, length, depth = map(int, name.removeprefix("attention_").split("x"))
    q, k, v = (g.input([1, heads, length, depth], n) for n in "qkv")
    k = g.unary("Transpose", k, perm=[0, 1, 3, 2])
    x = g.binary("MatMul", q, k)
    x = g.unary("Mul", x, inputs=[g.const(np.float32(depth**-0.5))])
    x = g.unary("Softmax", x, scale=1 / 255, positive=True, axis=-1)
    return g.binary("MatMul", x, v)


def transpose(g, name):
    return g.unary("Transpose", g.input([1, 12, 128, 64]), perm=[0, 1, 3, 2])


def two_inputs(g, name):
    """add_CxHxW, and a tensor times one factor per channel."""
    if name.startswith("add"):
        shape = [1] + [int(d) for d in name.removeprefix("add_").split("x")]
        x, y, kind = g.input(shape), g.input(shape, "z"), "Add"
    else:
        x, y, kind = g.input([1, 240, 14, 14]), g.input([1, 240, 1, 1], "z"), "Mul"
    for _ in range(CHAIN):
        x = g.binary(kind, x, y)
    return x


def squeeze_excite(g, name):
    x = g.input([1, 240, 14, 14])
    for _ in range(CHAIN):
        s = g.conv(g.global_average_pool(x), 60, 1, act="relu")
        s = g.unary("Sigmoid", g.conv(s, 240, 1), scale=1 / 255, positive=True)
        x = g.binary("Mul", x, s)
    return x


def resize(g, name):
    """To twice the size, twice."""
    x = g.input([1, 64, 28, 28])
    mode = {
        "mode": "nearest",
        "nearest_mode": "floor",
        "coordinate_transformation_mode": "asymmetric",
    }
    if "linear" in name:
        mode = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    for _ in range(2):
        x = g.unary("Resize", x, inputs=["", g.const(np.array([1, 1, 2, 2], np.float32))], **mode)
    return x


def conv_transpose(g, name):
    """4 x 4, stride 2, twice."""
    x = g.input([1, 64, 28, 28])
    for _ in range(2):
        x = g.conv(x, 64, 4, stride=2, pad=1, transpose=True, act="relu")
    return x


BUILDERS = {
    "avgpool": pool,
    "maxpool": pool,
    "softmax": softmax,
    "stem": stem,
    "transpose": transpose,
    "attention": attention,
    "mlp": mlp,
    "mul": two_inputs,
    "add": two_inputs,
    "resize": resize,
    "se": squeeze_excite,
    "convtranspose": conv_transpose,
    "sigmoid": sigmoid,
    "dw": convolutions,
    "conv": convolutions,
    "gconv": convolutions,
}


def build(name, form):
    builder = BUILDERS[re.match(r"[a-z]+", name).group()]
    g = Graph(form)
    g.output(builder(g, name))
    return g.model(name)


def files():
    """(name, function that makes the model)"""
    for name in NAMES:
        for form_name, form in FORMS.items():
            if form.kind != "dynamic" or name in DYNAMIC or name.startswith("mlp"):
                yield f"{name}_{form_name}", lambda name=name, form=form: build(name, form)
