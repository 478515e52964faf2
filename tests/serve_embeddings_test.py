#!/usr/bin/env python3
"""Vectors of texts, `sentence_embedding` and /v1/embeddings of `evoq serve`: encoders and language
models from folders of sentence-transformers beside an evaluation in float64, with every module that
a folder may name, from the folder and from an .etm, also of padded batches; texts, tokens and lists
of both; base64, dimensions, usage; what is refused. The `openai` package is tried where it is
installed. Skips (exit status 77) where numpy is missing."""

import base64
import concurrent.futures
import importlib.util
import json
import pathlib
import shutil
import sys
import tempfile

import agree

agree.need("numpy")
import encoders_test as encoders
import numpy as np
import tiny_lms as lms
from serving import Serving, check, failures

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "a", "mat", "##s", "hen"]
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [
        {"id": i, "content": word, "special": True, "single_word": False, "lstrip": False}
        | {"rstrip": False, "normalized": False}
        for i, word in enumerate(WORDS[:4])
    ],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    | {"strip_accents": None, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]}
            for word in ("[CLS]", "[SEP]")
        },
    },
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {word: i for i, word in enumerate(WORDS)},
    },
}
# A text and its tokens.
TEXTS = {
    "The cat sat on a mat": [2, 4, 5, 6, 7, 8, 9, 3],
    "cats": [2, 5, 10, 3],
    "A hen": [2, 8, 11, 3],
    "a dog": [2, 8, 1, 3],
}
DENSE = 20  # numbers that a Dense makes


def unit(x):
    return x / np.linalg.norm(x)


def weighted(h):
    return np.arange(1, len(h) + 1) @ h / np.arange(1, len(h) + 1).sum()


def dense(x, seed, inputs):
    """A Dense: its matrix and its bias."""
    random = np.random.default_rng(seed)
    w = random.standard_normal((DENSE, inputs)).astype(np.float32) / inputs**0.5
    return w, random.standard_normal(DENSE).astype(np.float32) / 4


def through(x, seed, bias=True):
    w, b = dense(x, seed, len(x))
    return w.astype(np.float64) @ x + (b if bias else 0)


# What Pooling's config.json says (None: the folder has no modules), the modules behind it, and what
# becomes of states h[token, width].
FLAG = "pooling_mode_"
POOLINGS = {
    "plain": (None, [], lambda h: h.mean(0)),
    "mean": ({FLAG + "mean_tokens": True}, ["Normalize"], lambda h: unit(h.mean(0))),
    "cls": ({FLAG + "cls_token": True}, ["Normalize"], lambda h: unit(h[0])),
    "max": ({FLAG + "max_tokens": True}, ["Dropout"], lambda h: h.max(0)),
    "sqrt": ({FLAG + "mean_sqrt_len_tokens": True}, [], lambda h: h.sum(0) / len(h) ** 0.5),
    "last": ({FLAG + "lasttoken": True}, [], lambda h: h[-1]),
    "weighted": ({FLAG + "weightedmean_tokens": True}, [], weighted),
    "newer": ({"pooling_mode": "lasttoken", "include_prompt": True}, [], lambda h: h[-1]),
    "several": (
        {FLAG + "mean_tokens": True, FLAG + "cls_token": True, FLAG + "lasttoken": False},
        [],
        lambda h: np.concatenate([h[0], h.mean(0)]),
    ),
    "listed": (
        {"pooling_mode": ["mean", "max"]},
        ["Normalize"],
        lambda h: unit(np.concatenate([h.max(0), h.mean(0)])),
    ),
    "dense": (
        {FLAG + "cls_token": True},
        ["Tanh", "Normalize"],
        lambda h: unit(np.tanh(through(h[0], 0))),
    ),
    "projected": (
        {FLAG + "mean_tokens": True},
        ["ReLU", "Identity"],
        lambda h: through(np.maximum(through(h.mean(0), 0), 0), 1, bias=False),
    ),
}


def write_pooling(folder, config, after, width):
    """modules.json and what it names."""
    kind = "sentence_transformers.models."
    modules = [("", kind + "Transformer"), ("1_Pooling", kind + "Pooling")]
    for i, name in enumerate(after):
        plain = name in ("Normalize", "Dropout")
        modules.append((f"{i + 2}_{name}", kind + (name if plain else "Dense")))
        if plain:
            continue
        part, bias = folder / f"{i + 2}_{name}", name != "Identity"
        inputs = DENSE if i else width
        w, b = dense(None, i, inputs)
        tensors = {"linear.weight": w, **({"linear.bias": b} if bias else {})}
        where = {"in_features": inputs, "out_features": DENSE, "bias": bias}
        where["activation_function"] = f"torch.nn.modules.activation.{name}"
        lms.write_folder(part, where, tensors)
    listed = [{"idx": i, "name": str(i), "path": p, "type": t} for i, (p, t) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    config = {"word_embedding_dimension": width, **config}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))


def write_model(repository, name, values, row=None):
    """The folder of an encoder with that pooling."""
    folder = repository / name / "1" / "model"
    shutil.copytree(values, folder)
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    config, after, _ = row or POOLINGS[name]
    if config is not None:
        write_pooling(folder, config, after, encoders.WIDTH)
    return folder


def wanted_of(name, config, values, tokens):
    ids = np.array(tokens)
    states, _ = encoders.encoded(config, values, ids, ids * 0 + 1, ids * 0)
    return POOLINGS[name][2](states)


def near(got, wanted):
    return np.abs(np.array(got) - wanted).max() <= 1e-5 * np.abs(wanted).max()


def ask(server, given, **more):
    body = json.dumps({"model": "mean", "input": given, **more})
    return server.json("POST", "/v1/embeddings", body)


def vectors(answer):
    assert [d["index"] for d in answer["data"]] == list(range(len(answer["data"])))
    return [d["embedding"] for d in answer["data"]]


def check_vectors(server, config, values):
    for name in [*POOLINGS, "compiled"]:
        of = "mean" if name == "compiled" else name
        answer = ask(server, list(TEXTS), model=name)
        right = [
            near(v, wanted_of(of, config, values, tokens))
            for v, tokens in zip(vectors(answer), TEXTS.values())
        ]
        check(f"{name}: the vectors of float64", right == [True] * len(TEXTS), right)
        used = sum(map(len, TEXTS.values()))
        usage = {"prompt_tokens": used, "total_tokens": used}
        check(f"{name}: usage", answer["usage"] == usage and answer["model"] == name, answer)
    text, tokens = next(iter(TEXTS.items()))
    (one,) = vectors(ask(server, text))
    check("tokens give the text's vector", vectors(ask(server, tokens)) == [one])
    check("so does a list", vectors(ask(server, [tokens, TEXTS["cats"]]))[0] == one)
    packed = ask(server, [text, "cats"], encoding_format="base64")
    raw = np.frombuffer(base64.b64decode(vectors(packed)[0]), "<f4")
    check("base64", np.array_equal(raw, np.array(one, np.float32)))
    few = np.array(vectors(ask(server, text, dimensions=5))[0])
    start = np.array(one[:5]) / np.linalg.norm(one[:5])
    check("dimensions: the first, of length 1", len(few) == 5 and near(few, start), few)
    start = vectors(ask(server, text, model="max"))[0][:5]
    check(
        "as they are without Normalize",
        vectors(ask(server, text, model="max", dimensions=5))[0] == start,
    )
    many = ask(server, list(TEXTS) * 100)
    alone = [vectors(ask(server, t))[0] for t in TEXTS]
    check("400 texts of a request, bit for bit", vectors(many) == alone * 100)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda i: vectors(ask(server, list(TEXTS)[i % 4]))[0], range(64)))
    check("64 requests", got == [alone[i % 4] for i in range(64)])
    names = {m["id"] for m in server.json("GET", "/v1/models")["data"]}
    check("/v1/models lists them", {*POOLINGS, "lm"} <= names and "lenet" not in names, names)


def check_short(server):
    text, tokens = next(iter(TEXTS.items()))
    answer = ask(server, [text, "A hen"], model="short")
    cut = ask(server, [tokens[:4] + tokens[-1:], TEXTS["A hen"]])
    check("a long text is cut, the tokens around it stay", vectors(answer) == vectors(cut))
    check("cut texts count as they are", answer["usage"]["prompt_tokens"] == 9, answer["usage"])


def run_padded(model, work, rows):
    """The vectors of texts of several lengths in one batch, padded behind their ends."""
    length = max(map(len, rows)) + 1
    ids, mask = np.zeros((2, len(rows), length), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    words = []
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
    inputs = agree.evoq("inspect", model)
    for key, value in feeds.items():
        if f" {key}:" in inputs:
            np.save(work / f"{key}.npy", value)
            words += ["--input", f"{key}={work / key}.npy"]
    agree.evoq("run", model, *words, "--output-dir", work / "out")
    return np.load(work / "out/sentence_embedding.npy")


def check_batches(repository, work, config, values):
    rows = list(TEXTS.values())
    for name, (modules, _, _) in POOLINGS.items():
        if modules is None:
            continue
        got = run_padded(repository / name / "1" / "model", work, rows)
        right = [near(v, wanted_of(name, config, values, row)) for v, row in zip(got, rows)]
        check(f"{name}: a padded batch", right == [True] * len(rows), right)


def write_decoder(repository, name, family, modules, after, prompt=None):
    """A language model's folder that makes vectors; what becomes of tokens."""
    folder = repository / name / "1" / "model"
    settings, values = lms.write_with_tokenizer(str(folder), family)
    width = settings.get("hidden_size", settings.get("n_embd"))
    write_pooling(folder, modules, after, width)
    if prompt is not None:
        named = {"prompts": {"query": prompt, "document": ""}, "default_prompt_name": "query"}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(named))
    return lambda ids: lms.states(settings, values, np.array(ids))


def check_decoders(server, repository, work, decoders):
    rows = [[5, 9, 2, 30, 11], [7], [4, 4, 6]]
    for name, (states, pool) in decoders.items():
        wanted = [pool(states(row)) for row in rows]
        got = vectors(ask(server, rows, model=name))
        right = [near(v, w) for v, w in zip(got, wanted)]
        check(f"{name}: the vectors of float64", right == [True] * 3, right)
        got = run_padded(repository / name / "1" / "model", work, rows)
        right = [near(v, w) for v, w in zip(got, wanted)]
        check(f"{name}: a padded batch", right == [True] * 3, right)
    prompted, plain = (vectors(ask(server, t, model="prompted"))[0] for t in ("hat", "a hat"))
    (longer,) = vectors(ask(server, "ask: hat", model="qwen"))
    check("a prompt stands before the text", prompted == longer != plain)
    try:
        agree.evoq("generate", repository / "qwen/1/model", "--prompt", "a", "--max-tokens", 1)
        check("it writes no text", False, "it did")
    except RuntimeError as error:
        check("it writes no text", "makes vectors of texts" in str(error), error)


def check_refusals(server):
    for what, status, sentence, body in (
        ("no JSON", 400, "", "{"),
        ("no input", 400, "input: null, expected a text or a list of tokens", {}),
        ("an empty list", 400, "input: no token", {"input": []}),
        ("a number", 400, "input: 1, expected a text", {"input": 1}),
        (
            "a token beyond the vocabulary",
            400,
            "input[1]: 48, expected a token below 48",
            {"input": [1, 48]},
        ),
        ("a negative token", 400, "input[0]: -1, expected a token", {"input": [-1]}),
        ("a list of both", 400, "input[1]: 1, expected a text", {"input": ["cat", 1]}),
        ("too many tokens", 400, "input: 25 tokens, expected at most 24", {"input": [1] * 25}),
        (
            "too many texts",
            400,
            "input: 2049 texts, expected at most 2048",
            {"input": ["a"] * 2049},
        ),
        (
            "another format",
            400,
            'encoding_format: "int8", expected "float" or "base64"',
            {"input": "a", "encoding_format": "int8"},
        ),
        (
            "too many dimensions",
            400,
            "dimensions: 33, expected a whole number from 1 to 32",
            {"input": "a", "dimensions": 33},
        ),
        ("no model", 404, "no model none", {"input": "a", "model": "none"}),
        ("a language model", 400, "lm writes text", {"input": "a", "model": "lm"}),
        ("a classifier", 400, "lenet is no encoder", {"input": "a", "model": "lenet"}),
    ):
        given = body if isinstance(body, str) else json.dumps({"model": "mean", **body})
        got, _, text = server.ask("POST", "/v1/embeddings", given)
        message = json.loads(text)["error"]["message"]
        check(f"{what} is refused", got == status and sentence in message, f"{got} {message}")
    got, _, _ = server.ask("GET", "/v1/embeddings")
    check("GET is refused", got == 405, got)


def check_folders(folder):
    """What a folder cannot say."""
    modules, pooling = folder / "modules.json", folder / "1_Pooling" / "config.json"
    layer = folder / "2_Tanh" / "config.json"
    known = json.loads(modules.read_text())
    whole = json.loads(layer.read_text())
    for what, path, content, sentence in (
        ("modules that are no list", modules, {}, "modules.json: no list of modules"),
        ("a module without a type", modules, [{"path": ""}], "a module without a type"),
        ("no JSON", modules, "[", "modules.json: "),
        ("no pooling", modules, known[:1], "modules.json: no module Pooling"),
        ("two poolings", modules, [*known, known[1]], "a module Pooling behind the pooling"),
        ("a layer first", modules, known[2:], "a module Dense before the pooling"),
        (
            "another module",
            modules,
            [*known, {"type": "a.b.CNN"}],
            "a module of type CNN, expected Transformer",
        ),
        ("a module elsewhere", modules, [{**known[1], "path": "../x"}], "path is '../x'"),
        ("no pooling that is on", pooling, {FLAG + "cls_token": False}, "is true"),
        ("another pooling", pooling, {"pooling_mode": "median"}, "pooling median, expected"),
        ("a pooling that is a list", pooling, [], "config.json: no object"),
        ("other features", layer, {**whole, "in_features": 31}, "in_features 31, expected 32"),
        ("fewer features", layer, {**whole, "out_features": 19}, "expected sizes [19, 32]"),
        ("no features", layer, {**whole, "out_features": 0}, "out_features 0, expected 1 to"),
        ("another function", layer, {**whole, "activation_function": "x.Hardtanh"}, "Hardtanh"),
        (
            "a length that is none",
            folder / "sentence_bert_config.json",
            {"max_seq_length": -1},
            "max_seq_length is -1, expected a whole number",
        ),
        (
            "a prompt that is not there",
            folder / "config_sentence_transformers.json",
            {"default_prompt_name": "query", "prompts": {}},
            "no prompt 'query'",
        ),
    ):
        content = content if isinstance(content, str) else json.dumps(content)
        before = path.read_text() if path.exists() else "{}"
        path.write_text(content)
        try:
            agree.evoq("inspect", folder)
            check(f"{what} is refused", False, "it was not")
        except RuntimeError as error:
            check(f"{what} is refused", sentence in str(error), error)
        path.write_text(before)
    weights = folder / "2_Tanh" / "model.safetensors"
    whole = weights.read_bytes()
    w, b = dense(None, 0, encoders.WIDTH)
    lms.write_safetensors(str(weights), {"linear.weight": w, "linear.bias": b, "other.bias": b})
    try:
        agree.evoq("inspect", folder)
        check("two tensors of one name are refused", False, "they were not")
    except RuntimeError as error:
        check("two tensors of one name are refused", "called ...bias" in str(error), error)
    weights.write_bytes(whole)


def check_openai(server):
    if importlib.util.find_spec("openai") is None:
        print("skipped: no package openai")
        return
    import openai

    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")
    texts = list(TEXTS)
    wanted = vectors(ask(server, texts))
    for form in (openai.NOT_GIVEN, "float", "base64"):
        answer = client.embeddings.create(model="mean", input=texts, encoding_format=form)
        got = [d.embedding for d in answer.data]
        if form == "base64":
            got = [np.frombuffer(base64.b64decode(v), "<f4") for v in got]
        same = np.array_equal(np.array(got, np.float32), np.array(wanted, np.float32))
        check(f"openai, format {form}", same and answer.usage.prompt_tokens == 20, answer.usage)
    answer = client.embeddings.create(model="mean", input=[TEXTS["cats"]], dimensions=3)
    check("openai, tokens and dimensions", len(answer.data[0].embedding) == 3)
    try:
        client.embeddings.create(model="lm", input="cat")
        check("openai: a refusal", False, "answered")
    except openai.BadRequestError as error:
        check("openai: a refusal", "lm writes text" in str(error), error)


def main():
    config = {**encoders.BASE, "model_type": "bert"}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        values = encoders.written(
            str(work / "encoder"), config, encoders.tensors_of(config), "F32", "", False
        )
        repository = work / "models"
        for name in POOLINGS:
            write_model(repository, name, work / "encoder")
        last = {FLAG + "lasttoken": True}
        decoders = {
            "qwen": (
                write_decoder(repository, "qwen", "qwen3", last, ["Normalize"]),
                lambda h: unit(h[-1]),
            ),
            "gpt": (
                write_decoder(repository, "gpt", "gpt2", POOLINGS["weighted"][0], []),
                weighted,
            ),
            "prompted": (
                write_decoder(repository, "prompted", "qwen3", last, ["Normalize"], "ask: "),
                lambda h: unit(h[-1]),
            ),
        }
        (repository / "compiled" / "1").mkdir(parents=True)
        agree.evoq(
            *("compile", repository / "mean" / "1" / "model"),
            *("-o", repository / "compiled" / "1" / "model.etm"),
        )
        lms.write_with_tokenizer(str(repository / "lm" / "1" / "model"))
        agree.evoq("zoo", "lenet", "-o", repository / "lenet.onnx")
        check_folders(repository / "dense" / "1" / "model")
        check_batches(repository, work, config, values)
        short = write_model(repository, "short", work / "encoder", POOLINGS["mean"])
        (short / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
        with Serving(repository, "--no-request-log") as server:
            check_vectors(server, config, values)
            check_short(server)
            check_decoders(server, repository, work, decoders)
            check_refusals(server)
            check_openai(server)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
