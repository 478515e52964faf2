#!/usr/bin/env python3
"""/v1/embeddings of `evoq serve`: vectors of encoders from Hugging Face folders beside an
evaluation in float64 with every pooling that a folder may name, from the folder and from an .etm;
texts, tokens and lists of both; base64, dimensions, usage; what is refused. The `openai` package is
tried where it is installed. Skips (exit status 77) where numpy is missing."""

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
# What the folder says, and what becomes of states h[token, width].
POOLINGS = {
    "plain": (None, False, lambda h: h.mean(0)),
    "mean": ("mean_tokens", True, lambda h: h.mean(0)),
    "cls": ("cls_token", True, lambda h: h[0]),
    "max": ("max_tokens", False, lambda h: h.max(0)),
    "sqrt": ("mean_sqrt_len_tokens", False, lambda h: h.sum(0) / len(h) ** 0.5),
    "last": ("lasttoken", False, lambda h: h[-1]),
}


def write_model(repository, name, values):
    """The folder of an encoder with that pooling."""
    folder = repository / name / "1" / "model"
    shutil.copytree(values, folder)
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    mode, normalize, _ = POOLINGS.get(name, (name, False, None))
    if mode is None:
        return folder
    kind = "sentence_transformers.models."
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules += [("2_Normalize", "Normalize")] if normalize else []
    modules = [{"idx": i, "path": p, "type": kind + t} for i, (p, t) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{key}": key == mode for key in ("cls_token", "mean_tokens", mode)}
    config = {"word_embedding_dimension": encoders.WIDTH, **modes}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    return folder


def wanted_of(name, config, values, tokens):
    ids = np.array(tokens)
    states, _ = encoders.encoded(config, values, ids, ids * 0 + 1, ids * 0)
    _, normalize, pool = POOLINGS[name]
    vector = pool(states)
    return vector / np.linalg.norm(vector) if normalize else vector


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
        (
            "an unknown pooling",
            400,
            "makes vectors by weightedmean_tokens, which",
            {"input": "a", "model": "weightedmean_tokens"},
        ),
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
    for what, path, content, sentence in (
        ("modules that are no list", modules, "{}", "modules.json: no list of modules"),
        ("a module without a type", modules, '[{"path": ""}]', "a module without a type"),
        ("no JSON", modules, "[", "modules.json: "),
        ("no pooling that is on", pooling, '{"pooling_mode_cls_token": false}', "is true"),
        ("a pooling that is a list", pooling, "[]", "config.json: no object"),
    ):
        before = path.read_text()
        path.write_text(content)
        try:
            agree.evoq("inspect", folder)
            check(f"{what} is refused", False, "it was not")
        except RuntimeError as error:
            check(f"{what} is refused", sentence in str(error), error)
        path.write_text(before)


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
        for name in [*POOLINGS, "weightedmean_tokens"]:
            write_model(repository, name, work / "encoder")
        (repository / "compiled" / "1").mkdir(parents=True)
        agree.evoq(
            *("compile", repository / "mean" / "1" / "model"),
            *("-o", repository / "compiled" / "1" / "model.etm"),
        )
        lms.write_with_tokenizer(str(repository / "lm" / "1" / "model"))
        agree.evoq("zoo", "lenet", "-o", repository / "lenet.onnx")
        check_folders(repository / "mean" / "1" / "model")
        with Serving(repository, "--no-request-log") as server:
            check_vectors(server, config, values)
            check_refusals(server)
            check_openai(server)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
