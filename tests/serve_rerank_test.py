#!/usr/bin/env python3
"""/v1/rerank of `evoq serve`: documents by the scores of an encoder that reads query and document
together, beside an evaluation in float64; the forms of Jina, Cohere and TEI; what is refused. Skips
(exit status 77) where numpy is missing."""

import json
import pathlib
import sys
import tempfile

import agree

agree.need("numpy")
import encoders_test as encoders
import numpy as np
import serve_embeddings_test as embeddings
import tiny_lms as lms
from serving import Serving, check, failures

QUERY = ("the hen sat", [4, 11, 6])
DOCUMENTS = [("a cat", [8, 5]), ("The mat", [4, 9]), ("cats on a mat", [5, 10, 7, 8, 9])]
TEXTS = [text for text, _ in DOCUMENTS]
PATHS = ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking", "/v2/rerank")
CONFIG = {**encoders.BASE, "model_type": "bert", "architectures": ["AnyForSequenceClassification"]}


def pair_template():
    part = lambda kind, name, number: {kind: {"id": name, "type_id": number}}
    return [
        part("SpecialToken", "[CLS]", 0),
        part("Sequence", "A", 0),
        part("SpecialToken", "[SEP]", 0),
        part("Sequence", "B", 1),
        part("SpecialToken", "[SEP]", 1),
    ]


def write(folder, tensors, classes=1, pair=True):
    random = np.random.default_rng(4)
    head = {
        "classifier.weight": random.standard_normal((classes, encoders.WIDTH)).astype(np.float32),
        "classifier.bias": random.standard_normal(classes).astype(np.float32),
    }
    folder.parent.mkdir(parents=True)
    lms.write_folder(str(folder), CONFIG, {f"bert.{n}": x for n, x in tensors.items()} | head)
    file = json.loads(json.dumps(embeddings.TOKENIZER))
    file["post_processor"]["pair"] = pair_template() if pair else []
    (folder / "tokenizer.json").write_text(json.dumps(file))
    return head


def logits(tensors, head):
    """Of each document, and the tokens of all."""
    out, count = [], 0
    for _, document in DOCUMENTS:
        first = [2, *QUERY[1], 3]
        ids = np.array(first + document + [3])
        types = np.array([0] * len(first) + [1] * (len(document) + 1))
        _, pooled = encoders.encoded(CONFIG, tensors, ids, ids * 0 + 1, types)
        out.append(float(head["classifier.weight"][0] @ pooled + head["classifier.bias"][0]))
        count += len(ids)
    return np.array(out), count


def ask(server, path="/v1/rerank", status=200, **more):
    body = {"model": "rank", "query": QUERY[0], "documents": TEXTS, **more}
    body = {k: v for k, v in body.items() if v is not None}
    return server.json("POST", path, json.dumps(body), status)


def check_scores(server, wanted, count):
    shares = 1 / (1 + np.exp(-wanted))
    order = [int(i) for i in np.argsort(-wanted)]
    for path in PATHS:
        got = ask(server, path)
        results = got["results"]
        scores = np.array([r["relevance_score"] for r in results])
        right = (
            [r["index"] for r in results] == order
            and np.abs(scores - shares[order]).max() < 1e-5
            and got["usage"] == {"prompt_tokens": count, "total_tokens": count}
        )
        check(path, right, (got, shares))
    documents = [{"text": text} for text in TEXTS]
    got = ask(server, model=None, documents=documents, top_n=2, return_documents=True)
    right = [r["document"]["text"] for r in got["results"]] == [TEXTS[i] for i in order[:2]]
    check("the best two, with their texts", right, got)
    got = ask(server, "/rerank", documents=None, texts=TEXTS, raw_scores=True, return_text=True)
    right = (
        [r["index"] for r in got] == order
        and np.abs(np.array([r["score"] for r in got]) - wanted[order]).max() < 1e-5
        and got[0]["text"] == TEXTS[order[0]]
    )
    check("as TEI has it", right, got)
    long = ask(server, documents=["a mat " * 500, "a mat " * 400])["results"]
    check("a document is cut", long[0]["relevance_score"] == long[1]["relevance_score"], long)
    many = ask(server, documents=TEXTS * 20)["results"]
    check("more than the queue takes at a time", len(many) == 60, many)


def check_refusals(server):
    for what, status, message, more in (
        ("no query", 400, "query: null, expected a text", {"query": None}),
        ("a query of a number", 400, "query: 5, expected a text", {"query": 5}),
        ("a long query", 400, "query: 1000 tokens", {"query": "a mat " * 500}),
        ("no documents", 400, "documents: null, expected a list", {"documents": None}),
        ("none", 400, "documents: a list of 0", {"documents": []}),
        ("a document", 400, "documents[1]: 5, expected a text", {"documents": ["a", 5]}),
        ("an object", 400, "documents[0]: an object", {"documents": [{"x": "a"}]}),
        ("top_n", 400, "top_n: 0, expected a whole number", {"top_n": 0}),
        ("a deep document", 400, "documents[0]: a list", {"documents": [[[[[[]]]]]]}),
        ("several classes", 400, "classes is no reranker", {"model": "classes"}),
        ("no template", 400, "does not say how two texts", {"model": "plain"}),
        ("no model", 404, "no model none", {"model": "none"}),
    ):
        got = ask(server, status=status, **more)
        check(f"{what}: {status}", message in got["error"]["message"], got)


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_serve_rerank_") as name:
        repository = pathlib.Path(name) / "models"
        tensors = encoders.tensors_of(CONFIG)
        head = write(repository / "rank/1/model", tensors)
        write(repository / "classes/1/model", tensors, classes=2)
        with Serving(repository) as server:
            wanted, count = logits(tensors, head)
            check_scores(server, wanted, count)
        write(repository / "plain/1/model", tensors, pair=False)
        with Serving(repository) as server:
            check_refusals(server)
        check("the program ends with 0", server.status == 0, server.lines[-3:])
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
