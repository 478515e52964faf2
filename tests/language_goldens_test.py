#!/usr/bin/env python3
"""Language models and encoders of many families beside what transformers computes with them
(tests/golden/language_models.json, which tests/golden/language_models.py writes): logits of one
prompt, and of a prompt and its rest with the caches of the first run; hidden states of a padded
batch. Each family is quantized too: to int8 with dynamic scales and to 4-bit weights, which must
run and stay near. Skips (exit status 77) where numpy is missing."""

import json
import os
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
    lms.write_folder(folder, golden["config"], tensors)
    return tensors


def quantized(folder, scheme):
    model = f"{folder}.{scheme}.etm"
    agree.evoq("quantize", folder, "--scheme", scheme, "-o", model)
    return model


def sized(config):
    """The settings that tests/language_models_test.py asks for."""
    text = config.get("text_config", config)
    return {"num_key_value_heads": text["num_attention_heads"]} | text


def check_decoder(name, golden, folder):
    ids = [int(i) for i in random_weights.tokens("ids", 12, 3, 40)]
    wanted = np.array(golden["logits"])
    config = sized(golden["config"])
    run = f"{folder}.run"
    for i, logits in enumerate(prompts.evoq_logits(run, folder, config, ids)):
        kind = "prompt and rest" if i else "prompt"
        check(f"{name}, {kind}", prompts.apart(wanted, logits[EVERY - 1 :: EVERY]), NEAR)
    for scheme, near in SCHEMES.items():
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


def refused(folder, config, sentence):
    lms.write_folder(folder, config, {"x": np.zeros((1, 1), np.float32)})
    done = subprocess.run([agree.EVOQ, "inspect", folder], capture_output=True, text=True)
    good = done.returncode == 3 and sentence in done.stderr
    check(f"refused: {sentence}" + ("" if good else done.stderr), 0 if good else 1, 0.5)


def main():
    goldens = json.loads(GOLDEN.read_text(encoding="utf-8"))
    asked = sys.argv[1:] or list(goldens)
    with tempfile.TemporaryDirectory() as work:
        for name in asked:
            folder = os.path.join(work, name)
            write_folder(folder, goldens[name])
            (check_decoder if "logits" in goldens[name] else check_encoder)(
                name, goldens[name], folder
            )
        experts = {**lms.BASE, "model_type": "mixtral", "num_local_experts": 8}
        refused(f"{work}/experts", experts, "num_local_experts is 8, expected none: mixtures of")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
