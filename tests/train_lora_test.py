#!/usr/bin/env python3
"""`evoq train --lora` on a real language model (stories260K of the data folder): adapters beside
int4 weights learn a text that the model does not know, so that its perplexity falls; the base does
not change; the folder of adapters has PEFT's names and works beside the model wherever a model is
taken, with caches too, and beside the same model as transformers stores it, whose queries and keys
lie in another order; merged and separate models give the same logits within what float32 sums in
another order may differ by; the result is the same bits for any number of threads and resumed.

Skips (77) without numpy and the data folder."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import agree

agree.need("numpy")
agree.need_data()
import numpy as np

MODEL = pathlib.Path(agree.DATA) / "llm/stories260K.bin"
TOKENIZER = pathlib.Path(agree.DATA) / "llm/tok512.bin"
TEXT = pathlib.Path(agree.DATA) / "text/tinyshakespeare.txt"
WINDOW = 64
LORA = "rank=4,alpha=8,target=*q_proj,target=*v_proj,target=*down_proj"
QUANTIZED = ["--scheme", "int4-weights"]
# Builds with sanitizers, which are ten times as slow, learn from less, and so less.
CHARACTERS, LEARNT = (8000, 0.95) if agree.SANITIZED else (40000, 0.8)


def told(folder, *arguments):
    path = folder / "told.json"
    agree.evoq(*arguments, "--json", path)
    return json.loads(path.read_text(encoding="utf-8"))


COMMAND = ["train", MODEL, "--tokenizer", TOKENIZER, "--context", WINDOW, "--epochs", 2]
COMMAND += ["--batch", 8, "--seed", 1, "--lr", 0.003]


def train(folder, out, *more):
    return told(folder, *COMMAND, "--data", folder / "train.txt", "-o", folder / out, *more)


def stop_after_an_epoch(folder, *more):
    command = [*COMMAND, "--data", folder / "train.txt", "-o", folder / "stopped", *more]
    command = [agree.EVOQ, *map(str, command), "--checkpoint", str(folder / "point.npz")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        for line in running.stderr:
            if line.startswith("epoch 1/"):
                running.kill()
                break
    assert not (folder / "stopped").exists()


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": tensor.shape,
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor, "<f4").tobytes())


def write_folder(folder):
    """The model as transformers stores it: rotary pairs of queries and keys are halves apart."""
    data = MODEL.read_bytes()
    width, inner, layers, heads, kv_heads, words, context = struct.unpack("<7i", data[:28])
    floats, at = np.frombuffer(data[28:], "<f4"), 0
    size = width // heads

    def take(*sizes):
        nonlocal at
        count = int(np.prod(sizes))
        at += count
        return floats[at - count : at].reshape(sizes)

    def apart(w, count):
        return w.reshape(count, size // 2, 2, width).swapaxes(1, 2).reshape(w.shape)

    table = take(words, width)
    norms = take(layers, width)
    q, k = take(layers, width, width), take(layers, kv_heads * size, width)
    v, o = take(layers, kv_heads * size, width), take(layers, width, width)
    between = take(layers, width)
    gate, down = take(layers, inner, width), take(layers, width, inner)
    up, last = take(layers, inner, width), take(width)
    tensors = {"model.embed_tokens.weight": table, "model.norm.weight": last}
    for i in range(layers):
        block = {
            "input_layernorm": norms[i],
            "self_attn.q_proj": apart(q[i], heads),
            "self_attn.k_proj": apart(k[i], kv_heads),
            "self_attn.v_proj": v[i],
            "self_attn.o_proj": o[i],
            "post_attention_layernorm": between[i],
            "mlp.gate_proj": gate[i],
            "mlp.down_proj": down[i],
            "mlp.up_proj": up[i],
        }
        tensors |= {f"model.layers.{i}.{name}.weight": w for name, w in block.items()}
    config = {
        "model_type": "llama",
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", tensors)


def check_order(folder, after):
    """The adapters beside the model of transformers' order."""
    write_folder(folder / "hf")
    other = folder / "other"
    other.mkdir()
    config = json.loads((folder / "adapter/adapter_config.json").read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = "../hf"
    (other / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = (folder / "adapter/adapter_model.safetensors").read_bytes()
    (other / "adapter_model.safetensors").write_bytes(weights)
    found = perplexity(folder, other)
    assert abs(found - after) < 1e-4 * after, (found, after)


def perplexity(folder, model, *more):
    command = ["eval", model, "--text", folder / "held.txt", "--tokenizer", TOKENIZER]
    return told(folder, *command, "--window", WINDOW, *more)["perplexity"]


def safetensors(path):
    """The tensors of a file, by the format's definition."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin : 8 + size + end]
        assert entry["dtype"] == "F32", entry
        tensors[name] = np.frombuffer(raw, "<f4").reshape(entry["shape"])
    return tensors


def check_files(folder):
    """PEFT's names and settings; B has moved away from 0."""
    config = json.loads((folder / "adapter/adapter_config.json").read_text(encoding="utf-8"))
    assert config["peft_type"] == "LORA" and config["task_type"] == "CAUSAL_LM", config
    assert config["r"] == 4 and config["lora_alpha"] == 8, config
    assert config["target_modules"] == ["down_proj", "q_proj", "v_proj"], config
    tensors = safetensors(folder / "adapter/adapter_model.safetensors")
    layers = 5
    assert len(tensors) == 2 * 3 * layers, sorted(tensors)
    for name, tensor in tensors.items():
        inside = name.removeprefix("base_model.model.model.layers.")
        assert inside != name and name.endswith((".lora_A.weight", ".lora_B.weight")), name
        assert tensor.shape[0 if "lora_A" in name else 1] == 4, (name, tensor.shape)
        assert np.abs(tensor).max() > 0, name
    assert tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"].shape == (
        64,
        4,
    )
    return sum(t.size for t in tensors.values())


def logits(folder, model, name):
    out = folder / name
    tokens = folder / "tokens.npy"
    np.save(tokens, np.arange(2, 2 + WINDOW, dtype=np.int64)[None])
    agree.evoq("run", model, "--input", f"input_ids={tokens}", "--output-dir", out)
    (found,) = out.glob("*.npy")
    return np.load(found)


def main():
    text = TEXT.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="evoq_lora_") as name:
        folder = pathlib.Path(name)
        (folder / "train.txt").write_text(text[:CHARACTERS], encoding="utf-8")
        (folder / "held.txt").write_text(text[60000:72000], encoding="utf-8")
        before = perplexity(folder, MODEL)
        report = train(folder, "adapter", "--lora", LORA, *QUANTIZED)
        numbers = check_files(folder)
        assert report["adapters"] == 15 and report["parameters"] == numbers, report["adapters"]

        # The folder is a model: beside the float base, and beside one in int4.
        after = perplexity(folder, folder / "adapter")
        check_order(folder, after)
        narrow, plain = folder / "narrow.etm", folder / "plain.etm"
        agree.evoq(
            "quantize", folder / "adapter", *QUANTIZED, "--exclude", "*.lora_?", "-o", narrow
        )
        agree.evoq("quantize", MODEL, *QUANTIZED, "-o", plain)
        narrow_after, narrow_before = perplexity(folder, narrow), perplexity(folder, plain)
        assert after < LEARNT * before, (before, after)
        assert narrow_after < LEARNT * narrow_before, (narrow_before, narrow_after)
        answer = agree.evoq(
            *["generate", folder / "adapter", "--prompt", "KING", "--tokenizer", TOKENIZER],
            *["--max-tokens", 4],
        )
        assert answer.startswith("KING") or answer.strip(), answer

        # Separate and merged, of float weights and of int4 ones.
        worst = 0.0
        for scheme in ([], QUANTIZED):
            train(folder, "separate.onnx", "--lora", LORA, *scheme)
            train(folder, "merged.onnx", "--lora", LORA + ",merge", *scheme)
            separate = logits(folder, folder / "separate.onnx", "separate")
            merged = logits(folder, folder / "merged.onnx", "merged")
            error = float(np.abs(separate - merged).max() / np.abs(separate).max())
            worst = max(worst, error)
            assert 0 < error < 1e-5, error

        # A folder merged: with the caches that generating needs, to the same perplexity.
        whole = folder / "whole.onnx"
        agree.evoq("optimize", folder / "adapter", "--merge-adapters", "-o", whole)
        apart = agree.evoq("inspect", folder / "adapter", "--dump")
        assert ".lora_A" in apart and ".lora_A" not in agree.evoq("inspect", whole, "--dump")
        merged_after = perplexity(folder, whole)
        assert abs(merged_after - after) < 1e-4 * after, (merged_after, after)

        # Any number of threads, and stopped and resumed: the same bits.
        adapter = (folder / "adapter/adapter_model.safetensors").read_bytes()
        train(folder, "again", "--lora", LORA, *QUANTIZED, "--threads", 1)
        assert (folder / "again/adapter_model.safetensors").read_bytes() == adapter
        stop_after_an_epoch(folder, "--lora", LORA, *QUANTIZED)
        train(folder, "resumed", "--lora", LORA, *QUANTIZED, "--resume", folder / "point.npz")
        assert (folder / "resumed/adapter_model.safetensors").read_bytes() == adapter

        # What is wrong is said.
        for lora, what in (
            ("rank=0", "rank is 0"),
            ("rang=4", 'found "rang=4"'),
            ("merge", "a folder has adapters alone"),
            ("target=nothing", "no product with a constant matrix has such a name"),
        ):
            done = subprocess.run(
                [agree.EVOQ, "train", MODEL, "--data", folder / "train.txt", "--lora", lora]
                + ["-o", folder / "x"],
                capture_output=True,
                text=True,
            )
            assert done.returncode != 0 and what in done.stderr, done.stderr
        config = folder / "adapter/adapter_config.json"
        config.write_text(config.read_text(encoding="utf-8").replace('"r": 4', '"r": 5'))
        done = subprocess.run(
            [agree.EVOQ, "inspect", folder / "adapter"], capture_output=True, text=True
        )
        assert done.returncode != 0 and "expected [5, " in done.stderr, done.stderr
    print(
        f"perplexity {before:.1f} -> {after:.1f}, with int4 weights {narrow_before:.1f} -> "
        f"{narrow_after:.1f}, by {numbers} numbers; merged within {worst:.1e} of separate; the "
        "same bits for any threads and resumed"
    )


if __name__ == "__main__":
    sys.exit(main())
