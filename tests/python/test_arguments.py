"""What the package's functions hand to the command and to the extension, argument by argument."""

import os

import evoq
import evoq.backend
import numpy as np
import onnx
import pytest
from models import DIGITS, float32, model, unary
from onnx import helper


TASKS = {
    "optimize": "OptimizeJob",
    "compile": "CompileJob",
    "quantize": "QuantizeJob",
    "explain": "ExplainJob",
    "explain_target": "TargetJob",
    "explain_foreign": "ForeignJob",
    "compare": "CompareJob",
    "predict": "PredictJob",
    "eval": "EvalJob",
    "perplexity": "PerplexityJob",
}


def fields(job):
    return {
        name: getattr(job, name)
        for name, field in vars(type(job)).items()
        if isinstance(field, property)
    }


@pytest.fixture
def handed(monkeypatch):
    """The verb, the arguments and the samples of each call of a verb; the task and the fields that
    are not at their defaults of each call of a task. Neither does anything."""
    calls = []

    def verb(name, arguments, samples, progress):
        calls.append((name, arguments, samples))
        return "{}", "said", []

    def task(name):
        def run(job, samples=None, progress=None):
            kind = getattr(evoq._evoq, TASKS[name])
            assert type(job) is kind
            default = fields(kind())
            set_ = {key: value for key, value in fields(job).items() if value != default[key]}
            calls.append((name, set_, samples or []))
            return "{}", "said", []

        return run

    monkeypatch.setattr(evoq._verb._evoq, "verb", verb)
    for name in TASKS:
        monkeypatch.setattr(evoq._verb._evoq, name, task(name))
    return calls


SHAPES, COMMON = {"x": (2, 3)}, {"threads": 2, "later": "new"}
TIMED = {"batch": 4, "shapes": SHAPES, "duration_s": 0.5}
TIMED_FIELDS = {"batch": 4, "shape": {"x": [2, 3]}, "duration_s": 0.5, "threads": 2}


def test_every_option_reaches_the_command(handed):
    timed_text = ["--batch=4", "--shape=x=2x3", "--duration-s=0.5"]
    rest = ["--threads=2", "--later=new"]
    cases = [
        (lambda: evoq.inspect("a", shapes=SHAPES), "inspect", ["--shape=x=2x3"], ["a"]),
        (
            lambda: evoq.bench(
                "a", streams=3, warmup_ms=1.5, iterations=9, percentiles=(50, 99), **TIMED, **COMMON
            ),
            "bench",
            [
                *timed_text,
                "--streams=3",
                "--warmup-ms=1.5",
                "--iterations=9",
                "--percentile=50",
                "--percentile=99",
                *rest,
            ],
            ["a"],
        ),
        (
            lambda: evoq.profile("a", warmup_ms=1.5, trace="t", **TIMED, **COMMON),
            "profile",
            [*timed_text, "--warmup-ms=1.5", "--trace=t", *rest],
            ["a"],
        ),
        (lambda: evoq.limits(threads=2), "limits", ["--threads=2"], []),
        (
            lambda: evoq.verify("a", data="d", labels="l", baseline="f", measure_s=2, **COMMON),
            "verify",
            ["--data=d", "--labels=l", "--baseline=f", "--measure-s=2", *rest],
            ["a"],
        ),
        (
            lambda: evoq.run(
                "a", {"x": "f", "y": b"g"}, output_dir="o", topk=3, labels="l", **COMMON
            ),
            "run",
            ["--input=x=f", "--input=y=g", "--output-dir=o", "--topk=3", "--labels=l", *rest],
            ["a"],
        ),
        (lambda: evoq.list("ops"), "list", [], ["ops"]),
    ]
    for call, name, options, models in cases:
        handed.clear()
        report = call()
        assert report == {} and report.text == "said"
        ((verb, arguments, samples),) = handed
        at = arguments.index("--")
        assert (verb, sorted(arguments[:at]), arguments[at + 1 :], samples) == (
            name,
            sorted(options),
            models,
            [],
        )


def test_every_option_reaches_the_task(handed, tmp_path):
    config = tmp_path / "optimize.json"
    config.write_text('{"disable": ["r*"], "stop_after": 5}')
    cases = [
        (
            lambda: evoq.optimize(
                "a", "b", disable=("p*", "q"), opt_level=0, stop_after=3, config=config
            ),
            "optimize",
            {
                "model": "a",
                "output": "b",
                "disable": ["p*", "q", "r*"],
                "opt_level": 0,
                "stop_after": 5,
            },
        ),
        (
            lambda: evoq.compile(
                "a",
                "b",
                shapes=SHAPES,
                fixed_shapes={"y": (None, 7)},
                disable=["p@n"],
                opt_level=2,
                tune=True,
                threads=2,
            ),
            "compile",
            {
                "model": "a",
                "output": "b",
                "disable": ["p@n"],
                "opt_level": 2,
                "shape": {"x": [2, 3]},
                "fix_shape": {"y": [-1, 7]},
                "tune": True,
                "threads": 2,
            },
        ),
        (
            lambda: evoq.quantize(
                "a",
                "b",
                scheme="s",
                calibration="d",
                calibration_limit=5,
                preprocess="p",
                observer="mse",
                percentile=99.5,
                per_tensor=True,
                signed=True,
                symmetric=True,
                exclude=("e*", "f"),
                disable=("p", "q@n"),
                opt_level=1,
                target="t",
                ranges="r",
                save_ranges="w",
                shapes=SHAPES,
                fixed_shapes={"y": [1]},
                tune=True,
                threads=2,
                max_drop=1,
                min_sqnr=20.5,
                never_slower=True,
                data="i",
                labels="l",
                data_limit=7,
                search_s=3,
                measure_s=2,
            ),
            "quantize",
            {
                "model": "a",
                "output": "b",
                "scheme": "s",
                "calib": ["d"],
                "calib_limit": 5,
                "preprocess": "p",
                "observer": "mse",
                "percentile": 99.5,
                "per_tensor": True,
                "signed": True,
                "symmetric": True,
                "exclude": ["e*", "f"],
                "disable": ["p", "q@n"],
                "opt_level": 1,
                "target": "t",
                "ranges": "r",
                "save_ranges": "w",
                "shape": {"x": [2, 3]},
                "fix_shape": {"y": [1]},
                "tune": True,
                "threads": 2,
                "max_drop": 1.0,
                "min_sqnr": 20.5,
                "never_slower": True,
                "data": ["i"],
                "labels": "l",
                "data_limit": 7,
                "search_s": 3.0,
                "measure_s": 2.0,
            },
        ),
        (
            lambda: evoq.explain(
                "a", baseline="f", report="r", threads=2, input={"x": "f.npy"}, eval="e", **TIMED
            ),
            "explain",
            {
                **TIMED_FIELDS,
                "model": "a",
                "baseline": "f",
                "report": "r",
                "input": {"x": "f.npy"},
                "eval": "e",
            },
        ),
        (
            lambda: evoq.explain("a", target="t", fix=True, output="o", data=["d"], shapes=SHAPES),
            "explain_target",
            {
                "model": "a",
                "target": "t",
                "fix": True,
                "output": "o",
                "data": ["d"],
                "shape": {"x": [2, 3]},
            },
        ),
        (
            lambda: evoq.explain(trtexec="d", baseline="f"),
            "explain_foreign",
            {"trtexec": "d", "baseline": "f"},
        ),
        (
            lambda: evoq.compare(
                "a", "b", rounds=7, report="r", fail_slower=3, threads=2, input=["x=f"], **TIMED
            ),
            "compare",
            {
                **TIMED_FIELDS,
                "a": "a",
                "b": "b",
                "rounds": 7,
                "report": "r",
                "fail_slower": 3.0,
                "input": {"x": "f"},
            },
        ),
        (
            lambda: evoq.predict(
                "a", scheme=("s", "t"), batch=4, shapes=SHAPES, limits="l", check=True, threads=2
            ),
            "predict",
            {
                "model": "a",
                "scheme": ["s", "t"],
                "batch": 4,
                "shape": {"x": [2, 3]},
                "limits": "l",
                "check": True,
                "threads": 2,
            },
        ),
        (
            lambda: evoq.eval(
                "a", data=["x=d", "y=e"], labels="l", reference="r", limit=6, threads=2
            ),
            "eval",
            {
                "model": "a",
                "data": ["x=d", "y=e"],
                "labels": "l",
                "reference": "r",
                "limit": 6,
                "threads": 2,
            },
        ),
        (
            lambda: evoq.eval("a", text="t", tokenizer="k", limit=6, window=9, tokens="w"),
            "perplexity",
            {"model": "a", "text": "t", "tokenizer": "k", "limit": 6, "window": 9, "tokens": "w"},
        ),
    ]
    for call, name, expected in cases:
        handed.clear()
        report = call()
        assert report == {} and report.text == "said"
        assert handed == [(name, expected, [])]


def test_a_config_gives_way_to_the_call(handed, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"scheme": "bf16", "percentile": 99, "exclude": ["a*"], "signed": true}')
    evoq.quantize("a", "b", config=config, percentile=98, exclude=["b*"])
    ((_, set_, _),) = handed
    assert set_ == {
        "model": "a",
        "output": "b",
        "scheme": "bf16",
        "percentile": 98.0,
        "exclude": ["a*", "b*"],
        "signed": True,
    }
    config.write_text('{"scheme": 1}')
    with pytest.raises(evoq.Error) as caught:
        evoq.quantize("a", "b", config=config)
    assert caught.value.code == "invalid input"


def test_options_that_are_none(handed):
    for call, message in (
        (lambda: evoq.compile("a", "b", later="new"), "compile: there is no option 'later' here"),
        (lambda: evoq.compile("a", "b", __class__=1), "compile: there is no option '__class' here"),
        (lambda: evoq.compile("a", "b", threads="two"), "compile: threads='two' is none of its"),
        (lambda: evoq.compile("a", "b", threads=2.5), "compile: threads=2.5 is none of its"),
        (lambda: evoq.compile("a", "b", shapes=3), "compile: shape=3 is none of its"),
        (lambda: evoq.compile("a", "b", threads=1 << 40), "compile: threads=1099511627776 is none"),
        (lambda: evoq.compare("a", "b", input=["f"]), "compare: input=['f'] is none of its"),
        (lambda: evoq.explain("a", trtexec="d"), "explain: another runtime's files, a model"),
        (lambda: evoq.explain(trtexec="d", ort_profile="e"), "exclude each other"),
        (lambda: evoq.explain(), "explain what?"),
        (lambda: evoq.eval("a", text="t", data="d"), "perplexity: there is no option 'data' here"),
    ):
        with pytest.raises(evoq.Error) as caught:
            call()
        assert message in str(caught.value) and caught.value.code == "usage"
    assert handed == []


def test_options_of_each_form(handed):
    evoq.tool(
        "v",
        "m",
        none=None,
        no=False,
        yes=True,
        class_="c",
        a_b=1,
        paths=[b"p", "q"],
        shape={"x": (1, None), "s": ()},
        one={3},
        zero=0,
    )
    ((_, arguments, _),) = handed
    assert arguments == [
        "--yes",
        "--class=c",
        "--a-b=1",
        "--paths=p",
        "--paths=q",
        "--shape=x=1x?",
        "--shape=s=",
        "--one=3",
        "--zero=0",
        "--",
        "m",
    ]


def test_calibration_of_each_form(handed, tmp_path):
    for calibration, expected in (
        ("d", {"calib": ["d"]}),
        (b"d", {"calib": ["d"]}),
        (tmp_path, {"calib": [str(tmp_path)]}),
        ({"x": "d", "y": "e"}, {"calib": ["x=d", "y=e"]}),
        (7, {"calib_random": 7}),
        (None, {}),
    ):
        handed.clear()
        evoq.quantize("a", "b", calibration=calibration)
        assert handed == [("quantize", {"model": "a", "output": "b", **expected}, [])]


def add(a, b):
    return model(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        [float32("a", a), float32("b", b)],
        [float32("y", None)],
    )


def taken(net, calibration):
    return [
        [np.asarray(a).tolist() for a in sample]
        for sample in evoq._data.samples_of(net, calibration)
    ]


def test_samples_are_cut_to_the_models_batch():
    rows = np.arange(8, dtype=np.float32).reshape(8, 1)
    one = np.float32(5)
    # A batch of two and a scalar: each sample has two rows, and the scalar as it is.
    assert taken(add((2, 1), ()), {"b": one, "a": rows[:4]}) == [[[[0], [1]], 5], [[[2], [3]], 5]]
    # Free batches count single rows; several batches come one after the other.
    assert taken(add(("N", 1), ("N", 1)), [(rows[:2], rows[4:6]), [rows[2:3], rows[6:7]]]) == [
        [[[0]], [[4]]],
        [[[1]], [[5]]],
        [[[2]], [[6]]],
    ]
    # One sample where no array has rows; numbers become arrays.
    assert taken(add((), ()), [(1.5, 2)]) == [[1.5, 2]]
    # An input of no rows is taken whole.
    assert taken(add((0, 1), ("N", 1)), [(rows[:0], rows[:2])]) == [[[], [[0]]], [[], [[1]]]]
    # Arrays of one axis more hold whole inputs, one behind the other.
    assert taken(add(("T", 1), (1, 1)), [(rows[None], rows[:1]), (rows[None, :2], rows[1:2])]) == [
        [rows.tolist(), [[0]]],
        [[[0], [1]], [[1]]],
    ]
    # A single array, and a sample of one input that is no tuple.
    assert taken(unary("Neg", ("N", 1)), rows[:2]) == [[[[0]]], [[[1]]]]
    assert taken(unary("Neg", ("N", 1)), iter([rows[:1], rows[1:2]])) == [[[[0]]], [[[1]]]]


def test_samples_that_do_not_fit():
    rows = np.zeros((3, 1), np.float32)
    free = add(("N", 1), ("M", 1))
    for calibration, message in (
        ([{"b": rows}], "calibration: a sample lacks a, the inputs are a, b"),
        ([{}], "calibration: a sample lacks a, b, the inputs are a, b"),
        ([(rows,)], "calibration: a sample has 1 arrays, the model 2 inputs"),
        (
            [(rows, rows[:2])],
            "calibration: the arrays hold different numbers of samples (a 3, b 2); an input whose "
            "first axis counts no samples takes arrays of one more, array[None] for one sample",
        ),
        ([], "calibration: there are no samples"),
        ([(rows[:0], rows[:0])], "calibration: there are no samples"),
    ):
        with pytest.raises(evoq.Error) as caught:
            evoq._data.samples_of(free, calibration)
        assert str(caught.value) == message and caught.value.code == "usage"


def test_warnings_point_to_the_caller(monkeypatch):
    monkeypatch.setattr(
        evoq._verb._evoq,
        "verb",
        lambda *_: ("[1, 2]", "", ["note: no", "warning: one", "warning: warning: two"]),
    )
    with pytest.warns(RuntimeWarning) as caught:
        report = evoq.inspect(DIGITS)
    assert [str(warning.message) for warning in caught] == ["one", "warning: two"]
    assert {os.path.basename(warning.filename) for warning in caught} == {
        os.path.basename(__file__)
    }
    assert report == {"items": [1, 2]}


def test_load_hands_on(monkeypatch):
    calls = []
    monkeypatch.setattr(evoq._model._evoq, "load", lambda *arguments: calls.append(arguments))
    evoq.load("a")
    options = {"threads": 3, "shapes": {"x": np.array([1, 2])}, "streams": 4, "tuned": False}
    evoq.load(bytearray(b"onnx"), gears=False, **options)
    assert calls == [
        ("a", 0, {}, 1, True, None, True),
        (b"onnx", 3, {"x": [1, 2]}, 4, False, None, False),
    ]


def test_defaults_of_the_extension():
    assert evoq._evoq.load(DIGITS).threads == evoq.load(DIGITS, threads=0).threads
    assert evoq._evoq.load(DIGITS).streams == 1
    report, text, log = evoq._evoq.verb("list", ["verbs"])
    assert "quantize" in report and "quantize" in text and log == []


def test_errors_have_a_code():
    assert evoq.Error("m").code == "usage" and str(evoq.Error("m")) == "m"


def test_models_as_files():
    data = onnx.load(DIGITS).SerializeToString()
    for source in (data, bytearray(data), memoryview(data), onnx.load(DIGITS)):
        with evoq._source.as_file(source) as path:
            assert path.endswith(".onnx") and open(path, "rb").read() == data
        assert not os.path.exists(path) and not os.path.exists(os.path.dirname(path))
    with evoq._source.as_file(DIGITS) as path:
        assert path == DIGITS


def test_run_node_makes_its_model(monkeypatch):
    seen = []

    def run_model(proto, inputs, device="CPU", **options):
        seen.append((proto, inputs, device, options))
        return ()

    monkeypatch.setattr(evoq.backend.EvoqBackend, "run_model", run_model)
    newest = onnx.defs.onnx_opset_version()
    x = np.float32([[1, 2]])
    for domain, given, opsets in (
        ("", None, [("", newest)]),
        ("", 13, [("", 13)]),
        ("ai.onnx", 12, [("", newest)]),
        ("com.microsoft", None, [("", newest), ("com.microsoft", 1)]),
        ("com.microsoft", 3, [("", newest), ("com.microsoft", 3)]),
    ):
        seen.clear()
        node = helper.make_node("Op", ["x", "", "s"], ["y", "", "z"], domain=domain)
        options = {} if given is None else {"opset_version": given}
        evoq.backend.EvoqBackend.run_node(
            node,
            {"s": np.array(["t"]), "x": x},
            "CPU:0",
            [(np.int64, (3,)), (np.float32, ())],
            threads=2,
            **options,
        )
        ((proto, inputs, device, rest),) = seen
        assert [(o.domain, o.version) for o in proto.opset_import] == opsets
        assert [i.name for i in proto.graph.input] == ["x", "s"] and [
            o.name for o in proto.graph.output
        ] == ["y", "z"]
        types = [value.type.tensor_type for value in (*proto.graph.input, *proto.graph.output)]
        assert [t.elem_type for t in types] == [1, 8, 7, 1]
        assert [[d.dim_value for d in t.shape.dim] for t in types] == [[1, 2], [1], [3], []]
        assert inputs[0] is x and device == "CPU:0" and rest == {"threads": 2}


def test_backend_models():
    assert evoq.backend.prepare(unary("Neg"), threads=2, streams=3).model.streams == 3
    (y,) = evoq.backend.run_model(unary("Neg", (2,)), np.float32([1, 2]), "CPU", threads=1)
    assert y.tolist() == [-1, -2]
    with pytest.raises(evoq.Error):
        evoq.backend.run_model(unary("Neg", (2,)), [np.float32([1, 2])], "CUDA")
