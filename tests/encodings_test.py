#!/usr/bin/env python3
"""quantize with files of other tools (docs/encodings.md), end to end: what --encodings-out writes
in each version gives the same .etm when it is read; calibration caches keep their bytes; tables
give ranges; what is not used is named. And --opset: onnx.checker takes each file, and ONNX Runtime
gives evoq's values. Skips without the data folder; the part of operator sets without onnx and
onnxruntime.
"""

import json
import pathlib
import sys
import tempfile

from agree import DATA, evoq, need_data

need_data()

MODELS = ["resnet8_cifar10_mlperf", "mobilenetv2", "squeezenet1.1", "magika_standard_v3_3"]
VERSIONS = ["0.6.1", "1.0.0", "2.0.0", "2.1.0"]
CACHE = """TRT-8401-EntropyCalibration2
{first}: 3caa54fc
only: TensorRT [0] *: 7f800000
"""


def quantize(folder, model, *arguments, output="m.etm"):
    """The JSON of a run."""
    report = folder / "report.json"
    evoq("quantize", model, "-o", folder / output, "--json", report, *arguments)
    return json.loads(report.read_text(encoding="utf-8"))


def refused(*arguments):
    """The error of a run that must fail."""
    try:
        evoq(*arguments)
    except RuntimeError as error:
        return str(error)
    raise AssertionError(f"evoq {arguments} did not fail")


def round_trips(folder):
    compared = 0
    for name in MODELS:
        model = f"{DATA}/models/{name}.onnx"
        for version in VERSIONS:
            file = folder / "m.encodings"
            wanted = quantize(folder, model, "--calib-random", 2, "--encodings-out", file,
                              "--encodings-version", version, output="a.etm")  # fmt: skip
            again = folder / "again.encodings"
            told = quantize(folder, model, "--encodings", file, "--encodings-out", again,
                            "--encodings-version", version, output="b.etm")  # fmt: skip
            assert told["encodings"]["not_used"] == {}, told["encodings"]
            assert again.read_bytes() == file.read_bytes(), f"{name} {version}: others were used"
            if told["float_reasons"] != wanted["float_reasons"]:
                continue  # the .etm holds those
            compared += 1
            same = (folder / "a.etm").read_bytes() == (folder / "b.etm").read_bytes()
            assert same, f"{name} {version}: the .etm differs"
        print(f"{name}: {told['encodings']['used']} entries, used again in every version")
    assert compared >= 2 * len(VERSIONS), compared


def unused_are_named(folder):
    model = f"{DATA}/models/resnet8_cifar10_mlperf.onnx"
    file = folder / "u.encodings"
    entry = {"output_dtype": "uint8", "y_scale": 0.02}
    names = ["input", "relu_22", "conv_1"]
    file.write_text(json.dumps(
        {"version": "2.0.0", "encodings": [{"name": name, **entry} for name in names]
         + [{"name": "relu_4", "output_dtype": "float8e4m3fn", "y_scale": 1}]}))  # fmt: skip
    told = quantize(folder, model, "--quantization_overrides", file, "--calib-random", 2)
    assert told["encodings"]["entries"] == 4 and told["encodings"]["used"] == 2, told["encodings"]
    assert "nearest: relu_2" in told["encodings"]["not_used"]["relu_22"]
    assert told["encodings"]["not_used"]["relu_4"] == "it is of float8e4m3fn"
    assert any("relu_22 is not used" in warning for warning in told["warnings"])
    assert "has no integers" in refused(
        "quantize", model, "-o", folder / "m.etm", "--scheme", "bf16", "--encodings", file
    )
    file.write_text('{"version": "2.0.0", "encodings": [{"name": "input"}]}')
    error = refused("quantize", model, "-o", folder / "m.etm", "--encodings", file)
    assert 'u.encodings: encodings[0] (input): "output_dtype" is missing' in error, error


def caches(folder):
    model = f"{DATA}/models/resnet8_cifar10_mlperf.onnx"
    text = CACHE.format(first="input")
    (folder / "c.cache").write_text(text)
    told = quantize(folder, model, "--calib-cache", folder / "c.cache", "--calib-random", 2,
                    "--calib-cache-out", folder / "out.cache", "--encodings-out",
                    folder / "c.encodings")  # fmt: skip
    written = (folder / "out.cache").read_text()
    assert written.startswith(text) and "relu_2: " in written, written
    assert any("1 of 2 entries name no value" in w for w in told["warnings"]), told["warnings"]
    entries = json.loads((folder / "c.encodings").read_text())["activation_encodings"]
    scale = next(e for e in entries if e["name"] == "input")
    assert scale["scale"] == [0.02079247683286667] and scale["offset"] == [-128], scale
    again = quantize(folder, model, "--calib-cache", folder / "out.cache",
                     "--calib-cache-out", folder / "again.cache")  # fmt: skip
    assert (folder / "again.cache").read_text() == written
    assert again["steps_int8"] == told["steps_int8"]


def tables(folder):
    """ONNX Runtime's table: of another model but for the names that it is given here."""
    model = f"{DATA}/models/resnet8_cifar10_mlperf.onnx"
    ranges = folder / "ranges.json"
    quantize(folder, model, "--calib-random", 2, "--save-ranges", ranges, output="a.etm")
    table = json.loads(ranges.read_text())["ranges"]
    table = {name: range for name, range in table.items() if "." not in name}
    (folder / "calibration.json").write_text(json.dumps(table))
    saved = folder / "saved.json"
    told = quantize(folder, model, "--ranges", folder / "calibration.json", "--save-ranges", saved)
    assert json.loads(saved.read_text())["ranges"] == table
    assert not any("no range" in warning for warning in told["warnings"]), told["warnings"]
    error = refused("quantize", model, "-o", folder / "m.etm", "--calib-cache",
                    folder / "calibration.json")  # fmt: skip
    assert "has ranges, not scales: --ranges takes it" in error, error
    del table["relu_4"]
    (folder / "calibration.json").write_text(json.dumps(table))
    told = quantize(folder, model, "--ranges", folder / "calibration.json")
    assert any("no range for 1 values" in w and "relu_4" in w for w in told["warnings"])


def operator_sets(folder):
    try:
        import numpy as np
        import onnx
        from agree import session
    except ImportError:
        print("skipped: operator sets need onnx, onnxruntime and numpy")
        return
    model = f"{DATA}/models/resnet8_cifar10_mlperf.onnx"
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 32, 32)).astype(np.float32)
    shape = [d.dim_value or 1 for d in onnx.load(model).graph.input[0].type.tensor_type.shape.dim]
    x = x.reshape(shape)
    np.save(folder / "x.npy", x)
    for opset in (13, 19, 21, 25):
        quantize(folder, model, "--calib", folder / "x.npy", "--opset", opset, output="q.onnx")
        written = onnx.load(folder / "q.onnx")
        onnx.checker.check_model(written, full_check=True)
        assert written.opset_import[0].version == opset
        (folder / "out").mkdir(exist_ok=True)
        evoq("run", folder / "q.onnx", "--input", folder / "x.npy", "--output-dir", folder / "out")
        ours = np.load(folder / "out/output.npy")
        theirs = session(str(folder / "q.onnx")).run(None, {written.graph.input[0].name: x})[0]
        assert np.abs(ours - theirs).max() < 1e-5, f"operator set {opset}"
        print(f"operator set {opset}: onnx.checker takes it, ONNX Runtime gives evoq's values")
    lm = f"{DATA}/models/magika_standard_v3_3.onnx"
    for scheme, opset, needed in (("int4-weights", 19, 21), ("int2-weights", 21, 25)):
        error = refused("quantize", lm, "-o", folder / "q.onnx", "--scheme", scheme,
                        "--opset", opset)  # fmt: skip
        assert f"operator set {opset} was asked for, but value" in error, error
        assert f"needs {needed}" in error, error
        quantize(folder, lm, "--scheme", scheme, "--opset", needed, output="q.onnx")
        assert onnx.load(folder / "q.onnx").opset_import[0].version == needed
    assert "expected 13 to 25" in refused("quantize", model, "-o", folder / "q.onnx", "--opset", 12)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        round_trips(folder)
        unused_are_named(folder)
        caches(folder)
        tables(folder)
        operator_sets(folder)


if __name__ == "__main__":
    sys.exit(main())
