"""GGUF files of Q4_0 from a Hugging Face folder or a checkpoint of llama2.c, for llama.cpp. Needs
gguf and numpy from PyPI."""

import json
import pathlib
import struct

import gguf
import numpy as np

LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def stored_tensors(path):
    """(name, float32) of a safetensors file of bfloat16, one at a time."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        for name, tensor in header.items():
            if name == "__metadata__":
                continue
            if tensor["dtype"] != "BF16":
                raise SystemExit(f"{path}: {name} is {tensor['dtype']}, expected BF16")
            begin, end = tensor["data_offsets"]
            file.seek(8 + length + begin)
            bits = np.frombuffer(file.read(end - begin), np.uint16).astype(np.uint32)
            yield name, (bits << 16).view(np.float32).reshape(tensor["shape"])


def gguf_name(name):
    if name in WHOLE:
        return WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER[rest]}"


def interleaved(weight, heads):
    """Rows of a rotary embedding by halves, as llama.cpp's llama wants them: by neighbours."""
    by_half = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return by_half.swapaxes(1, 2).reshape(weight.shape)


class Writer:
    def __init__(self, path, architecture, facts, as_float=False):
        self.as_float = as_float
        self.writer = gguf.GGUFWriter(path, architecture)
        w = self.writer
        w.add_context_length(facts["context"])
        w.add_embedding_length(facts["width"])
        w.add_block_count(facts["layers"])
        w.add_feed_forward_length(facts["hidden"])
        w.add_head_count(facts["heads"])
        w.add_head_count_kv(facts["key_heads"])
        w.add_layer_norm_rms_eps(facts["epsilon"])
        w.add_rope_freq_base(facts["theta"])
        w.add_vocab_size(facts["vocabulary"])
        w.add_tokenizer_model("none")

    def add(self, name, values):
        """Matrices whose rows are whole blocks as Q4_0 or its values, all else as float32."""
        if values.ndim == 2 and values.shape[1] % 32 == 0:
            kind = gguf.GGMLQuantizationType.Q4_0
            blocks = gguf.quants.quantize(values, kind)
            if not self.as_float:
                self.writer.add_tensor(name, blocks, raw_dtype=kind)
                return
            values = gguf.quants.dequantize(blocks, kind)
        self.writer.add_tensor(name, np.ascontiguousarray(values, np.float32))

    def finish(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def write_from_folder(folder, path):
    """Of a folder of Llama's or Qwen2's architecture with one safetensors file."""
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = Writer(
        path,
        config["model_type"],
        {
            "context": config["max_position_embeddings"],
            "width": config["hidden_size"],
            "layers": config["num_hidden_layers"],
            "hidden": config["intermediate_size"],
            "heads": heads,
            "key_heads": key_heads,
            "epsilon": config["rms_norm_eps"],
            "theta": config["rope_theta"],
            "vocabulary": config["vocab_size"],
        },
    )
    for name, values in stored_tensors(folder / "model.safetensors"):
        if config["model_type"] == "llama" and name.endswith("q_proj.weight"):
            values = interleaved(values, heads)
        if config["model_type"] == "llama" and name.endswith("k_proj.weight"):
            values = interleaved(values, key_heads)
        writer.add(gguf_name(name), values)
    writer.finish()


def write_from_checkpoint(checkpoint, path, as_float=False):
    """Of a checkpoint of llama2.c, version 0, whose facts it returns. `as_float`: as float32, the
    values of Q4_0."""
    data = pathlib.Path(checkpoint).read_bytes()
    width, hidden, layers, heads, key_heads, vocabulary, context = struct.unpack("<7i", data[:28])
    tied, vocabulary = vocabulary > 0, abs(vocabulary)
    values, at = np.frombuffer(data, np.float32, offset=28), 0
    facts = {
        "context": context,
        "width": width,
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "key_heads": key_heads,
        "epsilon": 1e-5,
        "theta": 10000.0,
        "vocabulary": vocabulary,
    }
    keys = width // heads * key_heads
    writer = Writer(path, "llama", facts, as_float)

    def take(*shape):
        nonlocal at
        size = int(np.prod(shape))
        at += size
        return values[at - size : at].reshape(shape)

    writer.add("token_embd.weight", take(vocabulary, width))
    for name, *shape in (
        ("attn_norm", width),
        ("attn_q", width, width),
        ("attn_k", keys, width),
        ("attn_v", keys, width),
        ("attn_output", width, width),
        ("ffn_norm", width),
        ("ffn_gate", hidden, width),
        ("ffn_down", width, hidden),
        ("ffn_up", hidden, width),
    ):
        for layer, tensor in enumerate(take(layers, *shape)):
            writer.add(f"blk.{layer}.{name}.weight", tensor)
    writer.add("output_norm.weight", take(width))
    take(context, width // heads)  # angles
    if not tied:
        writer.add("output.weight", take(vocabulary, width))
    writer.finish()
    return facts
