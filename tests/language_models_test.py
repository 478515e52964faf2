#!/usr/bin/env python3
"""Language models from folders and GGUF files: the logits of `evoq run`, of one prompt and of a
prompt and its rest with the caches of the first run, beside a plain evaluation in float64
(tests/tiny_lms.py), for every architecture, and for every type of GGUF's tensors.

With torch and transformers from PyPI the evaluation is compared with theirs too. GGUF needs gguf
from PyPI. Skips (exit status 77) where numpy is missing.
"""

import importlib.util
import os
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np
import tiny_lms as lms

TOKENS = 12
CUT = 7  # the prompt; the rest comes in a second run
CONTEXT = 16
NEAR = 2e-5  # of the largest logit: float32 sums against float64


def apart(wanted, got):
    return float(np.abs(wanted - got).max() / np.abs(wanted).max())


def run(folder, model, config, ids, caches, position):
    """Logits [tokens, vocabulary] and the caches behind them."""
    os.makedirs(folder, exist_ok=True)
    inputs = {
        "input_ids": np.array([ids], np.int64),
        "position": np.array([position], np.int64),
        "logits_at": np.arange(len(ids), dtype=np.int64)[None],
        **caches,
    }
    arguments = []
    for name, value in inputs.items():
        np.save(os.path.join(folder, name + ".npy"), value)
        arguments += ["--input", f"{name}={folder}/{name}.npy"]
    out = os.path.join(folder, "out")
    agree.evoq("run", model, *arguments, "--output-dir", out, "--threads", 1)
    load = {name: np.load(f"{out}/{name.replace('past', 'present')}.npy") for name in caches}
    return np.load(f"{out}/logits.npy")[0], load


def evoq_logits(folder, model, config, ids):
    """All tokens at once, and as prompt and rest."""
    _, _, kv_heads, head, _ = lms.sizes(config)
    empty = {
        f"past_{kind}.{layer}": np.zeros((1, kv_heads, CONTEXT, head), np.float32)
        for layer in range(config.get("n_layer", config["num_hidden_layers"]))
        for kind in ("key", "value")
    }
    whole, _ = run(folder + "/whole", model, config, ids, empty, 0)
    prompt, caches = run(folder + "/prompt", model, config, ids[:CUT], empty, 0)
    rest, _ = run(folder + "/rest", model, config, ids[CUT:], caches, CUT)
    return whole, np.concatenate([prompt, rest])


def check(name, wanted, folder, model, config, ids, near=NEAR):
    """One line; whether it holds."""
    whole, parts = evoq_logits(folder, model, config, ids)
    worst = max(apart(wanted, whole), apart(wanted, parts))
    good = worst < near
    print(f"{'ok  ' if good else 'FAIL'} {name}: {worst:.1e} of the largest logit", flush=True)
    return good


def transformers_logits(config, folder, ids):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].double().numpy()


def check_families(work):
    good = True
    ids = [int(i) for i in np.random.default_rng(2).integers(0, 48, TOKENS)]
    theirs = all(importlib.util.find_spec(m) for m in ("torch", "transformers"))
    for i, family in enumerate(lms.FAMILIES):
        config = lms.config_of(family)
        kind, shards = ("F32", "BF16", "F16")[i % 3], 1 + i % 2
        folder = f"{work}/{family}"
        values = lms.write_folder(folder, config, lms.tensors_of(config), kind, shards)
        wanted = lms.logits(config, values, ids)
        good &= check(f"{family} {kind}", wanted, f"{work}/{family}.run", folder, config, ids)
        if theirs:
            lms.write_folder(folder + ".f32", config, values)  # the same values
            distance = apart(wanted, transformers_logits(config, folder + ".f32", ids))
            good &= distance < 1e-5
            print(f"{'ok  ' if distance < 1e-5 else 'FAIL'}   transformers: {distance:.1e}")
    return good


# ---- GGUF

GGUF_CONFIG = {
    **lms.BASE,
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 1,
    "tie_word_embeddings": False,
}
GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
# Elements and bytes of a block and the places of its halves, for types that gguf cannot write.
RANDOM_BLOCKS = {
    "Q2_K": (256, 84, (80, 82)),
    "Q3_K": (256, 110, (108,)),
    "Q4_K": (256, 144, (0, 2)),
    "Q5_K": (256, 176, (0, 2)),
    "Q6_K": (256, 210, (208,)),
    "IQ1_S": (256, 50, (0,)),
    "IQ1_M": (256, 56, ()),
    "IQ2_XXS": (256, 66, (0,)),
    "IQ2_XS": (256, 74, (0,)),
    "IQ2_S": (256, 82, (0,)),
    "IQ3_XXS": (256, 98, (0,)),
    "IQ3_S": (256, 110, (0,)),
    "IQ4_XS": (256, 136, (0,)),
    "IQ4_NL": (32, 18, (0,)),
    "NVFP4": (64, 36, ()),
    "Q1_0": (128, 18, (0,)),
}
KINDS = """F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS
    IQ2_S IQ3_XXS IQ3_S IQ4_XS IQ4_NL TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0""".split()
ROUNDED = {"Q2_K": 2e-2, "Q4_1": 2e-2, "Q4_K": 2e-2, "Q5_K": 2e-2, "Q5_1": 2e-2}


def gguf_name(name):
    stem, suffix = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, rest = stem.split(".", 3)
        return f"blk.{layer}.{GGUF_NAMES[rest]}.{suffix}"
    return f"{GGUF_NAMES[stem]}.{suffix}"


def bits_of(blocks):
    """A bit for each number: d or -d."""
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return np.where(np.unpackbits(blocks[:, 2:], 1, bitorder="little"), d, -d)


def blocks_of(x, kind):
    """Rows of blocks and the values that they stand for, by gguf's own code."""
    from gguf import GGMLQuantizationType, quants

    dtype = GGMLQuantizationType[kind]
    if kind in RANDOM_BLOCKS:
        elements, size, halves = RANDOM_BLOCKS[kind]
        random = np.random.default_rng(x.shape[0])
        data = random.integers(0, 256, (x.shape[0], x.shape[1] // elements, size)).astype(np.uint8)
        for at in halves:
            d = (random.uniform(0.5, 1, data.shape[:2]) * 2e-4).astype(np.float16)
            data[:, :, at : at + 2] = d[..., None].view(np.uint8).reshape(*data.shape[:2], 2)
        if kind == "IQ1_M":  # a nibble in each of the last four words
            bits = np.float16(2e-3).view(np.uint16)
            for i in range(4):
                data[:, :, 49 + 2 * i] = data[:, :, 49 + 2 * i] & 15 | (bits >> 4 * i & 15) << 4
        if kind == "NVFP4":
            data[:, :, :4] = data[:, :, :4] % 24 + 8
        data = data.reshape(x.shape[0], -1)
        if kind == "Q1_0":  # which gguf does not read
            return data, bits_of(data.reshape(-1, 18)).reshape(x.shape)
    else:
        data = quants.quantize(x, dtype)
    return data, quants.dequantize(data, dtype).reshape(x.shape)


def write_gguf(path, config, tensors, kind):
    """What the tensors stand for."""
    import gguf

    width, heads, kv_heads, _, inner = lms.sizes(config)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(width)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list([f"t{i}" for i in range(config["vocab_size"])])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ messages }}")
    values = {}
    for name, x in tensors.items():
        if x.ndim == 1 or kind == "F32":
            data, values[name] = x, x
            writer.add_tensor(gguf_name(name), x)
        elif kind == "F16":
            values[name] = x.astype(np.float16).astype(np.float32)
            writer.add_tensor(gguf_name(name), x.astype(np.float16))
        else:
            data, values[name] = blocks_of(x, kind)
            dtype = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(gguf_name(name), data, raw_dtype=dtype)
            if kind == "NVFP4" and "_proj" in name:  # and a scale for all of it
                stem = gguf_name(name).removesuffix("weight")
                writer.add_tensor(stem + "scale", np.array([0.75], np.float32))
                writer.add_tensor(stem + "input_scale", np.array([3], np.float32))
                values[name] = values[name] * np.float32(0.75)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def check_gguf(work):
    good = True
    ids = [int(i) for i in np.random.default_rng(3).integers(0, 48, TOKENS)]
    tensors = lms.tensors_of(GGUF_CONFIG)
    for kind in KINDS:
        path = f"{work}/{kind}.gguf"
        values = write_gguf(path, GGUF_CONFIG, tensors, kind)
        wanted = lms.logits(GGUF_CONFIG, values, ids, interleaved=True)
        near = ROUNDED.get(kind, NEAR)
        good &= check(f"GGUF {kind}", wanted, f"{work}/{kind}.run", path, GGUF_CONFIG, ids, near)
    return good


def main():
    with tempfile.TemporaryDirectory() as work:
        good = check_families(work)
        if importlib.util.find_spec("gguf"):
            good &= check_gguf(work)
        else:
            print("skipped: GGUF needs gguf from PyPI")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
