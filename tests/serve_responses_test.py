#!/usr/bin/env python3
"""OpenAI's responses of `evoq serve`: the texts of chats, whole and as events; calls of functions
that go on; forms; what is refused. The `openai` package is tried where it is installed. Skips (exit
status 77) where numpy is missing."""

import importlib.util
import json
import pathlib
import sys
import tempfile

import agree

agree.need("numpy")
import tiny_lms as lms
from serve_text_test import logged, write_bytes_model
from serving import Serving, check, failures

PATH = "/v1/responses"
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["a"],
    "additionalProperties": False,
}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "name": "now", "parameters": EMPTY},
    {"type": "function", "name": "add", "parameters": SCHEMA, "strict": True},
]


def request(said, **more):
    plain = {"model": "lm", "input": said, "temperature": 0, "max_output_tokens": 12}
    return json.dumps({**plain, **more})


def ask(server, said, status=200, **more):
    return server.json("POST", PATH, request(said, **more), status)


def events(server, said, **more):
    _, headers, body = server.ask("POST", PATH, request(said, stream=True, **more))
    check("a stream", headers["Content-Type"] == "text/event-stream", headers)
    found = []
    for event in body.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        check("an event's name", name == f"event: {found[-1]['type']}", event)
    return found


def text_of(response):
    parts = [p for item in response["output"] if item["type"] == "message" for p in item["content"]]
    return "".join(p["text"] for p in parts)


def chat(server, messages, **more):
    body = {"model": "lm", "messages": messages, "temperature": 0, "max_tokens": 12, **more}
    return server.json("POST", "/v1/chat/completions", json.dumps(body))


def check_texts(server):
    system = {"role": "system", "content": "the hen"}
    user = {"role": "user", "content": "the cat"}
    for what, messages, body in (
        ("a text", [user], {"said": "the cat"}),
        ("a message", [user], {"said": [user]}),
        ("instructions", [system, user], {"said": "the cat", "instructions": "the hen"}),
        ("a developer's", [system, user], {"said": [{**system, "role": "developer"}, user]}),
    ):
        wanted = chat(server, messages, ignore_eos=True)
        got = ask(server, ignore_eos=True, **body)
        usage = wanted["usage"]
        right = (
            text_of(got) == wanted["choices"][0]["message"]["content"]
            and got["usage"]["input_tokens"] == usage["prompt_tokens"]
            and got["usage"]["output_tokens"] == usage["completion_tokens"]
            and got["incomplete_details"] == {"reason": "max_output_tokens"}
        )
        check(f"{what}: that of a chat", right, (got, wanted))
        pieces = events(server, ignore_eos=True, **body)
        deltas = [e["delta"] for e in pieces if e["type"] == "response.output_text.delta"]
        last = pieces[-1]
        right = (
            "".join(deltas) == text_of(got) == text_of(last["response"])
            and last["type"] == "response.incomplete"
            and [e["sequence_number"] for e in pieces] == list(range(len(pieces)))
        )
        check(f"{what}: the same in pieces", right, pieces)
    body = request("the cat", instructions="the hen")
    counted = server.json("POST", PATH + "/input_tokens", body)
    usage = ask(server, "the cat", instructions="the hen")["usage"]
    right = counted == {"object": "response.input_tokens", "input_tokens": usage["input_tokens"]}
    check("tokens of an input", right, (counted, usage))
    got = server.json("POST", PATH + "/input_tokens", request(5), 400)
    check("of no input", "input: 5" in got["error"]["message"], got)
    got = ask(server, "the cat", metadata={"a": "b"}, store=True, max_tokens=1, tmp=1)
    check("nothing is kept", got["store"] is False and got["metadata"] == {"a": "b"}, got)
    line = logged(server, got["id"].removeprefix("resp_"))
    check("what is ignored is in the log", line["ignored"] == ["tmp", "max_tokens"], line)
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        gone = server.json(method, f"{PATH}/{got['id']}{path}", None, 404)
        check(f"{method} {path}", "not kept" in gone["error"]["message"], gone)


def check_calls(server):
    """A call, its output, and what follows."""
    more = {"model": "bytes", "tools": TOOLS, "max_output_tokens": 200}
    one = {"type": "function", "name": "add"}
    got = ask(server, "hi", tool_choice=one, **more)
    call = got["output"][0]
    right = (
        call["type"] == "function_call"
        and call["name"] == "add"
        and 1 <= json.loads(call["arguments"])["a"] <= 99
        and got["status"] == "completed"
        and got["tool_choice"] == one
        and got["tools"] == TOOLS
    )
    check("a call", right, got)
    pieces = events(server, "hi", tool_choice=one, **more)
    deltas = [e["delta"] for e in pieces if e["type"] == "response.function_call_arguments.delta"]
    check("its arguments in pieces", "".join(deltas) == call["arguments"], pieces)
    allowed = {"type": "allowed_tools", "mode": "required", "tools": TOOLS[:1]}
    got = ask(server, "hi", tool_choice=allowed, **more)
    check("one of those allowed", got["output"][0]["name"] == "now", got)
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "7"}
    items = [{"role": "user", "content": "hi"}, call, output]
    function = {"name": "add", "arguments": call["arguments"]}
    said = {"role": "assistant", "content": ""}
    said["tool_calls"] = [{"id": call["call_id"], "type": "function", "function": function}]
    tool = {"role": "tool", "content": "7", "tool_call_id": call["call_id"]}
    wanted = chat(server, [items[0], said, tool], model="bytes")
    got = ask(server, items, model="bytes")
    check("what follows", text_of(got) == wanted["choices"][0]["message"]["content"], got)
    check("its prompt", got["usage"]["input_tokens"] == wanted["usage"]["prompt_tokens"], got)


def check_forms(server):
    form = {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}
    more = {"model": "bytes", "max_output_tokens": 900}
    got = ask(server, "hi", text={"format": form}, **more)
    check("a schema", 1 <= json.loads(text_of(got))["a"] <= 99, got)
    got = ask(server, "hi", text={"format": {"type": "json_object"}}, **more)
    check("an object", text_of(got).startswith("{"), got)
    got = ask(server, "hi", include=["message.output_text.logprobs"], top_logprobs=2, **more)
    scores = got["output"][0]["content"][0]["logprobs"]
    right = len(scores) == got["usage"]["output_tokens"] and len(scores[0]["top_logprobs"]) == 2
    check("logprobs", right, got)


def check_refusals(server):
    """On their way through the server; response_request_test.cc has more."""
    for more, message in (
        ({"previous_response_id": "resp_1"}, "previous_response_id: "),
        ({"model": "bytes", "tools": [{"type": "function"}]}, "tools[0]: an object"),
        ({"tools": TOOLS}, "tools: the model's chat template takes none"),
        ({"tool_choice": "required"}, "tool_choice: "),
        ({"text": {"format": {"type": "xml"}}}, "text.format: an object, expected the type"),
        ({"reasoning": {"effort": "low"}}, "reasoning.effort: "),
        ({"temperature": "x"}, "temperature: "),
        ({"input": []}, "input: a list of 0"),
        ({"input": "a hen " * 100}, "context"),
        ({"input": [{"role": "user", "content": [[[[[]]]]]}]}, "input[0].content[0]: a list of 1"),
    ):
        for stream in (False, True):
            got = ask(server, "a", 400, stream=stream, **more)
            check(f"{more}: 400", message in got["error"]["message"], got)
    deep = '{"model": "lm", "input": ' + "[" * 5000 + "]" * 5000 + "}"
    got = server.json("POST", PATH, deep, 400)
    check("nested deeply", "nested" in got["error"]["message"], got)


def check_openai(server):
    if not importlib.util.find_spec("openai"):
        print("skipped: openai is not installed")
        return
    import openai

    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")
    options = {"model": "lm", "temperature": 0, "max_output_tokens": 40}
    count = client.responses.input_tokens.count(model="lm", input="the cat").input_tokens
    whole = client.responses.create(input="the cat", **options)
    check("openai: tokens of an input", count == whole.usage.input_tokens, count)
    check("openai: a text", whole.output_text == text_of(ask(server, "the cat")), whole)
    with client.responses.stream(input="the cat", **options) as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
        last = stream.get_final_response()
    check("openai: in pieces", "".join(deltas) == last.output_text == whole.output_text, last)
    options |= {"model": "bytes", "max_output_tokens": 200, "tools": TOOLS}
    options["tool_choice"] = {"type": "function", "name": "add"}
    with client.responses.stream(input="hi", **options) as stream:
        call = stream.get_final_response().output[0]
    check("openai: a call", call.name == "add" and 1 <= call.parsed_arguments["a"] <= 99, call)
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "7"}
    items = [{"role": "user", "content": "hi"}, call.to_dict(), output]
    got = client.responses.create(input=items, **options)
    check("openai: what follows", got.output[0].type == "function_call", got)
    try:
        client.responses.retrieve(got.id)
        check("openai: errors", False)
    except openai.NotFoundError as error:
        check("openai: errors", "not kept" in str(error), error)


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_serve_responses_") as name:
        work = pathlib.Path(name)
        repository = work / "models"
        repository.mkdir()
        lms.write_with_tokenizer(str(work / "hf"))
        agree.evoq("compile", work / "hf", "-o", repository / "lm.etm")
        write_bytes_model(work / "bytes")
        agree.evoq("compile", work / "bytes", "-o", repository / "bytes.etm")
        with Serving(repository) as server:
            check_texts(server)
            check_calls(server)
            check_forms(server)
            check_refusals(server)
            check_openai(server)
        check("the program ends with 0", server.status == 0, server.lines[-3:])
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
