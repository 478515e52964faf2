#!/usr/bin/env python3
"""OpenAI's interface of `evoq serve`: completions and chats are the texts of `evoq generate`, whole
and in pieces, one at a time and several; what is refused; clients that leave. The `openai` package
is tried where it is installed. Skips (exit status 77) where numpy is missing."""

import concurrent.futures
import importlib.util
import json
import pathlib
import re
import shutil
import socket
import sys
import tempfile
import time

import agree

agree.need("numpy")
import tiny_lms as lms
from serving import Serving, check, failures

PROMPTS = ["the cat", "a hen and a hat", "oh", "what then", "the cat and the hen", "other"]


def generated(work, model, prompt, *options):
    """The text and tokens of `evoq generate`."""
    path = work / "generated.json"
    agree.evoq("generate", model, "--prompt", prompt, "--json", path, *options)
    text = json.loads(path.read_text())["texts"][0]
    return text["text"], len(text["tokens"])


def events(body):
    """The objects of a stream of server-sent events, and whether it ended as it should."""
    data = [line[6:] for line in body.decode().split("\n\n") if line]
    return [json.loads(d) for d in data if d != "[DONE]"], data[-1] == "[DONE]"


def completion(prompt, **more):
    return json.dumps({"model": "lm", "prompt": prompt, "temperature": 0, "max_tokens": 12, **more})


def copy_with(repository, name, model, cache):
    (repository / name / "1").mkdir(parents=True)
    shutil.copy(model, repository / name / "1/model.etm")
    (repository / name / "config.json").write_text(json.dumps({"kv_cache": cache}))


def check_narrow_caches(server, work, model, repository):
    """`kv_cache` of a model's config.json."""
    got = server.json("POST", "/v1/completions", completion("the cat", model="narrow"))
    text, _ = generated(work, model, "the cat", "--max-tokens", "12", "--kv-cache", "int8")
    check("int8 caches: the text of generate", got["choices"][0]["text"] == text, (got, text))
    copy_with(repository, "broken", model, "int5")
    status, _, body = server.ask("POST", "/v2/repository/models/broken/load", "{}")
    said = b"a cache of 'int5', expected float32" in body
    check("a cache of no known type", status >= 400 and said, (status, body))
    shutil.rmtree(repository / "broken")


def write_bytes_model(folder):
    """A model whose tokens are all bytes, and </s>."""
    config = lms.config_of("llama") | {"vocab_size": 257, "eos_token_id": 256}
    config |= {"bos_token_id": None, "max_position_embeddings": 1024}
    lms.write_folder(str(folder), config, lms.tensors_of(config))
    shown, more = {}, 256  # GPT-2's characters
    for byte in range(256):
        plain = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        shown[chr(byte if plain else more)] = byte
        more += not plain
    file = json.loads(lms.tokenizer_files()["tokenizer.json"])
    end = {**file["added_tokens"][0], "id": 256, "content": "</s>"}
    file["added_tokens"] = [end]
    file["model"] = {"type": "BPE", "vocab": shown, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps(file))
    template = (
        "{# calls are <tool_call> #}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
    )
    template += "{{ reasoning_effort }}{% for m in messages %}{{ m.role }} {{ m.content }}"
    template += (
        "{% for c in m.tool_calls or [] %}{{ c.function.arguments.a }}{% endfor %}{% endfor %}"
    )
    settings = {"eos_token": "</s>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def chat(content, **more):
    messages = [{"role": "user", "content": content}]
    return json.dumps(
        {"model": "lm", "messages": messages, "temperature": 0, "max_tokens": 12, **more}
    )


def check_texts(server, work, model):
    wanted = [generated(work, model, p, "--max-tokens", "12") for p in PROMPTS]
    models = server.json("GET", "/v1/models")
    check(
        "models",
        [m["id"] for m in models["data"]] == ["bytes", "lm", "narrow", "plain", "tools"],
        models,
    )
    for prompt, (text, tokens) in zip(PROMPTS, wanted):
        got = server.json("POST", "/v1/completions", completion(prompt))
        choice, usage = got["choices"][0], got["usage"]
        right = choice["text"] == text and usage["completion_tokens"] == tokens
        check(f"completion of {prompt!r}", right, (got, text))
        status, headers, body = server.ask(
            "POST",
            "/v1/completions",
            completion(prompt, stream=True, stream_options={"include_usage": True}),
        )
        pieces, ended = events(body)
        streamed = "".join(p["choices"][0]["text"] for p in pieces if p["choices"])
        check(
            "the same in pieces",
            status == 200
            and ended
            and streamed == text
            and headers["Content-Type"] == "text/event-stream"
            and pieces[-1]["usage"] == usage,
            body,
        )
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        bodies = [completion(p) for p in PROMPTS] * 5
        got = list(pool.map(lambda b: server.json("POST", "/v1/completions", b), bodies))
    texts = [g["choices"][0]["text"] for g in got]
    check("30 at a time", texts == [text for text, _ in wanted] * 5, texts)


def check_chat(server, work, model):
    text, _ = generated(work, model, "the cat", "--max-tokens", "12", "--chat")
    got = server.json("POST", "/v1/chat/completions", chat("the cat"))
    message = got["choices"][0]["message"]
    check("chat", message == {"role": "assistant", "content": text}, (got, text))
    parts = [{"type": "text", "text": "the "}, {"type": "text", "text": "cat"}]
    got = server.json("POST", "/v1/chat/completions", chat(parts))
    check("content in parts", got["choices"][0]["message"]["content"] == text, got)
    _, _, body = server.ask("POST", "/v1/chat/completions", chat("the cat", stream=True))
    pieces, ended = events(body)
    deltas = [p["choices"][0]["delta"] for p in pieces]
    streamed = "".join(d.get("content", "") for d in deltas)
    reasons = [p["choices"][0]["finish_reason"] for p in pieces]
    check(
        "chat in pieces",
        ended
        and streamed == text
        and deltas[0]["role"] == "assistant"
        and reasons[-1] in ("stop", "length")
        and not any(reasons[:-1]),
        body,
    )


def check_other_names(server, work, model):
    """Members that vLLM and llama.cpp have: those of evoq generate, and what is ignored."""
    prompt = PROMPTS[0]
    plain, _ = generated(work, model, prompt, "--max-tokens", "12")
    long = ("--max-tokens", "40", "--ignore-end")
    on, tokens = generated(work, model, prompt, *long)
    got = server.json("POST", "/v1/completions", completion(prompt, ignore_eos=True, max_tokens=40))
    right = got["choices"][0]["text"] == on and got["usage"]["completion_tokens"] == tokens == 40
    check("ignore_eos", right, (got, on))
    text, _ = generated(work, model, prompt, *long, "--repeat-penalty", "3")
    for name in ("repetition_penalty", "repeat_penalty"):
        more = {"ignore_eos": True, "max_tokens": 40, name: 3}
        got = server.json("POST", "/v1/completions", completion(prompt, **more))
        check(name, got["choices"][0]["text"] == text != on, (got, text, on))
    neutral = {
        "n": 1,
        "logprobs": None,
        "echo": False,
        "typical_p": 1.0,
        "min_tokens": 0,
        "top_k": -1,
        "stop_token_ids": [],
        "logit_bias": {},
        "grammar": "",
        "presence_penalty": 0.0,
        "skip_special_tokens": True,
        "user": "me",
        "store": False,
    }
    body = completion(prompt, **neutral)
    got = server.json("POST", "/v1/completions", body)
    check("members that change nothing", got["choices"][0]["text"] == plain, (got, plain))
    line = logged(server, got["id"].removeprefix("cmpl-"))
    check("and are not told", "ignored" not in line and line["level"] == "info", line)
    got = server.json("POST", "/v1/completions", completion(prompt, temprature=2, x=1))
    line = logged(server, got["id"].removeprefix("cmpl-"))
    right = line["ignored"] == ["temprature", "x"] and line["level"] == "warning"
    check("what is ignored is in the log", right, line)
    tools = [{"type": "function", "function": {"name": "add"}}]

    def of_chat(**more):
        got = server.json("POST", "/v1/chat/completions", chat("the cat", **more))
        return got["usage"]["prompt_tokens"], logged(server, got["id"].removeprefix("chatcmpl-"))

    plain, _ = of_chat(model="tools")
    check(
        "chat_template_kwargs", of_chat(model="tools", chat_template_kwargs={"m": "a"})[0] > plain
    )
    count, line = of_chat(model="tools", tools=tools)
    check("tools", count > plain and "ignored" not in line, (count, plain, line))
    check("no tools", of_chat(model="tools", tools=tools, tool_choice="none")[0] == plain)


def check_choices(server, work, model):
    """Several prompts, and several choices of each."""
    ask = lambda **more: server.json("POST", "/v1/completions", completion(**more))
    single = [ask(prompt=p)["choices"][0]["text"] for p in PROMPTS]
    got = ask(prompt=PROMPTS)
    texts = [c["text"] for c in got["choices"]]
    check("a list of prompts", texts == single, (texts, single))
    places = [c["index"] for c in got["choices"]]
    check("the place of each", places == list(range(len(PROMPTS))), places)
    tokens = [server.json("POST", "/v1/completions", completion(p))["usage"] for p in PROMPTS]
    sums = {k: sum(t[k] for t in tokens) for k in tokens[0]}
    check("usage is that of all", got["usage"] == sums, (got["usage"], sums))
    got = ask(prompt=[[1, 5, 9], [1, 7]])
    check("lists of tokens", got["usage"]["prompt_tokens"] == 5 and len(got["choices"]) == 2, got)
    got = ask(prompt=[[1, 5, 9], [1, 7]], n=3)
    right = got["usage"]["prompt_tokens"] == 5 and len(got["choices"]) == 6
    check("choices do not count their prompt again", right, got["usage"])
    drawn = {"temperature": 1.5, "seed": 4}
    three = [c["text"] for c in ask(prompt=PROMPTS[:2], n=3, **drawn)["choices"]]
    alone = [
        ask(prompt=p, temperature=1.5, seed=seed)["choices"][0]["text"]
        for p in PROMPTS[:2]
        for seed in (4, 5, 6)
    ]
    check("choices have the seeds that follow", three == alone and len(set(three)) > 3, three)
    status, _, body = server.ask(
        "POST",
        "/v1/completions",
        completion(PROMPTS, n=2, stream=True, stream_options={"include_usage": True}),
    )
    pieces, ended = events(body)
    streamed = [""] * 12
    reasons = [None] * 12
    for piece in pieces:
        for choice in piece["choices"]:
            streamed[choice["index"]] += choice["text"]
            reasons[choice["index"]] = choice["finish_reason"] or reasons[choice["index"]]
    twice = [text for text in single for _ in range(2)]
    check("the same in pieces", status == 200 and ended and streamed == twice, streamed)
    check("each ends", all(reasons) and len(pieces[-1]["choices"]) == 0, reasons)
    got = server.json("POST", "/v1/chat/completions", chat("the cat", n=2))
    one = server.json("POST", "/v1/chat/completions", chat("the cat"))["choices"][0]["message"]
    check("choices of a chat", [c["message"] for c in got["choices"]] == [one] * 2, got)


def check_logprobs(server):
    """What tokens are given, of texts and of prompts."""
    ask = lambda **more: server.json("POST", "/v1/completions", completion(**more))["choices"][0]
    prompt = [1, 5, 9, 12, 7]
    got = ask(prompt=prompt, logprobs=3)
    scores = got["logprobs"]
    count = len(scores["tokens"])
    check(
        "of each token",
        count == 12
        and "".join(scores["tokens"]) == got["text"]
        and scores["text_offset"] == [len("".join(scores["tokens"][:i])) for i in range(count)]
        and all(
            p == max(top.values()) and top[token] == p and 2 <= len(top) <= 3 and p <= 0
            for token, p, top in zip(
                scores["tokens"], scores["token_logprobs"], scores["top_logprobs"]
            )
        ),
        got,
    )
    drawn = ask(prompt=prompt, logprobs=1, temperature=2, seed=1, ignore_eos=True)["logprobs"]
    beside = list(zip(drawn["tokens"], drawn["token_logprobs"], drawn["top_logprobs"]))
    right = all(top[token] == p for token, p, top in beside)
    check("a token beside the likeliest", right and any(len(t) == 2 for _, _, t in beside), drawn)
    none = ask(prompt=prompt, logprobs=0)["logprobs"]
    right = none["token_logprobs"] == scores["token_logprobs"] and none["top_logprobs"] is None
    check("of the chosen ones alone", right, none)
    echoed = ask(prompt=prompt, logprobs=1, echo=True, max_tokens=1)
    scored = echoed["logprobs"]
    check(
        "of a prompt and a token",
        len(scored["tokens"]) == 6
        and scored["token_logprobs"][0] is None
        and scored["top_logprobs"][0] is None
        and scored["tokens"][5] == scores["tokens"][0]
        and abs(scored["token_logprobs"][5] - scores["token_logprobs"][0]) < 1e-4
        and echoed["text"].endswith(scores["tokens"][0]),
        echoed,
    )
    # What stands before a token gives it the same, whether it is a prompt's or the text's.
    longer = prompt + [30, 31]
    whole = ask(prompt=longer, logprobs=1, echo=True, max_tokens=0)["logprobs"]
    near = [
        abs(a - b) < 1e-4
        for a, b in zip(whole["token_logprobs"][1:5], scored["token_logprobs"][1:5])
    ]
    check("of a prompt alone", len(whole["tokens"]) == 7 and all(near), (whole, scored))
    check("echo", ask(prompt="the cat", echo=True)["text"].startswith("the cat"))
    check("echo alone", ask(prompt="the cat", echo=True, max_tokens=0)["text"] == "the cat")
    pieces, _ = events(
        server.ask(
            "POST", "/v1/completions", completion(prompt, logprobs=3, stream=True, echo=True)
        )[2]
    )
    joined = {name: [] for name in scores}
    for piece in pieces:
        for name, values in (piece["choices"][0]["logprobs"] or {}).items():
            joined[name] += values
    whole = ask(prompt=prompt, logprobs=3, echo=True)
    text = "".join(p["choices"][0]["text"] for p in pieces)
    check("the same in pieces", joined == whole["logprobs"] and text == whole["text"], joined)
    # A model without a tokenizer has tokens and no text.
    plain = ask(model="plain", prompt=prompt, logprobs=1, echo=True, max_tokens=2)
    tokens = plain["logprobs"]["tokens"]
    right = plain["text"] == "" and len(tokens) == 7 and tokens[0] == "token_id:1"
    check("of a model without a tokenizer", right, plain)
    of_chat = server.json(
        "POST", "/v1/chat/completions", chat("the cat", logprobs=True, top_logprobs=2)
    )["choices"][0]
    content = of_chat["logprobs"]["content"]
    check(
        "of a chat",
        b"".join(bytes(t["bytes"]) for t in content).decode() == of_chat["message"]["content"]
        and all(
            len(t["top_logprobs"]) == 2 and t["top_logprobs"][0]["logprob"] == t["logprob"]
            for t in content
        ),
        of_chat,
    )


def check_weights(server):
    """What else chooses tokens, and ends a text."""

    def ask(**more):
        got = server.json("POST", "/v1/completions", completion([1, 5, 9], logprobs=0, **more))
        return got["choices"][0]

    plain = ask(ignore_eos=True, max_tokens=30)["logprobs"]["tokens"]
    for name, value in (("presence_penalty", 2), ("frequency_penalty", 2)):
        other = ask(ignore_eos=True, max_tokens=30, **{name: value})["logprobs"]["tokens"]
        check(name, len(set(other)) > len(set(plain)), (plain, other))
    biased = ask(logit_bias={"40": 100}, max_tokens=5)
    check("logit_bias", len(set(biased["logprobs"]["tokens"])) == 1, biased)
    stopped = ask(logit_bias={"40": 100}, stop_token_ids=[40])
    check("stop_token_ids", (stopped["text"], stopped["finish_reason"]) == ("", "stop"), stopped)
    held = ask(logit_bias={"40": 50}, stop_token_ids=[40], min_tokens=4)
    right = len(held["logprobs"]["tokens"]) == 4 and held["finish_reason"] == "stop"
    check("min_tokens", right, held)


def logged(server, request_id):
    """The line of a request in the log; the program writes it before it answers."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for line in server.lines:
            if f'"request_id":"{request_id}"' in line:
                return json.loads(line)
        time.sleep(0.01)
    return {}


def check_options(server):
    def ask(prompt=PROMPTS[0], **more):
        return server.json("POST", "/v1/completions", completion(prompt, **more))

    texts = {p: ask(p)["choices"][0]["text"] for p in PROMPTS}
    prompt = max(PROMPTS, key=lambda p: len(texts[p]))
    text = texts[prompt]
    check("a text to be cut", len(text) > 5, texts)
    stop = text[3:5]
    got = ask(prompt, stop=stop)["choices"][0]
    right = got["text"] == text[: text.index(stop)] and got["finish_reason"] == "stop"
    check("stop", right, (got, text))
    drawn = [ask(prompt, temperature=1.5, seed=s)["choices"][0]["text"] for s in (1, 1, 2)]
    check("seeds", drawn[0] == drawn[1] != drawn[2], drawn)
    answers = [ask(prompt, temperature=1.5) for _ in range(4)]
    texts = [answer["choices"][0]["text"] for answer in answers]
    check("without a seed each is drawn anew", len(set(texts)) == 4, texts)
    seed = logged(server, answers[-1]["id"].removeprefix("cmpl-")).get("seed", 0)
    again = ask(prompt, temperature=1.5, seed=seed)["choices"][0]["text"]
    check("the seed that the log says", again == texts[-1], (again, texts))
    plain = json.dumps({"model": "lm", "prompt": prompt, "max_tokens": 12})
    texts = {server.json("POST", "/v1/completions", plain)["choices"][0]["text"] for _ in range(6)}
    check("texts are drawn where nothing is said", len(texts) > 2, texts)
    tokens = server.json("POST", "/v1/completions", completion([1, 5, 9]))
    check("a prompt of tokens", tokens["usage"]["prompt_tokens"] == 3, tokens)


def check_refusals(server):
    for what, path, body, status, message in (
        ("no JSON", "completions", "{", 400, "not JSON"),
        ("no model", "completions", completion("a", model="none"), 404, "no model none"),
        ("a model of tensors", "completions", completion("a", model="net"), 400, "no language"),
        ("no prompt", "completions", completion(None), 400, "prompt: null"),
        ("no prompts", "completions", completion([]), 400, "prompt: a list of 0"),
        ("a prompt of a list", "completions", completion(["a", {}]), 400, "prompt[1]: an object"),
        ("a token beyond", "completions", completion([[1], [10**9]]), 400, "prompt[1][0]"),
        ("a token beyond", "completions", completion([1, 10**9]), 400, "prompt[1]"),
        ("a temperature beyond", "completions", completion("a", temperature=3), 400, "temperature"),
        ("logprobs", "completions", completion("a", logprobs=21), 400, "from 0 to 20"),
        ("top", "chat/completions", chat("a", top_logprobs=2), 400, "logprobs: true beside it"),
        ("echo", "chat/completions", chat("a", echo=True), 400, "echo: true, not supported"),
        ("many choices", "completions", completion(["a"] * 9, n=128), 400, "at most 1024 texts"),
        ("best of", "completions", completion("a", best_of=3), 400, "best_of: 3, not supported"),
        ("a penalty", "completions", completion("a", presence_penalty=3), 400, "from -2 to 2"),
        (
            "a bias",
            "completions",
            completion("a", logit_bias={"1": 101}),
            400,
            "logit_bias: 1: 101",
        ),
        ("a bias", "completions", completion("a", logit_bias={"x": 1}), 400, "logit_bias: x: 1"),
        ("no tokens", "completions", completion("a", max_tokens=0), 400, "max_tokens: 0"),
        ("typical_p", "completions", completion("a", typical_p=0.5), 400, "typical_p: 0.5, not"),
        (
            "a grammar",
            "completions",
            completion("a", grammar="root"),
            400,
            "grammar: grammar, line",
        ),
        (
            "a choice",
            "completions",
            completion("a", guided_choice=[1]),
            400,
            "expected a list of texts",
        ),
        (
            "a regex",
            "completions",
            completion("a", guided_regex="a"),
            400,
            'guided_regex: "a", not',
        ),
        (
            "two forms",
            "completions",
            completion("a", guided_choice=["a"], json_schema={}, grammar='root ::= "a"'),
            400,
            "json_schema: grammar says the text's form already",
        ),
        (
            "a format",
            "completions",
            completion("a", response_format={"type": "xml"}),
            400,
            "expected the type text, json_object or json_schema",
        ),
        (
            "a schema",
            "chat/completions",
            chat("a", response_format=schema_format({"type": "string", "pattern": "a"})),
            400,
            'response_format: schema #: pattern is "a", which is not supported',
        ),
        (
            "structured",
            "completions",
            completion("a", structured_outputs={"regex": "a"}),
            400,
            "structured_outputs: regex, expected json, json_object, choice or grammar",
        ),
        (
            "a form that its tokens cannot write",
            "completions",
            completion("a", guided_json={}),
            400,
            "no token of the model goes on",
        ),
        (
            "stop tokens",
            "completions",
            completion("a", stop_token_ids=[-1]),
            400,
            "stop_token_ids[",
        ),
        ("a call", "chat/completions", chat("a", tool_choice="required"), 400, 'tool_choice: "req'),
        ("tools", "chat/completions", chat("a", tools=TOOLS), 400, "template takes none"),
        ("effort", "chat/completions", chat("a", reasoning_effort="low"), 400, "takes none"),
        (
            "no tool",
            "chat/completions",
            chat("a", tools=[{}]),
            400,
            "tools[0]: an object, expected",
        ),
        (
            "a call of another",
            "chat/completions",
            chat("a", model="bytes", tools=TOOLS, tool_choice=named("sub")),
            400,
            "tool_choice: sub is none of the tools",
        ),
        ("too long", "completions", completion([5] * 100), 400, "context"),
        ("no messages", "chat/completions", completion("a"), 400, "messages: null"),
        ("an image", "chat/completions", chat([{"type": "image_url"}]), 400, "image_url"),
    ):
        for stream in (False, True):
            more = body if body == "{" else json.dumps({**json.loads(body), "stream": stream})
            got = server.json("POST", f"/v1/{path}", more, status)
            check(f"{what}: {status}", message in got["error"]["message"], got)
    got = server.json("POST", "/v2/models/lm/infer", '{"inputs": []}', 400)
    check("no tensors", "/v1/completions" in got["error"], got)


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


def check_forms(server):
    """Grammars, schemas and choices, in OpenAI's words, vLLM's and llama.cpp's."""

    def text(**more):
        body = json.dumps(
            {**json.loads(completion("the cat", model="bytes", max_tokens=500)), **more}
        )
        return server.json("POST", "/v1/completions", body)["choices"][0]

    got = text(grammar='root ::= "a hen" | "an owl"')
    right = got["text"] in ("a hen", "an owl") and got["finish_reason"] == "stop"
    check("a grammar", right, got)
    for more in ({"guided_choice": ["up", "down"]}, {"structured_outputs": {"choice": ["up"]}}):
        check(f"{more}", text(**more)["text"] in ("up", "down"), more)
    schema = {
        "type": "object",
        "properties": {
            "zoo": {"enum": ["small", "large"]},
            "animals": {"type": "integer", "minimum": 1, "maximum": 20},
        },
        "required": ["zoo", "animals"],
        "additionalProperties": False,
    }
    for seed in range(4):
        for more in (
            {"response_format": schema_format(schema)},
            {"json_schema": schema},
            {"guided_json": json.dumps(schema)},
            {"structured_outputs": {"json": schema}},
        ):
            got = text(temperature=1.5, seed=seed, **more)
            value = json.loads(got["text"])
            right = list(value) == ["zoo", "animals"] and value["zoo"] in ("small", "large")
            check(f"{list(more)[0]}, {seed}", right and 1 <= value["animals"] <= 20, got)
    messages = [{"role": "user", "content": "hi"}]
    body = {"model": "bytes", "messages": messages, "stream": True, "n": 2}
    body["response_format"] = schema_format({"type": "array", "maxItems": 1, "items": schema})
    status, _, raw = server.ask("POST", "/v1/chat/completions", json.dumps(body))
    pieces, ended = events(raw)
    for index in range(2):
        chunks = [p["choices"][0] for p in pieces if p["choices"][0]["index"] == index]
        joined = "".join(c["delta"].get("content", "") for c in chunks)
        check("a schema in pieces", ended and isinstance(json.loads(joined), list), joined)
    got = text(response_format={"type": "json_object"})
    check("an object", got["text"].startswith("{"), got)
    plain = text(response_format={"type": "text"})
    check("text", plain["text"] == text()["text"], plain)


def named(name):
    return {"type": "function", "function": {"name": name}}


TOOLS = [named("now"), named("add")]
TOOLS[1]["function"]["parameters"] = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["a"],
}


def check_tools(server):
    """Calls of tools, whole and in pieces."""

    def ask(**more):
        body = {**json.loads(chat("hi", model="bytes", max_tokens=200, tools=TOOLS)), **more}
        whole = server.json("POST", "/v1/chat/completions", json.dumps(body))["choices"][0]
        _, _, raw = server.ask("POST", "/v1/chat/completions", json.dumps({**body, "stream": True}))
        pieces, ended = events(raw)
        chunks = [p["choices"][0] for p in pieces]
        calls = [c for chunk in chunks for c in chunk["delta"].get("tool_calls", [])]
        text = "".join(c["delta"].get("content") or "" for c in chunks)
        message = whole["message"]
        without = lambda calls: [c["function"] for c in calls]
        right = (
            ended
            and text == (message["content"] or "")
            and without(calls) == without(message.get("tool_calls", []))
            and [c["index"] for c in calls] == list(range(len(calls)))
            and chunks[-1]["finish_reason"] == whole["finish_reason"]
        )
        check("calls in pieces", right, (whole, pieces))
        return whole

    call = json.dumps('<tool_call>\n{"name": "add", "arguments": {"a": 7}}\n</tool_call>')[1:-1]
    got = ask(grammar=f'root ::= "I add. {call}\\n{call}"')
    calls = got["message"]["tool_calls"]
    check(
        "two calls",
        got["finish_reason"] == "tool_calls"
        and got["message"]["content"] == "I add."
        and [c["function"] for c in calls] == [{"name": "add", "arguments": '{"a":7}'}] * 2
        and all(c["type"] == "function" and c["id"] for c in calls)
        and calls[0]["id"] != calls[1]["id"],
        got,
    )
    got = ask(grammar='root ::= "<tool_call> no"')
    right = got["finish_reason"] == "stop" and "tool_calls" not in got["message"]
    check("no call", right and got["message"]["content"] == "<tool_call> no", got)
    for choice in ("required", named("add")):
        got = ask(tool_choice=choice)
        function = got["message"]["tool_calls"][0]["function"]
        right = function["name"] in ("now", "add") if choice == "required" else "add"
        check("a call that must be", right and got["message"]["content"] is None, got)
        if choice != "required":
            check("its arguments", 1 <= json.loads(function["arguments"])["a"] <= 99, got)
    got = ask(grammar=f'root ::= "{call}\\n{call}"', parallel_tool_calls=False)
    check("one call at most", len(got["message"]["tool_calls"]) == 1, got)
    schema = {"type": "object", "properties": {"b": {"const": 1}}, "required": ["b"]}
    answer = {"type": "json_schema", "json_schema": {"name": "b", "schema": schema}}
    for seed in range(6):
        got = ask(response_format=answer, temperature=2, seed=seed)
        message, cut = got["message"], got["finish_reason"] == "length"
        called = bool(message.get("tool_calls")) and message["content"] is None
        held = called or cut or json.loads(message["content"]) == {"b": 1}
        check("an answer of its form, or a call", held, got)
    got = ask(response_format=answer, tool_choice=named("add"))
    check("a call where it must be one", len(got["message"]["tool_calls"]) == 1, got)
    counts = [
        server.json("POST", "/v1/chat/completions", chat("hi", model="bytes", **more))["usage"]
        for more in ({}, {"reasoning_effort": "low"})
    ]
    more = counts[1]["prompt_tokens"] - counts[0]["prompt_tokens"]
    check("reasoning_effort goes to the template", more == 3, counts)
    body = json.loads(chat("hi", model="bytes", tools=TOOLS))
    counts = []
    for arguments in ("{}", '{"a": 123}'):
        call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": arguments}}
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        body["messages"] = [said, *body["messages"][-1:]]
        got = server.json("POST", "/v1/chat/completions", json.dumps(body))
        counts.append(got["usage"]["prompt_tokens"])
    check("arguments of calls are objects to the template", counts[1] == counts[0] + 3, counts)


def check_habits(server, work):
    """What clients of llama.cpp and OpenAI do by habit."""
    got = server.json("GET", "/v1/models/lm")
    check(
        "one model", got == {"id": "lm", "object": "model", "created": 0, "owned_by": "evoq"}, got
    )
    for name in ("none", "net"):
        got = server.json("GET", f"/v1/models/{name}", None, 404)
        check(f"no language model {name}", name in got["error"]["message"], got)
    check("health", server.json("GET", "/health") == {"status": "ok"})
    for name in ("max_tokens", "n_predict"):
        got = server.json(
            "POST", "/v1/completions", completion("the cat", ignore_eos=True, **{name: -1})
        )
        usage = got["usage"]
        check(f"{name} -1: what the context holds", usage["total_tokens"] > 60, usage)
    body = json.loads(chat("the cat", ignore_eos=True))
    del body["max_tokens"]
    usage = server.json("POST", "/v1/chat/completions", json.dumps(body))["usage"]
    check("a chat fills the context where nothing is said", usage["total_tokens"] == 64, usage)
    page = server.ask("GET", "/metrics")[2].decode()
    waited = re.search(
        r'^nv_inference_queue_duration_us{model="lm",version="1"} (\S+)$', page, re.M
    )
    check("what texts waited is counted", waited and float(waited[1]) > 0, waited)
    got = server.json("POST", "/v1/completions", json.dumps({"prompt": "a"}), 400)
    check("no name", "model is missing" in got["error"]["message"], got)
    got = server.json("POST", "/v1/completions", json.dumps("a"), 400)
    check("no object", 'is "a", expected an object' in got["error"]["message"], got)
    alone = work / "alone"
    alone.mkdir()
    shutil.copy(work / "models/lm/1/model.etm", alone / "lm.etm")
    agree.evoq("zoo", "lenet", "-o", alone / "net.onnx")
    with Serving(alone) as other:
        got = other.json("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 2}))
        check("the only model needs no name", got["model"] == "lm", got)


def check_leaving(server):
    """A client that leaves ends its text: its place is free again."""
    for _ in range(8):
        body = completion("the cat", stream=True, max_tokens=40)
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(
                b"POST /v1/completions HTTP/1.1\r\n"
                + f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            s.recv(100)
    got = server.json("POST", "/v1/completions", completion("the cat"))
    check("clients that leave hold up nobody", got["choices"][0]["text"] is not None, got)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        stats = server.json("GET", "/v2/models/lm/stats")["model_stats"][0]["inference_stats"]
        _, _, metrics = server.ask("GET", "/metrics")
        if b"evoq_requests_under_way 1" in metrics:  # this one
            break
        time.sleep(0.05)
    check("and none is under way", b"evoq_requests_under_way 1" in metrics, stats)


def check_openai(server, work, model):
    if not importlib.util.find_spec("openai"):
        print("skipped: openai is not installed")
        return
    import openai

    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")
    text, _ = generated(work, model, "the cat", "--max-tokens", "12")
    options = {"model": "lm", "max_tokens": 12, "temperature": 0}
    got = client.completions.create(prompt="the cat", **options)
    check("openai: completion", got.choices[0].text == text, got)
    pieces = client.completions.create(prompt="the cat", stream=True, **options)
    check("openai: stream", "".join(p.choices[0].text for p in pieces) == text)
    messages = [{"role": "user", "content": "the cat"}]
    whole = client.chat.completions.create(messages=messages, **options)
    pieces = client.chat.completions.create(messages=messages, stream=True, **options)
    joined = "".join(p.choices[0].delta.content or "" for p in pieces)
    check("openai: chat", joined == whole.choices[0].message.content, (joined, whole))
    got = client.completions.create(prompt=PROMPTS[:2], n=2, logprobs=2, **options)
    right = len(got.choices) == 4 and len(got.choices[3].logprobs.top_logprobs[0]) >= 2
    check("openai: choices and logprobs", right and got.choices[0].text == text, got)
    got = client.chat.completions.create(
        messages=messages, logprobs=True, top_logprobs=2, n=2, **options
    )
    chances = got.choices[1].logprobs.content[0].top_logprobs
    check("openai: logprobs of a chat", len(chances) == 2, got)
    check(
        "openai: models",
        [m.id for m in client.models.list()] == ["bytes", "lm", "narrow", "plain", "tools"],
    )
    try:
        client.completions.create(prompt="a", model="none")
        check("openai: errors", False)
    except openai.NotFoundError as error:
        check("openai: errors", "no model none" in str(error), error)


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_serve_text_") as name:
        work = pathlib.Path(name)
        folder = work / "hf"
        lms.write_with_tokenizer(str(folder))
        repository = work / "models"
        (repository / "lm/1").mkdir(parents=True)
        model = repository / "lm/1/model.etm"
        agree.evoq("compile", folder, "-o", model)
        (repository / "lm/config.json").write_text('{"sequences": 2}')
        copy_with(repository, "narrow", model, "int8")
        write_bytes_model(work / "bytes")
        agree.evoq("compile", work / "bytes", "-o", repository / "bytes.etm")
        settings = folder / "tokenizer_config.json"
        config = json.loads(settings.read_text())
        config["chat_template"] += "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
        config["chat_template"] += "{{ m or '' }}"
        settings.write_text(json.dumps(config))
        agree.evoq("compile", folder, "-o", repository / "tools.etm")
        agree.evoq("zoo", "lenet", "-o", repository / "net.onnx")
        for path in folder.glob("tokenizer*"):
            path.unlink()
        agree.evoq("compile", folder, "-o", repository / "plain.etm")
        with Serving(repository) as server:
            check_texts(server, work, model)
            check_narrow_caches(server, work, model, repository)
            check_chat(server, work, model)
            check_options(server)
            check_choices(server, work, model)
            check_logprobs(server)
            check_weights(server)
            check_other_names(server, work, model)
            check_refusals(server)
            check_forms(server)
            check_tools(server)
            check_habits(server, work)
            check_leaving(server)
            check_openai(server, work, model)
            server.json("POST", "/v2/repository/models/lm/load", "{}")
            got = server.json("POST", "/v1/completions", completion("the cat"))
            check("loaded anew", bool(got["choices"][0]["text"]), got)
        check("the program ends with 0", server.status == 0, server.lines[-3:])
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
