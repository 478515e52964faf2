"""The verbs as functions: the same JSON as the command, models and data from memory."""
import json
import os
import subprocess
import warnings

import evoq
import numpy as np
import onnx
import pytest
from models import DIGITS, EVOQ, convolutions, digits, float32, model
from onnx import helper


def command(*arguments, tmp_path):
    path = tmp_path / "command.json"
    subprocess.run([EVOQ, *map(str, arguments), "--json", path], check=True, stdout=subprocess.PIPE)
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def etm(tmp_path_factory):
    path = tmp_path_factory.mktemp("etm") / "digits.etm"
    evoq.quantize(DIGITS, path, calibration=digits(16))
    return path


def test_inspect_is_the_command(etm, tmp_path):
    assert evoq.inspect(DIGITS, shapes={"image": (4, 1, 28, 28)}) == command("inspect", DIGITS, "--shape", "image=4x1x28x28", tmp_path=tmp_path)
    assert evoq.inspect(etm) == command("inspect", etm, tmp_path=tmp_path)
    report = evoq.inspect(DIGITS)
    assert "multiply-accumulates" in report.text and report["operators"]["Conv"] >= 1
    assert evoq.inspect(onnx.load(DIGITS))["parameters"] == report["parameters"]


def test_optimize_is_the_command(tmp_path):
    mine = evoq.optimize(DIGITS, tmp_path / "a.onnx", disable=["fuse-*"])
    assert mine == command("optimize", DIGITS, "-o", tmp_path / "b.onnx", "--disable", "fuse-*", tmp_path=tmp_path)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    onnx.checker.check_model(tmp_path / "a.onnx")


def test_quantize_is_the_command(tmp_path):
    data = digits(12)
    np.save(tmp_path / "data.npy", data)
    theirs = command("quantize", DIGITS, "-o", tmp_path / "a.etm", "--calib", tmp_path / "data.npy", "--observer", "mse",
                     "--exclude", "nothing*", "--signed", tmp_path=tmp_path)
    forms = {
        "path": tmp_path / "data.npy",
        "array": data,
        "mapping": {"image": data},
        "samples": [x[None] for x in data],
        "tuples": [(x[None],) for x in data],
        "batches": ({"image": data[i : i + 5]} for i in range(0, 12, 5)),
    }
    for name, calibration in forms.items():
        mine = evoq.quantize(DIGITS, tmp_path / "b.etm", calibration=calibration, observer="mse", exclude=["nothing*"], signed=True)
        assert (tmp_path / "a.etm").read_bytes() == (tmp_path / "b.etm").read_bytes(), name
        assert mine.pop("seconds") > 0
        assert mine == {key: value for key, value in theirs.items() if key != "seconds"}, name
    assert theirs["samples_used"] == 12 and theirs["output_bytes"] == os.path.getsize(tmp_path / "a.etm")


def test_quantize_from_memory_and_limits(tmp_path):
    report = evoq.quantize(onnx.load(DIGITS), tmp_path / "a.onnx", calibration=digits(30), calibration_limit=7)
    assert report["samples_used"] == 7 and report["steps_int8"] > 0
    onnx.checker.check_model(tmp_path / "a.onnx")
    assert evoq.quantize(DIGITS, tmp_path / "b.etm", calibration=3)["samples_used"] == 3
    assert evoq.quantize(DIGITS, tmp_path / "c.etm", scheme="int8-weights")["samples_used"] == 0


def test_quantize_a_model_of_two_inputs(tmp_path):
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("MatMul", ["c", "w"], ["y"], "product")]
    proto = model(nodes, [float32("a", ("N", 64)), float32("b", ("N", 64))], [float32("y", ("N", 32))],
                  {"w": rng.standard_normal((64, 32)).astype(np.float32)})
    data = {name: rng.standard_normal((20, 64)).astype(np.float32) for name in "ba"}
    report = evoq.quantize(proto, tmp_path / "a.etm", calibration=data)
    assert report["samples_used"] == 20 and report["steps_int8"] >= 1
    y = evoq.load(tmp_path / "a.etm").run(data)["y"]
    exact = evoq.load(proto).run(data)["y"]
    assert np.abs(y - exact).max() < 0.05 * np.abs(exact).max()


def test_accuracy_of_a_quantized_model(etm):
    x = digits(50)
    exact, quantized = evoq.load(DIGITS)(x), evoq.load(etm)(x)
    assert (exact.argmax(1) == quantized.argmax(1)).mean() > 0.9


def test_compile_measure_explain(etm, tmp_path):
    compiled = tmp_path / "float.etm"
    assert evoq.compile(DIGITS, compiled, shapes={"image": (2, 1, 28, 28)})["output_bytes"] == compiled.stat().st_size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a busy machine
        bench = evoq.bench(etm, batch=2, threads=1, duration_s=0.05, warmup_ms=5, percentiles=[50, 75])
        profile = evoq.profile(etm, threads=1, duration_s=0.05, warmup_ms=5, trace=tmp_path / "trace.json")
        explained = evoq.explain(etm, baseline=onnx.load(DIGITS), threads=1, duration_s=0.05, report=tmp_path / "report.html")
        compared = evoq.compare(DIGITS, etm, threads=1, duration_s=0.1, rounds=3)
    assert bench["batch"] == 2 and bench["threads"] == 1 and bench["p50_ms"] > 0 and set(bench["percentiles"]) == {"50", "75"}
    assert profile["total_ms"] > 0 and abs(sum(step["share"] for step in profile["steps"]) - 1) < 1e-6
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert explained["time"]["causes"] and explained["decisions"]
    ledger = explained["bytes"]
    assert sum(cause["bytes"] for cause in ledger["causes"]) + ledger["unexplained_bytes"] == etm.stat().st_size
    assert (tmp_path / "report.html").stat().st_size > 10000
    assert compared["verdict"] in ("faster", "slower", "same") and compared["a"]["model"] == DIGITS


def test_tools_print_nothing(etm, capfd):
    report = evoq.profile(etm, duration_s=0.02, warmup_ms=1)
    assert "total" in report.text
    assert capfd.readouterr() == ("", "")


def test_warnings_are_pythons(etm):
    with pytest.warns(RuntimeWarning, match="loading took|the first run took|the runs vary"):
        evoq.bench(convolutions(layers=2, size=4), duration_s=0.02, warmup_ms=1)


def test_other_runtimes_profiles(tmp_path):
    events = [{"cat": "Node", "name": "conv_kernel_time", "dur": 100, "ts": i * 200, "ph": "X", "pid": 1, "tid": 1,
               "args": {"op_name": "Conv", "provider": "CPUExecutionProvider", "node_index": "0"}} for i in range(3)]
    (tmp_path / "ort.json").write_text(json.dumps(events))
    assert evoq.explain(ort_profile=tmp_path / "ort.json")["tool"]


def test_any_verb():
    assert "Conv" in json.dumps(evoq.tool("list", "ops")["items"])
    assert evoq.limits(threads=1)["fp32_gflops"] > 0


def test_the_command_of_the_package():
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(evoq.__file__))}
    for arguments, code in ((["--version"], 0), (["inspect", DIGITS], 0), (["inspect", "none.onnx"], 3), (["inspect"], 2)):
        mine = subprocess.run([os.sys.executable, "-m", "evoq", *arguments], capture_output=True, text=True, env=environment)
        theirs = subprocess.run([EVOQ, *arguments], capture_output=True, text=True)
        assert (mine.returncode, mine.stdout, mine.stderr) == (code, theirs.stdout, theirs.stderr)
