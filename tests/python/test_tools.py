"""The verbs as functions: the same JSON as the command, models and data from memory."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings

import evoq
import numpy as np
import onnx
import pytest
from models import DIGITS, EVOQ, ROOT, digits, float32, model
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
    assert evoq.inspect(DIGITS, shapes={"image": (4, 1, 28, 28)}) == command(
        "inspect", DIGITS, "--shape", "image=4x1x28x28", tmp_path=tmp_path
    )
    assert evoq.inspect(etm) == command("inspect", etm, tmp_path=tmp_path)
    report = evoq.inspect(DIGITS)
    assert "multiply-accumulates" in report.text and report["operators"]["Conv"] >= 1
    assert evoq.inspect(onnx.load(DIGITS))["parameters"] == report["parameters"]


def test_optimize_is_the_command(tmp_path):
    mine = evoq.optimize(DIGITS, tmp_path / "a.onnx", disable=["fuse-*"])
    assert mine == command(
        "optimize", DIGITS, "-o", tmp_path / "b.onnx", "--disable", "fuse-*", tmp_path=tmp_path
    )
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    onnx.checker.check_model(tmp_path / "a.onnx")


def test_quantize_is_the_command(tmp_path):
    data = digits(12)
    np.save(tmp_path / "data.npy", data)
    theirs = command(
        "quantize",
        DIGITS,
        "-o",
        tmp_path / "a.etm",
        "--calib",
        tmp_path / "data.npy",
        "--observer",
        "mse",
        "--exclude",
        "nothing*",
        "--signed",
        tmp_path=tmp_path,
    )
    forms = {
        "path": tmp_path / "data.npy",
        "array": data,
        "mapping": {"image": data},
        "paths": {"image": tmp_path / "data.npy"},
        "samples": [x[None] for x in data],
        "tuples": [(x[None],) for x in data],
        "batches": ({"image": data[i : i + 5]} for i in range(0, 12, 5)),
    }
    for name, calibration in forms.items():
        mine = evoq.quantize(
            DIGITS,
            tmp_path / "b.etm",
            calibration=calibration,
            observer="mse",
            exclude=["nothing*"],
            signed=True,
        )
        assert (tmp_path / "a.etm").read_bytes() == (tmp_path / "b.etm").read_bytes(), name
        assert mine.pop("seconds") > 0
        assert mine == {key: value for key, value in theirs.items() if key != "seconds"}, name
    assert theirs["samples_used"] == 12 and theirs["output_bytes"] == os.path.getsize(
        tmp_path / "a.etm"
    )


def test_quantize_in_blocks(tmp_path):
    weights = np.random.default_rng(0).standard_normal((256, 32)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    proto = model([node], [float32("x", ("N", 256))], [float32("y", ("N", 32))], {"w": weights})
    onnx.save(proto, tmp_path / "model.onnx")
    files = {}
    for block in (None, 32, "64", 128, "channel"):
        mine, theirs = tmp_path / "a.etm", tmp_path / "b.etm"
        evoq.quantize(tmp_path / "model.onnx", mine, scheme="int4-weights", block=block)
        words = ["--scheme", "int4-weights", *([] if block is None else ["--block", block])]
        command("quantize", tmp_path / "model.onnx", "-o", theirs, *words, tmp_path=tmp_path)
        files[block] = mine.read_bytes()
        assert files[block] == theirs.read_bytes(), block
    assert files.pop(None) == files[32] and len(set(files.values())) == 4
    with pytest.raises(evoq.Error, match="block"):
        evoq.quantize(tmp_path / "model.onnx", mine, scheme="int4-weights", block=48)


def test_quantize_from_memory_and_limits(tmp_path):
    report = evoq.quantize(
        onnx.load(DIGITS), tmp_path / "a.onnx", calibration=digits(30), calibration_limit=7
    )
    assert report["samples_used"] == 7 and report["steps_int8"] > 0
    onnx.checker.check_model(tmp_path / "a.onnx")
    assert evoq.quantize(DIGITS, tmp_path / "b.etm", calibration=3)["samples_used"] == 3
    most = evoq.quantize(DIGITS, tmp_path / "b.etm", calibration=digits(250))
    assert most["samples_used"] == 200  # the command's limit
    assert (
        evoq.quantize(DIGITS, tmp_path / "b.etm", calibration=digits(250), calibration_limit=0)[
            "samples_used"
        ]
        == 250
    )
    assert evoq.quantize(DIGITS, tmp_path / "c.etm", scheme="int8-weights")["samples_used"] == 0


def test_quantize_a_model_of_two_inputs(tmp_path):
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["y"], "product"),
    ]
    proto = model(
        nodes,
        [float32("a", ("N", 64)), float32("b", ("N", 64))],
        [float32("y", ("N", 32))],
        {"w": rng.standard_normal((64, 32)).astype(np.float32)},
    )
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
    assert (
        evoq.compile(DIGITS, compiled, shapes={"image": (2, 1, 28, 28)})["output_bytes"]
        == compiled.stat().st_size
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a busy machine
        bench = evoq.bench(
            etm, batch=2, threads=1, duration_s=0.05, warmup_ms=5, percentiles=[50, 75]
        )
        profile = evoq.profile(
            etm, threads=1, duration_s=0.05, warmup_ms=5, trace=tmp_path / "trace.json"
        )
        explained = evoq.explain(
            etm,
            baseline=onnx.load(DIGITS),
            threads=1,
            duration_s=0.05,
            report=tmp_path / "report.html",
        )
        compared = evoq.compare(DIGITS, etm, threads=1, duration_s=0.1, rounds=3)
    assert (
        bench["batch"] == 2
        and bench["threads"] == 1
        and bench["p50_ms"] > 0
        and set(bench["percentiles"]) == {"50", "75"}
    )
    assert (
        profile["total_ms"] > 0 and abs(sum(step["share"] for step in profile["steps"]) - 1) < 1e-6
    )
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert explained["time"]["causes"] and explained["decisions"]
    ledger = explained["bytes"]
    assert (
        sum(cause["bytes"] for cause in ledger["causes"]) + ledger["unexplained_bytes"]
        == etm.stat().st_size
    )
    assert (tmp_path / "report.html").stat().st_size > 10000
    assert compared["verdict"] in ("faster", "slower", "same") and compared["a"]["model"] == DIGITS


def test_diff_takes_paths_arrays_and_numbers(tmp_path):
    etm, images = tmp_path / "q.etm", np.random.default_rng(0).random((4, 1, 28, 28), np.float32)
    evoq.quantize(DIGITS, etm, calibration=images)
    np.save(tmp_path / "x.npy", images)
    of_arrays = evoq.diff(DIGITS, etm, data=images, keep=tmp_path / "worst.npz", threads=1)
    of_file = evoq.diff(DIGITS, etm, data=tmp_path / "x.npy", threads=1)
    assert of_arrays["samples"] == of_file["samples"] == 4
    assert of_arrays["values"] == of_file["values"] and of_arrays["values"][-1]["output"]
    assert any(name.startswith("b:") for name in np.load(tmp_path / "worst.npz"))
    assert evoq.diff(DIGITS, DIGITS, data=2)["first_bad"] is None
    with pytest.raises(evoq.Error, match="signal to noise of the worst output"):
        evoq.diff(DIGITS, etm, data=images, min_sqnr=200)


def test_calibrate_in_parts_gives_the_bytes_of_one(tmp_path):
    images = digits(5)
    report = evoq.quantize(
        DIGITS, tmp_path / "q.etm", calibration=images, save_ranges=tmp_path / "saved.json"
    )
    whole = evoq.calibrate(DIGITS, tmp_path / "whole.json", calibration=images, threads=1)
    assert whole["complete"] and whole["samples_used"] == report["samples_used"] == 5
    wanted = (tmp_path / "saved.json").read_bytes()
    assert (tmp_path / "whole.json").read_bytes() == wanted
    after = None
    for output in ("first", "ranges.json"):
        files = [tmp_path / f"{output}{k}" for k in (1, 2)]
        for k, file in enumerate(files, 1):
            evoq.calibrate(DIGITS, file, calibration=images, part=(k, 2), after=after)
        merged = evoq.calibrate(DIGITS, tmp_path / output, merge=files)
        assert merged["needs_second_pass"] == (after is None)
        after = tmp_path / output
    assert after.read_bytes() == wanted
    evoq.quantize(DIGITS, tmp_path / "r.etm", ranges=after)
    assert (tmp_path / "r.etm").read_bytes() == (tmp_path / "q.etm").read_bytes()
    with pytest.raises(evoq.Error, match="--part 3/2: expected K/N"):
        evoq.calibrate(DIGITS, after, calibration=images, part=(3, 2))


def test_sensitivity_names_layers_to_exclude(tmp_path):
    images = np.random.default_rng(0).random((8, 1, 28, 28), np.float32)
    np.save(tmp_path / "x.npy", images)
    of_arrays = evoq.sensitivity(DIGITS, data=images, threads=1)
    wish = of_arrays["all"]["sqnr_db"] + 3
    of_file = evoq.sensitivity(
        DIGITS, data=tmp_path / "x.npy", min_sqnr=wish, report=tmp_path / "s.html", threads=1
    )
    assert of_arrays["layers"] == of_file["layers"] and of_arrays["exclude"] is None
    assert [layer["rank_alone"] for layer in of_file["layers"]] == list(range(1, 7))
    assert (tmp_path / "s.html").stat().st_size > 5000
    exclude = of_file["exclude"]
    assert exclude["layers"] and exclude["error"]["sqnr_db"] >= wish
    etm = tmp_path / "q.etm"
    evoq.quantize(DIGITS, etm, calibration=images, exclude=exclude["layers"])
    outputs = [value for value in evoq.diff(DIGITS, etm, data=images)["values"] if value["output"]]
    assert abs(outputs[0]["sqnr_db"] - exclude["error"]["sqnr_db"]) < 0.01
    with pytest.raises(evoq.Error, match="expected one scheme"):
        evoq.sensitivity(DIGITS, data=images, scheme="auto")


def test_one_pattern_is_one(tmp_path):
    """A text is one pattern, not the list of its letters."""
    path = tmp_path / "m.etm"
    common = {"calibration": digits(8), "threads": 1}
    plain = evoq.quantize(DIGITS, path, **common)
    name = next(s["name"] for s in evoq.sensitivity(DIGITS, data=digits(2))["layers"])
    for pattern in (name, [name], (name,), {name}):
        got = evoq.quantize(DIGITS, path, exclude=pattern, **common)
        assert got["float_reasons"][name].startswith(
            f'excluded: the name matches the excluded pattern "{name}"'
        )
        assert "conv1" not in got["float_reasons"], got["float_reasons"]
        assert 0 < got["steps_int8"] < plain["steps_int8"]
        left = evoq.sensitivity(DIGITS, data=digits(2), exclude=pattern)["layers"]
        assert name not in [s["name"] for s in left] and left
    got = evoq.quantize(DIGITS, path, weight_bits=f"{name}=4", **common)
    assert got["weight_bits"] == {name: 4}
    assert evoq.optimize(DIGITS, tmp_path / "o.onnx", disable="fold-*")["passes"] is not None
    evoq.compile(DIGITS, path, disable="fold-*")


def test_samples_and_labels_from_memory(etm, tmp_path):
    """What takes files takes arrays, with the same result."""
    x, y = digits(40), np.arange(40) % 10
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    files = {"data": tmp_path / "x.npy", "labels": tmp_path / "y.npy"}

    def same(function, keys, *arguments, **options):
        of_files = function(*arguments, **files, **options)
        for labels in (y, y.astype(np.int32), list(y)):
            got = function(*arguments, data=x, labels=labels, **options)
            assert {k: got[k] for k in keys} == {k: of_files[k] for k in keys}
        return of_files

    found = same(evoq.eval, ["samples", "top1", "agreement"], etm, reference=DIGITS)
    assert found["samples"] == 40 and 0 < found["top1"] < 1
    assert evoq.eval(etm, data=[x[:20], x[20:]], labels=y)["top1"] == found["top1"]
    assert evoq.eval(etm, data={"image": x}, labels=files["labels"])["top1"] == found["top1"]
    assert same(evoq.sensitivity, ["metric", "all"], DIGITS, limit=8)["metric"] == "top1"
    options = {"scheme": "int8", "calib": tmp_path / "x.npy", "max_drop": 100.0, "measure_s": 0.2}
    path = tmp_path / "certified.etm"
    evoq.quantize(DIGITS, path, data=x, labels=y, **options)
    assert "holds" in evoq.verify(path, data=x, labels=y, measure_s=0.2, threads=1)
    for bad, said in ((y[:7], "7"), (y.astype(float), "expected a class for each sample")):
        with pytest.raises(evoq.Error, match=said):
            evoq.eval(etm, data=x, labels=bad)
    with pytest.raises(evoq.Error, match="--labels are those of --data"):
        evoq.sensitivity(DIGITS, data=4, labels=files["labels"])


def test_prune_writes_zeros(tmp_path):
    report = evoq.prune(DIGITS, tmp_path / "p.onnx", sparsity=0.5, layers=["*"], score="squares")
    assert (tmp_path / "p.onnx").exists() and report["score"] == "squares"
    assert 0.45 < report["sparsity"] < 0.55 and report["layers"]
    assert sum(layer["zeros"] for layer in report["layers"]) == report["zeros"]
    with pytest.raises(evoq.Error, match="expected one of block-4x4"):
        evoq.prune(DIGITS, tmp_path / "q.onnx", pattern="chanel")


def test_prune_removes_channels(tmp_path):
    report = evoq.prune(DIGITS, tmp_path / "p.onnx", pattern="channel", multiple=2)
    assert report["float_weight_bytes"] < report["float_weight_bytes_before"]
    assert any(layer["channels"] < layer["channels_before"] for layer in report["layers"])


def test_every_verb_is_a_function():
    without = {"demo", "train", "zoo", "tokenize"}  # evoq.tool
    without |= {"graph_opt", "atc", "benchmark", "perf_compare"}  # Ascend's programs
    verbs = {verb["name"] for verb in evoq.list("verbs")["items"]}
    assert verbs - without <= set(evoq.__all__) and without <= verbs


def test_tune(tmp_path):
    report = evoq.tune(
        DIGITS,
        tmp_path / "tuned.etm",
        report=tmp_path / "tuned.html",
        strategy="throughput",
        duration_s=0.3,
        threads=1,
    )
    assert [stage["stage"] for stage in report["stages"]] == [
        "baseline",
        "graph",
        "operators",
        "run time",
        "validation",
    ]
    assert (tmp_path / "tuned.html").exists()
    x = digits(3)
    same = evoq.load(tmp_path / "tuned.etm")(x) - evoq.load(DIGITS)(x)
    assert np.abs(same).max() < 1e-4
    with pytest.raises(evoq.Error, match="strategy"):
        evoq.tune(DIGITS, tmp_path / "never.etm", strategy="fast")
    assert not (tmp_path / "never.etm").exists()


def test_predict_is_the_command(tmp_path):
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps(evoq.limits(threads=1)))
    mine = evoq.predict(DIGITS, scheme=["int8", "bf16"], limits=limits)
    theirs = command(
        "predict", DIGITS, "--scheme", "int8,bf16", "--limits", limits, tmp_path=tmp_path
    )
    assert [s["scheme"] for s in mine["schemes"]] == ["float32", "int8", "bf16"] and mine[
        "schemes"
    ] == theirs["schemes"]
    assert len(evoq.predict(onnx.load(DIGITS), limits=limits)["schemes"]) > 3
    with pytest.raises(evoq.Error) as error:
        evoq.predict(DIGITS, limits=limits, threads=2)
    assert error.value.code == "usage"


def test_eval_and_run_are_the_command(etm, tmp_path):
    np.save(tmp_path / "images.npy", digits(40))
    mine = evoq.eval(etm, data=tmp_path / "images.npy", reference=onnx.load(DIGITS), limit=30)
    theirs = command(
        "eval",
        etm,
        "--reference",
        DIGITS,
        "--limit",
        30,
        "--data",
        tmp_path / "images.npy",
        tmp_path=tmp_path,
    )
    assert mine["samples"] == 30 and 0 < mine["agreement"] <= 1 and mine.pop("ms_per_sample") > 0
    assert mine == {key: value for key, value in theirs.items() if key != "ms_per_sample"}
    np.save(tmp_path / "x.npy", digits(1))
    report = evoq.run(etm, {"image": tmp_path / "x.npy"}, output_dir=tmp_path / "out", topk=3)
    assert len(report["top"]) == 3 and report["outputs"][0]["name"] == "scores"
    assert np.array_equal(np.load(tmp_path / "out" / "scores.npy"), evoq.load(etm)(digits(1)))


def test_verify_reads_the_certificate(etm, tmp_path):
    data = tmp_path / "images.npy"
    np.save(data, digits(40))
    certified = tmp_path / "certified.etm"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a busy machine
        evoq.quantize(
            DIGITS, certified, max_drop=50.0, calibration=data, data=data, measure_s=0.1, threads=1
        )
        try:
            found = evoq.verify(certified, baseline=onnx.load(DIGITS), measure_s=0.1, data=data)
            assert found["holds"] is True and found["lines"]
        except evoq.Error as error:  # time alone may differ: another process took the cores
            assert error.code == "condition failed" and str(error).endswith(
                "the certificate does not hold: speed"
            )
    with pytest.raises(evoq.Error) as error:
        evoq.verify(etm)
    assert error.value.code == "invalid input" and "carries no certificate" in str(error.value)


def test_options_that_are_not_given_are_the_commands(monkeypatch):
    """The defaults stand in C++ alone: a call without options passes none."""
    given = []
    monkeypatch.setattr(
        evoq._verb._evoq,
        "verb",
        lambda verb, arguments, samples, progress: given.append(arguments) or ("{}", "", []),
    )
    for function in (evoq.bench, evoq.profile, evoq.inspect, evoq.verify):
        function(DIGITS)
    assert given == [["--", DIGITS]] * 4


def test_progress_is_told(tmp_path):
    told = []
    evoq.quantize(
        DIGITS,
        tmp_path / "a.etm",
        calibration=digits(4),
        progress=lambda stage, fraction: told.append((stage, fraction)),
    )
    stages = [stage for stage, _ in told]
    assert list(dict.fromkeys(stages)) == [
        "loading",
        "calibrating",
        "quantizing",
        "compiling",
        "checking outputs",
        "writing",
    ]
    assert all(0 <= fraction <= 1 for _, fraction in told)
    told.clear()
    evoq.profile(
        DIGITS, duration_s=0.05, progress=lambda stage, fraction: told.append((stage, fraction))
    )
    assert told[0][0] == "profiling"


def test_an_exception_of_progress_stops_the_work(tmp_path):
    class Stop(Exception):
        pass

    def stop(stage, fraction):
        if stage in ("compiling", "comparing", "measuring"):
            raise Stop(stage)

    for call in (
        lambda: evoq.quantize(DIGITS, tmp_path / "a.etm", calibration=4, progress=stop),
        lambda: evoq.compile(DIGITS, tmp_path / "a.etm", progress=stop),
        lambda: evoq.compare(DIGITS, DIGITS, duration_s=60, progress=stop),
        lambda: evoq.bench(DIGITS, duration_s=60, progress=stop),
    ):
        with pytest.raises(Stop):
            call()
    assert not list(tmp_path.iterdir())


def test_an_interrupt_stops_the_work(tmp_path):
    """Ctrl-C in a comparison of a minute, and in the calibration of a quantization."""
    for call, stage in (
        ("evoq.compare(model, model, duration_s=60, threads=1, progress=say)", "comparing"),
        ("evoq.explain(model, duration_s=60, threads=1, progress=say)", "measuring"),
    ):
        program = (
            "import evoq, signal, sys\n"
            # A shell starts what runs in the background with Ctrl-C ignored.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "def say(stage, fraction): print(stage, flush=True)\n"
            f"model = {DIGITS!r}\n"
            f"try: {call}\n"
            "except KeyboardInterrupt: sys.exit(42)\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(evoq.__file__))}
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert any(line.strip() == stage for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 42


def test_the_pages_snippets(tmp_path, monkeypatch):
    """docs/python.md says what it prints; numbers to 1%, because an .etm names the kernels of its
    machine."""
    page = open(os.path.join(ROOT, "docs/python.md")).read()
    snippets = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    # tests/python/test_nn.py trains networks, as test_streams.py runs streams.
    snippets = [text for text in snippets if "backend" not in text and "nn.Network" not in text]
    assert len(snippets) >= 3
    shutil.copy(DIGITS, tmp_path / "digits.onnx")
    monkeypatch.chdir(tmp_path)
    printed, names = [], {}
    names["print"] = lambda *values: printed.extend(" ".join(map(str, values)).splitlines())
    for text in snippets:
        exec(text, names)
    expected = re.findall(r"^# (.*)$|^print.*\)  +# (.*)$", "\n".join(snippets), re.M)
    number = re.compile(r"\d+(?:\.\d+)?")
    for line, (below, beside) in zip(printed, expected, strict=True):
        told = below or beside
        assert number.sub("N", line).split() == number.sub("N", told).split()
        assert list(map(float, number.findall(line))) == pytest.approx(
            list(map(float, number.findall(told))), rel=0.01
        ), told


def test_readmes_snippet(tmp_path, monkeypatch, capsys):
    """README's lines for Python, on another model by the names that they use."""
    snippet = open(os.path.join(ROOT, "README.md")).read().split("```python\n")[1].split("```")[0]
    weights = np.random.default_rng(0).standard_normal((12, 10)).astype(np.float32)
    node = helper.make_node("MatMul", ["input", "w"], ["output"], "product")
    inputs, outputs = [float32("input", ["N", 12])], [float32("output", ["N", 10])]
    monkeypatch.chdir(tmp_path)
    onnx.save(model([node], inputs, outputs, {"w": weights}), "mobilenetv2.onnx")
    images = np.random.default_rng(1).random((8, 12), dtype=np.float32)
    names = {"evoq": evoq, "images": images, "image": images[:1]}
    exec(snippet, names)
    want = images[:1] @ weights
    assert np.abs(names["scores"] - want).max() < 0.05 * np.abs(want).max()
    assert "product" in capsys.readouterr().out


def test_tools_print_nothing(etm, capfd):
    report = evoq.profile(etm, duration_s=0.02, warmup_ms=1)
    assert "total" in report.text
    assert capfd.readouterr() == ("", "")


def test_warnings_are_pythons(tmp_path, monkeypatch):
    (tmp_path / "limits.json").write_text("{")
    monkeypatch.setenv("EVOQ_LIMITS_CACHE", str(tmp_path / "limits.json"))
    with pytest.warns(RuntimeWarning, match="the limits cache is ignored: .*limits.json"):
        evoq.predict(DIGITS, scheme=["int8"])


def test_other_runtimes_profiles(tmp_path):
    events = [
        {
            "cat": "Node",
            "name": "conv_kernel_time",
            "dur": 100,
            "ts": i * 200,
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "args": {"op_name": "Conv", "provider": "CPUExecutionProvider", "node_index": "0"},
        }
        for i in range(3)
    ]
    (tmp_path / "ort.json").write_text(json.dumps(events))
    assert evoq.explain(ort_profile=tmp_path / "ort.json")["tool"]
    # By its content, as evoq explain F.
    assert evoq.explain(tmp_path / "ort.json")["tool"] == "onnxruntime"
    assert evoq.explain(str(tmp_path))["layers"] == 1


def test_any_verb():
    assert "Conv" in json.dumps(evoq.tool("list", "ops")["items"])
    assert evoq.limits(threads=1)["fp32_gflops"] > 0


def test_the_command_of_the_package():
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(evoq.__file__))}
    for arguments, code in (
        (["--version"], 0),
        (["inspect", DIGITS], 0),
        (["inspect", "none.onnx"], 3),
        (["inspect"], 2),
    ):
        mine = subprocess.run(
            [os.sys.executable, "-m", "evoq", *arguments],
            capture_output=True,
            text=True,
            env=environment,
        )
        theirs = subprocess.run([EVOQ, *arguments], capture_output=True, text=True)
        assert (mine.returncode, mine.stdout, mine.stderr) == (code, theirs.stdout, theirs.stderr)
