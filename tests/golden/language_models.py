#!/usr/bin/env python3
"""Writes tests/golden/language_models.json: for each family of language models and encoders the
config.json of a tiny model, its tensors' sizes, and what transformers computes with weights of
tests/random_weights.py. Needs torch and transformers from PyPI; those that wrote the file were 2.15
and 5.24. With words, only families of these names are written anew.

    tests/golden/language_models.py [FAMILY...]
"""

import copy
import functools
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.models.mpt import modeling_mpt

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import random_weights

FILE = HERE / "language_models.json"
EVERY = 4  # of the tokens' logits one in so many is kept
BASE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
NO_GROUPS = {key: value for key, value in BASE.items() if key != "num_key_value_heads"}
ENCODER = {key: value for key, value in NO_GROUPS.items() if "s_token" not in key} | {
    "num_hidden_layers": 3,
    "max_position_embeddings": 160,
}
GPT = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "n_inner": 40}
MPT = {"d_model": 32, "n_layers": 3, "n_heads": 4, "max_seq_len": 64}
FALCON = {"ffn_hidden_size": 40}
NEO = {"num_layers": 4, "num_heads": 4, "window_size": 4, "intermediate_size": 40}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
OWN_YARN = {"beta_fast": 4.0, "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 1.3}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.3, 1.5],
    "long_factor": [1.5, 2.0, 3.0, 5.0],
}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
# Families whose settings say the heads of keys in another way.
ONE_KIND = {"gpt_neox", "opt", "gptj", "gpt_neo", "gpt_bigcode", "falcon"}
# Families whose settings have other names, or none.
OWN_NAMES = {"bloom", "mpt"}
OTHERS = {key: value for key, value in BASE.items() if "token_id" in key or key == "vocab_size"}
# name: model_type, the settings beside BASE.
DECODERS = {
    "llama-dynamic": ("llama", {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    "llama-yarn": ("llama", {"rope_scaling": YARN}),
    "qwen2-yarn": ("qwen2", {"rope_scaling": {**YARN, **OWN_YARN, "truncate": False}}),
    "phi3-longrope": ("phi3", {"original_max_position_embeddings": 8, "rope_scaling": LONG}),
    "phi3-shortrope": ("phi3", {"original_max_position_embeddings": 32, "rope_scaling": LONG}),
    "phi": ("phi", {}),
    "phi-norms": ("phi", {"qk_layernorm": True}),
    "gpt_neox": ("gpt_neox", {"rotary_pct": 0.25}),
    "gpt_neox-in-turn": ("gpt_neox", {"rotary_pct": 0.5, "use_parallel_residual": False}),
    "stablelm": ("stablelm", {"use_qkv_bias": True}),
    "stablelm-parallel": ("stablelm", {"use_parallel_residual": True}),
    "granite": (
        "granite",
        {
            "embedding_multiplier": 3.0,
            "attention_multiplier": 0.2,
            "residual_multiplier": 0.3,
            "logits_scaling": 4.0,
        },
    ),
    "olmo2": ("olmo2", {}),
    "olmo3": ("olmo3", {"sliding_window": 4, "rope_scaling": YARN}),
    "olmo3-two-bases": (
        "olmo3",
        {
            "sliding_window": 4,
            "rope_parameters": {
                "full_attention": {**YARN, "rope_theta": 7000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
            },
        },
    ),
    "smollm3": ("smollm3", {}),
    "smollm3-windows": ("smollm3", {"use_sliding_window": True, "sliding_window": 4}),
    "starcoder2": ("starcoder2", {"sliding_window": 5}),
    "cohere": ("cohere", {}),
    "cohere2": ("cohere2", {"sliding_window": 4}),
    "arcee": ("arcee", {}),
    "nemotron": ("nemotron", {}),
    "ernie4_5": ("ernie4_5", {"head_dim": 8}),
    "seed_oss": ("seed_oss", {"head_dim": 8}),
    "exaone4": ("exaone4", {"sliding_window": 4}),
    "glm4": ("glm4", {"head_dim": 8}),
    "glm": ("glm", {"head_dim": 8}),
    "helium": ("helium", {"head_dim": 8}),
    "stablelm-norms": ("stablelm", {"qk_layernorm": True}),
    "cohere-norms": ("cohere", {"use_qk_norm": True}),
    "olmo": ("olmo", {}),
    "olmo-clip": ("olmo", {"clip_qkv": 0.3}),
    "opt": ("opt", {"ffn_dim": 40}),
    "gptj": ("gptj", {**GPT, "rotary_dim": 4}),
    "gpt_neo": ("gpt_neo", {**NEO, "attention_types": [[["global", "local"], 2]]}),
    "gpt_bigcode": ("gpt_bigcode", GPT),
    "gpt_bigcode-heads": ("gpt_bigcode", {**GPT, "multi_query": False}),
    "falcon": ("falcon", FALCON),
    "falcon-groups": ("falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon-in-turn": (
        "falcon",
        {**FALCON, "multi_query": False, "parallel_attn": False, "bias": True},
    ),
    "falcon-slopes": (
        "falcon",
        {**FALCON, "multi_query": False, "parallel_attn": False, "bias": True, "alibi": True},
    ),
    "bloom": ("bloom", {"n_layer": 3, "n_head": 4, "hidden_size": 32}),
    "bloom-six-heads": ("bloom", {"n_layer": 2, "n_head": 6, "hidden_size": 48}),
    "mpt": ("mpt", {**MPT, "attn_config": {"softmax_scale": 0.2}}),
    "mpt-six-heads": (
        "mpt",
        {**MPT, "n_heads": 6, "d_model": 48}
        | {"attn_config": {"alibi_bias_max": 4, "clip_qkv": 0.8}},
    ),
    "vaultgemma": ("vaultgemma", {"head_dim": 8, "sliding_window": 4}),
    "granitemoehybrid": (
        "granitemoehybrid",
        {
            "layer_types": ["attention"] * 4,
            "num_local_experts": 0,
            "num_experts_per_tok": 0,
            "shared_intermediate_size": 48,
            "position_embedding_type": "rope",
            "mamba_n_heads": 4,
        },
    ),
}
EXPERTS = {"num_experts_per_tok": 3, "num_experts": 8, "num_local_experts": 8}
# Mixtures of experts: in memory transformers has several of a folder's tensors as one.
MIXTURES = {
    "mixtral": ("mixtral", EXPERTS),
    "mixtral-windows": ("mixtral", {**EXPERTS, "sliding_window": 5}),
    "qwen2_moe": (
        "qwen2_moe",
        {**EXPERTS, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 36},
    ),
    "qwen3_moe": (
        "qwen3_moe",
        {**EXPERTS, "moe_intermediate_size": 24, "norm_topk_prob": True, "head_dim": 8}
        | {"decoder_sparse_step": 2, "mlp_only_layers": [3]},
    ),
    "qwen3_moe-shares-of-all": (
        "qwen3_moe",
        {**EXPERTS, "moe_intermediate_size": 24, "head_dim": 8},
    ),
    "olmoe": ("olmoe", {**EXPERTS}),
    "olmoe-clip": ("olmoe", {**EXPERTS, "num_experts_per_tok": 2, "clip_qkv": 1.0}),
    "granitemoehybrid-experts": (
        "granitemoehybrid",
        {**EXPERTS, "layer_types": ["attention"] * 4, "shared_intermediate_size": 40}
        | {"mamba_n_heads": 4, "num_experts_per_tok": 2},
    ),
    "granitemoeshared": (
        "granitemoeshared",
        {**EXPERTS, "shared_intermediate_size": 24, "logits_scaling": 2.0},
    ),
    "gpt_oss": (
        "gpt_oss",
        {**EXPERTS, "head_dim": 8, "sliding_window": 4, "intermediate_size": 64}
        | {"swiglu_limit": 0.5}
        | {"rope_parameters": {**YARN, "rope_theta": 150000.0, "truncate": False}},
    ),
    "gpt_oss-plain": (
        "gpt_oss",
        {**EXPERTS, "head_dim": 8, "sliding_window": 4, "intermediate_size": 64}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}},
    ),
    "granitemoe": (
        "granitemoe",
        {**EXPERTS, "num_experts_per_tok": 2, "embedding_multiplier": 3.0}
        | {"attention_multiplier": 0.2, "residual_multiplier": 0.3, "logits_scaling": 4.0},
    ),
}
# name: the class, model_type, the language model's model_type and settings, those of the pictures.
WRAPPED = {
    "gemma3": (
        "Gemma3ForConditionalGeneration",
        "gemma3",
        {
            "model_type": "gemma3_text",
            "head_dim": 16,
            "sliding_window": 4,
            "num_hidden_layers": 7,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
        {**VISION, "model_type": "siglip_vision_model"},
    ),
    "mistral3": (
        "Mistral3ForConditionalGeneration",
        "mistral3",
        {"model_type": "mistral", "head_dim": 8},
        {**VISION, "model_type": "pixtral", "head_dim": 8},
    ),
    "ministral3": (
        "Mistral3ForConditionalGeneration",
        "mistral3",
        {
            "model_type": "ministral3",
            "head_dim": 8,
            "rope_parameters": {
                **{"rope_type": "yarn", "rope_theta": 1000.0, "factor": 16.0},
                **{"original_max_position_embeddings": 4, "llama_4_scaling_beta": 0.1},
                **{"mscale": 1.0, "mscale_all_dim": 1.0},
            },
        },
        {**VISION, "model_type": "pixtral", "head_dim": 8},
    ),
    "qwen3_vl": (
        "Qwen3VLForConditionalGeneration",
        "qwen3_vl",
        {
            "model_type": "qwen3_vl_text",
            "head_dim": 8,
            "rope_scaling": {"rope_type": "default", "mrope_section": [2, 1, 1]},
        },
        {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16}
        | {"out_hidden_size": 32, "deepstack_visual_indexes": [0]},
    ),
    "qwen2_5_vl": (
        "Qwen2_5_VLForConditionalGeneration",
        "qwen2_5_vl",
        {
            "model_type": "qwen2_5_vl_text",
            "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]},
        },
        {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16}
        | {"out_hidden_size": 32},
    ),
}
MODERNBERT = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
ENCODERS = {
    "camembert": ("camembert", {"pad_token_id": 1, "type_vocab_size": 1}),
    "mpnet": ("mpnet", {"pad_token_id": 1}),
    "electra": ("electra", {"embedding_size": 16}),
    "electra-relu": ("electra", {"embedding_size": 32, "hidden_act": "relu"}),
    "albert": ("albert", {"embedding_size": 16}),
    "albert-groups": ("albert", {"embedding_size": 16, "num_hidden_groups": 2}),
    "modernbert": ("modernbert", {**MODERNBERT, "local_attention": 8}),
    "modernbert-biases": (
        "modernbert",
        {**MODERNBERT, "local_attention": 6, "global_attn_every_n_layers": 2}
        | {"norm_bias": True, "attention_bias": True, "mlp_bias": True},
    ),
    "gemma3-both-ways": (
        "gemma3_text",
        {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 6, "sliding_window_pattern": 2}
        | {"use_bidirectional_attention": True, "bos_token_id": 1, "eos_token_id": 2},
    ),
}


def filled(model):
    """Sets its weights; their sizes, and the numbers that those of vectors are around."""
    sizes, seen = {}, set()
    with torch.no_grad():
        for name, parameter in model.state_dict().items():
            if not parameter.is_floating_point() or parameter.data_ptr() in seen:
                continue  # a count, or what is tied
            seen.add(parameter.data_ptr())
            around = float(parameter.flatten()[0].round()) if parameter.ndim == 1 else 0.0
            sizes[name] = [list(parameter.shape), around]
            x = random_weights.weight(name, tuple(parameter.shape), around)
            parameter.copy_(torch.tensor(x))
    return sizes


def saved(model, config):
    """The config.json and the tensors as save_pretrained writes them: name -> sizes, what vectors
    are around, and what it is called in the model where that differs."""
    from safetensors import safe_open

    inside = filled(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        written = json.loads((pathlib.Path(folder) / "config.json").read_text())
        tensors = {}
        values = {name: p.detach().numpy() for name, p in model.state_dict().items()}
        with safe_open(f"{folder}/model.safetensors", "np") as file:
            for name in file.keys():
                x = file.get_tensor(name)
                same = [n for n in inside if np.array_equal(values[n], x)]
                tensors[name] = inside[same[0]] + ([same[0]] if same[0] != name else [])
    return plain(written), tensors


def plain(written):
    for key in ("transformers_version", "dtype", "architectures", "use_cache"):
        written.pop(key, None)
    return written


def mixture(kind, settings):
    """Weights by the names of the folder, which is read back."""
    from safetensors.numpy import load_file, save_file

    config = AutoConfig.for_model(kind, **copy.deepcopy({**BASE, **settings}))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        file = f"{folder}/model.safetensors"
        sizes, values = {}, {}
        for name, x in load_file(file).items():
            sizes[name] = [list(x.shape), float(x.flat[0].round()) if x.ndim == 1 else 0.0]
            values[name] = random_weights.weight(name, x.shape, sizes[name][1])
            if kind == "gpt_oss" and x.ndim == 3:
                values[name] = random_weights.stacked_e2m1(name, x.shape)[2]
        save_file(values, file, metadata={"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
        written = json.loads((pathlib.Path(folder) / "config.json").read_text())
    return golden_of(model.eval().float(), plain(written), sizes)


def rounded(x):
    return [[float(f"{v:.7g}") for v in row] for row in x]


def decoder(model, config):
    model = model.eval().float()
    return golden_of(model, *saved(model, config))


def golden_of(model, written, tensors):
    ids = random_weights.tokens("ids", 12, 3, BASE["vocab_size"])
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(ids[None])).logits[0]
    kept = logits[EVERY - 1 :: EVERY].double().numpy()
    return {"config": written, "tensors": tensors, "logits": rounded(kept)}


def encoder(kind, settings):
    config = AutoConfig.for_model(kind, **{**ENCODER, **settings})
    model = AutoModel.from_config(config, attn_implementation="eager").eval().float()
    written, tensors = saved(model, config)
    pad = config.pad_token_id
    length = 150 if kind == "mpnet" else 20  # longer than the farthest distance that it tells
    ids = random_weights.tokens("ids", 2 * length, 3, BASE["vocab_size"]).reshape(2, length)
    mask = np.ones_like(ids)
    mask[1, length - 7 :] = 0
    ids[mask == 0] = pad
    with torch.no_grad():
        out = model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask))
    states = out.last_hidden_state.double().numpy()
    kept = [states[0, 0], states[0, -1], states[1, length // 2], states[1, length - 8]]
    golden = {"config": written, "tensors": tensors, "length": length, "states": rounded(kept)}
    if getattr(out, "pooler_output", None) is not None:
        golden["pooled"] = rounded(out.pooler_output.double().numpy())
    return golden


def main():
    made = json.loads(FILE.read_text()) if len(sys.argv) > 1 else {}
    asked = sys.argv[1:]
    for name, (kind, settings) in DECODERS.items():
        if not asked or name in asked:
            base = NO_GROUPS if kind in ONE_KIND else OTHERS if kind in OWN_NAMES else BASE
            config = AutoConfig.for_model(kind, **copy.deepcopy({**base, **settings}))
            # Falcon's "eager" adds slopes twice.
            attention = "sdpa" if settings.get("alibi") else "eager"
            model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
            if kind == "mpt":  # whose class does not read what its settings say
                most = config.attn_config.alibi_bias_max
                model.transformer.build_mpt_alibi_tensor = functools.partial(
                    modeling_mpt.build_mpt_alibi_tensor, alibi_bias_max=most
                )
            made[name] = decoder(model, config)
    for name, (kind, settings) in MIXTURES.items():
        if not asked or name in asked:
            made[name] = mixture(kind, settings)
    for name, (cls, kind, text, vision) in WRAPPED.items():
        if not asked or name in asked:
            parts = {"text_config": {**BASE, **text}, "vision_config": vision}
            parts = copy.deepcopy(parts)
            config = AutoConfig.for_model(kind, **parts)
            made[name] = decoder(getattr(transformers, cls)(config), config)
    for name, (kind, settings) in ENCODERS.items():
        if not asked or name in asked:
            made[name] = encoder(kind, settings)
    lines = [f"{json.dumps(name)}: {json.dumps(made[name])}" for name in made]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
