#!/usr/bin/env python3
"""Writes tests/golden/encoder_decoders.json: for each family of models that read one text and write
another the config.json and generation_config.json of a tiny model, its tensors' sizes, and what
transformers computes and writes with weights of tests/random_weights.py: logits, greedy texts,
texts of beams. Needs torch and transformers from PyPI; those that wrote the file were 2.15 and
5.24. With words, only families of these names are written anew.

    tests/golden/encoder_decoders.py [FAMILY...]
"""

import copy
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from language_models import plain, rounded
from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import random_weights

FILE = HERE / "encoder_decoders.json"
EVERY = 4  # of the tokens' logits one in so many is kept
MOST = 24  # tokens of a text
SMALL = 0.125  # of what other weights are
VOCABULARY = 40
SOURCES = (30, 7, 19)  # tokens of the texts that are read
T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 12, "d_ff": 40, "num_layers": 3}
T5 |= {"num_decoder_layers": 2, "num_heads": 4}
BART = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 3, "decoder_layers": 2}
BART |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
BART |= {"encoder_ffn_dim": 40, "decoder_ffn_dim": 48, "max_position_embeddings": 64}
MARIAN = {"pad_token_id": 39, "scale_embedding": True}
VARIED = {"no_repeat_ngram_size": 2}  # random weights like to say the same again
OF_T5 = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
OF_BART = {"decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
OF_BART |= {"forced_eos_token_id": 2}
OF_M2M = {"decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
OF_MARIAN = {"eos_token_id": 0, "forced_eos_token_id": 0}
NEAR = {"relative_attention_max_distance": 12, "relative_attention_num_buckets": 8}
# name: model_type, its settings, those of generate, whether the head is a matrix of its own.
FAMILIES = {
    "t5": ("t5", T5, {**OF_T5, **VARIED}, False),
    "t5-gated": (
        "t5",
        {**T5, **NEAR, "feed_forward_proj": "gated-gelu"},
        {**OF_T5, **VARIED},
        False,
    ),
    "t5-own-head": ("t5", {**T5, "feed_forward_proj": "gated-gelu"}, OF_T5, True),
    "mt5": ("mt5", T5, {**OF_T5, **VARIED, "min_length": 6}, False),
    "umt5": ("umt5", {**T5, **NEAR}, {**OF_T5, **VARIED}, False),
    "bart": (
        "bart",
        BART,
        {**OF_BART, "forced_bos_token_id": 0, "no_repeat_ngram_size": 3, "length_penalty": 2.0}
        | {"early_stopping": True, "min_length": 5},
        False,
    ),
    "mbart": (
        "mbart",
        {**BART, "scale_embedding": True},
        {**OF_BART, **VARIED, "forced_bos_token_id": 33},
        False,
    ),
    "marian": (
        "marian",
        {**BART, **MARIAN, "activation_function": "swish"},
        {**OF_MARIAN, **VARIED, "bad_words_ids": [[39]], "decoder_start_token_id": 39}
        | {"pad_token_id": 39},
        False,
    ),
    "marian-two-vocabularies": (
        "marian",
        {**BART, **MARIAN, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 37}
        | {"tie_word_embeddings": False, "pad_token_id": 36},
        {**OF_MARIAN, "decoder_start_token_id": 36, "pad_token_id": 36},
        False,
    ),
    "m2m_100": ("m2m_100", BART, {**OF_M2M, **VARIED, "forced_bos_token_id": 33}, False),
}
# Settings of texts beside a family's own.
BEAMS = (
    {"num_beams": 4},
    {"num_beams": 4, "length_penalty": 0.3, "early_stopping": False},
    {"num_beams": 3, "length_penalty": 1.7, "early_stopping": True},
    {"num_beams": 2, "length_penalty": -0.5, "early_stopping": False},
)


def source(number):
    return random_weights.tokens(f"source.{number}", SOURCES[number], 3, 36)


def weight(name, shape, around):
    """Tables are small: a model whose head is its table writes something else than it reads. So are
    T5's queries, whose products nothing divides."""
    small = name.endswith(("shared.weight", "embed_tokens.weight", "Attention.q.weight"))
    return random_weights.weight(name, shape, around) * np.float32(SMALL if small else 1)


def of_places(model, name):
    return model.config.model_type == "marian" and "embed_positions" in name


def filled(model):
    """Sets its weights; what is tied is set once."""
    sizes, seen = {}, set()
    with torch.no_grad():
        for name, x in model.state_dict().items():
            if not x.is_floating_point() or x.data_ptr() in seen or of_places(model, name):
                continue
            seen.add(x.data_ptr())
            around = float(x.flatten()[0].round()) if x.ndim == 1 else 0.0
            sizes[name] = [list(x.shape), around]
            x.copy_(torch.tensor(weight(name, tuple(x.shape), around)))
    return sizes


def golden(kind, settings, generation, own_head):
    config = AutoConfig.for_model(kind, **copy.deepcopy(settings))
    model = AutoModelForSeq2SeqLM.from_config(config, attn_implementation="eager").eval().float()
    tensors = filled(model)
    if own_head:
        shape = tuple(model.lm_head.weight.shape)
        head = random_weights.weight("lm_head.weight", shape)
        model.lm_head.weight = torch.nn.Parameter(torch.tensor(head))
        model.config.tie_word_embeddings = False
        model.config.scale_decoder_outputs = False
        tensors["lm_head.weight"] = [list(shape), 0.0]
    with tempfile.TemporaryDirectory() as folder:
        model.config.save_pretrained(folder)
        written = json.loads((pathlib.Path(folder) / "config.json").read_text())
    model.generation_config = GenerationConfig(**generation)
    out = {"config": plain(written), "generation": generation, "tensors": tensors}
    ids = random_weights.tokens("ids", 12, 3, 36)
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor(source(0)[None]), decoder_input_ids=torch.tensor(ids[None])
        ).logits[0]
    out["logits"] = rounded(logits[EVERY - 1 :: EVERY].double().numpy())
    out["greedy"] = [written_by(model, n, generation) for n in range(len(SOURCES))]
    out["beams"] = [
        [written_by(model, n, {**generation, **how}) for n in range(len(SOURCES))] for how in BEAMS
    ]
    return out


def written_by(model, number, settings):
    """The tokens of a text, without the one that begins the decoder and the one that ends it."""
    with torch.no_grad():
        ids = model.generate(
            torch.tensor(source(number)[None]),
            max_new_tokens=MOST,
            do_sample=False,
            **({"num_beams": 1} | settings),
        )[0].tolist()[1:]
    end = model.generation_config.eos_token_id
    return ids[: ids.index(end)] if end in ids else ids


def main():
    torch.set_num_threads(1)
    asked = sys.argv[1:]
    made = json.loads(FILE.read_text()) if asked else {}
    for name, family in FAMILIES.items():
        if not asked or name in asked:
            made[name] = golden(*family)
            print(name, made[name]["greedy"][0], made[name]["beams"][0][0])
    lines = [f"{json.dumps(name)}: {json.dumps(made[name])}" for name in made]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
