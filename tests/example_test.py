#!/usr/bin/env python3
"""examples/toolchain, chat and network, as the build made them from public headers alone: 40 lines
that quantize a model, explain it and run it, 40 that chat with a language model, and 40 that build
a network and train it.

usage: example_test.py [BUILD]
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import agree
from agree import ROOT

BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else agree.BUILD


def program(name, *headers):
    """The example's program; its source is short and includes these headers of evoq's."""
    source = (ROOT / f"examples/{name}/{name}.cc").read_text()
    assert len(source.splitlines()) <= 40, len(source.splitlines())
    assert re.findall(r'#include "(.*)"', source) == [*headers]
    return BUILD / "examples" / name


def run(*words, **options):
    return subprocess.run(
        words, capture_output=True, text=True, timeout=300, check=False, **options
    )


def toolchain(folder):
    example = program("toolchain", "evoq/toolchain.h")
    etm = folder / "digits.etm"
    done = run(example, ROOT / "examples/digits/digits.onnx", etm)
    assert done.returncode == 0, done.stderr
    said = re.fullmatch(r"(\d+) of (\d+) steps int8, ([\d.]+)x as fast, 10 values\n", done.stdout)
    assert said and said[1] == said[2] and float(said[3]) > 0, done.stdout
    assert etm.stat().st_size > 0
    told = {line.rpartition(" ")[0] for line in done.stderr.splitlines()}
    assert {"calibrating", "writing", "measuring"} <= told, told
    failed = run(example, folder / "none.onnx", etm)
    assert failed.returncode == 1 and "none.onnx" in failed.stderr, failed.stderr
    print("toolchain: quantized, explained and run")


def chat(folder):
    example = program("chat", "evoq/language.h")
    try:
        import tiny_lms
    except ImportError as error:
        print(f"chat: skipped, {error}")
        return
    model, etm = folder / "llama", folder / "llama.etm"
    tiny_lms.write_with_tokenizer(model)
    agree.evoq("quantize", model, "--scheme", "int4-dynamic", "-o", etm)
    first, second = "a hat", "on it"
    done = run(example, etm, "6", input=f"{first}\n{second}\n")
    assert done.returncode == 0, done.stderr
    words = ["generate", etm, "--chat", "--prompt", first, "--max-tokens", "6"]
    alone = run(agree.EVOQ, *words).stdout
    assert len(alone) > 3 and done.stdout.startswith(alone), (done.stdout, alone)
    answers = re.findall(r"^(\d+) new tokens read, (\d+) written$", done.stderr, re.M)
    assert len(answers) == 2, done.stderr

    def length(*messages):
        roles = ("user", "assistant", "user")
        told = [{"role": role, "content": text} for role, text in zip(roles, messages)]
        (folder / "chat.json").write_text(json.dumps({"messages": told}))
        result = folder / "ids.json"
        agree.evoq("tokenize", model, "--chat", folder / "chat.json", "--json", result)
        return len(json.loads(result.read_text())["ids"])

    begun = length(first)
    assert int(answers[0][0]) == begun, answers
    # What both have in common, the first message, is not read again.
    assert int(answers[1][0]) == length(first, alone[:-1], second) - begun, answers
    failed = run(example, folder / "none.etm")
    assert failed.returncode == 1 and "none.etm" in failed.stderr, failed.stderr
    full = run(example, etm, input="the hen on the hill\n" * 9)
    assert full.returncode == 1 and "the context is full" in full.stderr, full.stderr
    print("chat: answered twice")


def network(folder):
    example = program("network", "evoq/nn.h", "evoq/toolchain.h")
    try:
        from mnist_files import write_mnist
    except ImportError as error:
        print(f"network: skipped, {error}")
        return
    write_mnist(folder)
    preprocess, out = folder / "preprocess.json", folder / "net.onnx"
    preprocess.write_text('{"color": "GRAY", "mean": [0.13], "std": [0.31]}')
    done = run(example, folder, preprocess, out)
    assert done.returncode == 0, done.stderr
    right = re.search(r"([\d.]+)% of 64 test samples right", done.stdout)
    assert right and float(right[1]) > 90 and out.stat().st_size > 0, done.stdout
    failed = run(example, folder, folder / "none.json", out)
    assert failed.returncode == 1 and "none.json" in failed.stderr, failed.stderr
    print("network: built and trained")


def main():
    if not (BUILD / "examples/toolchain").exists():
        print("the examples are not built")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        toolchain(pathlib.Path(folder))
        chat(pathlib.Path(folder))
        network(pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
