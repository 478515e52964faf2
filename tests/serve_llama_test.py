#!/usr/bin/env python3
"""What clients of llama.cpp and vLLM ask of `evoq serve` beside OpenAI's interfaces: completions of
llama.cpp's own form, tokens and texts of them, prompts of chats, facts of the model and its
sequences, embeddings as a list. Skips (exit status 77) where numpy is missing."""

import json
import pathlib
import sys
import tempfile

import agree

agree.need("numpy")
import encoders_test as encoders
import serve_embeddings_test as embeddings
import tiny_lms as lms
from serve_text_test import write_bytes_model
from serving import Serving, check, failures

PROMPT = {"model": "lm", "prompt": "the cat", "temperature": 0, "n_predict": 12}


def ask(server, path, body, status=200):
    return server.json("POST", path, json.dumps(body), status)


def openai(server, **more):
    body = {"model": "lm", "prompt": "the cat", "temperature": 0, "max_tokens": 12, **more}
    return ask(server, "/v1/completions", body)


def events(server, body):
    status, headers, text = server.ask("POST", "/completion", json.dumps({**body, "stream": True}))
    check("a stream", headers["Content-Type"] == "text/event-stream" and status == 200, text)
    return [json.loads(line[6:]) for line in text.decode().split("\n\n")[:-1]]


def check_completions(server):
    wanted = openai(server, ignore_eos=True)["choices"][0]["text"]
    body = {**PROMPT, "ignore_eos": True}
    got = ask(server, "/completion", {**body, "return_tokens": True, "n_probs": 2})
    scores = got["completion_probabilities"]
    right = (
        got["content"] == wanted
        and got["stop"] is True
        and got["stop_type"] == "limit"
        and got["tokens_predicted"] == len(got["tokens"]) == len(scores) == 12
        and got["tokens_evaluated"] == openai(server)["usage"]["prompt_tokens"]
        and got["generation_settings"]["n_predict"] == 12
        and [s["id"] for s in scores] == got["tokens"]
        and scores[0]["top_logprobs"][0]["id"] == got["tokens"][0]
    )
    check("a completion", right, got)
    text = ask(server, "/detokenize", {"model": "lm", "tokens": got["tokens"]})["content"]
    check("its tokens", text.replace("</s>", "").strip() == wanted.strip(), (text, wanted))
    pieces = events(server, {**body, "return_tokens": True})
    right = (
        "".join(p["content"] for p in pieces) == wanted
        and [t for p in pieces for t in p["tokens"]] == got["tokens"]
        and [p["stop"] for p in pieces] == [False] * (len(pieces) - 1) + [True]
        and pieces[-1]["stop_type"] == "limit"
    )
    check("the same in pieces", right, pieces)
    for path in ("/completion", "/completions"):
        both = ask(server, path, {**body, "prompt": ["the cat", "a hen"]})
        right = len(both) == 2 and both[0]["content"] == wanted and both[1]["index"] == 1
        check(f"two prompts, {path}", right, both)
    stop = wanted[2:4]
    got = ask(server, "/completion", {**body, "stop": [stop]})
    right = got["stop_type"] == "word" and got["stopping_word"] == stop
    check("a stop", right and got["content"] == wanted[: wanted.index(stop)], got)
    got = ask(server, "/completion", {"model": "lm", "prompt": "the cat", "ignore_eos": True})
    settings = got["generation_settings"]
    usual = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "n_predict": -1}
    right = {k: settings[k] for k in usual} == usual and got["truncated"]
    check("what is usual", right, got)


def check_tokens(server):
    plain = ask(server, "/tokenize", {"model": "lm", "content": "the cat"})
    check("tokens", plain["count"] == len(plain["tokens"]) and plain["max_model_len"] == 64, plain)
    more = ask(server, "/tokenize", {"model": "lm", "content": "the cat", "add_special": True})
    usage = openai(server)["usage"]["prompt_tokens"]
    of_vllm = ask(server, "/tokenize", {"model": "lm", "prompt": "the cat"})
    check("with what stands around them", len(more["tokens"]) == usage == of_vllm["count"], more)
    got = ask(server, "/tokenize", {"model": "bytes", "content": "á", "with_pieces": True})
    right = got["tokens"] == [{"id": 195, "piece": [195]}, {"id": 161, "piece": [161]}]
    check("pieces that are no text", right, got)
    got = ask(server, "/tokenize", {"model": "bytes", "content": "a", "with_pieces": True})
    check("a piece", got["tokens"] == [{"id": 97, "piece": "a"}], got)
    for special in (True, False):
        body = {"model": "bytes", "content": "</s>", "parse_special": special}
        got = ask(server, "/tokenize", body)["tokens"]
        check("a special piece", (got == [256]) == special, got)
    messages = [{"role": "developer", "content": "be"}, {"role": "user", "content": "hi"}]
    prompt = ask(server, "/apply-template", {"model": "lm", "messages": messages})["prompt"]
    check("a chat's prompt", prompt == "<s>system be<s>user hi", prompt)
    got = ask(server, "/tokenize", {"model": "lm", "messages": messages})
    chat = ask(server, "/v1/chat/completions", {"model": "lm", "messages": messages})
    check("a chat's tokens", got["count"] == chat["usage"]["prompt_tokens"], (got, chat))
    again = ask(server, "/detokenize", {"model": "lm", "tokens": got["tokens"]})
    check("and back", again == {"content": prompt, "prompt": prompt}, again)


def check_facts(server):
    got = server.json("GET", "/props?model=lm")
    right = (
        got["default_generation_settings"]["n_ctx"] == 64
        and got["total_slots"] == 2
        and "m.role" in got["chat_template"]
    )
    check("props", right, got)
    slots = server.json("GET", "/slots?model=lm")
    idle = [{"id": i, "n_ctx": 64, "is_processing": False} for i in range(2)]
    check("slots", slots == idle, slots)
    got = server.json("GET", "/props", None, 400)
    check("props of none", "model is missing" in got["error"]["message"], got)
    check("health", server.json("GET", "/v1/health") == {"status": "ok"})
    models = [server.json("GET", path)["data"] for path in ("/models", "/v1/models")]
    check("models", models[0] == models[1], models)
    page = server.ask("GET", "/metrics")[2].decode().splitlines()
    metric = lambda name: float(
        next(line for line in page if line.startswith(name + '{model="lm"')).split()[-1]
    )
    prompt, cached = metric("evoq_prompt_tokens"), metric("evoq_prompt_tokens_cached")
    right = prompt > cached > 0 and metric("evoq_text_tokens") > 100
    check("tokens are counted", right, page)


def check_embeddings(server):
    body = {"input": ["the cat", "a hen"]}
    wanted = [v["embedding"] for v in ask(server, "/v1/embeddings", body)["data"]]
    for path in ("/embedding", "/embeddings"):
        got = ask(server, path, {"content": body["input"]})
        check(path, got == [{"index": i, "embedding": [v]} for i, v in enumerate(wanted)], got)
    got = ask(server, "/embedding", {"content": "the cat"})
    check("of one text", got[0]["embedding"][0] == wanted[0], got)


def check_chats(server):
    def tokens(model, **more):
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": model, "messages": messages, "max_completion_tokens": 2, **more}
        return ask(server, "/chat/completions", body)["usage"]["prompt_tokens"]

    check("verbosity as it is by itself", tokens("lm", verbosity="medium") == tokens("lm"))
    check("verbosity of a template", tokens("thinks", verbosity="low") == tokens("thinks") + 3)
    check("no reasoning", tokens("thinks", reasoning_effort="none") == tokens("thinks") - 5)
    for name in ("now", "add"):
        got = ask(server, "/v1/chat/completions", choice("required", name))
        calls = got["choices"][0]["message"]["tool_calls"]
        check("a call of what is allowed", calls[0]["function"]["name"] == name, got)
    check("a prediction changes nothing", tokens("lm", prediction={"content": "x"}) > 0)
    body = {"model": "bytes", "prompt": "a", "max_tokens": 500}
    form = {"type": "json_schema", "schema": {"enum": ["up"]}}
    got = ask(server, "/v1/completions", {**body, "response_format": form})
    check("llama.cpp's schema", got["choices"][0]["text"] == '"up"', got)
    first_of = lambda **more: openai(server, logprobs=0, max_tokens=1, ignore_eos=True, **more)[
        "choices"
    ][0]["logprobs"]["tokens"][0]
    plain = first_of()
    first = ask(server, "/tokenize", {"model": "lm", "content": plain})["tokens"][-1]
    for bias in ([[first, False]], [[first, -100]], {str(first): -100}):
        got = first_of(logit_bias=bias)
        check(f"a bias {bias}", got != plain, got)


def said(**more):
    return {"model": "lm", "messages": [{"role": "user", "content": "hi", **more}]}


def choice(mode, *names):
    """A chat of `bytes` with two tools, of which these may be called."""
    function = lambda name: {"type": "function", "function": {"name": name}}
    tools = [function("now"), function("add")]
    for tool in tools:
        tool["function"]["parameters"] = {"type": "object", "additionalProperties": False}
    allowed = {"mode": mode, "tools": [function(name) for name in names]}
    more = {"tools": tools, "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}}
    return {**said(), "model": "bytes", "temperature": 0, "max_tokens": 200, **more}


def check_refusals(server):
    chat = {"model": "lm", "messages": [{"role": "user", "content": "hi"}]}
    deep = {"model": "lm", "content": json.loads("[" * 60 + "]" * 60)}
    for path, body, message in (
        ("/completion", {**PROMPT, "n_probs": 21}, "n_probs: 21, expected a whole number from 0"),
        ("/completion", {**PROMPT, "n_predict": 10**30}, "n_predict: 1e+30"),
        ("/completion", {**PROMPT, "prompt": 5}, "prompt: 5"),
        ("/completion", {**PROMPT, "n_cmpl": "x"}, 'n_cmpl: "x"'),
        ("/completion", {**PROMPT, "mirostat": 2}, "mirostat: 2, not supported"),
        ("/completion", {**PROMPT, "n_probs": 1, "post_sampling_probs": True}, "expected false"),
        ("/completion", {**PROMPT, "model": 5}, "model: 5, expected a text"),
        ("/completion", [], "the request is a list of 0, expected an object"),
        ("/tokenize", {"model": "lm"}, "content: null"),
        ("/tokenize", {"model": "lm", "content": 5}, "content: 5, expected a text"),
        ("/tokenize", {"model": "lm", "content": "a", "with_pieces": 1}, "with_pieces: 1"),
        ("/tokenize", deep, "content: a list of 1"),
        ("/tokenize", {"model": "net", "content": "a"}, "net is no language model"),
        ("/detokenize", {"model": "lm", "tokens": [1, -1]}, "tokens[1]: -1"),
        ("/detokenize", {"model": "lm", "tokens": "a"}, 'tokens: "a"'),
        ("/apply-template", {"model": "lm", "messages": [5]}, "messages[0]: 5"),
        ("/embedding", {"content": 5}, "content: 5"),
        ("/v1/chat/completions", said(content={"a": 1}), "messages[0].content: an object, exp"),
        ("/v1/chat/completions", said(content=5), "messages[0].content: 5, expected a text"),
        ("/v1/chat/completions", said(content=[{"type": "text"}]), "content[0].text: null, exp"),
        ("/v1/chat/completions", said(content=["a"]), "content of type , expected text"),
        ("/v1/chat/completions", said(tool_calls=[5]), "messages[0].tool_calls: a list of 1"),
        ("/v1/chat/completions", said(tool_calls="x"), 'messages[0].tool_calls: "x"'),
        ("/v1/chat/completions", choice("some", "add"), "allowed_tools has the mode some"),
        ("/v1/chat/completions", choice("auto", "sub"), "sub is none of the tools"),
        ("/v1/chat/completions", {**chat, "functions": [{}]}, "not supported by this server, e"),
        ("/v1/chat/completions", {**chat, "function_call": "none"}, "expected tool_choice"),
        ("/v1/chat/completions", {**chat, "verbosity": "low"}, "verbosity: "),
        ("/v1/chat/completions", {**chat, "logit_bias": [5]}, "or a list of pairs"),
        ("/v1/chat/completions", {**chat, "logit_bias": [[5, True]]}, "logit_bias: 5: true"),
    ):
        got = ask(server, path, body, 400)
        check(f"{path}: {message}", message in got["error"]["message"], got)


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_serve_llama_") as name:
        work = pathlib.Path(name)
        folder, repository = work / "hf", work / "models"
        (repository / "lm/1").mkdir(parents=True)
        lms.write_with_tokenizer(str(folder))
        agree.evoq("compile", folder, "-o", repository / "lm/1/model.etm")
        (repository / "lm/config.json").write_text('{"sequences": 2}')
        write_bytes_model(work / "bytes")
        agree.evoq("compile", work / "bytes", "-o", repository / "bytes.etm")
        settings = work / "bytes/tokenizer_config.json"
        config = json.loads(settings.read_text())
        config["chat_template"] = (
            "{% if enable_thinking is undefined or enable_thinking %}think{% endif %}"
            "{{ verbosity }}{% for m in messages %}{{ m.content }}{% endfor %}"
        )
        settings.write_text(json.dumps(config))
        agree.evoq("compile", work / "bytes", "-o", repository / "thinks.etm")
        agree.evoq("zoo", "lenet", "-o", repository / "net.onnx")
        config = {**encoders.BASE, "model_type": "bert"}
        tensors = encoders.tensors_of(config)
        encoders.written(str(work / "encoder"), config, tensors, "F32", "", False)
        embeddings.write_model(repository, "mean", work / "encoder", embeddings.POOLINGS["mean"])
        with Serving(repository) as server:
            check_completions(server)
            check_tokens(server)
            check_facts(server)
            check_embeddings(server)
            check_chats(server)
            check_refusals(server)
        check("the program ends with 0", server.status == 0, server.lines[-3:])
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
