#!/usr/bin/env python3
"""Models that read one text and write another beside what transformers computes and writes with
them (tests/golden/encoder_decoders.json, which tests/golden/encoder_decoders.py writes): logits,
greedy texts, texts of beams, each also as an .etm, several at a time, and in 16 bits. Quantized
ones stay near. Damaged folders are refused with one sentence. Skips (exit status 77) where numpy
is missing."""

import json
import os
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np
import random_weights
import tiny_lms as lms

GOLDEN = agree.ROOT / "tests/golden/encoder_decoders.json"
EVERY, MOST, SOURCES = 4, 24, (30, 7, 19)  # as in tests/golden/encoder_decoders.py
SMALL = 0.125
NEAR = 1e-5  # of the largest logit: float32 sums in another order
SCHEMES = {"int8-weights": 0.06, "int8-dynamic": 0.06, "int4-weights": 0.6, "int4-dynamic": 0.6}
HALVES = {"F16": 3e-3, "BF16": 3e-2}
CONTEXT = 40
BEAMS = (
    ["--beams", 4],
    ["--beams", 4, "--length-penalty", 0.3],
    ["--beams", 3, "--length-penalty", 1.7],
    ["--beams", 2, "--length-penalty", -0.5],
)
EARLY = (None, False, True, False)  # early_stopping of each
ROUNDED = 2  # texts of beams in all where float32's rounding may have decided between beams
failures, other_texts = [], []


def check(what, good, found=""):
    print(f"{'ok  ' if good else 'FAIL'} {what} {found}", flush=True)
    if not good:
        failures.append(what)


def source(number):
    return random_weights.tokens(f"source.{number}", SOURCES[number], 3, 36)


def weight(name, shape, around):
    """Tables are small: a model whose head is its table writes something else than it reads. So are
    T5's queries, whose products nothing divides."""
    small = name.endswith(("shared.weight", "embed_tokens.weight", "Attention.q.weight"))
    return random_weights.weight(name, shape, around) * np.float32(SMALL if small else 1)


def write_folder(folder, golden, kind="F32", **generation):
    tensors = {name: weight(name, *of) for name, of in golden["tensors"].items()}
    lms.write_folder(folder, golden["config"], tensors, kind)
    settings = {**golden["generation"], **generation}
    with open(f"{folder}/generation_config.json", "w", encoding="utf-8") as file:
        json.dump(settings, file)
    return tensors


def sizes(config):
    t5 = "d_kv" in config
    heads = config["num_heads" if t5 else "decoder_attention_heads"]
    head = config["d_kv"] if t5 else config["d_model"] // heads
    return config["num_decoder_layers" if t5 else "decoder_layers"], heads, head


def run(folder, model, config, ids, texts):
    """Logits of all of `ids` behind each of the texts, in one batch, padded."""
    layers, heads, head = sizes(config)
    batch, most = len(texts), max(len(text) for text in texts)
    padded = np.array([np.pad(text, (0, most - len(text)), constant_values=3) for text in texts])
    feeds = {
        "input_ids": np.tile(ids, (batch, 1)),
        "position": np.zeros(batch, np.int64),
        "logits_at": np.tile(np.arange(len(ids)), (batch, 1)),
        "source_ids": padded,
        "source_length": np.array([len(text) for text in texts]),
    }
    for layer in range(layers):
        for cache in ("key", "value", "cross_key", "cross_value"):
            shape = (batch, heads, CONTEXT, head)
            feeds[f"past_{cache}.{layer}"] = np.zeros(shape, np.float32)
    os.makedirs(folder, exist_ok=True)
    words = []
    for name, value in feeds.items():
        np.save(f"{folder}/{name}.npy", value)
        words += ["--input", f"{name}={folder}/{name}.npy"]
    agree.evoq("run", model, *words, "--output-dir", f"{folder}/out", "--threads", 1)
    return np.load(f"{folder}/out/logits.npy")


def apart(wanted, got):
    return np.abs(wanted - got).max() / np.abs(wanted).max()


def written(model, numbers, *words):
    """The texts' tokens; several sources in one call where there are several numbers."""
    texts = []
    for number in numbers:
        prompt = ",".join(map(str, source(number)))
        words_of = ["generate", model, "--prompt-tokens", prompt, "--max-tokens", MOST, *words]
        agree.evoq(*words_of, "--threads", 1, "--json", model + ".json")
        with open(model + ".json", encoding="utf-8") as file:
            texts.append(json.load(file)["texts"][0]["tokens"])
    return texts


def check_texts(name, folder, golden, model):
    every = range(len(SOURCES))
    texts = written(model, every)
    check(f"{name}, greedy", texts == golden["greedy"], texts if texts != golden["greedy"] else "")
    for early in (False, True):
        write_folder(f"{folder}.early-{early}", golden, early_stopping=early)
    for words, early, wanted in zip(BEAMS, EARLY, golden["beams"]):
        of = folder if early is None else f"{folder}.early-{early}"
        texts = written(of, every, *words)
        other = [pair for pair in zip(texts, wanted) if pair[0] != pair[1]]
        other_texts.extend(other)
        shown = f"{len(other)} other texts: {other}" if other else ""
        check(f"{name}, {' '.join(map(str, words))}", len(other_texts) <= ROUNDED, shown)


def check_family(name, golden, work):
    folder = f"{work}/{name}"
    write_folder(folder, golden)
    wanted = np.array(golden["logits"])
    ids = random_weights.tokens("ids", 12, 3, 36)
    texts = [source(0), source(1)]
    whole = run(f"{folder}.run", folder, golden["config"], ids, texts)
    worst = apart(wanted, whole[0, EVERY - 1 :: EVERY])
    check(f"{name}, logits", worst < NEAR, f"{worst:.1e}")
    alone = run(f"{folder}.run", folder, golden["config"], ids, texts[1:])[0]
    worst = apart(alone, whole[1])
    check(f"{name}, a padded text of a batch", worst < NEAR, f"{worst:.1e}")
    for kind, near in HALVES.items():
        write_folder(f"{folder}.{kind}", golden, kind)
        got = run(f"{folder}.run", f"{folder}.{kind}", golden["config"], ids, texts[:1])[0]
        worst = apart(wanted, got[EVERY - 1 :: EVERY])
        check(f"{name}, {kind}", worst < near, f"{worst:.1e}")
    for cache in ("float16", "int8"):
        texts_of = written(folder, [0], "--kv-cache", cache, "--ignore-end")
        check(f"{name}, caches of {cache}", len(texts_of[0]) == MOST, texts_of[0][:4])
    etm = f"{folder}.etm"
    agree.evoq("compile", folder, "-o", etm)
    check_texts(name, folder, golden, etm)
    for scheme, near in SCHEMES.items():
        model = f"{folder}.{scheme}.etm"
        agree.evoq("quantize", folder, "--scheme", scheme, "-o", model)
        got = run(f"{folder}.run", model, golden["config"], ids, texts[:1])[0]
        worst = apart(wanted, got[EVERY - 1 :: EVERY])
        check(f"{name}, {scheme}", worst < near, f"{worst:.2f}")


def main():
    goldens = json.loads(GOLDEN.read_text())
    asked = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        for name, golden in goldens.items():
            if not asked or name in asked:
                check_family(name, golden, work)
    if failures:
        print(f"{len(failures)} failed: {', '.join(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
