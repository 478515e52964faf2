#!/usr/bin/env python3
"""A tiny Whisper beside what transformers computes and writes with it (tests/golden/speech.json,
which tests/golden/speech.py writes): logits of features, the language that is heard, greedy texts
and texts of beams of WAV files, quantized too. What does not fit is refused with one sentence.
Skips (exit status 77) where numpy is missing."""

import json
import os
import pathlib
import struct
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np
import random_weights
import tiny_lms as lms

GOLDEN = agree.ROOT / "tests/golden/speech.json"
VOCABULARY, BINS, MOST, EVERY_FRAME = 60, 12, 21, 9
END, START, TRANSCRIBE, PLAIN, LANGUAGES = 50, 51, 55, 57, (52, 53, 54)
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|yue|>"]
SPECIAL += ["<|transcribe|>", "<|translate|>", "<|notimestamps|>"]
SOUNDS = (16000, 9000, 1234)  # samples
CONTEXT = 50
NEAR = 1e-5
SCHEMES = {"int8-weights": 0.06, "int8-dynamic": 0.06, "int4-dynamic": 0.6}
failures = []


def check(what, good, found=""):
    print(f"{'ok  ' if good else 'FAIL'} {what} {found}", flush=True)
    if not good:
        failures.append(what)


def sound(samples):
    """16 bits: a tone that rises, noise, and a pause."""
    t = np.arange(samples) / 16000
    x = 0.4 * np.sin(2 * np.pi * (300 + 900 * t) * t) + 0.1 * random_weights.uniform("s", samples)
    x[samples // 2 : samples // 2 + 1500] *= 0.01
    return np.round(x * 20000).astype(np.int16)


def weight(name, shape, around):
    small = 0.125 if name.endswith("embed_tokens.weight") else 1.0
    return random_weights.weight(name, shape, around) * np.float32(small)


def wav(path, data, rate=16000, bits=16, channels=1, encoding=1):
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", encoding, channels, rate, rate * block, block, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form
    body += b"LIST" + struct.pack("<I", 3) + b"abc\0"  # a chunk of an odd size
    body += b"data" + struct.pack("<I", len(data)) + data
    pathlib.Path(path).write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    return path


def write_folder(folder, golden, special=SPECIAL):
    tensors = {name: weight(name, *of) for name, of in golden["tensors"].items()}
    lms.write_folder(folder, golden["config"], tensors)
    pieces = [f"t{i}" for i in range(50)] + special + ["t58", "t59"]
    added = [
        {"id": 50 + i, "content": piece, "special": True, "single_word": False}
        | {"lstrip": False, "rstrip": False, "normalized": False}
        for i, piece in enumerate(special)
    ]
    model = {"type": "WordLevel", "vocab": {p: i for i, p in enumerate(pieces)}, "unk_token": "t0"}
    tokenizer = {"version": "1.0", "added_tokens": added, "model": model, "normalizer": None}
    tokenizer |= {"pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None}
    files = {
        "generation_config.json": golden["generation"],
        "preprocessor_config.json": {"feature_size": BINS, "n_fft": 400, "hop_length": 160},
        "tokenizer.json": tokenizer,
    }
    for name, what in files.items():
        (pathlib.Path(folder) / name).write_text(json.dumps(what))


def logits_of(folder, model, config, features, ids):
    heads = config["decoder_attention_heads"]
    feeds = {
        "input_ids": ids[None],
        "position": np.zeros(1, np.int64),
        "logits_at": np.arange(len(ids))[None],
        "source_features": features[None].astype(np.float32),
        "source_length": np.array([len(features) // 2]),
    }
    for layer in range(config["decoder_layers"]):
        for cache in ("key", "value", "cross_key", "cross_value"):
            shape = (1, heads, CONTEXT, config["d_model"] // heads)
            feeds[f"past_{cache}.{layer}"] = np.zeros(shape, np.float32)
    os.makedirs(folder, exist_ok=True)
    words = []
    for name, value in feeds.items():
        np.save(f"{folder}/{name}.npy", value)
        words += ["--input", f"{name}={folder}/{name}.npy"]
    agree.evoq("run", model, *words, "--output-dir", f"{folder}/out", "--threads", 1)
    return np.load(f"{folder}/out/logits.npy")[0]


def log_mel(samples):
    """The features by the formula of src/data/log_mel.h, in float64."""
    x = np.zeros(16000)
    x[: len(samples)] = samples / 32768
    x = np.pad(x, 200, mode="reflect")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    frames = np.stack([x[160 * t : 160 * t + 400] for t in range(100)])
    energy = np.abs(np.fft.rfft(frames * hann)) ** 2
    to_mel = lambda f: np.where(
        f < 1000, f * 0.015, 15 + np.log(np.maximum(f, 1) / 1000) * 27 / np.log(6.4)
    )
    mels = np.linspace(0, float(to_mel(np.float64(8000))), BINS + 2)
    hz = np.where(mels < 15, mels / 0.015, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
    at = np.linspace(0, 8000, 201)[:, None]
    triangles = np.minimum(
        (at - hz[:-2]) / (hz[1:-1] - hz[:-2]), (hz[2:] - at) / (hz[2:] - hz[1:-1])
    )
    mel = energy @ (np.maximum(triangles, 0) * 2 / (hz[2:] - hz[:-2]))
    e = np.log10(np.maximum(mel, 1e-10))
    return (np.maximum(e, e.max() - 8) + 4) / 4


def written(model, path, *words):
    report = f"{model}.json"
    words = ["--audio", path, "--max-tokens", MOST, "--threads", 1, *words]
    agree.evoq("generate", model, *words, "--json", report)
    return json.loads(pathlib.Path(report).read_text())["texts"][0]


def check_sounds(work, golden, model):
    ids = random_weights.tokens("ids", 8, 3, VOCABULARY)
    for number, samples in enumerate(SOUNDS):
        features = log_mel(sound(samples))
        worst = np.abs(features[::EVERY_FRAME] - golden["features"][number]).max()
        check(f"{samples} samples, features", worst < 2e-5, f"{worst:.1e}")
        wanted = np.array(golden["logits"][number])
        got = logits_of(f"{work}/run", model, golden["config"], features, ids)[::3]
        worst = np.abs(wanted - got).max() / np.abs(wanted).max()
        check(f"{samples} samples, logits", worst < NEAR, f"{worst:.1e}")
        path = wav(f"{work}/{samples}.wav", sound(samples).tobytes())
        for kind, words in (("greedy", []), ("beams", ["--beams", 3])):
            text = golden[kind][number]
            got = written(model, path, *words)["tokens"]
            check(f"{samples} samples, {kind}", got == text, (got, text) if got != text else "")
        language = SPECIAL[golden["languages"][number] - END][2:-2]
        same = written(model, path, "--language", language)["tokens"]
        check(f"{samples} samples, its language named", same == golden["greedy"][number])
        same = written(model, path, "--context", 32)["tokens"]
        check(f"{samples} samples, a context of the text", same == golden["greedy"][number])
    for scheme, near in SCHEMES.items():
        quantized = f"{work}/{scheme}.etm"
        agree.evoq("quantize", model, "--scheme", scheme, "-o", quantized)
        got = logits_of(f"{work}/run", quantized, golden["config"], features, ids)[::3]
        worst = np.abs(wanted - got).max() / np.abs(wanted).max()
        check(scheme, worst < near, f"{worst:.2f}")


def check_files(work, model):
    """The same sound in other encodings, and what is refused."""
    x = sound(4000)
    wide = x.astype(np.int32)
    plain = written(model, wav(f"{work}/16.wav", x.tobytes()))["tokens"]
    bytes_of_24 = b"".join(int(v * 256).to_bytes(3, "little", signed=True) for v in wide)
    others = {
        "24 bits": {"data": bytes_of_24, "bits": 24},
        "32 bits": {"data": (wide * 65536).tobytes(), "bits": 32},
        "float32": {"data": (x / np.float32(32768)).tobytes(), "bits": 32, "encoding": 3},
        "two channels": {"data": np.stack([x, x], 1).tobytes(), "channels": 2},
    }
    for name, of in others.items():
        got = written(model, wav(f"{work}/other.wav", **of))["tokens"]
        check(f"{name} are 16 bits", got == plain, (got, plain) if got != plain else "")
    wav(f"{work}/long.wav", np.zeros(16001, np.int16).tobytes())
    wav(f"{work}/fast.wav", x.tobytes(), rate=44100)
    wav(f"{work}/none.wav", b"")
    wav(f"{work}/law.wav", x.tobytes(), encoding=7, bits=8)
    pathlib.Path(f"{work}/text.wav").write_text("no sound")
    good = f"{work}/16.wav"
    for words, part in (
        ([f"{work}/long.wav"], "a sound of 1.0 s, expected at most 1.0: cut it"),
        ([f"{work}/fast.wav"], "44100 samples in a second, expected 16000"),
        ([f"{work}/none.wav"], "a sound of no samples"),
        ([f"{work}/law.wav"], "encoding 7 of 8 bits"),
        ([f"{work}/text.wav"], "no WAV file"),
        ([good, "--language", "xx"], "knows no language 'xx'"),
        ([good, "--task", "sing"], "knows no task 'sing'"),
        ([good, "--prompt", "t1"], "--audio takes no prompt"),
        ([good, "--target-language", "de"], "are of --prompt"),
    ):
        check_refused(lambda w=words: written(model, *w), part)
    shown = agree.evoq("generate", model, "--audio", good, "--max-tokens", MOST, "--threads", 1)
    text = written(model, good)["text"]
    check("the text alone is printed", shown.strip() == text.strip() != "", (shown, text))
    prompted = lambda: agree.evoq("generate", model, "--prompt-tokens", "1,2")
    check_refused(prompted, "it hears a sound and reads no text")
    check_refused(lambda: agree.evoq("generate", model, "--prompt", "t1", "--task", "x"), "are of")


def check_names(work, golden):
    """Languages of three letters are heard as those of two are."""
    names = ["<|eng|>", "<|deu|>", "<|yue|>"]
    write_folder(f"{work}/three", golden, SPECIAL[:2] + names + SPECIAL[5:])
    path = wav(f"{work}/three.wav", sound(SOUNDS[0]).tobytes())
    got = written(f"{work}/three", path)["tokens"]
    check("languages of three letters", got == golden["greedy"][0], got)
    name = names[golden["languages"][0] - LANGUAGES[0]][2:-2]
    same = written(f"{work}/three", path, "--language", name)["tokens"]
    check("one of them, named", same == golden["greedy"][0], same)


def check_refused(call, part):
    try:
        call()
        found = "nothing was refused"
    except RuntimeError as error:
        found = str(error)
    check(f"refused: {part}", part in found, "" if part in found else found)


def main():
    golden = json.loads(GOLDEN.read_text())
    with tempfile.TemporaryDirectory() as work:
        model = f"{work}/whisper"
        write_folder(model, golden)
        check_sounds(work, golden, model)
        check_files(work, model)
        check_names(work, golden)
    if failures:
        print(f"{len(failures)} failed: {', '.join(failures)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
