#!/usr/bin/env python3
"""Language models and encoders of many families beside what transformers computes with them
(tests/golden/language_models.json, which tests/golden/language_models.py writes): logits of one
prompt, and of a prompt and its rest with the caches of the first run; hidden states of a padded
batch. Each family is quantized too: to int8 with dynamic scales and to 4-bit weights, which must
run and stay near. With gguf from PyPI the same models are read from GGUF files too. Skips (exit
status 77) where numpy is missing."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

import agree

agree.need("numpy")
import language_models_test as prompts
import numpy as np
import random_weights
import tiny_lms as lms

GOLDEN = agree.ROOT / "tests/golden/language_models.json"
EVERY = 4  # of the tokens' logits one in so many is kept
NEAR = 2e-5  # of the largest number: float32 sums in another order
SCHEMES = {"int8-dynamic": 0.2, "int4-weights": 0.7}  # and how near they stay: random weights
failures = []


def check(what, worst, near):
    good = worst < near
    print(f"{'ok  ' if good else 'FAIL'} {what}: {worst:.1e}", flush=True)
    if not good:
        failures.append(what)


def write_folder(folder, golden):
    tensors = {}
    for name, (shape, around, *inside) in golden["tensors"].items():
        tensors[name] = random_weights.weight(inside[0] if inside else name, shape, around)
        if golden["config"]["model_type"] == "gpt_oss" and len(shape) == 3:
            tensors[name] = random_weights.stacked_e2m1(name, shape)[2]
    kept = {}
    if golden["config"]["model_type"] == "gpt_neox":  # masks that old checkpoints keep
        kept = {
            f"gpt_neox.layers.0.attention.{n}": np.ones((1, 1)) for n in ("bias", "masked_bias")
        }
    lms.write_folder(folder, golden["config"], tensors | kept)
    return tensors


def quantized(folder, scheme):
    model = f"{folder}.{scheme}.etm"
    agree.evoq("quantize", folder, "--scheme", scheme, "-o", model)
    return model


LAYERS = "num_hidden_layers"
OTHER_NAMES = {
    "hidden_size": ["n_embd", "d_model"],
    "num_attention_heads": ["n_head", "num_heads", "n_heads"],
    "num_key_value_heads": ["num_kv_heads"],
    "intermediate_size": ["n_inner"],
    LAYERS: ["n_layer", "num_layers", "n_layers"],
}


def sized(config):
    """The settings that tests/language_models_test.py asks for."""
    text = dict(config.get("text_config", config))
    for name, others in OTHER_NAMES.items():
        text.setdefault(name, next((text[n] for n in others if n in text), None))
    if text.get("multi_query") and not text.get("new_decoder_architecture"):
        text["num_key_value_heads"] = 1
    usual = {"num_key_value_heads": text["num_attention_heads"], "n_layer": text[LAYERS]}
    usual["intermediate_size"] = 4 * text["hidden_size"]
    return usual | {k: v for k, v in text.items() if v is not None}


def check_decoder(name, golden, folder):
    ids = [int(i) for i in random_weights.tokens("ids", 12, 3, 40)]
    wanted = np.array(golden["logits"])
    config = sized(golden["config"])
    run = f"{folder}.run"
    for i, logits in enumerate(prompts.evoq_logits(run, folder, config, ids)):
        kind = "prompt and rest" if i else "prompt"
        check(f"{name}, {kind}", prompts.apart(wanted, logits[EVERY - 1 :: EVERY]), NEAR)
    mixture = {"bf16": 0.05} if "num_experts_per_tok" in config else {}
    for scheme, near in (SCHEMES | mixture).items():
        whole, parts = prompts.evoq_logits(run, quantized(folder, scheme), config, ids)
        worst = max(prompts.apart(wanted, x[EVERY - 1 :: EVERY]) for x in (whole, parts))
        check(f"{name}, {scheme}", worst, near)


def check_encoder(name, golden, folder):
    length = golden["length"]
    ids = random_weights.tokens("ids", 2 * length, 3, 40).reshape(2, length)
    mask = np.ones_like(ids)
    mask[1, length - 7 :] = 0
    ids[mask == 0] = golden["config"]["pad_token_id"]
    feeds = {"input_ids": ids, "attention_mask": mask}
    if golden["config"].get("type_vocab_size", 1) > 1:
        feeds["token_type_ids"] = np.zeros_like(ids)
    words = []
    for key, value in feeds.items():
        np.save(f"{folder}.{key}.npy", value)
        words += ["--input", f"{key}={folder}.{key}.npy"]
    wanted = np.array(golden["states"])
    for scheme, near in {"": NEAR, **SCHEMES}.items():
        model = quantized(folder, scheme) if scheme else folder
        out = folder + ".out"
        agree.evoq("run", model, *words, "--output-dir", out, "--threads", 1)
        states = np.load(f"{out}/last_hidden_state.npy")
        got = [states[0, 0], states[0, -1], states[1, length // 2], states[1, length - 8]]
        worst = prompts.apart(wanted, np.array(got))
        if "pooled" in golden:
            pooled = np.load(f"{out}/pooler_output.npy")
            worst = max(worst, prompts.apart(np.array(golden["pooled"]), pooled))
        check(f"{name}, {scheme or 'padded batch'}", worst, near)


# ---- GGUF: the same models as llama.cpp's converter writes them

# The architecture's name, and whether rows of queries and keys are paired anew.
GGUF = {
    "llama": ("llama", True),
    "qwen2": ("qwen2", False),
    "phi3": ("phi3", False),
    "phi": ("phi2", False),
    "gpt_neox": ("gptneox", False),
    "stablelm": ("stablelm", False),
    "granite": ("granite", True),
    "olmo2": ("olmo2", False),
    "olmo3": ("olmo2", False),
    "smollm3": ("smollm3", True),
    "starcoder2": ("starcoder2", False),
    "cohere": ("command-r", False),
    "cohere2": ("cohere2", False),
    "arcee": ("arcee", True),
    "nemotron": ("nemotron", False),
    "ernie4_5": ("ernie4_5", False),
    "mixtral": ("llama", True),
    "qwen2_moe": ("qwen2moe", False),
    "qwen3_moe": ("qwen3moe", False),
    "olmoe": ("olmoe", False),
    "granitemoe": ("granitemoe", True),
    "granitemoeshared": ("granitemoe", True),
    "gpt_oss": ("gpt-oss", False),
    "bloom": ("bloom", False),
    "mpt": ("mpt", False),
}


EXPERT = re.compile(r"(.*)\.experts\.(\d+)\.(?:w(\d)|(\w+)_proj)\.weight")
PARTS = {"1": "gate", "2": "down", "3": "up"}


def experts_of(tensors):
    """Matrices of experts, by their layer's prefix and part, in the experts' order; the others."""
    stacks, others = {}, {}
    for name, x in tensors.items():
        found = EXPERT.fullmatch(name)
        if found:
            before, number, w, part = found.groups()
            stacks.setdefault((before, PARTS.get(w, part)), {})[int(number)] = x
        else:
            others[name] = x
    return {k: np.stack([v[i] for i in range(len(v))]) for k, v in stacks.items()}, others


def stacked(tensors):
    """As transformers has them in memory, under its names."""
    stacks, out = experts_of(tensors)
    for (before, part), x in stacks.items():
        prefix = before.replace("block_sparse_moe", "mlp") + ".experts."
        if part == "down":
            out[prefix + "down_proj"] = x
        elif part == "gate":
            out[prefix + "gate_up_proj"] = np.concatenate([x, stacks[before, "up"]], 1)
    return {k.replace("block_sparse_moe.gate", "mlp.gate"): x for k, x in out.items()}


def stacked_for_gguf(config, tensors):
    """As the converter stacks them, under GGUF's names."""
    stacks, out = experts_of(tensors)
    for (before, part), x in stacks.items():
        out[f"blk.{before.split('.')[2]}.ffn_{part}_exps.weight"] = x
    for name in [n for n in out if ".shared_mlp." in n]:  # of Granite: gate and up are one
        layer, x = name.split(".")[2], out.pop(name)
        if "input_linear" in name:
            out[f"blk.{layer}.ffn_gate_shexp.weight"] = x[: len(x) // 2]
            out[f"blk.{layer}.ffn_up_shexp.weight"] = x[len(x) // 2 :]
        else:
            out[f"blk.{layer}.ffn_down_shexp.weight"] = x
    for name in [n for n in out if "block_sparse_moe" in n]:  # stacked in the folder
        layer, kind = name.split(".")[2], name.split(".")[-2]
        if kind == "gate":
            out[f"blk.{layer}.ffn_gate_inp.weight"] = out.pop(name)
        if kind == "layer":
            out[f"blk.{layer}.ffn_gate_inp.weight"] = out.pop(name)
        if kind == "output_linear":
            out[f"blk.{layer}.ffn_down_exps.weight"] = out.pop(name)
        if kind == "input_linear":
            x, inner = out.pop(name), config["intermediate_size"]
            out[f"blk.{layer}.ffn_gate_exps.weight"] = x[:, :inner]
            out[f"blk.{layer}.ffn_up_exps.weight"] = x[:, inner:]
    return out


WINDOWED = {"gpt_oss", "phi3", "olmo3", "starcoder2", "cohere2"}


def gguf_tensor(config, name, x):
    """As the converter stores it."""
    kind, heads = config["model_type"], config["num_attention_heads"]
    if GGUF[kind][1] and (".q_proj" in name or ".k_proj" in name):
        n = heads if ".q_proj" in name else config["num_key_value_heads"]
        x = x.reshape(n, 2, -1, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    if kind in ("gpt_neox", "bloom") and "query_key_value" in name:
        x = x.reshape(heads, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    if kind == "nemotron" and name.endswith("norm.weight"):
        x = x + 1
    return x


def add_rope(writer, config, rope, head):
    import gguf

    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1)))
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "longrope":
        old = rope["original_max_position_embeddings"]
        factor = config["max_position_embeddings"] / old
        writer.add_rope_scaling_orig_ctx_len(old)
        writer.add_rope_scaling_attn_factors((1 + np.log(factor) / np.log(old)) ** 0.5)
        for which in ("short", "long"):
            data = np.array(rope[which + "_factor"], np.float32)
            writer.add_tensor(f"rope_factors_{which}.weight", data)


def add_facts(writer, config):
    if config["model_type"] in ("bloom", "mpt"):
        return add_facts_of_slopes(writer, config)
    heads, width = config["num_attention_heads"], config["hidden_size"]
    head = config.get("head_dim") or width // heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(width)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads", heads))
    if head * heads != width:
        writer.add_key_length(head)
        writer.add_value_length(head)
    for key in ("layer_norm_eps", "norm_eps", "norm_epsilon"):
        if key in config:
            writer.add_layer_norm_eps(config[key])
    if "rms_norm_eps" in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if config.get("sliding_window") and config["model_type"] in WINDOWED:
        writer.add_sliding_window(config["sliding_window"])
    if "use_parallel_residual" in config:
        writer.add_parallel_residual(config["use_parallel_residual"])
    if "embedding_multiplier" in config:
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if "logit_scale" in config:
        writer.add_logit_scale(config["logit_scale"])
    if "num_experts_per_tok" in config:
        writer.add_expert_count(config.get("num_local_experts", config.get("num_experts")))
        writer.add_expert_used_count(config["num_experts_per_tok"])
        if "moe_intermediate_size" in config:
            writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        if "shared_expert_intermediate_size" in config:
            shared = config["shared_expert_intermediate_size"]
            writer.add_expert_shared_feed_forward_length(shared)
    add_rope(writer, config, config["rope_parameters"], head)


def add_facts_of_slopes(writer, config):
    writer.add_context_length(config.get("max_seq_len", 64))
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(4 * config["hidden_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    own = config.get("attn_config", {})
    if config["model_type"] == "mpt":
        writer.add_max_alibi_bias(own["alibi_bias_max"])
        if own["clip_qkv"]:
            writer.add_clamp_kqv(own["clip_qkv"])


def write_gguf(path, config, tensors):
    import gguf

    arch = GGUF[config["model_type"]][0]
    writer = gguf.GGUFWriter(path, arch)
    add_facts(writer, config)
    number = next(n for n, text in gguf.MODEL_ARCH_NAMES.items() if text == arch)
    names = gguf.get_tensor_name_map(number, config["num_hidden_layers"])
    plain = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    blocks = {}
    if config["model_type"] == "gpt_oss":
        tensors, blocks = blocks_for_gguf(tensors)
    for name, x in blocks.items():
        writer.add_tensor(name, np.ascontiguousarray(x), raw_dtype=gguf.GGMLQuantizationType.MXFP4)
    for name, x in stacked_for_gguf(config, tensors).items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        if arch == "bloom":
            name = name.removeprefix("transformer.")
        known = names.get_name(name, (".weight", ".bias")) or plain.get_name(name, (".weight",))
        if name.startswith("blk."):
            known = name
        if known is None:
            raise RuntimeError(f"{arch}: gguf has no name for {name}")
        if "shared_expert_gate" in name:
            x = x[0]  # a vector
        writer.add_tensor(known, np.ascontiguousarray(gguf_tensor(config, name, x)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def mxfp4(tensors):
    """gpt-oss's experts as its folders have them: 32 numbers in 16 bytes, scales beside them."""
    out = {}
    for name, x in tensors.items():
        if x.ndim != 3:
            out[name] = x
            continue
        codes, scales, _ = random_weights.stacked_e2m1(name, x.shape)
        pairs = codes.reshape(*codes.shape[:2], -1, 16, 2)
        out[name + "_blocks"] = pairs[..., 0] | pairs[..., 1] << 4
        out[name + "_scales"] = scales
    return out


def blocks_for_gguf(tensors):
    """The same as the converter writes them: gates apart from ups, blocks of 17 bytes."""
    out, blocks = {}, {}
    for name, x in tensors.items():
        layer = name.split(".")[2] if ".layers." in name else ""
        if name.endswith(".sinks"):
            out[f"blk.{layer}.attn_sinks.weight"] = x
        elif "post_attention_layernorm" in name:
            out[f"blk.{layer}.post_attention_norm.weight"] = x
        elif ".mlp.router." in name:
            out[f"blk.{layer}.ffn_gate_inp.{name.split('.')[-1]}"] = x
        elif name.endswith("gate_up_proj_bias"):
            for i, part in enumerate(("gate", "up")):
                out[f"blk.{layer}.ffn_{part}_exps.bias"] = x[:, i::2]
        elif name.endswith("down_proj_bias"):
            out[f"blk.{layer}.ffn_down_exps.bias"] = x
        elif x.ndim == 3:
            codes, scales, _ = random_weights.stacked_e2m1(name, x.shape)
            codes = codes.reshape(*codes.shape[:2], -1, 32)
            bits = codes[..., :16] | codes[..., 16:] << 4
            bits = np.concatenate([scales[..., None], bits], -1)
            parts = ("gate", "up") if "gate_up" in name else ("down",)
            for i, part in enumerate(parts):
                rows = bits[:, i :: len(parts)]
                blocks[f"blk.{layer}.ffn_{part}_exps.weight"] = rows.reshape(*rows.shape[:2], -1)
        else:
            out[name] = x
    return out, blocks


def check_stacked(name, golden, tensors, folder):
    """A folder with the stacks that transformers has in memory, or in MXFP4."""
    if golden["config"]["model_type"] == "gpt_oss":
        quantized = {"quantization_config": {"quant_method": "mxfp4"}}
        lms.write_folder(folder, golden["config"] | quantized, mxfp4(tensors))
    else:
        lms.write_folder(folder, golden["config"], stacked(tensors))
    config = sized(golden["config"])
    ids = [int(i) for i in random_weights.tokens("ids", 12, 3, 40)]
    whole, parts = prompts.evoq_logits(f"{folder}.run", folder, config, ids)
    worst = max(
        prompts.apart(np.array(golden["logits"]), x[EVERY - 1 :: EVERY]) for x in (whole, parts)
    )
    check(f"{name}, stacked", worst, NEAR)


def check_gguf(name, golden, tensors, path):
    config = sized(golden["config"])
    write_gguf(path, {**golden["config"], **config}, tensors)
    ids = [int(i) for i in random_weights.tokens("ids", 12, 3, 40)]
    whole, parts = prompts.evoq_logits(f"{path}.run", path, config, ids)
    worst = max(
        prompts.apart(np.array(golden["logits"]), x[EVERY - 1 :: EVERY]) for x in (whole, parts)
    )
    check(f"{name}, GGUF", worst, NEAR)


# What GGUF does not say: windows, other rules of mixing, another base for windows, norms.
NO_GGUF = {"stablelm-norms", "cohere-norms", "olmoe-clip"}
NO_GGUF |= {"mpt", "smollm3-windows", "qwen2-yarn", "olmo3-two-bases", "phi-norms"}
NO_GGUF |= {"mixtral-windows", "qwen3_moe-shares-of-all", "gpt_oss"}


def refused(folder, config, sentence):
    lms.write_folder(folder, config, {"x": np.zeros((1, 1), np.float32)})
    done = subprocess.run([agree.EVOQ, "inspect", folder], capture_output=True, text=True)
    good = done.returncode == 3 and sentence in done.stderr
    check(f"refused: {sentence}" + ("" if good else done.stderr), 0 if good else 1, 0.5)


def main():
    goldens = json.loads(GOLDEN.read_text(encoding="utf-8"))
    asked = sys.argv[1:] or list(goldens)
    with_gguf = importlib.util.find_spec("gguf") is not None
    if not with_gguf:
        print("skipped: GGUF needs gguf from PyPI")
    with tempfile.TemporaryDirectory() as work:
        for name in asked:
            folder = os.path.join(work, name)
            tensors = write_folder(folder, goldens[name])
            (check_decoder if "logits" in goldens[name] else check_encoder)(
                name, goldens[name], folder
            )
            kind = goldens[name]["config"]["model_type"]
            if any(EXPERT.fullmatch(n) for n in tensors) or kind == "gpt_oss":
                check_stacked(name, goldens[name], tensors, folder + ".stacked")
            if with_gguf and kind in GGUF and name not in NO_GGUF:
                check_gguf(name, goldens[name], tensors, folder + ".gguf")
        experts = {**lms.BASE, "model_type": "llama", "num_local_experts": 8}
        refused(
            f"{work}/experts", experts, "num_local_experts is 8: mixtures of experts are read of"
        )
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
