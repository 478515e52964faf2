#!/usr/bin/env python3
"""`evoq generate` and the perplexity of language models with caches: greedy text against logits in
float64 by plain numpy, options that must not change a text, and what is refused. With the data
folder, perplexities of llama2.c's checkpoints against the same models in ONNX. Skips (exit status
77) where numpy is missing."""

import json
import os
import socket
import subprocess
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np
import tiny_lms as lms

failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail)
    if not holds:
        failures.append(what)


def evoq(work, *arguments, status=0):
    """What a verb prints, its messages, and its JSON."""
    path = os.path.join(work, "result.json")
    done = subprocess.run(
        [agree.EVOQ, *arguments, "--threads", "1", "--json", path], capture_output=True, text=True
    )
    if done.returncode != status:
        check(" ".join(arguments), False, f"{done.returncode}: {done.stderr[-300:]}")
        return None
    if status:
        return done.stderr
    with open(path, encoding="utf-8") as f:
        return done.stdout, done.stderr, json.load(f)


def greedy(config, tensors, prompt, count):
    """The likeliest tokens, one after the other; and by how much the closest was ahead."""
    ids, margin = list(prompt), np.inf
    while len(ids) < len(prompt) + count:
        row = lms.logits(config, tensors, ids)[-1]
        first, second = np.sort(row)[::-1][:2]
        margin = min(margin, first - second)
        ids.append(int(np.argmax(row)))
    return ids[len(prompt) :], margin


def check_text(work, folder, config, tensors):
    prompt = [1, 5, 30, 9, 3, 22]
    expected, margin = greedy(config, tensors, prompt, 20)
    assert margin > 1e-3, margin
    numbers = ",".join(map(str, prompt))
    common = ["generate", folder, "--prompt-tokens", numbers, "--max-tokens", "20", "--ignore-end"]
    out, log, told = evoq(work, *common)
    text = told["texts"][0]
    check("greedy tokens are those of float64", text["tokens"] == expected, text["tokens"])
    check("the text is printed", out == text["text"] + "\n", repr(out))
    check("what it took is told", "prompt: 6 tokens" in log and "ended by length" in log, log)
    check("counts", text["prompt_tokens"] == 6 and text["ended"] == "length", text)
    check(
        "rates follow from times",
        np.isclose(text["tokens_per_s"], 1e3 * 19 / text["decode_ms"])
        and np.isclose(text["prompt_tokens_per_s"], 1e3 * 6 / text["prompt_ms"]),
        text,
    )
    check("time outside of the model is part", 0 < text["host_ms"] < text["decode_ms"], text)
    drafted = evoq(work, *common, "--draft", folder)[2]["texts"][0]
    check("a draft changes nothing", drafted["tokens"] == expected, drafted)
    check("a draft of itself is kept", drafted["accepted"] >= drafted["drafted"] - 7 > 0, drafted)
    cache = os.path.join(work, "prompt.cache")
    for wanted in (6, 1):
        text = evoq(work, *common, "--prompt-cache", cache)[2]["texts"][0]
        check(f"a kept cache: {wanted} tokens are run", text["prompt_tokens"] == wanted, text)
        check("a kept cache changes nothing", text["tokens"] == expected, text)
    stop = lms_text(work, folder, expected[4])
    stopped = evoq(work, *common, "--stop", stop)[2]["texts"][0]
    check("a stop text ends it", stopped["ended"] == "stop", stopped)
    check("a stop text is not shown", stopped["text"] == out[:-1].split(stop)[0], stopped)
    check_stream(common, out)


def check_stream(arguments, text):
    """A text comes in pieces, though nothing asks for lines: a packet for each write."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        subprocess.run([agree.EVOQ, *arguments], stdout=theirs, stderr=subprocess.PIPE, check=True)
        theirs.close()
        packets = []
        while packet := ours.recv(1 << 16):
            packets.append(packet)
    check("a text is written as it comes", len(packets) > 10, packets)
    check("its pieces are the text", b"".join(packets).decode() == text, packets)


def lms_text(work, folder, token):
    """A token's text."""
    path = os.path.join(work, "ids.jsonl")
    with open(path, "w") as f:
        f.write(f"[{token}]\n")
    done = subprocess.run(
        [agree.EVOQ, "tokenize", folder, "--lines", path, "--decode"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def check_integers(work, folder):
    """Where products are of integers a text is the same whatever runs beside it."""
    etm = os.path.join(work, "int4.etm")
    evoq(work, "quantize", folder, "--scheme", "int4-dynamic", "-o", etm)
    prompts = ["the cat", "a hen and a hat, then", "W", "He that", "on a hill they"]
    options = ["--max-tokens", "24", "--ignore-end"]
    alone = [evoq(work, "generate", etm, "--prompt", p, *options)[2]["texts"][0] for p in prompts]
    words = [w for p in prompts for w in ("--prompt", p)]
    for parallel in ("1", "2", "4"):
        told = evoq(work, "generate", etm, *words, *options, "--parallel", parallel)[2]
        same = [t["tokens"] for t in told["texts"]] == [t["tokens"] for t in alone]
        check(f"int4, {parallel} at a time: the texts of each alone", same)
    drafted = evoq(work, "generate", etm, "--prompt", prompts[1], *options, "--draft", folder)
    check("int4 with a float draft", drafted[2]["texts"][0]["tokens"] == alone[1]["tokens"])
    sampled = [
        evoq(work, "generate", etm, "--prompt", "the", *options, "--temperature", "2", "--seed", s)
        for s in ("1", "1", "2")
    ]
    tokens = [s[2]["texts"][0]["tokens"] for s in sampled]
    check("a seed repeats a text", tokens[0] == tokens[1])
    check("another seed gives another", tokens[0] != tokens[2])


def check_narrow_caches(work, folder):
    """Caches of other types, of the file or when it is loaded."""
    text = ["--prompt", "the cat", "--max-tokens", "24", "--ignore-end"]
    plain = evoq(work, "generate", folder, *text)[2]
    prompt = os.path.join(work, "kv.cache")
    evoq(work, "generate", folder, *text, "--prompt-cache", prompt)
    for name, share in (("float16", 2), ("int8", 3)):
        option = ["--kv-cache", name]
        loaded = evoq(work, "generate", folder, *text, *option)[2]
        check(
            f"{name}: caches are smaller",
            loaded["cache_bytes"] * share <= plain["cache_bytes"],
            loaded["cache_bytes"],
        )
        for verb in (["compile"], ["quantize", "--scheme", "float32"]):
            etm = os.path.join(work, f"{verb[0]}-{name}.etm")
            evoq(work, *verb, folder, "-o", etm, *option)
            kept = evoq(work, "generate", etm, *text)[2]
            same = kept["texts"][0]["tokens"] == loaded["texts"][0]["tokens"]
            check(f"{name}: {verb[0]} keeps it in the file", same, kept["texts"][0])
            check(f"{name}: the file's caches", kept["cache_bytes"] == loaded["cache_bytes"], kept)
        wrong = evoq(work, "generate", etm, *text, "--kv-cache", "float32", status=3)
        check(f"{name}: float32 is gone", f"caches are {name} already" in wrong, wrong)
        other = evoq(work, "generate", etm, *text, "--prompt-cache", prompt, status=3)
        check(f"{name}: a kept cache of another type", "cache of another model" in other, other)
        bench = evoq(work, "bench", folder, *option, "--duration-s", "0.01", "--context", "0")[2]
        check(f"{name}: bench", bench["cache_bytes"] * share <= plain["cache_bytes"] * 64, bench)
    for verb in ("generate", "compile"):
        more = text if verb == "generate" else ["-o", os.path.join(work, "none.etm")]
        wrong = evoq(work, verb, folder, *more, "--kv-cache", "int3", status=2)
        check(f"{verb}: another name", "a cache of 'int3', expected float32" in wrong, wrong)


def check_chat(work, folder):
    chat = evoq(
        work, "generate", folder, "--chat", "--system", "th", "--prompt", "he", "--max-tokens", "3"
    )
    plain = evoq(
        work, "generate", folder, "--prompt", "<s>system th<s>user he", "--max-tokens", "3"
    )
    keys = ("tokens", "prompt_tokens")
    a, b = ([r[2]["texts"][0][k] for k in keys] for r in (chat, plain))
    check("a chat's tokens", a == b, (a, b))


def check_refusals(work, folder):
    bare = os.path.join(work, "bare")
    config = lms.config_of("llama")
    lms.write_folder(bare, config, lms.tensors_of(config, 2))
    lenet = os.path.join(work, "lenet.onnx")
    evoq(work, "zoo", "lenet", "-o", lenet)
    long = ",".join(["5"] * 65)
    for status, words, sentence in (
        (2, [bare, "--prompt", "a"], "the model carries no tokenizer"),
        (2, [folder], "no prompt"),
        (2, [folder, "--prompt", "a", "--system", "b"], "--system needs --chat"),
        (2, [folder, "--prompt", "a", "--temperature", "-1"], "temperature"),
        (2, [folder, "--prompt-tokens", "48"], "token 48, expected 0 to 47"),
        (2, [folder, "--prompt-tokens", long], "the context is full"),
        (2, [folder, "--prompt", "a", "--context", "65"], "expected at most 64"),
        (3, [lenet, "--prompt-tokens", "1"], "no language model with caches"),
        (2, [folder, "--prompt", "a", "--draft", folder, "--parallel", "2"], "one prompt"),
        (
            2,
            [folder, "--prompt", "a", "--prompt-cache", "c", "--parallel", "2"],
            "--prompt-cache takes one prompt",
        ),
    ):
        log = evoq(work, "generate", *words, status=status)
        check(f"refused: {sentence}", log is not None and sentence in log, log)


def check_perplexities(work):
    """Of the float32 checkpoints, to four digits."""
    data = os.environ.get("EVOQ_DATA", os.path.join(agree.ROOT, "../shared/data"))
    text = os.path.join(data, "text/tinystories_sample.txt")
    if not os.path.exists(text):
        print("skipped: no data folder")
        return
    for name, checkpoint, tokenizer in (
        ("stories260K", "stories260K.bin", "tok512.bin"),
        ("babyllama105", "babyllama105_model5000.bin", "tok105.vocab"),
    ):
        common = ["--text", text, "--limit", "6", "--tokenizer", f"{data}/llm/{tokenizer}"]
        ours = evoq(work, "eval", f"{data}/llm/{checkpoint}", *common)
        theirs = evoq(work, "eval", f"{data}/models/{name}.onnx", *common)
        if ours and theirs:
            a, b = ours[2]["perplexity"], theirs[2]["perplexity"]
            check(f"{name}: perplexity {a:.5f} and {b:.5f}", abs(a - b) < 5e-5 * b)


def check_windows(work, folder, config, tensors):
    """Windows that fill the context in several runs, against float64."""
    text, ids = os.path.join(work, "text.txt"), os.path.join(work, "ids.npy")
    with open(text, "w") as f:
        f.write("the hen and the cat ate a hat on the hill when he that was there then went " * 3)
    for window in (60, 33, 7):
        words = ["--text", text, "--window", str(window), "--tokens", ids]
        told = evoq(work, "eval", folder, *words)[2]
        tokens = np.load(ids).reshape(-1)
        losses = []
        for first in range(0, len(tokens) - window, window):
            rows = lms.logits(config, tensors, [int(t) for t in tokens[first : first + window]])
            rows = rows - rows.max(axis=1, keepdims=True)
            rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
            losses += [-rows[i, tokens[first + i + 1]] for i in range(window)]
        expected = np.exp(np.mean(losses))
        same = np.isclose(told["perplexity"], expected, rtol=1e-5) and len(losses) > window
        check(f"perplexity of windows of {window}", same, (told["perplexity"], expected))


def main():
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "llama")
        config, tensors = lms.write_with_tokenizer(folder)
        check_text(work, folder, config, tensors)
        check_integers(work, folder)
        check_narrow_caches(work, folder)
        check_chat(work, folder)
        check_refusals(work, folder)
        check_windows(work, folder, config, tensors)
        check_perplexities(work)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
