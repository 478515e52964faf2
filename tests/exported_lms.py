"""Tiny language models as exporters write them to ONNX, for the tests that read them: what the
exporter of torch leaves of transformers' modules (optimum's inputs and outputs), what ONNX
Runtime's model builder and its fusions write, and ai.onnx's own operators. The tensors and settings
are those of tests/tiny_lms.py."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LOWEST = np.finfo(np.float32).min
MICROSOFT = "com.microsoft"


class Writer:
    """Nodes and constants of a graph; names are made unique."""

    def __init__(self, opset):
        self.opset = opset
        self.nodes, self.constants, self.count = [], [], 0

    def constant(self, value, dtype=None):
        name = f"onnx::c_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values):
        return self.constant(values, np.int64)

    def int(self, value):
        return self.constant(value, np.int64)

    def real(self, value):
        return self.constant(value, np.float32)

    def __call__(self, op, *inputs, outputs=1, name=None, domain="", **attributes):
        self.count += 1
        names = name if isinstance(name, list) else [name or f"/{op}_{self.count}_output_0"]
        if outputs > 1 and name is None:
            names = [f"/{op}_{self.count}_output_{i}" for i in range(outputs)]
        self.nodes.append(
            helper.make_node(
                op, inputs, names, name=f"/{op}_{self.count}", domain=domain, **attributes
            )
        )
        return names[0] if len(names) == 1 else names

    # ---- what torch's exporter writes for sizes

    def size(self, x, axis):
        """x.shape[axis], a scalar."""
        return self("Gather", self("Shape", x), self.int(axis), axis=0)

    def shape(self, *sizes):
        """A shape of numbers and of computed scalars."""
        parts = [
            self.ints(s) if isinstance(s, int) else self("Unsqueeze", s, self.ints(0))
            for s in sizes
        ]
        return self("Concat", *parts, axis=0)

    def view(self, x, *sizes):
        return self("Reshape", x, self.shape(*sizes))

    def expand(self, x, shape):
        """torch's expand: a size of -1 stays as it is."""
        flat = self("Reshape", shape, self.ints(-1))
        one = helper.make_tensor("value", TensorProto.INT64, [1], [1])
        ones = self("ConstantOfShape", self("Shape", flat), value=one)
        keeps = self("Equal", flat, self("Mul", ones, self.int(-1)))
        return self("Expand", x, self("Where", keeps, ones, flat))

    def to_float(self, x):
        return self("Cast", x, to=TensorProto.FLOAT)


def sizes_of(config):
    width, heads = config["hidden_size"], config["num_attention_heads"]
    return width, heads, config["num_key_value_heads"], config.get("head_dim", width // heads)


def linear(w, tensors, name, x):
    y = w("MatMul", x, w.constant(np.ascontiguousarray(tensors[name + ".weight"].T)))
    bias = tensors.get(name + ".bias")
    return y if bias is None else w("Add", w.constant(bias), y)


def feed(w, tensors, layer, x):
    gate = linear(w, tensors, layer + "mlp.gate_proj", x)
    gate = w("Mul", gate, w("Sigmoid", gate))
    up = linear(w, tensors, layer + "mlp.up_proj", x)
    return linear(w, tensors, layer + "mlp.down_proj", w("Mul", gate, up))


def head_matrix(tensors):
    return tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])


# ---- torch's exporter, with optimum's inputs and outputs


def rms_norm(w, x, scale, epsilon):
    x = w("Cast", x, to=TensorProto.FLOAT)
    square = w("Pow", x, w.real(2.0))
    if w.opset < 18:
        mean = w("ReduceMean", square, axes=[-1], keepdims=1)
    else:
        mean = w("ReduceMean", square, w.ints(-1), keepdims=1)
    root = w("Sqrt", w("Add", mean, w.real(epsilon)))
    normed = w("Mul", x, w("Div", w.real(1.0), root))
    return w("Mul", w.constant(scale), w("Cast", normed, to=TensorProto.FLOAT))


def rotary_angles(w, config, position_ids):
    """cos and sin [batch, sequence, head size], computed from the places."""
    head = sizes_of(config)[3]
    frequency = config.get("rope_theta", 10000.0) ** (-np.arange(0, head, 2) / head)
    inverse = w.constant(frequency.astype(np.float32)[None, :, None])
    inverse = w.expand(inverse, w.shape(w.size(position_ids, 0), -1, 1))
    places = w.to_float(w("Unsqueeze", position_ids, w.ints(1)))
    angles = w("Transpose", w("MatMul", inverse, places), perm=[0, 2, 1])
    both = w("Concat", angles, angles, axis=-1)
    return [w("Mul", w(f, both), w.real(1.0)) for f in ("Cos", "Sin")]


def repeated(w, x):
    """repeat_interleave(x, 2, dim=-1) of [batch, sequence, angles]: what a mask of numbers below
    each count picks."""
    counts = w(
        "ConstantOfShape",
        w("Unsqueeze", w.size(x, 2), w.ints(0)),
        value=numpy_helper.from_array(np.array([2], np.int64)),
    )
    most = w("ReduceMax", counts, keepdims=0)
    wide = w("Unsqueeze", w("Transpose", x, perm=[2, 1, 0]), w.ints(1))
    sizes = (w.ints(-1), *(w("Unsqueeze", s, w.ints(0)) for s in (most, w.size(x, 1))))
    sizes = w("Concat", *sizes, w("Unsqueeze", w.size(x, 0), w.ints(0)), axis=0)
    ones = w.constant(np.ones(4, np.int64))
    sizes = w("Where", w("Equal", sizes, w.ints(-1, -1, -1, -1)), ones, sizes)
    wide = w("Expand", wide, sizes)
    below = w("Less", w("Range", w.int(0), most, w.int(1)), w("Unsqueeze", counts, w.ints(1)))
    picked = w("GatherND", wide, w("Transpose", w("NonZero", below), perm=[1, 0]))
    return w("Transpose", picked, perm=[2, 1, 0])


def pair_angles(w, config, position_ids):
    """cos and sin of pairs that are neighbours, as Cohere has them."""
    head = sizes_of(config)[3]
    frequency = config.get("rope_theta", 10000.0) ** (-np.arange(0, head, 2) / head)
    inverse = w.constant(frequency.astype(np.float32)[None, :, None])
    batch = w("Unsqueeze", w.size(position_ids, 0), w.ints(0))
    inverse = w("Tile", inverse, w("Concat", batch, w.ints(1), w.ints(1), axis=0))
    places = w.to_float(w("Unsqueeze", position_ids, w.ints(1)))
    angles = w("Transpose", w("MatMul", inverse, places), perm=[0, 2, 1])
    both = repeated(w, angles)
    return [w("Mul", w(f, both), w.real(1.0)) for f in ("Cos", "Sin")]


def turned_pairs(w, x, angles):
    cos, sin = (w("Unsqueeze", a, w.ints(1)) for a in angles)
    end, two = w.ints(2**63 - 1), w.ints(2)
    even = w("Slice", x, w.ints(0), end, w.ints(3), two)
    odd = w("Slice", x, w.ints(1), end, w.ints(3), two)
    pairs = [w("Unsqueeze", half, w.ints(-1)) for half in (w("Neg", odd), even)]
    half = w.view(w("Concat", *pairs, axis=-1), *(w.size(x, i) for i in range(3)), -1)
    return w("Add", w("Mul", x, cos), w("Mul", half, sin))


def rotate_half(w, x):
    half = w("Div", w.size(x, 3), w.int(2))
    half = w("Unsqueeze", half, w.ints(0))
    first = w("Slice", x, w.ints(0), half, w.ints(3), w.ints(1))
    second = w("Slice", x, half, w.ints(2**63 - 1), w.ints(3), w.ints(1))
    return w("Concat", w("Neg", second), first, axis=-1)


def turned(w, x, angles):
    cos, sin = (w("Unsqueeze", a, w.ints(1)) for a in angles)
    return w("Add", w("Mul", x, cos), w("Mul", rotate_half(w, x), sin))


def causal_mask(w, past, length, total, batch, attention_mask, window=0):
    """[batch, 1, sequence, past + sequence]: 0 where a key is seen."""
    hidden = w("Expand", w.real(LOWEST), w.shape(length, total))
    places = w("Unsqueeze", w("Range", past, total, w.int(1)), w.ints(1))
    keys = w("Range", w.int(0), total, w.int(1))
    later = w("Greater", keys, places)
    if window:
        later = w("Or", later, w("LessOrEqual", keys, w("Sub", places, w.int(window))))
    mask = w("Mul", hidden, w.to_float(later))
    mask = w("Unsqueeze", w("Unsqueeze", mask, w.ints(0)), w.ints(1))
    mask = w.expand(mask, w.shape(batch, 1, -1, -1))
    padding = w("Unsqueeze", w("Unsqueeze", attention_mask, w.ints(1)), w.ints(2))
    padded = w("Equal", w("Add", mask, w.to_float(padding)), w.real(0.0))
    return w("Where", padded, w.real(LOWEST), mask)


def repeat_heads(w, x, count):
    batch, heads, length, size = (w.size(x, i) for i in range(4))
    wide = w("Unsqueeze", x, w.ints(2))
    wide = w.expand(wide, w.shape(batch, heads, count, length, size))
    all_heads = w("Mul", heads, w.int(count))
    return w.view(wide, batch, all_heads, length, size)


def attend(w, q, k, v, mask, head, sdpa):
    """Attention as transformers writes it, or as torch's exporter writes its own."""
    keys = w("Transpose", k, perm=[0, 1, 3, 2])
    mask = w(
        "Slice", mask, w.ints(0), w("Unsqueeze", w.size(k, 2), w.ints(0)), w.ints(3), w.ints(1)
    )
    if not sdpa:
        scores = w("Div", w("MatMul", q, keys), w.real(head**0.5))
        weights = w("Softmax", w("Add", scores, mask), axis=-1)
        return w("MatMul", weights, v)
    last = w("Slice", w("Shape", q), w.ints(-1), w.ints(2**63 - 1))
    scale = w("Sqrt", w("Div", w.real([1.0]), w("Sqrt", w.to_float(last))))
    scores = w("MatMul", w("Mul", q, scale), w("Mul", keys, scale))
    weights = w("Softmax", w("Add", scores, mask), axis=-1)
    weights = w("Where", w("IsNaN", weights), w.real(0.0), weights)
    return w("MatMul", weights, v)


def torch_decoder(
    w, config, tensors, ids, attention_mask, position_ids, pasts, sdpa=True, pairs=False
):
    width, heads, kv_heads, head = sizes_of(config)
    batch, length = w.size(ids, 0), w.size(ids, 1)
    past = w.size(pasts[0][0], 2)
    total = w("Add", past, length)
    x = w("Gather", w.constant(tensors["model.embed_tokens.weight"]), ids, axis=0)
    window = config.get("sliding_window", 0)
    mask = causal_mask(w, past, length, total, batch, attention_mask, window)
    if position_ids is None:  # counted once for all items
        position_ids = w("Unsqueeze", w("Range", past, total, w.int(1)), w.ints(0))
    angles = (pair_angles if pairs else rotary_angles)(w, config, position_ids)
    turn = turned_pairs if pairs else turned
    presents = []
    for layer in range(config["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        y = rms_norm(w, x, tensors[h + "input_layernorm.weight"], config["rms_norm_eps"])
        q, k, v = (
            w(
                "Transpose",
                w.view(linear(w, tensors, h + f"self_attn.{n}_proj", y), batch, length, c, head),
                perm=[0, 2, 1, 3],
            )
            for n, c in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        q, k = turn(w, q, angles), turn(w, k, angles)
        k = w("Concat", pasts[layer][0], k, axis=-2, name=f"present.{layer}.key")
        v = w("Concat", pasts[layer][1], v, axis=-2, name=f"present.{layer}.value")
        presents += [k, v]
        if heads > kv_heads:
            k, v = (repeat_heads(w, s, heads // kv_heads) for s in (k, v))
        a = w("Transpose", attend(w, q, k, v, mask, head, sdpa), perm=[0, 2, 1, 3])
        a = w.view(a, batch, length, heads * head)
        x = w("Add", x, linear(w, tensors, h + "self_attn.o_proj", a))
        y = rms_norm(w, x, tensors[h + "post_attention_layernorm.weight"], config["rms_norm_eps"])
        x = w("Add", x, feed(w, tensors, h, y))
    x = rms_norm(w, x, tensors["model.norm.weight"], config["rms_norm_eps"])
    w("MatMul", x, w.constant(np.ascontiguousarray(head_matrix(tensors).T)), name="logits")
    return presents


# ---- operators that stand for whole parts


def angle_tables(config):
    head = sizes_of(config)[3]
    frequency = config.get("rope_theta", 10000.0) ** (-np.arange(0, head, 2) / head)
    angles = np.arange(config["max_position_embeddings"])[:, None] * frequency
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def builder_decoder(w, config, tensors, ids, attention_mask, pasts, packed=False):
    """As ONNX Runtime's model builder: GroupQueryAttention turns queries and keys itself."""
    width, heads, kv_heads, head = sizes_of(config)
    cos, sin = (w.constant(t) for t in angle_tables(config))
    lengths = w("ReduceSum", attention_mask, w.ints(1), keepdims=1)
    before = w("Cast", w("Sub", lengths, w.ints(1)), to=TensorProto.INT32)
    total = w("Cast", w.size(attention_mask, 1), to=TensorProto.INT32)
    x = w("Gather", w.constant(tensors["model.embed_tokens.weight"]), ids)
    skip, presents = None, []

    def norm(name, x, skip):
        """The norm and the sum that goes on."""
        scale = w.constant(tensors[name + ".weight"])
        epsilon = config["rms_norm_eps"]
        if skip is None:
            y = w("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=epsilon, stash_type=1)
            return y, x
        w.count += 1
        out, total = f"/skip_{w.count}/output_0", f"/skip_{w.count}/output_3"
        w(
            "SkipSimplifiedLayerNormalization",
            x,
            skip,
            scale,
            name=[out, "", "", total],
            domain=MICROSOFT,
            epsilon=epsilon,
        )
        return out, total

    for layer in range(config["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        y, x = norm(h + "input_layernorm", x, skip)
        names = [f"present.{layer}.key", f"present.{layer}.value"]
        if packed:
            parts = [tensors[h + f"self_attn.{n}_proj.weight"] for n in "qkv"]
            qkv = [w("MatMul", y, w.constant(np.concatenate(parts).T.copy())), "", ""]
        else:
            qkv = [linear(w, tensors, h + f"self_attn.{n}_proj", y) for n in "qkv"]
        a = w(
            "GroupQueryAttention",
            *qkv,
            *pasts[layer],
            before,
            total,
            cos,
            sin,
            name=[f"/layer.{layer}/attn", *names],
            domain=MICROSOFT,
            num_heads=heads,
            kv_num_heads=kv_heads,
            do_rotary=1,
            rotary_interleaved=0,
            scale=float(head**-0.5),
        )[0]
        presents += names
        y, x = norm(
            h + "post_attention_layernorm", x, linear(w, tensors, h + "self_attn.o_proj", a)
        )
        skip = feed(w, tensors, h, y)
    y, _ = norm("model.norm", x, skip)
    w("MatMul", y, w.constant(np.ascontiguousarray(head_matrix(tensors).T)), name="logits")
    return presents


def operator_decoder(w, config, tensors, ids, position_ids, pasts, microsoft=False):
    """ai.onnx's RMSNormalization, RotaryEmbedding and Attention, or ONNX Runtime's fusions:
    com.microsoft's RotaryEmbedding and MultiHeadAttention (as many key heads as heads)."""
    width, heads, kv_heads, head = sizes_of(config)
    tables = [w.constant(t) for t in angle_tables(config)]
    x = w("Gather", w.constant(tensors["model.embed_tokens.weight"]), ids)
    presents = []

    def norm(name, x):
        op = "SimplifiedLayerNormalization" if microsoft else "RMSNormalization"
        scale = w.constant(tensors[name + ".weight"])
        return w(op, x, scale, axis=-1, epsilon=config["rms_norm_eps"])

    def turn(x, count):
        if microsoft:
            return w("RotaryEmbedding", x, position_ids, *tables, domain=MICROSOFT)
        return w("RotaryEmbedding", x, *tables, position_ids, num_heads=count)

    for layer in range(config["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        y = norm(h + "input_layernorm", x)
        q, k, v = (linear(w, tensors, h + f"self_attn.{n}_proj", y) for n in "qkv")
        q, k = turn(q, heads), turn(k, kv_heads)
        names = [f"present.{layer}.key", f"present.{layer}.value"]
        out = [f"/layer.{layer}/attn", *names]
        if microsoft:
            a = w(
                "MultiHeadAttention",
                q,
                k,
                v,
                "",
                "",
                "",
                *pasts[layer],
                name=out,
                domain=MICROSOFT,
                num_heads=heads,
                unidirectional=1,
            )[0]
        else:
            a = w(
                "Attention",
                q,
                k,
                v,
                "",
                *pasts[layer],
                name=out,
                q_num_heads=heads,
                kv_num_heads=kv_heads,
                is_causal=1,
            )[0]
        presents += names
        x = w("Add", x, linear(w, tensors, h + "self_attn.o_proj", a))
        y = norm(h + "post_attention_layernorm", x)
        x = w("Add", x, feed(w, tensors, h, y))
    y = norm("model.norm", x)
    w("MatMul", y, w.constant(np.ascontiguousarray(head_matrix(tensors).T)), name="logits")
    return presents


# What a style is: operator set, whether it takes a mask and places, and what writes it.
STYLES = {
    "eager": (17, True, True),
    "sdpa": (18, True, True),
    "counted": (18, True, False),
    "pairs": (18, True, True),
    "builder": (21, True, False),
    "packed": (21, True, False),
    "fused": (18, False, True),
    "ai.onnx": (23, False, True),
}


def decoder(config, tensors, style):
    """The model of a style."""
    opset, masked, placed = STYLES[style]
    w = Writer(opset)
    kv_heads, head = sizes_of(config)[2:]
    pasts = [
        [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        for layer in range(config["num_hidden_layers"])
    ]
    total = "past_sequence_length + sequence_length"
    if style in ("builder", "packed"):
        total = "total_sequence_length"
    inputs = [("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])]
    if masked:
        inputs.append(("attention_mask", TensorProto.INT64, ["batch_size", total]))
    if placed:
        inputs.append(("position_ids", TensorProto.INT64, ["batch_size", "sequence_length"]))
    if style == "packed":
        head = "kv_cache_dim"  # as later builders have it
    cache = ["batch_size", kv_heads, "past_sequence_length", head]
    inputs += [(name, TensorProto.FLOAT, cache) for pair in pasts for name in pair]
    if style in ("eager", "sdpa", "counted", "pairs"):
        presents = torch_decoder(
            w,
            config,
            tensors,
            "input_ids",
            "attention_mask",
            "position_ids" if placed else None,
            pasts,
            style != "eager",
            style == "pairs",
        )
    elif style in ("builder", "packed"):
        presents = builder_decoder(
            w, config, tensors, "input_ids", "attention_mask", pasts, style == "packed"
        )
    else:
        presents = operator_decoder(
            w, config, tensors, "input_ids", "position_ids", pasts, style == "fused"
        )
    cache = ["batch_size", kv_heads, total, head]
    outputs = [("logits", ["batch_size", "sequence_length", config["vocab_size"]])]
    outputs += [(name, cache) for name in presents]
    graph = helper.make_graph(
        w.nodes,
        "main_graph",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs],
        w.constants,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def feeds(config, style, ids, past, seed=7):
    """Inputs of a run: ids [batch, sequence] behind a random past."""
    _, masked, placed = STYLES[style]
    random = np.random.default_rng(seed)
    kv_heads, head = sizes_of(config)[2:]
    batch, length = ids.shape
    out = {"input_ids": ids}
    if masked:
        out["attention_mask"] = np.ones((batch, past + length), np.int64)
    if placed:
        out["position_ids"] = np.tile(np.arange(past, past + length), (batch, 1))
    for layer in range(config["num_hidden_layers"]):
        for kind in ("key", "value"):
            value = random.standard_normal((batch, kv_heads, past, head)).astype(np.float32)
            out[f"past_key_values.{layer}.{kind}"] = value
    return out
