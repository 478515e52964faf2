#!/usr/bin/env python3
"""Encoders from Hugging Face folders (BERT, RoBERTa, XLM-RoBERTa, DistilBERT): what `evoq run`
gives for padded batches beside a plain evaluation in float64, and what is refused. With torch and
transformers from PyPI the evaluation is compared with theirs too. Skips (exit status 77) where
numpy is missing."""

import importlib.util
import math
import subprocess
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np
import tiny_lms as lms

NEAR = 1e-5  # of the largest value: float32 sums against float64
WIDTH, HEADS, INNER, LAYERS, VOCABULARY, CONTEXT = 32, 4, 40, 3, 48, 24
BASE = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": CONTEXT,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}
DISTILBERT = {
    "model_type": "distilbert",
    "vocab_size": VOCABULARY,
    "dim": WIDTH,
    "hidden_dim": INNER,
    "n_layers": LAYERS,
    "n_heads": HEADS,
    "max_position_embeddings": CONTEXT,
    "activation": "gelu",
    "pad_token_id": 0,
}
ROBERTA = {**BASE, "layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": 1}
# model_type, config.json, the type of its weights, the prefix of their names, old names of norms
CASES = [
    ("bert", {**BASE, "model_type": "bert"}, "F32", "", False),
    ("bert", {**BASE, "model_type": "bert", "hidden_act": "gelu_new"}, "BF16", "bert.", True),
    ("roberta", {**ROBERTA, "model_type": "roberta"}, "F32", "roberta.", False),
    ("xlm-roberta", {**ROBERTA, "model_type": "xlm-roberta"}, "F16", "", False),
    ("distilbert", DISTILBERT, "F32", "distilbert.", False),
]
# One layer's parts: query, key, value, output, its norm, up, down, their norm.
BERT_PARTS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
DISTILBERT_PARTS = (
    "attention.q_lin",
    "attention.k_lin",
    "attention.v_lin",
    "attention.out_lin",
    "sa_layer_norm",
    "ffn.lin1",
    "ffn.lin2",
    "output_layer_norm",
)
failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail, flush=True)
    if not holds:
        failures.append(what)


def layer_parts(config, layer):
    if config["model_type"] == "distilbert":
        return [f"transformer.layer.{layer}.{part}" for part in DISTILBERT_PARTS]
    return [f"encoder.layer.{layer}.{part}" for part in BERT_PARTS]


def tensors_of(config):
    random = np.random.default_rng(4)
    out = {}

    def matrix(name, rows, columns):
        out[name] = random.standard_normal((rows, columns)).astype(np.float32) / columns**0.5

    def linear(name, inputs, outputs):
        matrix(name + ".weight", outputs, inputs)
        out[name + ".bias"] = random.standard_normal(outputs).astype(np.float32) / 4

    def norm(name):
        out[name + ".weight"] = (1 + random.standard_normal(WIDTH) / 4).astype(np.float32)
        out[name + ".bias"] = random.standard_normal(WIDTH).astype(np.float32) / 4

    matrix("embeddings.word_embeddings.weight", VOCABULARY, WIDTH)
    matrix("embeddings.position_embeddings.weight", CONTEXT, WIDTH)
    if "type_vocab_size" in config:
        matrix("embeddings.token_type_embeddings.weight", config["type_vocab_size"], WIDTH)
    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        *products, first, up, down, last = layer_parts(config, layer)
        for name in products:
            linear(name, WIDTH, WIDTH)
        norm(first)
        linear(up, WIDTH, INNER)
        linear(down, INNER, WIDTH)
        norm(last)
    if config["model_type"] != "distilbert":
        linear("pooler.dense", WIDTH, WIDTH)
    return out


def gelu(config, x):
    if config.get("hidden_act") == "gelu_new":
        return lms.gelu(x)
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5))


def places(config, ids):
    if "roberta" not in config["model_type"]:
        return np.arange(len(ids))
    tokens = ids != config["pad_token_id"]
    return np.cumsum(tokens) * tokens + config["pad_token_id"]


def encoded(config, tensors, ids, mask, types):
    """The hidden states and the pooled first one (or None) of one text, in float64."""
    t = {name: x.astype(np.float64) for name, x in tensors.items()}
    epsilon = config.get("layer_norm_eps", 1e-12)

    def linear(name, x):
        return x @ t[name + ".weight"].T + t[name + ".bias"]

    def norm(name, x):
        return lms.layer_norm(x, t[name + ".weight"], t[name + ".bias"], epsilon)

    def heads(x):
        return x.reshape(len(ids), HEADS, -1).transpose(1, 0, 2)

    x = t["embeddings.word_embeddings.weight"][ids]
    x = x + t["embeddings.position_embeddings.weight"][places(config, ids)]
    if "type_vocab_size" in config:
        x = x + t["embeddings.token_type_embeddings.weight"][types]
    x = norm("embeddings.LayerNorm", x)
    for layer in range(LAYERS):
        query, key, value, output, first, up, down, last = layer_parts(config, layer)
        q, k, v = (heads(linear(name, x)) for name in (query, key, value))
        s = q @ k.transpose(0, 2, 1) / (WIDTH // HEADS) ** 0.5
        s = np.where(mask[None, None] != 0, s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        a = (p / p.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), WIDTH)
        x = norm(first, x + linear(output, a))
        x = norm(last, x + linear(down, gelu(config, linear(up, x))))
    pooled = np.tanh(linear("pooler.dense", x[0])) if "pooler.dense.weight" in t else None
    return x, pooled


def written(folder, config, tensors, kind, prefix, old_norms):
    """A folder with the names that checkpoints have; what its tensors stand for."""

    def stored(name):
        if old_norms and "LayerNorm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        return prefix + name

    out = {stored(name): x for name, x in tensors.items()}
    if prefix:  # as a model for a task has it
        out["classifier.weight"] = np.zeros((2, WIDTH), np.float32)
    values = lms.write_folder(folder, config, out, kind)
    return {name: values[stored(name)] for name in tensors}


def inputs_of(config, batch, length):
    """Texts of several lengths, padded behind their ends."""
    random = np.random.default_rng(length)
    ids = random.integers(2, VOCABULARY, (batch, length))
    mask = np.ones((batch, length), np.int64)
    for b in range(1, batch):
        mask[b, length - 2 * b :] = 0
    ids[mask == 0] = config["pad_token_id"]
    if batch == 1 and length > 3:
        ids[0, 3] = config["pad_token_id"]  # a padding token that is looked at
    types = np.sort(random.integers(0, config.get("type_vocab_size", 1), (batch, length)), 1)
    out = {"input_ids": ids, "attention_mask": mask}
    if config.get("type_vocab_size", 1) > 1:
        out["token_type_ids"] = types
    return out


def check_family(work, i, name, config, kind, prefix, old_norms):
    folder = f"{work}/{i}"
    values = written(folder, config, tensors_of(config), kind, prefix, old_norms)
    model = folder
    for step in ("folder", "etm"):
        worst = 0
        for batch, length in ((1, 1), (1, 20), (3, 9)):
            feeds = inputs_of(config, batch, length)
            words = []
            for key, value in feeds.items():
                np.save(f"{work}/{key}.npy", value)
                words += ["--input", f"{key}={work}/{key}.npy"]
            agree.evoq("run", model, *words, "--output-dir", work + "/out", "--threads", 1)
            got = np.load(work + "/out/last_hidden_state.npy")
            for b in range(batch):
                ids, mask = feeds["input_ids"][b], feeds["attention_mask"][b]
                types = feeds.get("token_type_ids", feeds["input_ids"] * 0)[b]
                states, pooled = encoded(config, values, ids, mask, types)
                kept = mask != 0
                far = np.abs(got[b] - states)[kept].max() / np.abs(states).max()
                if pooled is not None:
                    ours = np.load(work + "/out/pooler_output.npy")[b]
                    far = max(far, np.abs(ours - pooled).max())
                worst = max(worst, far)
        check(f"{name} {kind} as {step}: {worst:.1e}", worst < NEAR)
        if step == "folder":
            model = f"{work}/{i}.etm"
            agree.evoq("compile", folder, "-o", model)
    if prefix:
        dump = agree.evoq("inspect", model, "--dump")
        check(f"{name}: what is left out is noted", "classifier: a task's head, left out" in dump)
        for verb in (["compile"], ["quantize", "--scheme", "int8-weights"]):
            words = [agree.EVOQ, *verb, folder, "-o", f"{work}/warned.etm"]
            said = subprocess.run(words, capture_output=True, text=True).stderr
            check(f"{name}: {verb[0]} warns of it", "is left out (classifier)" in said, said)
    if all(importlib.util.find_spec(m) for m in ("torch", "transformers")):
        check_transformers(folder, config, values, name)


def check_transformers(folder, config, values, name):
    import torch
    from transformers import AutoModel

    feeds = inputs_of(config, 1, 9)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        theirs = model(**{k: torch.tensor(v) for k, v in feeds.items()}).last_hidden_state[0]
    types = feeds.get("token_type_ids", feeds["input_ids"] * 0)[0]
    ours, _ = encoded(config, values, feeds["input_ids"][0], feeds["attention_mask"][0], types)
    far = float(np.abs(theirs.double().numpy() - ours).max() / np.abs(ours).max())
    check(f"{name}: transformers, {far:.1e}", far < NEAR)


def head_of(random, task, model_type):
    """Tensors of a task's head, and what it makes of the states and of the pooled first one."""
    t = {}

    def linear(name, outputs):
        t[name + ".weight"] = random.standard_normal((outputs, WIDTH)).astype(np.float32) / 6
        t[name + ".bias"] = random.standard_normal(outputs).astype(np.float32)
        weight, bias = t[name + ".weight"].astype(np.float64), t[name + ".bias"]
        return lambda x: x @ weight.T + bias

    if task == "ForQuestionAnswering":
        out = linear("qa_outputs", 2)
        return t, lambda x, pooled: dict(zip(("start_logits", "end_logits"), out(x).T))
    if task == "ForTokenClassification":
        out = linear("classifier", 5)
        return t, lambda x, pooled: {"logits": out(x)}
    if model_type == "bert":
        out = linear("classifier", 3)
        return t, lambda x, pooled: {"logits": out(pooled)}
    relu = lambda x: np.maximum(x, 0)
    first, second, between = {
        "distilbert": ("pre_classifier", "classifier", relu),
        "electra": ("classifier.dense", "classifier.out_proj", lambda x: gelu({}, x)),
    }.get(model_type, ("classifier.dense", "classifier.out_proj", np.tanh))
    dense, out = linear(first, WIDTH), linear(second, 3)
    return t, lambda x, pooled: {"logits": out(between(dense(x[0])))}


def check_heads(work):
    """What is behind the encoder of models for a task, as transformers has it."""
    electra = {**BASE, "model_type": "electra", "embedding_size": WIDTH}
    configs = [CASES[0][1], CASES[2][1], DISTILBERT, electra]
    tasks = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
    for config in configs:
        for task in tasks:
            kind, folder = config["model_type"], f"{work}/{config['model_type']}{task}"
            tensors = tensors_of(config)
            if kind != "bert" or task != tasks[0]:
                tensors = {n: x for n, x in tensors.items() if not n.startswith("pooler.")}
            head, of = head_of(np.random.default_rng(8), task, kind)
            stored = {f"{kind}.{name}": x for name, x in tensors.items()} | head
            lms.write_folder(folder, {**config, "architectures": ["Any" + task]}, stored)
            feeds = inputs_of(config, 3, 9)
            words = []
            for key, value in feeds.items():
                np.save(f"{work}/{key}.npy", value)
                words += ["--input", f"{key}={work}/{key}.npy"]
            agree.evoq("run", folder, *words, "--output-dir", folder + "/out", "--threads", 1)
            far = 0
            for b in range(3):
                ids, mask = feeds["input_ids"][b], feeds["attention_mask"][b]
                types = feeds.get("token_type_ids", feeds["input_ids"] * 0)[b]
                for name, wanted in of(*encoded(config, tensors, ids, mask, types)).items():
                    got = np.load(f"{folder}/out/{name}.npy")[b]
                    kept = mask != 0 if len(got) == len(mask) else slice(None)
                    far = max(far, np.abs(got - wanted)[kept].max())
            check(f"{kind} {task}: {far:.1e}", far < NEAR)


def check_refusals(work):
    config = CASES[0][1]
    tensors = tensors_of(config)
    cut = {**tensors, "pooler.dense.bias": np.zeros(3, np.float32)}
    more = {**tensors, "encoder.layer.0.adapter.weight": np.zeros((2, 2), np.float32)}
    for i, (settings, held, sentence) in enumerate(
        (
            (
                {"position_embedding_type": "relative_key"},
                tensors,
                'is "relative_key", expected "absolute"',
            ),
            ({"is_decoder": True}, tensors, "is_decoder is true, expected false"),
            ({"num_attention_heads": 5}, tensors, "width 32 of 5 heads, expected a multiple"),
            ({"hidden_act": "selu"}, tensors, 'hidden_act is "selu", expected one of silu'),
            ({"vocab_size": 0}, tensors, "vocabulary is 0, expected 1 to"),
            ({"intermediate_size": 41}, tensors, "expected sizes [41, 32]"),
            (
                {"num_hidden_layers": 4},
                tensors,
                "tensor attention.self.query.weight of layer 3 is missing",
            ),
            ({"num_hidden_layers": 2}, tensors, "has no place in this architecture"),
            ({}, cut, "tensor pooler.dense.bias is float32[3], expected sizes [32]"),
            ({}, more, "encoder.layer.0.adapter.weight (float32[2, 2]) has no place"),
        )
    ):
        folder = f"{work}/refused{i}"
        lms.write_folder(folder, {**config, **settings}, held)
        done = subprocess.run([agree.EVOQ, "inspect", folder], capture_output=True, text=True)
        check(f"refused: {sentence}", done.returncode == 3 and sentence in done.stderr, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as work:
        for i, case in enumerate(CASES):
            check_family(work, i, *case)
        check_heads(work)
        check_refusals(work)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
