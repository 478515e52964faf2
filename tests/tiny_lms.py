"""Tiny language models with random weights: folders as Hugging Face's transformers writes them,
GGUF files, and what they compute, in float64 by plain numpy, for the tests of their import."""

import json
import os
import struct

import numpy as np

BASE = {
    "vocab_size": 48,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
GEMMA = {
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_act": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
}
# What config.json says, beside BASE.
FAMILIES = {
    "llama": {"model_type": "llama", "rope_theta": 500.0, "tie_word_embeddings": False},
    "llama3": {
        "model_type": "llama",
        "rope_theta": 5000.0,
        "rope_scaling": LLAMA3_ROPE,
        "tie_word_embeddings": True,
    },
    "llama-linear": {
        "model_type": "llama",
        "rope_scaling": {"type": "linear", "factor": 2.0},
        "tie_word_embeddings": False,
    },
    "mistral": {"model_type": "mistral", "sliding_window": 5, "tie_word_embeddings": False},
    "qwen2": {"model_type": "qwen2", "rope_theta": 1e6, "tie_word_embeddings": True},
    "qwen3": {
        "model_type": "qwen3",
        "head_dim": 12,
        "rope_theta": 1e6,
        "tie_word_embeddings": False,
    },
    "gemma": {"model_type": "gemma", **GEMMA},
    "gemma2": {
        "model_type": "gemma2",
        **GEMMA,
        "sliding_window": 4,
        "query_pre_attn_scalar": 24,
        "final_logit_softcapping": 3.0,
        "attn_logit_softcapping": 2.0,
    },
    "gemma3": {
        "model_type": "gemma3_text",
        **GEMMA,
        "num_hidden_layers": 7,
        "sliding_window": 4,
        "query_pre_attn_scalar": 16,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
    },
    "phi3": {
        "model_type": "phi3",
        "sliding_window": 6,
        "partial_rotary_factor": 0.5,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 32,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 64,
        "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
        "num_key_value_heads": 4,
        "intermediate_size": 128,
    },
}


def config_of(family):
    return {**BASE, **FAMILIES[family]}


def sizes(config):
    """Width, heads, key heads, head size, inner width."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    return (
        width,
        heads,
        config["num_key_value_heads"],
        config.get("head_dim") or width // heads,
        config["intermediate_size"],
    )


def tensors_of(config, seed=1):
    """Random tensors under transformers' names, float32."""
    random = np.random.default_rng(seed)
    kind = config["model_type"]
    width, heads, kv_heads, head, inner = sizes(config)
    out = {}

    def matrix(name, rows, columns):
        out[name] = random.standard_normal((rows, columns)).astype(np.float32) / columns**0.5

    def vector(name, size, around=0.0):
        out[name] = (around + 0.3 * random.standard_normal(size)).astype(np.float32)

    if kind == "gpt2":
        matrix("wte.weight", config["vocab_size"], width)
        matrix("wpe.weight", config["n_positions"], width)
        for layer in range(config["n_layer"]):
            h = f"h.{layer}."
            for norm in ("ln_1", "ln_2"):
                vector(h + norm + ".weight", width, 1)
                vector(h + norm + ".bias", width)
            for name, n, m in (
                ("attn.c_attn", width, 3 * width),
                ("attn.c_proj", width, width),
                ("mlp.c_fc", width, inner),
                ("mlp.c_proj", inner, width),
            ):
                matrix(h + name + ".weight", n, m)
                vector(h + name + ".bias", m)
        vector("ln_f.weight", width, 1)
        vector("ln_f.bias", width)
        return out
    gemma = kind.startswith("gemma")
    one = 0.0 if gemma else 1.0
    matrix("model.embed_tokens.weight", config["vocab_size"], width)
    for layer in range(config["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        vector(h + "input_layernorm.weight", width, one)
        vector(h + "post_attention_layernorm.weight", width, one)
        if kind in ("gemma2", "gemma3_text"):
            vector(h + "pre_feedforward_layernorm.weight", width, one)
            vector(h + "post_feedforward_layernorm.weight", width, one)
        if kind == "phi3":
            matrix(h + "self_attn.qkv_proj.weight", (heads + 2 * kv_heads) * head, width)
            matrix(h + "mlp.gate_up_proj.weight", 2 * inner, width)
        else:
            for name, n in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
                matrix(h + f"self_attn.{name}_proj.weight", n * head, width)
                if kind == "qwen2":
                    vector(h + f"self_attn.{name}_proj.bias", n * head)
            matrix(h + "mlp.gate_proj.weight", inner, width)
            matrix(h + "mlp.up_proj.weight", inner, width)
        if kind in ("qwen3", "gemma3_text"):
            vector(h + "self_attn.q_norm.weight", head, one)
            vector(h + "self_attn.k_norm.weight", head, one)
        matrix(h + "self_attn.o_proj.weight", width, heads * head)
        matrix(h + "mlp.down_proj.weight", width, inner)
    vector("model.norm.weight", width, one)
    if not config.get("tie_word_embeddings", True):
        matrix("lm_head.weight", config["vocab_size"], width)
    return out


# ---- what they compute


def rms_norm(x, scale, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale


def layer_norm(x, scale, bias, epsilon):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * scale + bias


def gelu(x):
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def frequencies(config, rotated, theta):
    f = theta ** (-np.arange(0, rotated, 2) / rotated)
    scaling = config.get("rope_scaling") or {}
    if scaling.get("type") == "linear":
        return f / scaling["factor"]
    if scaling.get("rope_type") == "llama3":
        waves = 2 * np.pi / f
        old, low = scaling["original_max_position_embeddings"], scaling["low_freq_factor"]
        high, factor = scaling["high_freq_factor"], scaling["factor"]
        smooth = (old / waves - low) / (high - low)
        mixed = (1 - smooth) * f / factor + smooth * f
        return np.where(waves < old / high, f, np.where(waves > old / low, f / factor, mixed))
    return f


def turned(x, f, interleaved=False):
    """x [heads, tokens, head size], the first 2 * len(f) values of each head turned."""
    n = len(f)
    angles = np.arange(x.shape[1])[:, None] * f
    c, s = np.cos(angles), np.sin(angles)
    y = x.copy()
    first, second = (
        (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if interleaved else (slice(0, n), slice(n, 2 * n))
    )
    a, b = x[..., first], x[..., second]
    y[..., first], y[..., second] = a * c - b * s, b * c + a * s
    return y


def attention(q, k, v, scale, window=0, cap=0.0):
    """[heads, tokens, size], causal; keys of each group are repeated."""
    k, v = (np.repeat(x, len(q) // len(x), 0) for x in (k, v))
    s = q @ k.transpose(0, 2, 1) * scale
    if cap:
        s = np.tanh(s / cap) * cap
    i, j = np.indices(s.shape[1:])
    s = np.where((j <= i) & ((i - j < window) | (window == 0)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def is_windowed(config, layer):
    kind = config["model_type"]
    if "sliding_window" not in config:
        return False
    return {"gemma2": layer % 2 == 0, "gemma3_text": layer % 6 != 5}.get(kind, True)


def gpt2_states(config, t, ids):
    width, heads, _, head, _ = sizes(config)
    x = t["wte.weight"][ids] + t["wpe.weight"][: len(ids)]

    def linear(name, x):
        return x @ t[name + ".weight"] + t[name + ".bias"]

    def norm(name, x):
        return layer_norm(x, t[name + ".weight"], t[name + ".bias"], config["layer_norm_epsilon"])

    for layer in range(config["n_layer"]):
        h = f"h.{layer}."
        parts = np.split(linear(h + "attn.c_attn", norm(h + "ln_1", x)), 3, -1)
        q, k, v = (p.reshape(len(ids), heads, head).transpose(1, 0, 2) for p in parts)
        a = attention(q, k, v, head**-0.5).transpose(1, 0, 2).reshape(len(ids), width)
        x = x + linear(h + "attn.c_proj", a)
        x = x + linear(h + "mlp.c_proj", gelu(linear(h + "mlp.c_fc", norm(h + "ln_2", x))))
    return norm("ln_f", x)


def logits(config, tensors, ids, interleaved=False, plus_one=True):
    """[tokens, vocabulary] in float64. `interleaved`: rotary pairs are neighbours; `plus_one`:
    Gemma's norms are stored without the 1: as GGUF has neither."""
    embedding = "wte.weight" if config["model_type"] == "gpt2" else "model.embed_tokens.weight"
    head = tensors.get("lm_head.weight", tensors[embedding]).astype(np.float64)
    y = states(config, tensors, ids, interleaved, plus_one) @ head.T
    cap = config.get("final_logit_softcapping")
    return np.tanh(y / cap) * cap if cap else y


def states(config, tensors, ids, interleaved=False, plus_one=True):
    """What the head reads: [tokens, width] in float64."""
    t = {name: x.astype(np.float64) for name, x in tensors.items()}
    kind = config["model_type"]
    if kind == "gpt2":
        return gpt2_states(config, t, ids)
    gemma = kind.startswith("gemma")
    width, heads, kv_heads, head, inner = sizes(config)
    one = 1.0 if gemma and plus_one else 0.0
    n = len(ids)

    def norm(name, x):
        return rms_norm(x, t[name + ".weight"] + one, config["rms_norm_eps"])

    def linear(name, x):
        return x @ t[name + ".weight"].T + t.get(name + ".bias", 0)

    embedding = t["model.embed_tokens.weight"]
    x = embedding[ids] * (width**0.5 if gemma else 1)
    rotated = int(head * config.get("partial_rotary_factor", 1))
    scale = config.get("query_pre_attn_scalar", head) ** -0.5
    for layer in range(config["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        y = norm(h + "input_layernorm", x)
        if kind == "phi3":
            qkv = linear(h + "self_attn.qkv_proj", y)
            at = np.cumsum([heads * head, kv_heads * head])
            parts = np.split(qkv, at, -1)
        else:
            parts = [linear(h + f"self_attn.{name}_proj", y) for name in "qkv"]
        q, k, v = (p.reshape(n, -1, head) for p in parts)
        if h + "self_attn.q_norm.weight" in t:
            q, k = norm(h + "self_attn.q_norm", q), norm(h + "self_attn.k_norm", k)
        q, k, v = (p.transpose(1, 0, 2) for p in (q, k, v))
        local = kind == "gemma3_text" and is_windowed(config, layer)
        theta = config["rope_local_base_freq"] if local else config.get("rope_theta", 10000.0)
        f = frequencies(config, rotated, theta)
        q, k = turned(q, f, interleaved), turned(k, f, interleaved)
        window = config["sliding_window"] if is_windowed(config, layer) else 0
        a = attention(q, k, v, scale, window, config.get("attn_logit_softcapping", 0.0))
        y = linear(h + "self_attn.o_proj", a.transpose(1, 0, 2).reshape(n, heads * head))
        double = kind in ("gemma2", "gemma3_text")
        x = x + (norm(h + "post_attention_layernorm", y) if double else y)
        y = norm(h + ("pre_feedforward" if double else "post_attention") + "_layernorm", x)
        if kind == "phi3":
            gate, up = np.split(linear(h + "mlp.gate_up_proj", y), 2, -1)
        else:
            gate, up = linear(h + "mlp.gate_proj", y), linear(h + "mlp.up_proj", y)
        y = linear(h + "mlp.down_proj", (gelu if gemma else silu)(gate) * up)
        x = x + (norm(h + "post_feedforward_layernorm", y) if double else y)
    return norm("model.norm", x)


# ---- files


def bfloat16(x):
    """The bits, rounded to nearest even."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def stored(x, kind):
    """What the file holds, and the values that it stands for."""
    if kind == "BF16":
        bits = bfloat16(x)
        return bits, (bits.astype(np.uint32) << 16).view(np.float32)
    y = x.astype({"F32": np.float32, "F16": np.float16}[kind])
    return y, y.astype(np.float32)


def write_safetensors(path, tensors, kind="F32"):
    """tensors: name -> float32 array, or bytes. What they stand for as stored."""
    header, data, values, at = {}, b"", {}, 0
    for name, x in tensors.items():
        raw = x.dtype == np.uint8
        bits, values[name] = (x, x) if raw else stored(x, kind)
        header[name] = {
            "dtype": "U8" if raw else kind,
            "shape": list(x.shape),
            "data_offsets": [at, at + bits.nbytes],
        }
        data += bits.tobytes()
        at += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return values


def write_folder(folder, config, tensors, kind="F32", shards=1):
    """A folder of a model; what its tensors stand for."""
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    if shards == 1:
        return write_safetensors(os.path.join(folder, "model.safetensors"), tensors, kind)
    values, where, names = {}, {}, sorted(tensors)
    for i in range(shards):
        shard = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in names[i::shards]}
        values |= write_safetensors(os.path.join(folder, shard), part, kind)
        where |= dict.fromkeys(part, shard)
    index = os.path.join(folder, "model.safetensors.index.json")
    with open(index, "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": where}, file)
    return values


def tokenizer_files():
    """tokenizer.json and tokenizer_config.json of a byte-level tokenizer of BASE's 48 pieces: names
    -> texts."""
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        "Ġ",
        *"abcdefghijklmnopqrstuvwxyz",
        *"HOTW.,",
        "he",
        "th",
        "Ġa",
    ]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    vocab |= {f"<extra{i}>": i for i in range(len(pieces), BASE["vocab_size"])}
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    special = [
        {"id": i, "content": pieces[i], "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for i in range(3)
    ]
    file = {
        "version": "1.0",
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocab, "merges": ["h e", "t h", "Ġ a"]},
    }
    config = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "chat_template": "{% for m in messages %}<s>{{ m.role }} {{ m.content }}{% endfor %}",
    }
    return {"tokenizer.json": json.dumps(file), "tokenizer_config.json": json.dumps(config)}


def write_with_tokenizer(folder, family="llama", seed=1, **config):
    """A folder that carries a tokenizer; its config and what its tensors stand for."""
    config = config_of(family) | config
    tensors = write_folder(folder, config, tensors_of(config, seed))
    for name, text in tokenizer_files().items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    return config, tensors
