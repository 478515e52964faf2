#!/usr/bin/env python3
"""Quantizes a language model that is larger than the memory which the process may use.

    bench/streaming.py [--evoq build/release/bin/evoq] [--gigabytes 8] [--limit-mb 2048]
                       [--scheme int4-dynamic] [--block 32] [--threads N] [--folder DIR] [--compare]
                       [--rounds N] [--cold] [--keep]

Makes a folder of float16 shards (a Llama of made-up weights) where it is not there yet, runs
`evoq quantize` with a limit on its data (RLIMIT_DATA: all memory of its own, but not pages of
files, which the system takes back when it needs them), and prints bytes of input per second and the
largest resident memory, which counts pages of files too. --limit-mb 0 sets no limit. --compare runs
it once more without one: the file must be the same. The shards are read before each run, so that
the memory holds what it can of them, and the rate of that is printed too; with --cold the system is
asked to forget them again, so that no run can be faster than the disk. Needs nothing but Python.
"""

import argparse
import filecmp
import json
import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = {
    "model_type": "llama",
    "vocab_size": 32064,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
LAYERS_OF_A_SHARD = 8


def layer_tensors(config, layer):
    """Names and sizes."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    sizes = {
        "input_layernorm": [hidden],
        "self_attn.q_proj": [hidden, hidden],
        "self_attn.k_proj": [keys, hidden],
        "self_attn.v_proj": [keys, hidden],
        "self_attn.o_proj": [hidden, hidden],
        "post_attention_layernorm": [hidden],
        "mlp.gate_proj": [inner, hidden],
        "mlp.up_proj": [inner, hidden],
        "mlp.down_proj": [hidden, inner],
    }
    return {f"model.layers.{layer}.{name}.weight": size for name, size in sizes.items()}


def elements(sizes):
    count = 1
    for size in sizes:
        count *= size
    return count


class Numbers:
    """Normally distributed float16, of which tensors take stretches at places of their own."""

    COUNT = 1 << 20

    def __init__(self):
        self.random = random.Random(1)
        numbers = (self.random.gauss(0, 0.02) for _ in range(self.COUNT))
        self.pool = struct.pack(f"<{self.COUNT}e", *numbers)

    def write(self, file, count):
        left = 2 * count
        while left > 0:
            begin = 2 * self.random.randrange(self.COUNT // 2)
            piece = memoryview(self.pool)[begin : begin + left]
            left -= file.write(piece)


def write_shard(path, tensors, numbers):
    header, end = {}, 0
    for name, sizes in tensors.items():
        begin, end = end, end + 2 * elements(sizes)
        header[name] = {"dtype": "F16", "shape": sizes, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for sizes in tensors.values():
            numbers.write(file, elements(sizes))


def make_folder(folder, gigabytes, changes=None):
    config = {**CONFIG, **(changes or {})}
    ends = {
        "model.embed_tokens.weight": [config["vocab_size"], config["hidden_size"]],
        "model.norm.weight": [config["hidden_size"]],
        "lm_head.weight": [config["vocab_size"], config["hidden_size"]],
    }
    bytes_of = lambda tensors: 2 * sum(map(elements, tensors.values()))
    left = gigabytes * 1e9 - bytes_of(ends)
    layers = max(1, round(left / bytes_of(layer_tensors(config, 0))))
    config["num_hidden_layers"] = layers
    shards = [ends]
    for layer in range(layers):
        if layer % LAYERS_OF_A_SHARD == 0:
            shards.append({})
        shards[-1].update(layer_tensors(config, layer))
    folder.mkdir(parents=True, exist_ok=True)
    numbers, places = Numbers(), {}
    for i, tensors in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / name, tensors, numbers)
        places.update(dict.fromkeys(tensors, name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (folder / "config.json").write_text(json.dumps(config))


def quantize(options, folder, output, limit_bytes):
    """Seconds, seconds of processors, and the largest resident bytes."""

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))

    command = [options.evoq, "quantize", folder, "--scheme", options.scheme, "-o", output]
    command += ["--block", options.block, "--threads", options.threads]
    start = time.monotonic()
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=limit if limit_bytes else None,
    )
    told = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"streaming.py: evoq quantize: {told.strip()}")
    busy = usage.ru_utime + usage.ru_stime
    return time.monotonic() - start, busy, usage.ru_maxrss * 1024


def read_alone(paths):
    """Bytes per second."""
    buffer, size = bytearray(1 << 20), 0
    start = time.monotonic()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                size += count
    return size / (time.monotonic() - start)


def forget(paths):
    for path in paths:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(options, folder):
    shards = sorted(folder.glob("*.safetensors"))
    size = sum(path.stat().st_size for path in shards)
    output = folder / "quantized.etm"
    for _ in range(options.rounds):
        rate = read_alone(shards)
        if options.cold:
            forget(shards)
            rate = read_alone(shards)
            forget(shards)
        seconds, busy, resident = quantize(options, folder, output, options.limit_mb << 20)
        print(
            f"{options.scheme}, {size / 1e9:.2f} GB in {len(shards)} shards -> "
            f"{output.stat().st_size / 1e9:.2f} GB: {seconds:.1f} s ({busy:.1f} s of processors), "
            f"{size / seconds / 1e6:.0f} MB/s of input "
            f"({'from the disk' if options.cold else 'just read'}; reading alone "
            f"{rate / 1e6:.0f} MB/s), resident at most {resident / 1e6:.0f} MB, "
            f"limit {f'{options.limit_mb} MiB' if options.limit_mb else 'none'}",
            flush=True,
        )
    if options.compare:
        other = folder / "unlimited.etm"
        seconds, busy, resident = quantize(options, folder, other, 0)
        same = filecmp.cmp(output, other, shallow=False)
        print(
            f"without a limit: {seconds:.1f} s ({busy:.1f} s of processors), "
            f"{size / seconds / 1e6:.0f} MB/s, resident at most {resident / 1e6:.0f} MB, "
            f"{'the same file' if same else 'ANOTHER FILE'}"
        )
        other.unlink()
        if not same:
            sys.exit(1)
    output.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evoq", default=ROOT / "build/release/bin/evoq")
    parser.add_argument("--gigabytes", type=float, default=8)
    parser.add_argument("--limit-mb", type=int, default=2048)
    parser.add_argument("--scheme", default="int4-dynamic")
    parser.add_argument("--block", default="32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="shards come from the disk")
    parser.add_argument("--keep", action="store_true", help="the folder stays")
    options = parser.parse_args()
    folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="evoq-streaming-"))
    try:
        if not (folder / "config.json").exists():
            make_folder(folder, options.gigabytes)
        run(options, folder)
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
