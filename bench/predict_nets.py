"""Networks with random shapes, which the constants of `evoq predict` are fitted on. None is, or is
cut out of, a model of the zoo or of the data folder: those are what the forecast is checked
against."""

import numpy as np

from onnx_graph import Form, Graph, Value

FLOAT = Form()


def pick(rng, *choices):
    return choices[rng.integers(len(choices))]


def tail(g, x, classes):
    g.output(g.dense(g.flatten(g.global_average_pool(x)), classes))


def plain(rng, seed):
    """Convolutions of one path: any kernel, stride, activation; sums with what came before;
    pooling."""
    g = Graph(FLOAT, seed)
    size = int(pick(rng, 24, 32, 56, 96, 128, 192, 224))
    x = g.input([1, int(pick(rng, 1, 3, 3, 4)), size, size])
    width = int(pick(rng, 8, 12, 16, 24, 32, 48, 64))
    for i in range(int(rng.integers(8, 14))):
        kernel = int(pick(rng, 1, 3, 3, 3, 5, 7)) if i else int(pick(rng, 3, 5, 7))
        stride = 2 if size > 10 and rng.random() < 0.25 else 1
        act = pick(rng, None, "relu", "relu", "relu", "relu6", "leaky", "silu", "hswish")
        y = g.conv(x, width, kernel, stride=stride, act=act, bias=rng.random() < 0.9)
        size = -(-size // stride)
        x = (
            g.binary("Add", y, x, act=pick(rng, None, "relu"))
            if stride == 1 and x.channels == width and rng.random() < 0.4
            else y
        )
        if size > 8 and rng.random() < 0.15:
            x = (g.max_pool if rng.random() < 0.7 else g.average_pool)(x, 3, 2, 1)
            size = (size + 1) // 2
        if rng.random() < 0.4:
            width = min(int(width * pick(rng, 1, 1.25, 1.5, 2)), 640)
    tail(g, x, int(pick(rng, 10, 100, 1000)))
    return g.model("plain")


def bottleneck(rng, seed):
    """1x1, 3x3, 1x1 with sums, wide."""
    g = Graph(FLOAT, seed)
    size = int(pick(rng, 14, 28, 40, 56))
    x = g.input([1, int(pick(rng, 32, 64, 96, 192)), size, size])
    for _ in range(int(rng.integers(3, 6))):
        width, stride = (
            int(pick(rng, 32, 48, 64, 112, 160, 256)),
            int(pick(rng, 1, 1, 1, 2)) if size > 8 else 1,
        )
        out = x.channels if stride == 1 and rng.random() < 0.7 else width * int(pick(rng, 2, 4))
        y = g.conv(x, width, 1, act="relu")
        y = g.conv(y, width, 3, stride=stride, act="relu")
        y = g.conv(y, out, 1, gain=0.3)
        x = (
            g.binary("Add", y, x, act="relu")
            if stride == 1 and out == x.channels
            else g.activate(y, "relu")
        )
        size = -(-size // stride)
    tail(g, x, 1000)
    return g.model("bottleneck")


def mobile(rng, seed):
    """1x1, depthwise, 1x1."""
    g = Graph(FLOAT, seed)
    size = int(pick(rng, 48, 80, 112, 160, 240))
    x = g.conv(g.input([1, 3, size, size]), int(pick(rng, 8, 16, 24, 40)), 3, stride=2, act="relu6")
    size //= 2
    act = pick(rng, "relu", "relu6", "hswish", "silu")
    for _ in range(int(rng.integers(5, 9))):
        stride = 2 if size > 10 and rng.random() < 0.35 else 1
        width = x.channels * int(pick(rng, 1, 2, 4, 6))
        width = min(width, 768)
        kernel = int(pick(rng, 3, 3, 3, 5))
        y = g.conv(x, width, 1, act=act)
        y = g.conv(y, width, kernel, stride=stride, group=width, act=act)
        out = (
            x.channels
            if stride == 1 and rng.random() < 0.5
            else int(min(x.channels * pick(rng, 1.25, 1.5, 2), 256)) // 8 * 8
        )
        y = g.conv(y, max(out, 8), 1, gain=0.3)
        x = g.binary("Add", x, y) if stride == 1 and y.channels == x.channels else y
        size = -(-size // stride)
    tail(g, x, 1000)
    return g.model("mobile")


def detector(rng, seed):
    """Branches, Concat, upsampling, channel shuffles, heads with Sigmoid, Transpose and Reshape."""
    g = Graph(FLOAT, seed)
    size = int(pick(rng, 96, 128, 192, 320))
    x = g.conv(g.input([1, 3, size, size]), int(pick(rng, 16, 24, 32)), 3, stride=2, act="relu")
    size //= 2
    act = pick(rng, "relu", "silu", "leaky")
    levels = []
    for _ in range(3):
        width = min(x.channels * 2, 192)
        x = g.conv(x, width, 3, stride=2, act=act)
        size = -(-size // 2)
        a = g.conv(x, width // 2, 1, act=act)
        b = g.conv(x, width // 2, 1, act=act)
        b = g.conv(b, width // 2, 3, act=act, group=int(pick(rng, 1, width // 2, 4)))
        x = Value(g.op("Concat", [a.name, b.name], axis=1), width)
        if rng.random() < 0.5:  # shuffle
            r = g.op(
                "Reshape", [x.name, g.const(np.array([1, 2, width // 2, size, size], np.int64))]
            )
            r = g.op("Transpose", [r], perm=[0, 2, 1, 3, 4])
            x = Value(
                g.op("Reshape", [r, g.const(np.array([1, width, size, size], np.int64))]), width
            )
        levels.append((x, size))
    (low, small), (high, large) = levels[2], levels[1]
    up = g.conv(low, high.channels, 1, act=act)
    mode = pick(rng, "nearest", "linear")
    attributes = dict(
        mode=mode,
        coordinate_transformation_mode="asymmetric" if mode == "nearest" else "half_pixel",
        nearest_mode="floor",
    )
    up = Value(
        g.op(
            "Resize",
            [up.name, "", "", g.const(np.array([1, high.channels, large, large], np.int64))],
            **attributes,
        ),
        high.channels,
    )
    merged = (
        Value(g.op("Concat", [up.name, high.name], axis=1), 2 * high.channels)
        if rng.random() < 0.5
        else g.binary("Add", up, high)
    )
    merged = g.conv(merged, high.channels, 3, act=act)
    rows = []
    for value, side in ((merged, large), (low, small)):
        h = g.conv(value, value.channels, 3, group=value.channels, act=act)
        h = g.conv(h, int(pick(rng, 6, 8, 24, 85)), 1)
        t = g.op("Transpose", [h.name], perm=[0, 2, 3, 1])
        rows.append(
            (
                g.op("Reshape", [t, g.const(np.array([1, side * side, h.channels], np.int64))]),
                h.channels,
            )
        )
    for name, channels in rows:
        g.output(Value(g.op(pick(rng, "Sigmoid", "Softmax", "Exp"), [name]), channels))
    return g.model("detector")


def image_to_image(rng, seed):
    """Large images throughout: few channels, dilation, ConvTranspose, normalization, resizing."""
    g = Graph(FLOAT, seed)
    size = int(pick(rng, 64, 96, 160, 256))
    x = g.input([1, int(pick(rng, 1, 3)), size, size])
    x = g.conv(x, int(pick(rng, 8, 16, 32, 64)), int(pick(rng, 3, 5, 9)), act="relu")
    for _ in range(int(rng.integers(2, 5))):
        y = g.conv(
            x, x.channels, int(pick(rng, 3, 3, 1, 5)), act=None if rng.random() < 0.5 else "relu"
        )
        if rng.random() < 0.4:
            c = y.channels
            y = Value(
                g.op(
                    "InstanceNormalization",
                    [y.name, g.const(np.ones(c, np.float32)), g.const(np.zeros(c, np.float32))],
                ),
                c,
            )
            y = g.activate(y, "relu")
        x = g.binary("Add", x, y) if rng.random() < 0.5 else y
    if rng.random() < 0.6:
        x = g.conv(x, x.channels, 3, stride=2, act="relu")
        x = g.conv(x, x.channels // 2, 4, stride=2, pad=1, act="relu", transpose=True)
    x = g.conv(x, int(pick(rng, 1, 3, 4, 9)), 3, act=None)
    name = x.name
    if rng.random() < 0.5:
        name = g.op(pick(rng, "Sigmoid", "Tanh"), [name])
    elif rng.random() < 0.5 and x.channels == 4:
        name = g.op("DepthToSpace", [name], blocksize=2)
    g.output(Value(name, x.channels))
    return g.model("image_to_image")


def volume(rng, seed):
    """3-D convolutions with few channels and growing dilation."""
    g = Graph(FLOAT, seed)
    size, channels = int(pick(rng, 16, 24, 40, 56)), int(pick(rng, 4, 5, 8, 10, 21))
    x = g.input([1, 1, size, size, size])
    for i in range(int(rng.integers(3, 6))):
        d = int(pick(rng, 1, 2, 4, 8))
        w = (g.rng.standard_normal((channels, x.channels, 3, 3, 3)) * 0.2).astype(np.float32)
        y = g.op(
            "Conv",
            [x.name, g.const(w), g.const(np.zeros(channels, np.float32))],
            kernel_shape=[3] * 3,
            pads=[d] * 6,
            dilations=[d] * 3,
        )
        x = Value(g.op("Relu", [y]), channels)
    w = g.rng.standard_normal((3, channels, 1, 1, 1)).astype(np.float32)
    g.output(Value(g.op("Conv", [x.name, g.const(w)], kernel_shape=[1] * 3), 3))
    return g.model("volume")


def attention(g, x, tokens, width, heads, rng):
    def heads_of(value):
        r = g.op(
            "Reshape", [value.name, g.const(np.array([1, tokens, heads, width // heads], np.int64))]
        )
        return g.op("Transpose", [r], perm=[0, 2, 1, 3])

    q, k, v = (matmul(g, x, width, rng) for _ in range(3))
    scores = g.op("MatMul", [heads_of(q), g.op("Transpose", [heads_of(k)], perm=[0, 1, 3, 2])])
    scores = g.op("Mul", [scores, g.const(np.float32(1 / np.sqrt(width / heads)))])
    if rng.random() < 0.5:
        scores = g.op("Add", [scores, g.const(np.zeros((1, 1, tokens, tokens), np.float32))])
    mixed = g.op(
        "Transpose",
        [g.op("MatMul", [g.op("Softmax", [scores], axis=-1), heads_of(v)])],
        perm=[0, 2, 1, 3],
    )
    mixed = g.op("Reshape", [mixed, g.const(np.array([1, tokens, width], np.int64))])
    return matmul(g, Value(mixed, width), width, rng)


def matmul(g, x, out, rng, bias=True):
    w = (g.rng.standard_normal((x.channels, out)) / np.sqrt(x.channels)).astype(np.float32)
    y = g.op("MatMul", [x.name, g.const(w)])
    return Value(
        g.op("Add", [y, g.const((g.rng.standard_normal(out) * 0.1).astype(np.float32))])
        if bias
        else y,
        out,
    )


def layer_norm(g, x, fused):
    c, one = x.channels, np.ones(x.channels, np.float32)
    if fused:
        return Value(
            g.op("LayerNormalization", [x.name, g.const(one), g.const(0 * one)], axis=-1), c
        )
    two, eps = g.const(np.float32(2)), g.const(np.float32(1e-5))
    square = g.op("Mul", [x.name, x.name])
    mean = g.op("ReduceMean", [square], axes=[-1], keepdims=1)
    root = g.op("Sqrt", [g.op("Add", [mean, eps])])
    del two
    return Value(g.op("Mul", [g.op("Div", [x.name, root]), g.const(one)]), c)


def transformer(rng, seed):
    g = Graph(FLOAT, seed)
    heads = int(pick(rng, 2, 4, 6, 8))
    width, tokens = (
        heads * int(pick(rng, 8, 16, 32, 64)),
        int(pick(rng, 1, 8, 16, 48, 96, 160, 256)),
    )
    x = g.input([1, tokens, width], channels=width)
    fused, gated = rng.random() < 0.5, rng.random() < 0.5
    for _ in range(int(rng.integers(1, 4))):
        x = Value(
            g.op(
                "Add",
                [x.name, attention(g, layer_norm(g, x, fused), tokens, width, heads, rng).name],
            ),
            width,
        )
        n = layer_norm(g, x, fused)
        inner = int(width * pick(rng, 2, 3, 4))
        a = matmul(g, n, inner, rng, bias=not gated)
        if gated:
            b = matmul(g, n, inner, rng, bias=False)
            a = Value(
                g.op("Mul", [g.op("Mul", [a.name, g.op("Sigmoid", [a.name])]), b.name]), inner
            )
        else:
            e = g.op("Erf", [g.op("Mul", [a.name, g.const(np.float32(0.70710678))])])
            h = g.op("Mul", [a.name, g.const(np.float32(0.5))])
            a = Value(g.op("Mul", [h, g.op("Add", [e, g.const(np.float32(1))])]), inner)
        x = Value(g.op("Add", [x.name, matmul(g, a, width, rng).name]), width)
    g.output(layer_norm(g, x, fused))
    return g.model("transformer")


def dense_layers(rng, seed):
    """Layers of one to many rows, some with weights larger than caches."""
    g = Graph(FLOAT, seed)
    rows = int(pick(rng, 1, 1, 2, 4, 8, 16, 64))
    x = g.input([rows, int(pick(rng, 64, 200, 784, 1024, 2048))])
    for _ in range(int(rng.integers(3, 6))):
        x = g.dense(
            x,
            int(pick(rng, 32, 100, 256, 512, 1024, 3072)),
            act=pick(rng, "relu", "relu", "leaky", None),
        )
        if rng.random() < 0.3:
            x = Value(g.op(pick(rng, "Sigmoid", "Tanh", "Exp"), [x.name]), x.channels)
    g.output(Value(g.op("Softmax", [x.name]), x.channels))
    return g.model("dense_layers")


def recurrent(rng, seed):
    """Signals: 1-D convolutions, LSTM or GRU, layers behind."""
    g = Graph(FLOAT, seed)
    steps, channels, hidden = (
        int(pick(rng, 1, 4, 16, 40)),
        int(pick(rng, 16, 40, 129)),
        int(pick(rng, 32, 64, 128)),
    )
    x = g.input([1, channels, steps])
    w = (g.rng.standard_normal((hidden, channels, 3)) * 0.1).astype(np.float32)
    y = g.op(
        "Relu",
        [
            g.op(
                "Conv",
                [x.name, g.const(w), g.const(np.zeros(hidden, np.float32))],
                kernel_shape=[3],
                pads=[1, 1],
            )
        ],
    )
    y = g.op("Transpose", [y], perm=[2, 0, 1])
    kind, gates = pick(rng, ("LSTM", 4), ("GRU", 3))
    ways = int(pick(rng, 1, 1, 2))
    w, r = (
        (g.rng.standard_normal((ways, gates * hidden, hidden)) * 0.1).astype(np.float32)
        for _ in range(2)
    )
    y = g.op(
        kind,
        [y, g.const(w), g.const(r), g.const(np.zeros((ways, 2 * gates * hidden), np.float32))],
        hidden_size=hidden,
        direction="bidirectional" if ways == 2 else "forward",
    )
    y = g.op("Reshape", [y, g.const(np.array([steps, ways * hidden], np.int64))])
    g.output(
        Value(
            g.op("Sigmoid", [g.dense(Value(y, ways * hidden), int(pick(rng, 1, 64, 257))).name]), 1
        )
    )
    return g.model("recurrent")


def signal(rng, seed):
    """Spectrograms: strided and long 1-D kernels, slices, logarithms, normalization by reductions,
    small 2-D kernels."""
    g = Graph(FLOAT, seed)
    length, bins = int(pick(rng, 2048, 8000, 16000)), int(pick(rng, 16, 64, 129))
    x = g.input([1, 1, length])
    kernel = int(pick(rng, 64, 128, 256))
    w = (g.rng.standard_normal((2 * bins, 1, kernel)) * 0.05).astype(np.float32)
    y = g.op("Conv", [x.name, g.const(w)], kernel_shape=[kernel], strides=[kernel // 2])
    frames = (length - kernel) // (kernel // 2) + 1
    parts = []
    for i in range(2):
        s = g.op(
            "Slice",
            [
                y,
                g.const(np.array([i * bins], np.int64)),
                g.const(np.array([(i + 1) * bins], np.int64)),
                g.const(np.array([1], np.int64)),
            ],
        )
        parts.append(g.op("Mul", [s, s]))
    y = g.op("Sqrt", [g.op("Add", parts)])
    y = g.op("Log", [g.op("Add", [y, g.const(np.float32(1e-3))])])
    low, high = (
        g.op("ReduceMin", [y], axes=[1, 2], keepdims=1),
        g.op("ReduceMax", [y], axes=[1, 2], keepdims=1),
    )
    y = g.op(
        "Div",
        [g.op("Sub", [y, low]), g.op("Add", [g.op("Sub", [high, low]), g.const(np.float32(1e-3))])],
    )
    x = Value(g.op("Reshape", [y, g.const(np.array([1, 1, bins, frames], np.int64))]), 1)
    for _ in range(3):
        x = g.conv(x, int(pick(rng, 8, 16, 32)), int(pick(rng, 3, 5, 7)), act="relu")
    x = g.conv(x, 1, 3)
    g.output(Value(g.op("Sigmoid", [x.name]), 1))
    return g.model("signal")


def filters(rng, seed):
    """Long 1-D filters over few channels, each by itself, and comparisons of what comes out."""
    g = Graph(FLOAT, seed)
    length, channels = int(pick(rng, 1000, 3000, 12000)), int(pick(rng, 1, 1, 2, 6))
    x = g.input([1, channels, length])
    name = x.name
    for longest in (400, 129):  # a second one fits what the first leaves
        kernel = min(int(pick(rng, 65, 129, 256, 400)), longest)
        w = (g.rng.standard_normal((channels, 1, kernel)) * 0.05).astype(np.float32)
        name = g.op(
            "Conv",
            [name, g.const(w)],
            kernel_shape=[kernel],
            strides=[int(pick(rng, 1, 2))],
            group=channels,
        )
    compared = g.op(pick(rng, "Equal", "Less", "Greater"), [name, g.const(np.float32(0.1))])
    g.output(Value(g.op("Where", [compared, name, g.const(np.float32(0))]), channels))
    return g.model("filters")


def moves(rng, seed):
    """Steps that compute little: padding, slices, gathers, expansions, sums, functions, at many
    sizes."""
    g = Graph(FLOAT, seed)
    h, w, c = (
        int(pick(rng, 8, 24, 56, 112)),
        int(pick(rng, 8, 24, 56, 112)),
        int(pick(rng, 4, 16, 30, 64)),
    )
    x = g.conv(g.input([1, 3, h, w]), c, 3, act="relu")
    i64 = lambda *v: g.const(np.array(v, np.int64))
    y = g.op("Pad", [x.name, i64(0, 0, 1, 1, 0, 0, 1, 1)])
    y = g.op("Slice", [y, i64(1, 0), i64(h + 1, w), i64(2, 3)])
    for kind in rng.permutation(
        ["Sigmoid", "Tanh", "Exp", "Relu", "Abs", "Neg", "Softplus", "HardSigmoid", "Erf"]
    )[:4]:
        y = g.op(str(kind), [y])
    y = g.op(pick(rng, "Mul", "Add", "Sub", "Max"), [y, x.name])
    y = g.op("Mul", [y, g.op("GlobalAveragePool", [y])])
    half, a, b = c // 2, None, None
    a = g.op("Slice", [y, i64(0), i64(half), i64(1)])
    b = g.op("Gather", [y, i64(*range(half - 1, -1, -1))], axis=1)
    y = g.op("Concat", [b, a], axis=1)
    y = g.op("Transpose", [y], perm=[0, 2, 3, 1])
    y = g.op("Add", [y, g.const(np.ones((1, 1, 1, 2 * half), np.float32))])
    m = g.op("ReduceMean", [y], axes=[3], keepdims=1)
    y = g.op("Sub", [y, m])
    y = g.op("Reshape", [y, i64(h * w, 2 * half)])
    g.output(Value(g.op("Cast", [g.op("ArgMax", [y], axis=1, keepdims=0)], to=1), 1))
    z = g.op("Expand", [g.op("ReduceMax", [y], axes=[0], keepdims=1), i64(h, 2 * half)])
    g.output(Value(g.op("ReduceSum", [z, i64(1)], keepdims=1), 1))
    return g.model("moves")


def odd_channels(rng, seed):
    """Convolutions whose channels fill neither vectors nor pairs, in two and three dimensions,
    dilated or not, and in groups."""
    g = Graph(FLOAT, seed)
    volume = rng.random() < 0.4
    size, channels = (
        int(pick(rng, 12, 20, 32)) if volume else int(pick(rng, 20, 40, 80, 160)),
        int(pick(rng, 3, 5, 7, 9, 11, 13, 15, 21)),
    )
    dims = 3 if volume else 2
    x = g.input([1, int(pick(rng, 1, 3))] + [size] * dims)
    for _ in range(int(rng.integers(3, 6))):
        kernel, d = int(pick(rng, 1, 3, 3, 5)), int(pick(rng, 1, 1, 2, 4))
        group = x.channels if x.channels == channels and not volume and rng.random() < 0.4 else 1
        pad = d * (kernel // 2)
        w = (g.rng.standard_normal([channels, x.channels // group] + [kernel] * dims) * 0.2).astype(
            np.float32
        )
        y = g.op(
            "Conv",
            [x.name, g.const(w), g.const(np.zeros(channels, np.float32))],
            kernel_shape=[kernel] * dims,
            pads=[pad] * 2 * dims,
            dilations=[d] * dims,
            group=group,
        )
        x = Value(g.op("Relu", [y]), channels)
    g.output(x)
    return g.model("odd_channels")


def pools(rng, seed):
    """Windows of any size and stride, maximum and mean, around small convolutions."""
    g = Graph(FLOAT, seed)
    size, channels = int(pick(rng, 13, 26, 56, 112)), int(pick(rng, 8, 16, 24, 64, 128))
    x = g.conv(g.input([1, 3, size, size]), channels, 3, act="relu")
    outs = []
    for _ in range(4):
        kernel, stride = int(pick(rng, 2, 3, 5, 9, 13)), int(pick(rng, 1, 1, 2))
        pad = kernel // 2
        if (size + 2 * pad - kernel) // stride < 2:
            continue
        op = str(pick(rng, "MaxPool", "MaxPool", "AveragePool"))
        y = Value(
            g.op(op, [x.name], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4),
            channels,
        )
        outs.append(g.conv(y, 8, 1))
    for y in outs:
        g.output(y)
    return g.model("pools")


def rotary(rng, seed):
    """Attention with positions turned in pairs: halves of heads, products broadcast over heads,
    gathers of what was stacked."""
    g = Graph(FLOAT, seed)
    heads, half, tokens = (
        int(pick(rng, 2, 4, 8, 12)),
        int(pick(rng, 4, 8, 16, 32)),
        int(pick(rng, 1, 8, 32, 64, 128)),
    )
    width = 2 * half * heads
    i64 = lambda *v: g.const(np.array(v, np.int64))
    ids = g.input([1, tokens, width], channels=width)
    x = ids
    for _ in range(int(rng.integers(1, 3))):
        turned = []
        for _ in range(2):
            q = g.op(
                "Reshape",
                [matmul(g, x, width, rng, bias=False).name, i64(1, tokens, heads, 2 * half)],
            )
            parts = [
                g.op("Slice", [q, i64(i * half), i64((i + 1) * half), i64(3)]) for i in range(2)
            ]
            cos, sin = (
                g.const(g.rng.standard_normal((1, tokens, 1, half)).astype(np.float32))
                for _ in range(2)
            )
            a = g.op("Sub", [g.op("Mul", [parts[0], cos]), g.op("Mul", [parts[1], sin])])
            b = g.op("Add", [g.op("Mul", [parts[0], sin]), g.op("Mul", [parts[1], cos])])
            turned.append(g.op("Transpose", [g.op("Concat", [a, b], axis=3)], perm=[0, 2, 1, 3]))
        scores = g.op("MatMul", [turned[0], g.op("Transpose", [turned[1]], perm=[0, 1, 3, 2])])
        mask = g.const(np.triu(np.full((tokens, tokens), -1e4, np.float32), 1))
        weights = g.op(
            "Softmax",
            [g.op("Add", [g.op("Mul", [scores, g.const(np.float32(0.25))]), mask])],
            axis=-1,
        )
        v = g.op(
            "Transpose",
            [
                g.op(
                    "Reshape",
                    [matmul(g, x, width, rng, bias=False).name, i64(1, tokens, heads, 2 * half)],
                )
            ],
            perm=[0, 2, 1, 3],
        )
        mixed = g.op("Transpose", [g.op("MatMul", [weights, v])], perm=[0, 2, 1, 3])
        mixed = Value(g.op("Reshape", [mixed, i64(1, tokens, width)]), width)
        x = Value(g.op("Add", [x.name, matmul(g, mixed, width, rng, bias=False).name]), width)
    stacked = g.op(
        "Concat",
        [g.op("Unsqueeze", [x.name, i64(0)]), g.op("Unsqueeze", [ids.name, i64(0)])],
        axis=0,
    )
    g.output(Value(g.op("Gather", [stacked, i64(1)], axis=0), width))
    g.output(x)
    return g.model("rotary")


def selections(rng, seed):
    """Comparisons, one-hot products, sums over short and long last axes, gathers and turns of many
    shapes."""
    g = Graph(FLOAT, seed)
    rows, columns, depth = (
        int(pick(rng, 50, 300, 1500)),
        int(pick(rng, 16, 60, 250)),
        int(pick(rng, 8, 32, 64)),
    )
    i64 = lambda *v: g.const(np.array(v, np.int64))
    x = g.input([1, rows, 1], channels=1)
    hot = g.op(
        "Cast",
        [
            g.op(
                "Equal",
                [x.name, g.const(np.arange(columns, dtype=np.float32).reshape(1, 1, columns))],
            )
        ],
        to=1,
    )
    y = matmul(g, Value(hot, columns), depth, rng)
    e = g.op(
        "Mul",
        [
            g.op("Mul", [y.name, g.const(np.float32(0.5))]),
            g.op(
                "Add",
                [
                    g.op("Erf", [g.op("Mul", [y.name, g.const(np.float32(0.7071))])]),
                    g.const(np.float32(1)),
                ],
            ),
        ],
    )
    pairs = g.op("Reshape", [e, i64(1, rows, depth // 2, 2)])
    short = g.op("ReduceSum", [g.op("Mul", [pairs, pairs]), i64(3)], keepdims=0)
    g.output(Value(short, depth // 2))
    long = g.op(
        str(pick(rng, "ReduceMax", "ReduceMean")),
        [g.op("Transpose", [e], perm=[0, 2, 1])],
        axes=[2],
        keepdims=0,
    )
    g.output(Value(long, depth))
    picked = g.op(
        "Gather", [e, i64(*[int(v) for v in g.rng.integers(0, rows, size=rows // 2)])], axis=1
    )
    four = g.op(
        "Transpose", [g.op("Reshape", [picked, i64(1, rows // 2, depth, 1)])], perm=[0, 2, 1, 3]
    )
    cut = g.op("Slice", [four, i64(0, 0), i64(depth // 2, rows // 4), i64(1, 2)])
    g.output(
        Value(
            g.op(
                "Where",
                [g.op("Greater", [cut, g.const(np.float32(0))]), cut, g.const(np.float32(0))],
            ),
            1,
        )
    )
    return g.model("selections")


def lines(rng, seed):
    """Depthwise convolutions that are not 3 x 3, 5 x 5 or 7 x 7: of one dimension, dilated, with
    strides, long."""
    g = Graph(FLOAT, seed)
    channels, flat = int(pick(rng, 16, 24, 32, 64, 144, 256)), rng.random() < 0.5
    sizes = [1, int(pick(rng, 100, 400, 2000))] if flat else [int(pick(rng, 8, 14, 28, 56))] * 2
    x = g.input([1, channels, *sizes])
    for _ in range(4):
        kernel = [1, int(pick(rng, 3, 9, 15, 31))]
        if not flat:
            kernel = [int(k) for k in pick(rng, (3, 1), (1, 3), (9, 9), (1, 11), (11, 1), (2, 2))]
        d = int(pick(rng, 1, 1, 2, 4)) if flat else 1
        stride = [1, int(pick(rng, 1, 1, 2))] if flat else [1, 1]
        w = (g.rng.standard_normal((channels, 1, *kernel)) * 0.2).astype(np.float32)
        y = g.op(
            "Conv",
            [x.name, g.const(w), g.const(np.zeros(channels, np.float32))],
            kernel_shape=kernel,
            pads=[kernel[0] // 2, d * (kernel[1] // 2)] * 2,
            dilations=[1, d],
            strides=stride,
            group=channels,
        )
        x = g.activate(Value(y, channels), pick(rng, "relu", "silu"))
        x = g.conv(x, channels, 1)
    g.output(x)
    return g.model("lines")


def rows(rng, seed):
    """Steps whose time is in their rows: short ones that are joined, repeated, broadcast, compared,
    normalized and added up, and columns; samples at places of an image."""
    g = Graph(FLOAT, seed)
    i64 = lambda *v: g.const(np.array(v, np.int64))
    a, b, c = int(pick(rng, 8, 40, 120)), int(pick(rng, 12, 50, 200)), int(pick(rng, 6, 16, 60, 96))
    x = g.input([1, a, b, c], channels=c)
    y = g.op("Relu", [x.name])
    one = g.op("ReduceMax", [y], axes=[3], keepdims=1)
    y = g.op("Mul", [y, one])
    y = g.op("Add", [y, g.op("ReduceMean", [y], axes=[2], keepdims=1)])
    y = g.op("Sub", [y, g.op("ReduceMean", [y], axes=[1], keepdims=1)])
    filled = g.op("Expand", [one, i64(1, a, b, c)])
    y = g.op("Where", [g.op("Greater", [y, filled]), y, filled])
    y = g.op("Mul", [y, g.const(g.rng.standard_normal((a, 1, c)).astype(np.float32))])
    ones = g.const(np.ones(c, np.float32))
    y = g.op("LayerNormalization", [y, ones, g.const(np.zeros(c, np.float32))], axis=-1)
    parts = [one, g.op("ReduceMin", [y], axes=[3], keepdims=1)]
    g.output(Value(g.op("Concat", [*parts, *parts[:1]], axis=3), 3))
    g.output(Value(g.op("Concat", [y, one], axis=3), c + 1))
    g.output(Value(g.op("ReduceSum", [y, i64(1, 2)], keepdims=1), c))
    place = g.op("Tanh", [g.op("Concat", [one, parts[1]], axis=3)])
    image = g.conv(g.input([1, 3, 32, 40], "image"), int(pick(rng, 8, 16, 48)), 3, act="relu")
    g.output(Value(g.op("GridSample", [image.name, place], align_corners=0), image.channels))
    plane = g.input([1, int(pick(rng, 1, 4)), 20, 30], "plane")
    g.output(Value(g.op("GridSample", [plane.name, place], align_corners=1), plane.channels))
    return g.model("rows")


def long_attention(rng, seed):
    """Attention over more places than its scores fit caches for."""
    g = Graph(FLOAT, seed)
    heads = int(pick(rng, 1, 2, 3, 4))
    width = heads * int(pick(rng, 16, 32, 64))
    tokens = int(pick(rng, 200, 257, 400, 577, 700, 1025))
    x = g.input([1, tokens, width], channels=width)
    for _ in range(2):
        x = Value(g.op("Add", [x.name, attention(g, x, tokens, width, heads, rng).name]), width)
    g.output(x)
    return g.model("long_attention")


KINDS = [
    (plain, 14),
    (bottleneck, 6),
    (mobile, 10),
    (detector, 8),
    (image_to_image, 8),
    (volume, 4),
    (transformer, 12),
    (dense_layers, 8),
    (recurrent, 8),
    (signal, 4),
    (filters, 6),
    (moves, 8),
    (odd_channels, 8),
    (pools, 6),
    (rotary, 8),
    (selections, 6),
    (lines, 8),
    (rows, 8),
    (long_attention, 8),
]


def networks():
    """(name, model), the same every time."""
    for kind, count in KINDS:
        for i in range(count):
            seed = 1000 + 17 * i
            yield f"{kind.__name__}{i}", kind(np.random.default_rng(seed), seed)
