#!/usr/bin/env python3
"""Runs what evoq exports in ONNX Runtime and compares with the original model there.

usage: onnx_export_test.py ONNX_TOOL [DATA]
ONNX_TOOL: the program of this folder; DATA: the data folder.
Every conformance case that evoq imports, and real models, are exported as imported and after the
optimizing passes; the result must pass the onnx checker and give the original's outputs. Quantized
real models are also evaluated by evoq's definition. Skips (exit status 77) where onnx or
onnxruntime is missing.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import agree  # noqa: E402

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.abspath(
    sys.argv[1]
    if len(sys.argv) > 1
    else os.path.join(os.environ["EVOQ_BUILD"], "tests/onnx/onnx_tool")
)
DATA = (
    sys.argv[2]
    if len(sys.argv) > 2
    else os.environ.get("EVOQ_DATA", os.path.join(HERE, "../../../shared/data"))
)
MODELS = [
    "models/mobilenetv2.onnx",
    "models/squeezenet1.1.onnx",
    "models/tiny_darknet.onnx",
    "models/squeezenet_fp16_winml.onnx",
    "models/resnet20_cifar10.onnx",
    "models/resnet8_cifar10_mlperf.onnx",
    "models/mnist_cntk.onnx",
    "models/yolox_nano_bigisland.onnx",
    "models/fastestdet.onnx",
    "models/yunet_n_dynamic.onnx",
    "models/ultraface_version-slim-320_simplified.onnx",
    "models/magika_standard_v3_3.onnx",
    "models/stories260K.onnx",
    "models/basic_pitch_nmp.onnx",
    "models/dtln_model_1.onnx",
    "models/deeplabv3_mnv2_pascal.onnx",
    "models/babyllama105.onnx",
    "quantized/edgeopt_model_uint8.onnx",
    "quantized/mobilenetv1_0.5_160_qat_uint8_qdq.onnx",
    "quantized/resnet8_cifar10_mlperf_int8_qdq.onnx",
]
# Models that random inputs of any size do not suit: sizes of their inputs, and inputs that are
# given.
SPEECH = ({"input": (1, 576), "state": (2, 1, 128)}, {"sr": np.array(16000, np.int64)})
GIVEN = {"models/silero_vad.onnx": SPEECH, "models/silero_vad_16k_op15.onnx": SPEECH}
SIZES = {"H": 64, "W": 64, "height": 64, "width": 64}


class Tool:
    """The tool as a process that answers one line per command."""

    def __init__(self):
        self.process = subprocess.Popen(
            [TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *words):
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"onnx_tool died on {words}")
        return answer.strip()


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Without rewrites, so that both files are run as they are written.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    agree.exact_integers(options)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def random_inputs(model, shapes={}, given={}):
    rng = np.random.default_rng(7)
    feeds = {}
    for value in model.get_inputs():
        if value.name in given:
            feeds[value.name] = given[value.name]
            continue
        shape = shapes.get(value.name) or [
            d if isinstance(d, int) else SIZES.get(d, 64 if i > 1 else 1)
            for i, d in enumerate(value.shape)
        ]
        if "int64" in value.type or "int32" in value.type:
            feeds[value.name] = rng.integers(0, 100, shape).astype(
                "int64" if "int64" in value.type else "int32"
            )
        else:
            feeds[value.name] = rng.random(shape).astype(
                "float16" if "float16" in value.type else "float32"
            )
    return feeds


def same(got, wanted, rtol=1e-3, atol=1e-4):
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if got.dtype.kind not in "fV":
        return np.array_equal(got, wanted)
    scale = float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0))
    return np.allclose(got, wanted, rtol=rtol, atol=atol * max(1.0, scale), equal_nan=True)


def same_value(got, wanted):
    """The same for sequences, which are lists, and optionals, which may be None."""
    if isinstance(wanted, list):
        return (
            isinstance(got, list)
            and len(got) == len(wanted)
            and all(same_value(a, b) for a, b in zip(got, wanted))
        )
    return got is None and wanted is None or same(np.asarray(got), np.asarray(wanted))


def cases():
    root = os.path.join(DATA, "onnx-backend-tests")
    for suite in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        for name in sorted(os.listdir(os.path.join(root, suite))):
            folder = os.path.join(root, suite, name)
            inputs = []
            while os.path.exists(
                path := os.path.join(folder, "test_data_set_0", f"input_{len(inputs)}.pb")
            ):
                inputs.append(path)
            yield f"{suite}/{name}", os.path.join(folder, "model.onnx"), inputs


def load(path):
    tensor = onnx.TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return numpy_helper.to_array(tensor)


def passes_check(path):
    try:
        onnx.checker.check_model(path, full_check=True)
        return True
    except Exception:  # noqa: the checker throws several kinds
        return False


def compare(tool, command, name, path, feeds_of, problems):
    """Exports `path` and compares outputs in ONNX Runtime. Returns "same", "refused" or "not
    run"."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.onnx")
        answer = tool.run(command, path, out)
        if answer != "ok":
            return "refused"
        try:
            onnx.checker.check_model(out, full_check=True)
        except Exception as error:  # noqa: the checker throws several kinds
            # Of the conformance cases some declare no rank of their outputs either, or types that
            # the checker does not know.
            if passes_check(path):
                problems.append(f"{name} ({command}): checker: {str(error).splitlines()[0]}")
                return "wrong"
        try:
            original = session(path)
            feeds = feeds_of(original)
            wanted = original.run(None, feeds)
        except Exception:  # ONNX Runtime lacks the operator or the type
            return "not run"
        try:
            exported = session(out)
            got = exported.run(
                None,
                {k: v for k, v in feeds.items() if k in {i.name for i in exported.get_inputs()}},
            )
        except Exception as error:  # noqa
            problems.append(f"{name} ({command}): ONNX Runtime: {str(error).splitlines()[0]}")
            return "wrong"
        if [o.name for o in original.get_outputs()] != [o.name for o in exported.get_outputs()]:
            problems.append(f"{name} ({command}): output names differ")
            return "wrong"
        for i, (a, b) in enumerate(zip(got, wanted)):
            if not same_value(a, b):
                problems.append(f"{name} ({command}): output {i} differs")
                return "wrong"
        return "same"


def evaluate(tool, path, problems):
    """evoq's definition of a quantized model against ONNX Runtime's kernels, which round some sums
    differently."""
    model = session(path)
    feeds = random_inputs(model)
    wanted = model.run(None, feeds)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, value in enumerate(feeds.values()):
            files.append(os.path.join(folder, f"in_{i}.pb"))
            with open(files[-1], "wb") as file:
                file.write(numpy_helper.from_array(value).SerializeToString())
        answer = tool.run("evaluate", path, os.path.join(folder, "out"), *files)
        if answer != "ok":
            problems.append(f"{path}: {answer}")
            return
        for i, want in enumerate(wanted):
            got = np.load(os.path.join(folder, f"out_{i}.npy"))
            worst = float(np.max(np.abs(got.astype("f8") - want)))
            print(
                f"evaluate {os.path.basename(path)}: largest difference {worst:.4g} of "
                f"{float(np.max(np.abs(want))):.4g}"
            )
            if np.argmax(got) != np.argmax(want) or worst > 0.05 * max(
                1.0, float(np.max(np.abs(want)))
            ):
                problems.append(f"{path}: evaluated output {i} is {worst} away")


def main():
    if not os.path.isdir(DATA):
        print(f"skipped: no data folder {DATA}")
        sys.exit(77)
    tool, problems = Tool(), []
    for command in ("export", "optimize"):
        counts = {}
        for name, path, inputs in cases():
            feeds_of = lambda s, files=inputs: {
                v.name: load(f) for v, f in zip(s.get_inputs(), files)
            }
            result = compare(tool, command, name, path, feeds_of, problems)
            counts[result] = counts.get(result, 0) + 1
        print(f"conformance cases, {command}: {counts}")
        for path in [*MODELS, *GIVEN]:
            feeds_of = lambda s, given=GIVEN.get(path, ({}, {})): random_inputs(s, *given)
            result = compare(tool, command, path, os.path.join(DATA, path), feeds_of, problems)
            print(f"{command} {path}: {result}")
            if result not in ("same", "wrong"):
                problems.append(f"{path} ({command}): {result}")
    for path in MODELS:
        if path.startswith("quantized/"):
            evaluate(tool, os.path.join(DATA, path), problems)
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
