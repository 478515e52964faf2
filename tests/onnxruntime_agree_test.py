#!/usr/bin/env python3
"""Every real model of the data folder beside ONNX Runtime, as `evoq run` computes it; models with a
state, step by step.

Float outputs agree within TOLERANCE of the largest output (float32 sums in another order), integers
are equal. Quantized models are computed with exact integers here and in float32 between Q and DQ
there, so that roundings differ by a step now and then: their classes are compared, and their
outputs within the stated part of the largest. The `light` architectures have expected outputs of
their own in the data folder.
Skips (exit status 77) where numpy, onnx or onnxruntime from PyPI, or the data folder, is missing.
"""

import json
import os
import sys
import tempfile

import agree

agree.need("numpy", "onnx", "onnxruntime")
agree.need_data()
import numpy as np
import onnx
from agree import DATA
from onnx import numpy_helper

TOLERANCE = 1e-3
# model, sizes of its symbols, range of the input, part of the largest output that a difference may
# be
CASES = [
    ("models/mobilenetv2.onnx", {"N": 2}, (-2, 2), TOLERANCE),
    ("models/squeezenet1.1.onnx", {"N": 2}, (-100, 130), TOLERANCE),
    ("models/tiny_darknet.onnx", {"N": 2}, (0, 1), TOLERANCE),
    ("models/squeezenet_fp16_winml.onnx", {}, (0, 255), TOLERANCE),
    ("models/resnet20_cifar10.onnx", {"N": 3}, (-2, 2), TOLERANCE),
    ("models/resnet56_cifar10.onnx", {"N": 3}, (-2, 2), TOLERANCE),
    ("models/resnet8_cifar10_mlperf.onnx", {}, (0, 255), TOLERANCE),
    ("models/mnist_cntk.onnx", {}, (0, 255), TOLERANCE),
    ("models/yolox_nano_bigisland.onnx", {}, (0, 255), TOLERANCE),
    ("models/fastestdet.onnx", {}, (0, 1), TOLERANCE),
    ("models/ultraface_version-slim-320_simplified.onnx", {}, (-1, 1), TOLERANCE),
    ("models/yunet_n_dynamic.onnx", {"batch": 1, "height": 320, "width": 256}, (0, 255), TOLERANCE),
    ("models/deeplabv3_mnv2_pascal.onnx", {"H": 257, "W": 321}, (-1, 1), TOLERANCE),
    ("models/brainchop_model11_gw_ae.onnx", {"D": 48, "H": 40, "W": 56}, (0, 1), TOLERANCE),
    ("models/magika_standard_v3_3.onnx", {"unk__214": 2}, (0, 255), TOLERANCE),
    ("models/basic_pitch_nmp.onnx", {"unk__749": 1}, (-1, 1), TOLERANCE),
    ("models/stories260K.onnx", {"B": 2, "S": 70}, (0, 511), TOLERANCE),
    ("models/babyllama105.onnx", {"B": 1, "S": 200}, (0, 104), TOLERANCE),
    ("quantized/edgeopt_model_uint8.onnx", {"batch_size": 1}, (-2, 2), 0.05),
    ("quantized/mobilenetv2_qat_uint8_qdq.onnx", {}, (-1, 1), 0.05),
    ("quantized/mobilenetv1_0.5_160_qat_uint8_qdq.onnx", {}, (-1, 1), 0.05),
    ("quantized/resnet8_cifar10_mlperf_int8_qdq.onnx", {}, (0, 255), 0.05),
]
# Models that hand a state from call to call: outputs and the inputs that take them, sizes of the
# inputs of a call, what stays the same.
STEPWISE = [
    (
        "models/silero_vad.onnx",
        {"stateN": "state"},
        {"input": (1, 576), "state": (2, 1, 128)},
        {"sr": np.array(16000, np.int64)},
    ),
    (
        "models/silero_vad.onnx",
        {"stateN": "state"},
        {"input": (1, 288), "state": (2, 1, 128)},
        {"sr": np.array(8000, np.int64)},
    ),
    (
        "models/silero_vad_16k_op15.onnx",
        {"stateN": "state"},
        {"input": (1, 576), "state": (2, 1, 128)},
        {"sr": np.array(16000, np.int64)},
    ),
    (
        "models/dtln_model_1.onnx",
        {"tf_op_layer_stack_2": "input_3"},
        {"input_2": (1, 1, 257), "input_3": (1, 2, 128, 2)},
        {},
    ),
]
# Language models: tokenizer, text, windows of 256 tokens.
LANGUAGE = [
    ("models/stories260K.onnx", "llm/tok512.bin", "text/tinystories_sample.txt", 64),
    ("models/babyllama105.onnx", "llm/tok105.vocab", "text/tinystories_sample.txt", 64),
]
TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}


def run(path, feeds, folder, states=()):
    """Outputs by name, of one run on these arrays, or of a run for each row of them with states
    handed on."""
    arguments = [word for state in states for word in ("--state", state)]
    for i, (name, values) in enumerate(feeds.items()):
        np.save(f"{folder}/in{i}.npy", values)
        arguments += ["--input", f"{name}={folder}/in{i}.npy"]
    agree.evoq(
        "run", path, "--output-dir", folder + "/out", "--json", folder + "/out.json", *arguments
    )
    with open(folder + "/out.json") as f:
        return {entry["name"]: np.load(entry["file"]) for entry in json.load(f)["outputs"]}


def difference(name, got, want, tolerance):
    """What is wrong ("" when nothing is), and the largest difference as a part of the largest
    output."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{name}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}", 0.0
    if np.issubdtype(want.dtype, np.integer):
        equal = float((got == want).mean())
        return ("" if equal >= 0.999 else f"{name}: {equal:.4f} of the integers are equal"), 0.0
    scale = max(float(np.abs(want).max()), 1e-6)
    worst = float(np.abs(got.astype(np.float64) - want).max()) / scale
    if worst > tolerance:
        return (
            f"{name}: differs by {worst:.2e} of the largest output, expected at most {tolerance}",
            worst,
        )
    if (
        tolerance > TOLERANCE
        and want.ndim == 2
        and not np.array_equal(got.argmax(-1), want.argmax(-1))
    ):
        return f"{name}: another class", worst
    return "", worst


def smooth(rng, shape, low, high):
    """Random, but smooth in space as images are: noise leaves quantized networks without a clear
    class."""
    coarse = rng.uniform(low, high, [*shape[:2], 8, 8])
    steps = [np.arange(size) * 8 // size for size in shape[2:]]
    return coarse[:, :, steps[0]][:, :, :, steps[1]].astype(np.float32)


def compare(path, symbols, low, high, tolerance, folder):
    session = agree.session(path)
    rng, feeds = np.random.default_rng(5), {}
    for info in session.get_inputs():
        shape = [d if isinstance(d, int) else symbols[d] for d in info.shape]
        values = (
            smooth(rng, shape, low, high)
            if tolerance > TOLERANCE
            else rng.uniform(low, high, shape)
        )
        feeds[info.name] = values.astype(TYPES[info.type])
    got = run(path, feeds, folder)
    problems, worst = [], 0.0
    for info, want in zip(session.get_outputs(), session.run(None, feeds)):
        problem, part = difference(info.name, got[info.name], want, tolerance)
        problems += [problem] if problem else []
        worst = max(worst, part)
    return "; ".join(problems), worst


def voice(rate, seconds, pitch):
    """What a voice is made of: a buzz with a wavering pitch, through the resonances of four vowels,
    in syllables."""
    n = int(rate * seconds)
    t = np.arange(n) / rate
    phase = (
        np.cumsum(
            pitch * (1 + 0.1 * np.sin(2 * np.pi * 2.5 * t) + 0.03 * np.sin(2 * np.pi * 5 * t))
        )
        / rate
    )
    buzz = sum(np.sin(2 * np.pi * k * phase) / k for k in range(1, int(rate / 2 / pitch / 1.2)))
    vowels = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480)]
    syllable, sound, decay = rate // 8, np.zeros(n), np.exp(-np.pi * 90 / rate)
    for formant in range(3):
        last = before = 0.0
        out = np.zeros(n)
        for i in range(n):
            turn = 2 * decay * np.cos(2 * np.pi * vowels[i // syllable % 4][formant] / rate)
            before, last = last, buzz[i] * (1 - decay) + turn * last - decay * decay * before
            out[i] = last
        sound += out / (formant + 1)
    sound *= 0.5 * (1 - np.cos(2 * np.pi * np.arange(n) / syllable))
    return 0.2 * sound / np.abs(sound).max()


def recording(rate):
    """Quiet, a voice, quiet, another one, quiet."""
    rng = np.random.default_rng(0)
    quiet = lambda seconds: 0.0005 * rng.standard_normal(int(rate * seconds))
    return np.concatenate(
        [quiet(0.5), voice(rate, 1.2, 120), quiet(1.2), voice(rate, 0.8, 200), quiet(0.8)]
    ).astype(np.float32)


def step_inputs(shapes, states, fixed):
    """The calls' inputs, stacked: overlapping pieces of a recording for speech models, noise for
    the other one."""
    stepped = {name: shape for name, shape in shapes.items() if name not in states.values()}
    if "sr" not in fixed:
        rng = np.random.default_rng(6)
        loud = np.where(np.arange(60) % 8 < 4, 0.3, 0.001)  # by turns
        return {
            name: (rng.random((60, *shape)) * loud.reshape(-1, *[1] * len(shape))).astype(
                np.float32
            )
            for name, shape in stepped.items()
        }
    ((name, (_, size)),) = stepped.items()
    sound, overlap = recording(int(fixed["sr"])), size // 9
    starts = range(0, len(sound) - size, size - overlap)
    return {name: np.stack([sound[start : start + size] for start in starts])[:, None]}


def compare_steps(path, states, shapes, fixed, folder):
    """Each side hands on its own state, so that errors would add up; speech is found in the same
    calls."""
    session = agree.session(path)
    inputs = step_inputs(shapes, states, fixed)
    start = {
        name: np.zeros(shape, np.float32)
        for name, shape in shapes.items()
        if name in states.values()
    }
    names, rows, state = [o.name for o in session.get_outputs()], [], dict(start)
    for call in range(len(next(iter(inputs.values())))):
        wanted = dict(
            zip(
                names,
                session.run(None, {**{k: v[call] for k, v in inputs.items()}, **state, **fixed}),
            )
        )
        state = {into: wanted[out] for out, into in states.items()}
        rows.append(wanted)
    got = run(
        path,
        {**inputs, **start, **fixed},
        folder,
        [f"{out}={into}" for out, into in states.items()],
    )
    problems, worst = [], 0.0
    for name in names:
        want = np.stack([row[name] for row in rows])
        problem, part = difference(name, got[name], want, TOLERANCE)
        problems += [problem] if problem else []
        worst = max(worst, part)
        if "sr" in fixed and name not in states:
            speech = want > 0.5
            if not speech.any() or speech.all() or not np.array_equal(speech, got[name] > 0.5):
                problems.append(
                    f"speech in {int(speech.sum())} of {speech.size} calls for ONNX Runtime, "
                    f"{int((got[name] > 0.5).sum())} for evoq"
                )
    return "; ".join(problems), worst


def compare_text(path, tokenizer, text, windows, folder):
    """`evoq eval`'s perplexity beside that of ONNX Runtime's logits on the same tokens."""
    result = os.path.join(folder, "eval.json")
    agree.evoq(
        "eval",
        path,
        "--text",
        os.path.join(DATA, text),
        "--tokenizer",
        os.path.join(DATA, tokenizer),
        "--limit",
        str(windows),
        "--json",
        result,
        "--tokens",
        os.path.join(folder, "tokens.npy"),
    )
    with open(result) as f:
        ours = json.load(f)
    tokens, session, losses = np.load(os.path.join(folder, "tokens.npy")), agree.session(path), []
    window = ours["tokens"] // ours["samples"]
    for i in range(windows):
        seen, target = (
            tokens[i * window : (i + 1) * window],
            tokens[i * window + 1 : (i + 1) * window + 1],
        )
        logits = session.run(None, {session.get_inputs()[0].name: seen[None]})[0][0].astype(
            np.float64
        )
        logits -= logits.max(-1, keepdims=True)
        losses.append(np.log(np.exp(logits).sum(-1)) - logits[np.arange(window), target])
    want = float(np.mean(losses))
    print(
        f"  perplexity {ours['perplexity']:.4f}, negative log-likelihood {ours['nll']:.5f} on "
        f"{ours['tokens']} tokens; ONNX Runtime's {np.exp(want):.4f}, {want:.5f}"
    )
    part = abs(ours["nll"] - want) / want
    return ("" if part < 1e-5 else f"negative log-likelihood {ours['nll']}, expected {want}"), part


def without_quant(path, folder):
    """A QONNX model with each Quant node written out: y = (clip(round(x / scale + zero), low, high)
    - zero) * scale."""
    model = onnx.load(path)
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Quant":
            nodes.append(node)
            continue
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        x, scale, zero, bits = node.input
        width, signed, narrow = (
            float(constants[bits]),
            attributes.get("signed", 1),
            attributes.get("narrow", 0),
        )
        low, high = (
            (-(2 ** (width - 1)) + narrow, 2 ** (width - 1) - 1)
            if signed
            else (0, 2**width - 1 - narrow)
        )
        name = node.output[0]
        for end, value in (("low", low), ("high", high)):
            model.graph.initializer.append(
                numpy_helper.from_array(np.array(value, np.float32), f"{name}/{end}")
            )
        make = onnx.helper.make_node
        nodes += [
            make("Div", [x, scale], [f"{name}/1"]),
            make("Add", [f"{name}/1", zero], [f"{name}/2"]),
            make("Round", [f"{name}/2"], [f"{name}/3"]),
            make("Clip", [f"{name}/3", f"{name}/low", f"{name}/high"], [f"{name}/4"]),
            make("Sub", [f"{name}/4", zero], [f"{name}/5"]),
            make("Mul", [f"{name}/5", scale], [name]),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    plain = os.path.join(folder, "plain.onnx")
    onnx.save(model, plain)
    return plain


def compare_qonnx(path, folder):
    session = agree.session(without_quant(path, folder))
    info, output = session.get_inputs()[0], session.get_outputs()[0]
    feeds = {info.name: smooth(np.random.default_rng(5), info.shape, 0, 1)}
    got, want = run(path, feeds, folder)[output.name], session.run(None, feeds)[0]
    # Scales are powers of two, so that many sums of its 4-bit layers are ties, which float32
    # decides by its errors and integers exactly: what 8-bit outputs make of that is about one step
    # in the mean.
    mean = float(np.abs(got - want).mean() / np.abs(want).max())
    return (
        ""
        if got.shape == want.shape and mean < 2 / 255
        else f"{output.name}: differs by {mean:.4f} of the largest output in the mean, expected at "
        f"most {2 / 255:.4f}"
    ), mean


def compare_light(path, folder):
    """A `light` model and its expected output; the input is the constant ramp that its makers
    used."""
    with open(path.replace(".onnx", "_output_0.pb"), "rb") as f:
        want = numpy_helper.to_array(onnx.TensorProto.FromString(f.read()))
    model = onnx.load(path)
    initializers = {t.name for t in model.graph.initializer}
    feeds = {}
    for info in model.graph.input:
        if info.name in initializers:
            continue
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        n = int(np.prod(shape))
        feeds[info.name] = (np.arange(n, dtype=np.float64).reshape(shape) / n).astype(np.float32)
    got = run(path, feeds, folder)
    problem, worst = difference(
        model.graph.output[0].name, got[model.graph.output[0].name], want, TOLERANCE
    )
    return problem, worst


def main():
    checks = [
        (model, lambda p, f, c=(symbols, low, high, t): compare(p, *c, f))
        for model, symbols, (low, high), t in CASES
    ]
    checks += [(model, lambda p, f, c=rest: compare_steps(p, *c, f)) for model, *rest in STEPWISE]
    checks += [(model, lambda p, f, c=rest: compare_text(p, *c, f)) for model, *rest in LANGUAGE]
    checks.append(("quantized/espcn_subpixel_qonnx.onnx", compare_qonnx))
    light = os.path.join(DATA, "onnx-backend-tests/light")
    names = (
        sorted(n for n in os.listdir(light) if n.endswith(".onnx")) if os.path.isdir(light) else []
    )
    checks += [(os.path.join("onnx-backend-tests/light", name), compare_light) for name in names]
    if agree.SANITIZED:  # ten times as slow: no large models
        checks = [c for c in checks if os.path.getsize(os.path.join(DATA, c[0])) < 8e6]
    failures, only = 0, sys.argv[1:]
    for model, check in checks:
        if only and not any(word in model for word in only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                problem, worst = check(os.path.join(DATA, model), folder)
            except RuntimeError as error:
                problem, worst = str(error), 0.0
        print(
            f"{os.path.basename(model):48} "
            f"{problem or f'agrees, largest difference {worst:.1e} of the largest output'}",
            flush=True,
        )
        failures += bool(problem)
    print(f"{failures} of {len(checks)} disagree" if failures else "all agree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
