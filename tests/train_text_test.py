#!/usr/bin/env python3
"""`evoq train tiny-gpt` on a text: it learns to below what the letters' frequencies alone give; the
held-out loss is that of `evoq eval --text`; the result is the same bits for any number of threads
and resumed; event files have the log's numbers, read by the format's definition (and by
TensorBoard's reader where it is installed). Skips (77) without numpy."""

import collections
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np

CONTEXT, EPOCHS = 32, 3


def write_text(path):
    """Sentences of a small grammar."""
    rng = np.random.default_rng(3)
    names, verbs, things = ("Ann", "Bob", "Eve"), ("sees", "has", "likes"), ("cats", "tea", "maps")
    lines = [
        f"{names[a]} {verbs[b]} {things[c]}.\n" for a, b, c in rng.integers(0, 3, (900, 3)).tolist()
    ]
    path.write_text("".join(lines), encoding="utf-8")


def frequencies_alone(text):
    """The loss of a model that knows how often each letter is."""
    counts = collections.Counter(text.encode())
    return -sum(n * math.log(n / len(text)) for n in counts.values()) / len(text)


def train(folder, out, *more):
    told = folder / f"{out}.json"
    command = ["train", "tiny-gpt", "--data", folder / "text.txt", "--context", CONTEXT]
    command += ["--epochs", EPOCHS, "--limit", 96, "--batch", 8, "--seed", 3]
    agree.evoq(*command, "-o", folder / out, "--json", told, *more)
    return json.loads(told.read_text(encoding="utf-8"))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of each field of a message: integers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    found = []
    while at < len(data):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        size = varint() if size is None else size
        found.append((key >> 3, data[at : at + size]))
        at += size
    return found


def events(path):
    """step -> tag -> value, by the format's definition; and the versions of the file."""
    data, at, found, versions = path.read_bytes(), 0, {}, []
    while at < len(data):
        head = data[at : at + 8]
        (length,) = struct.unpack("<Q", head)
        event = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 8) == (masked(head),)
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(event),)
        at += 16 + length
        event = fields(event)
        step = dict(event).get(2, 0)
        versions += [value for number, value in event if number == 3]
        for _, value in fields(dict(event).get(5, b"")):
            value = dict(fields(value))
            found.setdefault(step, {})[value[1].decode()] = struct.unpack("<f", value[2])[0]
    return found, versions


def check_events(folder, told):
    assert masked(b"") == 0xA282EAD8 and crc32c(b"123456789") == 0xE3069283  # RFC 3720's
    (path,) = folder.glob("events.out.tfevents.*")
    found, versions = events(path)
    assert versions == [b"brain.Event:2"], versions
    for epoch in told["epochs"]:
        values = found[epoch["epoch"]]
        for tag, name in (
            ("loss/train", "loss"),
            ("loss/test", "test_loss"),
            ("accuracy/test", "test_accuracy"),
        ):
            assert abs(values[tag] - epoch[name]) < 1e-6 * (1 + epoch[name]), (tag, values, epoch)
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        return "by definition (no package tensorboard)"
    read = EventAccumulator(str(folder))
    read.Reload()
    values = [event.value for event in read.Scalars("loss/test")]
    assert np.allclose(values, [epoch["test_loss"] for epoch in told["epochs"]]), values
    return "by definition and by TensorBoard"


def check_eval(folder, told):
    """The held-out part is the end of the text."""
    text = (folder / "text.txt").read_bytes()
    (folder / "held.txt").write_bytes(text[len(text) - int(0.1 * len(text)) :])
    command = ["eval", folder / "a.onnx", "--text", folder / "held.txt", "--window", CONTEXT]
    command += ["--tokenizer", folder / "a.tokenizer.json", "--json", folder / "eval.json"]
    agree.evoq(*command)
    measured = json.loads((folder / "eval.json").read_text(encoding="utf-8"))
    off = abs(math.log(measured["perplexity"]) - told["test_loss"])
    assert off < 1e-4, f"eval: {measured}, training: {told['test_loss']}"
    return off


def check_tokens(folder):
    """An .npy of token numbers is the same as its text; what is wrong is a sentence."""
    text = np.frombuffer((folder / "text.txt").read_bytes(), np.uint8)
    np.save(folder / "tokens.npy", text.astype(np.int32))
    command = [agree.EVOQ, "train", folder / "a.onnx", "--data"]
    common = ["--context", "32", "--epochs", "1", "--limit", "16", "--batch", "16"]
    for data, out in (("text.txt", "b.onnx"), ("tokens.npy", "c.onnx")):
        subprocess.run(
            [*command, folder / data, *common, "-o", folder / out], check=True, capture_output=True
        )
    assert (folder / "b.onnx").read_bytes() == (folder / "c.onnx").read_bytes()
    np.save(folder / "two.npy", np.zeros((2, 5), np.int64))
    np.save(folder / "large.npy", np.full(1000, 256))
    (folder / "short.txt").write_text("short")
    for data, more, status, message in (
        ("two.npy", [], 3, "two.npy: int64[2, 5], expected one row of token numbers"),
        ("large.npy", [], 3, "the model"),
        ("short.txt", [], 3, "5 tokens, expected at least 33 for a window of 32"),
        ("text.txt", ["--labels", "x"], 2, "the labels of a text are its own next tokens"),
        ("text.txt", ["--hold-out", "1"], 2, "--hold-out 1: expected a number from 0 to 0.9"),
        ("text.txt", ["--mixup", "0.2"], 2, "tokens cannot be mixed"),
    ):
        done = subprocess.run(
            [*command, folder / data, *common, *more, "-o", folder / "d.onnx"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == status and message in done.stderr, (data, done)
    assert not (folder / "d.onnx").exists()


def check_integers(folder):
    """Trained on as integers: what was simulated is what runs, but for sums in float32."""
    told = folder / "q.json"
    command = ["train", folder / "a.onnx", "--data", folder / "text.txt", "--context", CONTEXT]
    command += ["--scheme", "int8", "--epochs", 1, "--limit", 16, "--batch", 16]
    agree.evoq(*command, "-o", folder / "q.etm", "--json", told)
    found = json.loads(told.read_text(encoding="utf-8"))
    agreement = found["agreement"]
    assert found["nodes_int8"] > 20, found["nodes_int8"]
    assert agreement["samples"] == found["test_samples"] * CONTEXT, agreement
    assert agreement["classes"] > 0.98 * agreement["samples"], agreement


def check_weights(folder):
    """With weights of 2 bits in blocks: trained is better than rounded, and what was measured is
    what is written, in both formats."""
    told = folder / "w.json"
    text = ["--text", folder / "held.txt", "--window", CONTEXT]
    text += ["--tokenizer", folder / "a.tokenizer.json", "--json", folder / "eval.json"]

    def perplexity(model):
        agree.evoq("eval", model, *text)
        return json.loads((folder / "eval.json").read_text(encoding="utf-8"))["perplexity"]

    agree.evoq("quantize", folder / "a.onnx", "--scheme", "int2-weights", "-o", folder / "r.etm")
    command = ["train", folder / "a.onnx", "--data", folder / "text.txt", "--context", CONTEXT]
    command += ["--scheme", "int2-weights", "--epochs", 1, "--limit", 48, "--batch", 8]
    command += ["--teacher", folder / "a.onnx", "--seed", 5]
    agree.evoq(*command, "-o", folder / "w.etm", "--json", told)
    agree.evoq(*command, "-o", folder / "w.onnx", "--threads", 1, "--recompute")
    found = json.loads(told.read_text(encoding="utf-8"))
    assert found["weights"]["int2"] >= 16, found["weights"]
    off = abs(found["written"]["loss"] - found["test_loss"])
    assert off < 1e-4, found
    rounded, trained, real = (perplexity(folder / name) for name in ("r.etm", "w.etm", "a.onnx"))
    assert abs(math.log(trained) - found["written"]["loss"]) < 1e-4, (trained, found)
    assert abs(perplexity(folder / "w.onnx") - trained) < 1e-3 * trained
    assert math.log(trained / real) < 0.6 * math.log(rounded / real), (real, rounded, trained)
    size = [(folder / name).stat().st_size for name in ("r.etm", "w.etm")]
    assert abs(size[0] - size[1]) < 0.05 * size[0], size
    return real, rounded, trained


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_train_text_") as name:
        folder = pathlib.Path(name)
        write_text(folder / "text.txt")
        board = folder / "board"
        told = train(folder, "a.onnx", "--checkpoint", folder / "c.npz", "--tensorboard", board)
        simple = frequencies_alone((folder / "text.txt").read_text(encoding="utf-8"))
        assert told["test_loss"] < 0.7 * simple, f"{told['test_loss']}, frequencies alone {simple}"
        read = check_events(board, told)
        off = check_eval(folder, told)
        train(folder, "t.onnx", "--threads", 1)
        train(folder, "r.onnx", "--resume", folder / "c.npz", "--threads", 1)
        for other in ("t.onnx", "r.onnx"):
            assert (folder / "a.onnx").read_bytes() == (folder / other).read_bytes(), other
        train(folder, "a.etm", "--threads", 1)
        check_tokens(folder)
        check_integers(folder)
        real, rounded, few = check_weights(folder)
    print(
        f"tiny-gpt: held-out loss {told['test_loss']:.3f} (letters' frequencies alone: "
        f"{simple:.3f}), within {off:.1e} of eval's; events read {read}; the same bits for 1 and "
        f"2 threads and resumed; perplexity {real:.2f}, with int2 weights {rounded:.2f}, trained "
        f"{few:.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
