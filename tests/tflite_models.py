"""TensorFlow Lite files for tests, written with the schema that the package ai-edge-litert carries:
nets of a few layers with random weights, MODELS by name."""

import copy

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

FLOAT, INT8, INT32 = schema.TensorType.FLOAT32, schema.TensorType.INT8, schema.TensorType.INT32
BOOL, RESOURCE = schema.TensorType.BOOL, schema.TensorType.RESOURCE
COMPLEX = schema.TensorType.COMPLEX64
INT16, INT64 = schema.TensorType.INT16, schema.TensorType.INT64
DTYPES = {
    np.dtype(np.float32): FLOAT,
    np.dtype(np.int8): INT8,
    np.dtype(np.int32): INT32,
    np.dtype(np.int64): INT64,
}
RELU, RELU6 = schema.ActivationFunctionType.RELU, schema.ActivationFunctionType.RELU6
SAME = schema.Padding.SAME
STEPS = 36  # of a computed tensor's scale to its standard deviation


def index_vector(kind, values):
    made = getattr(schema, kind + "T")()
    made.values = np.array(values, np.uint8 if kind == "Uint8Vector" else np.uint16)
    return getattr(schema.SparseIndexVector, kind), made


def empty_graph():
    graph = schema.SubGraphT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [], []
    return graph


class Net:
    """A graph under construction, of int8 or float32 tensors, which are known by their numbers.
    `integers` 16: activations are int16 without zero points, biases int64 ("16x8")."""

    def __init__(self, shape, integers=True, seed=0):
        self.random = np.random.default_rng(seed)
        self.integers = integers
        self.int8_steps = 256 if integers == 16 else 1
        self.graph = empty_graph()
        self.graphs = [self.graph]
        self.buffers = [schema.BufferT()]
        self.codes = []
        self.deviation = {}  # of tensors, in real numbers
        self.input = self.tensor(shape, 1 / 64, 0) if integers else self.tensor(shape)
        self.deviation[self.input] = 74 / 64 if integers else 0.58
        self.graph.inputs = [self.input]

    def subgraph(self):
        """The net at another graph of the file, and that graph's number."""
        inner = copy.copy(self)
        inner.graph, inner.deviation = empty_graph(), {}
        self.graphs.append(inner.graph)
        return inner, len(self.graphs) - 1

    def tensor(self, shape, scale=None, zero=0, data=None, axis=0):
        made = schema.TensorT()
        made.name = f"t{len(self.graph.tensors)}"
        made.shape = list(shape)
        words = self.integers == 16 and scale is not None
        if words and data is None:  # scales are those of int8
            scale, zero = scale / 256, 0
        if words and data is not None and data.dtype == np.int32:
            data = data.astype(np.int64) * 256
        computed = FLOAT if not self.integers else INT16 if words else INT8
        made.type = DTYPES[data.dtype] if data is not None else computed
        if scale is not None:
            q = made.quantization = schema.QuantizationParametersT()
            q.scale = np.atleast_1d(np.float32(scale))
            q.zeroPoint = np.full(q.scale.shape, zero, np.int64)
            q.quantizedDimension = axis
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            made.buffer = len(self.buffers)
            self.buffers.append(buffer)
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def constant(self, values, dtype=np.int32):
        values = np.asarray(values, dtype)
        return self.tensor(values.shape, data=values)

    def sparse(self, values, block=1):
        """A constant matrix that lists the blocks of each row that are not 0."""
        rows, columns = values.shape
        segments, indices, kept = [0], [], []
        for row in values.reshape(rows, columns // block, block):
            (there,) = np.nonzero(np.any(row != 0, axis=1))
            indices += there.tolist()
            kept.append(row[there].ravel())
            segments.append(len(indices))
        made = self.tensor(values.shape, data=np.concatenate(kept))
        sparsity = self.graph.tensors[made].sparsity = schema.SparsityParametersT()
        every, listed, inner = (schema.DimensionMetadataT() for _ in range(3))
        every.denseSize, inner.denseSize = rows, block
        listed.format = schema.DimensionType.SPARSE_CSR
        listed.arraySegmentsType, listed.arraySegments = index_vector("Uint16Vector", segments)
        listed.arrayIndicesType, listed.arrayIndices = index_vector("Uint8Vector", indices)
        sparsity.traversalOrder = [0, 1] if block == 1 else [0, 1, 2]
        sparsity.blockMap = [] if block == 1 else [1]
        sparsity.dimMetadata = [every, listed] if block == 1 else [every, listed, inner]
        return made

    def shape(self, tensor):
        return list(self.graph.tensors[tensor].shape)

    def scale(self, tensor):
        return self.graph.tensors[tensor].quantization.scale[0]

    def operator(self, kind, inputs, output, options=None, name=None):
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = 1
        op = schema.OperatorT()
        op.opcodeIndex = len(self.codes)
        op.inputs, op.outputs = inputs, [] if output is None else [output]
        if options is not None:
            op.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            op.builtinOptions = options
        self.codes.append(code)
        self.graph.operators.append(op)
        return output

    def result(self, shape, deviation, activation=0, like=None):
        """A computed tensor, with a scale for numbers of this deviation, or that of `like`."""
        if not self.integers:
            made = self.tensor(shape)
        elif like is not None:
            q = self.graph.tensors[like].quantization
            made = self.tensor(shape, q.scale[0] * self.int8_steps, int(q.zeroPoint[0]))
        else:
            positive = activation in (RELU, RELU6)
            scale = deviation / STEPS / (2 if positive else 1)
            made = self.tensor(shape, scale * 1.0137, -128 if positive else -3)
        self.deviation[made] = deviation * (0.58 if activation else 1)
        return made

    def weights(self, shape, axis, x, depth):
        """Weights and bias, and the deviation of the product."""
        channels = shape[axis]
        if not self.integers:
            w = self.random.normal(0, depth**-0.5, shape).astype(np.float32)
            b = self.random.normal(0, 0.1, channels).astype(np.float32)
            return self.tensor(shape, data=w), self.tensor([channels], data=b), self.deviation[x]
        w = self.random.integers(-127, 128, shape).astype(np.int8)
        scales = (self.random.uniform(0.7, 1.4, channels) * depth**-0.5 / 73).astype(np.float32)
        b = self.random.integers(-2000, 2000, channels).astype(np.int32)
        bias_scales = scales * self.scale(x)
        made = self.tensor(shape, scales, 0, w, axis)
        return made, self.tensor([channels], bias_scales, 0, b), self.deviation[x] * 1.07

    def conv(self, x, channels, kernel=3, stride=1, activation=0, depthwise=False):
        n, h, w, c = self.shape(x)
        channels = c if depthwise else channels
        shape = [1, kernel, kernel, c] if depthwise else [channels, kernel, kernel, c]
        depth = kernel * kernel * (1 if depthwise else c)
        filters, bias, deviation = self.weights(shape, 3 if depthwise else 0, x, depth)
        name = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
        options = getattr(schema, name + "T")()
        options.padding, options.strideH, options.strideW = SAME, stride, stride
        options.fusedActivationFunction = activation
        if depthwise:
            options.depthMultiplier = 1
        out = [n, -(-h // stride), -(-w // stride), channels]
        y = self.result(out, deviation, activation)
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self.operator(kind, [x, filters, bias], y, options, name)

    def binary(self, kind, a, b, activation=0):
        names = {"ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions"}
        options = getattr(schema, names[kind] + "T")()
        options.fusedActivationFunction = activation
        da, db = self.deviation[a], self.deviation[b]
        deviation = da * db if kind == "MUL" else (da**2 + db**2) ** 0.5
        y = self.result(self.shape(a), deviation, activation)
        return self.operator(kind, [a, b], y, options, names[kind])

    def pool(self, x, size, kind="AVERAGE_POOL_2D"):
        n, h, w, c = self.shape(x)
        options = schema.Pool2DOptionsT()
        options.padding = schema.Padding.VALID
        options.strideH = options.strideW = options.filterHeight = options.filterWidth = size
        y = self.result([n, h // size, w // size, c], self.deviation[x], like=x)
        return self.operator(kind, [x], y, options, "Pool2DOptions")

    def mean(self, x):
        n, h, w, c = self.shape(x)
        options = schema.ReducerOptionsT()
        options.keepDims = False
        y = self.result([n, c], self.deviation[x] / 2)
        return self.operator("MEAN", [x, self.constant([1, 2])], y, options, "ReducerOptions")

    def dense(self, x, channels):
        *_, depth = self.shape(x)
        w, b, deviation = self.weights([channels, depth], 0, x, depth)
        options = schema.FullyConnectedOptionsT()
        y = self.result([1, channels], deviation)
        return self.operator("FULLY_CONNECTED", [x, w, b], y, options, "FullyConnectedOptions")

    def softmax(self, x):
        options = schema.SoftmaxOptionsT()
        options.beta = 1.0
        shape = self.shape(x)
        y = self.share(shape)
        return self.operator("SOFTMAX", [x], y, options, "SoftmaxOptions")

    def function(self, kind, x):
        return self.operator(kind, [x], self.share(self.shape(x)))

    def share(self, shape):
        """A computed tensor of numbers up to 1, with the scale that the format asks for."""
        if not self.integers:
            return self.tensor(shape)
        return self.tensor(shape, 1 / 128 if self.integers == 16 else 1 / 256, -128)

    def typed(self, shape, kind):
        made = self.tensor(shape)
        self.graph.tensors[made].type = kind
        self.graph.tensors[made].quantization = None
        return made

    def variable(self, name):
        options = schema.VarHandleOptionsT()
        options.container, options.sharedName = "", name
        handle = self.typed([], RESOURCE)
        return self.operator("VAR_HANDLE", [], handle, options, "VarHandleOptions")

    def rows(self, x, first, last):
        """x[:, first:last]"""
        n, _, *rest = self.shape(x)
        rank = len(rest) + 2
        ends = [self.constant([0, at] + [0] * len(rest)) for at in (first, last)]
        options = schema.StridedSliceOptionsT()
        options.beginMask = options.endMask = 2**rank - 1 - 2
        y = self.result([n, last - first, *rest], self.deviation[x], like=x)
        inputs = [x, *ends, self.constant([1] * rank)]
        return self.operator("STRIDED_SLICE", inputs, y, options, "StridedSliceOptions")

    def join(self, parts):
        """Along axis 1."""
        shape = self.shape(parts[0])
        shape[1] = sum(self.shape(part)[1] for part in parts)
        options = schema.ConcatenationOptionsT()
        options.axis = 1
        y = self.result(shape, self.deviation[parts[0]], like=parts[0])
        return self.operator("CONCATENATION", parts, y, options, "ConcatenationOptions")

    def file(self, output):
        self.graph.outputs = [output]
        model = schema.ModelT()
        model.version = 3
        model.subgraphs, model.buffers, model.operatorCodes = (
            self.graphs,
            self.buffers,
            self.codes,
        )
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def mobilenet(integers=True):
    """Inverted residuals with depthwise convolutions."""
    net = Net([1, 64, 64, 3], integers)
    x = net.conv(net.input, 16, 3, 2, RELU6)
    for channels, stride in [(16, 1), (24, 2), (24, 1), (32, 2), (32, 1)]:
        expanded = 4 * net.shape(x)[3]
        y = net.conv(x, expanded, 1, 1, RELU6)
        y = net.conv(y, 0, 3, stride, RELU6, depthwise=True)
        y = net.conv(y, channels, 1)
        x = net.binary("ADD", x, y) if net.shape(x) == net.shape(y) else y
    x = net.mean(net.conv(x, 128, 1, 1, RELU6))
    return net.file(net.softmax(net.dense(x, 100)))


def resnet(integers=True):
    """Residual blocks of two 3 x 3 convolutions."""
    net = Net([1, 32, 32, 3], integers)
    x = net.conv(net.input, 16, 3, 1, RELU)
    for channels, stride in [(16, 1), (32, 2), (64, 2)]:
        y = net.conv(net.conv(x, channels, 3, stride, RELU), channels)
        if stride > 1:
            x = net.conv(x, channels, 1, stride)
        x = net.binary("ADD", x, y, RELU)
    return net.file(net.dense(net.mean(x), 100))


def stream(integers=True):
    """Two convolutions over frames of now and before, which variables keep."""
    net = Net([1, 3, 1, 16], integers)
    init, number = net.subgraph()
    options = schema.CallOnceOptionsT()
    options.initSubgraphIndex = number
    net.operator("CALL_ONCE", [], None, options, "CallOnceOptions")
    x = net.input
    for i, kept in enumerate([2, 4]):
        shape = [1, kept, 1, 16]
        handle, first = net.variable(f"kept/{i}"), init.variable(f"kept/{i}")
        q = net.graph.tensors[x].quantization
        zeros = np.zeros(shape, np.float32)
        if integers:
            zeros = np.full(shape, q.zeroPoint[0], np.int8)
            begin = init.tensor(shape, q.scale[0], int(q.zeroPoint[0]), zeros)
        else:
            begin = init.tensor(shape, data=zeros)
        init.operator("ASSIGN_VARIABLE", [first, begin], None)
        before = net.operator(
            "READ_VARIABLE", [handle], net.result(shape, net.deviation[x], like=x)
        )
        joined = net.join([before, x])
        rows = net.shape(joined)[1]
        net.operator("ASSIGN_VARIABLE", [handle, net.rows(joined, rows - kept, rows)], None)
        x = net.conv(joined, 16, 3, 1, RELU)
    after = net.result(shape, net.deviation[joined], like=joined)
    after = net.operator("READ_VARIABLE", [handle], after)  # of this frame
    return net.file(net.binary("ADD", net.rows(x, rows - kept, rows), net.conv(after, 16)))


def branches():
    """x w where the mean of x is above 0, else x."""
    net = Net([1, 64], integers=False)
    options = schema.ReducerOptionsT()
    mean = net.operator(
        "MEAN", [net.input, net.constant([0, 1])], net.tensor([]), options, "ReducerOptions"
    )
    above = net.operator("GREATER", [mean, net.constant(0, np.float32)], net.typed([], BOOL))
    w = net.constant(net.random.normal(0, 1, 64), np.float32)
    options = schema.IfOptionsT()
    for name in ("thenSubgraphIndex", "elseSubgraphIndex"):
        inner, number = net.subgraph()
        setattr(options, name, number)
        x, factor = inner.tensor([1, 64]), inner.tensor([64])
        inner.graph.inputs, inner.deviation = [x, factor], {x: 1, factor: 1}
        inner.graph.outputs = [inner.binary("MUL", x, factor) if name[0] == "t" else x]
    y = net.tensor([1, 64])
    return net.file(net.operator("IF", [above, net.input, w], y, options, "IfOptions"))


def sparse():
    """Products by sparse matrices: of single elements, and of blocks of four."""
    net = Net([1, 32], integers=False)
    x = net.input
    for block in (1, 4):
        values = net.random.normal(0, 1, (32, 32 // block, block))
        values[net.random.random((32, 32 // block)) < 0.7] = 0
        w = net.sparse(values.reshape(32, 32).astype(np.float32), block)
        w = net.operator("DENSIFY", [w], net.tensor([32, 32]))
        bias = net.constant(net.random.normal(0, 1, 32), np.float32)
        options = schema.FullyConnectedOptionsT()
        y = net.tensor([1, 32])
        x = net.operator("FULLY_CONNECTED", [x, w, bias], y, options, "FullyConnectedOptions")
    return net.file(x)


def spectrum():
    """A transform of two axes and one of the last axis, the complex numbers moved, their parts and
    magnitudes side by side."""
    net = Net([1, 8, 64], integers=False)
    parts = []
    for rows in (8, 1):
        y = net.typed([1, rows, 33], COMPLEX)
        x = net.input if rows > 1 else net.rows(net.input, 3, 4)
        y = net.operator("RFFT2D", [x, net.constant([rows, 64])], y)
        wide = net.typed([1, rows, 1, 33], COMPLEX)
        y = net.operator("EXPAND_DIMS", [y, net.constant(-2)], wide)
        shape = net.constant([1, 33 * rows])
        y = net.operator("RESHAPE", [y, shape], net.typed([1, 33 * rows], COMPLEX))
        for kind in ("REAL", "IMAG", "COMPLEX_ABS"):
            parts.append(net.operator(kind, [y], net.tensor([1, 33 * rows])))
            net.deviation[parts[-1]] = 1
    return net.file(net.join(parts))


def layer(make):
    """A net of one layer, on 16 x 16 x 8 numbers."""

    def build():
        net = Net([1, 16, 16, 8])
        return net.file(make(net, net.input))

    return build


MODELS = {
    "conv": layer(lambda net, x: net.conv(x, 16)),
    "depthwise": layer(lambda net, x: net.conv(x, 0, 3, 2, RELU6, depthwise=True)),
    "add": layer(lambda net, x: net.binary("ADD", x, net.conv(x, 8))),
    "mul": layer(lambda net, x: net.binary("MUL", x, net.conv(x, 8))),
    "average_pool": layer(lambda net, x: net.pool(x, 4)),
    "max_pool": layer(lambda net, x: net.pool(x, 2, "MAX_POOL_2D")),
    "mean": layer(lambda net, x: net.mean(x)),
    "dense": layer(lambda net, x: net.dense(net.mean(x), 500)),
    "softmax": layer(lambda net, x: net.softmax(x)),
    "logistic": layer(lambda net, x: net.function("LOGISTIC", x)),
    "stream_int8": stream,
    "stream_float32": lambda: stream(integers=False),
    "branches": branches,
    "sparse": sparse,
    "spectrum": spectrum,
    "mobilenet_int8": mobilenet,
    "resnet_int8": resnet,
    "mobilenet_16x8": lambda: mobilenet(integers=16),
    "resnet_16x8": lambda: resnet(integers=16),
    "mobilenet_float32": lambda: mobilenet(integers=False),
    "resnet_float32": lambda: resnet(integers=False),
}
