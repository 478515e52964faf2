"""AscendCL's calls (evoq.acl, ascendctl): results, order, priorities, futures, errors; and the
Python of the guide as it stands."""

import os
import pathlib
import re
import threading

import ascendctl
import evoq
import numpy as np
import pytest
from evoq import acl
from models import DIGITS, ROOT, digits

GUIDES = sorted(
    pathlib.Path(os.environ.get("EVOQ_SEEDS", ROOT / "../shared/seeds")).glob("004_*.txt")
)


@pytest.fixture
def model():
    acl.init()
    yield acl.mdl.load_from_file(DIGITS)
    acl.finalize()


def test_both_names_are_one():
    assert ascendctl.mdl is acl.mdl and ascendctl.rt is acl.rt and ascendctl.util is acl.util


def test_what_a_model_says(model):
    loaded = evoq.load(DIGITS)
    assert acl.mdl.get_num_inputs(model) == acl.mdl.get_num_outputs(model) == 1
    assert acl.mdl.get_input_name_by_index(model, 0) == loaded.inputs[0].name
    assert acl.mdl.get_output_name_by_index(model, 0) == loaded.outputs[0].name
    assert acl.mdl.get_input_dims(model, 0) == {
        "name": loaded.inputs[0].name,
        "dimCount": 4,
        "dims": [-1, 1, 28, 28],
    }
    assert acl.mdl.get_output_dims(model, 0)["dims"] == [-1, 10]


@pytest.mark.parametrize("mode", ["low_latency", "high_throughput"])
def test_results_are_those_of_a_run(model, mode):
    images = [digits(1 + i % 3, seed=i) for i in range(24)]
    plain = evoq.load(DIGITS)
    streams = [acl.rt.create_stream() for _ in range(3)]
    futures = [
        acl.mdl.execute_async(model, [acl.util.numpy_to_ptr(x)], streams[i % 3], mode=mode)
        for i, x in enumerate(images)
    ]
    for x, future in zip(images, futures):
        (scores,) = future.get(timeout=60)
        np.testing.assert_array_equal(scores, plain(x))
    np.testing.assert_array_equal(acl.mdl.execute(model, [images[0]])[0], plain(images[0]))


class Gate:
    """Holds back what a stream computes, and writes down in which order runs begin."""

    def __init__(self, monkeypatch):
        self.open = threading.Event()
        self.begun = []
        compute = acl.mdl._run

        def run(model, arrays):
            self.begun.append(arrays[0].shape[0])
            self.open.wait(60)
            return compute(model, arrays)

        monkeypatch.setattr(acl.mdl, "_run", run)

    def until(self, count):
        while len(self.begun) < count:
            threading.Event().wait(0.001)


def test_priorities_say_what_begins_next(model, monkeypatch):
    gate = Gate(monkeypatch)
    first, low, high = (acl.rt.create_stream() for _ in range(3))
    acl.rt.set_stream_priority(low, 2)
    acl.rt.set_stream_priority(high, 1)
    ask = lambda stream, batch: acl.mdl.execute_async(model, [digits(batch)], stream)
    futures = [ask(first, 1)]
    gate.until(1)
    # The batch names the run.
    futures += [ask(low, 2), ask(low, 3), ask(high, 4), ask(high, 5)]
    gate.open.set()
    for future in futures:
        future.get(60)
    assert gate.begun == [1, 4, 5, 2, 3]


def test_a_stream_keeps_its_order_and_others_go_on(model, monkeypatch):
    gate = Gate(monkeypatch)
    a, b = acl.rt.create_stream(), acl.rt.create_stream()
    mode = "high_throughput"
    futures = [acl.mdl.execute_async(model, [digits(n)], a, mode=mode) for n in (1, 2)]
    gate.until(1)
    futures.append(acl.mdl.execute_async(model, [digits(3)], b, mode=mode))
    gate.until(2)
    assert gate.begun == [1, 3]  # 2 waits for 1, b for nothing
    gate.open.set()
    acl.rt.synchronize_stream(a)
    assert futures[0].done() and futures[1].done()
    assert gate.begun == [1, 3, 2]


def test_a_run_that_has_not_begun_can_be_cancelled(model, monkeypatch):
    gate = Gate(monkeypatch)
    stream = acl.rt.create_stream()
    futures = [acl.mdl.execute_async(model, [digits(n)], stream) for n in (1, 2, 3)]
    gate.until(1)
    assert futures[1].cancel() and not futures[0].cancel()
    with pytest.raises(TimeoutError):
        futures[2].get(timeout=0.01)
    gate.open.set()
    futures[2].get(60)
    assert gate.begun == [1, 3]


def test_errors_reach_who_waits(model):
    stream = acl.rt.create_stream()
    wrong = acl.mdl.execute_async(model, [np.zeros((1, 1, 28, 28))], stream)
    right = acl.mdl.execute_async(model, [digits(1)], stream)
    with pytest.raises(evoq.Error, match="float64.*expected float32"):
        wrong.get(60)
    assert right.get(60)[0].shape == (1, 10)


def test_what_is_refused(model):
    stream = acl.rt.create_stream()
    x = digits(1)
    refusals = [
        (lambda: acl.mdl.execute_async(model, [x], stream, mode="fast"), "mode 'fast'"),
        (lambda: acl.mdl.execute_async(model + 1, [x], stream), "not loaded, or unloaded"),
        (lambda: acl.mdl.execute_async(model, [int(x.ctypes.data)], stream), "an address alone"),
        (lambda: acl.mdl.execute_async(model, [x], object()), "no stream of create_stream"),
        (lambda: acl.mdl.get_input_dims(model, 1), "input 1: the model has 1"),
        (lambda: acl.rt.set_stream_priority(stream, 8), "expected 0 to 7"),
        (lambda: acl.rt.set_device(1), "device 1"),
        (lambda: acl.rt.destroy_context(3), "no context"),
        (lambda: acl.util.numpy_to_ptr([1]), "expected a numpy array"),
        (lambda: acl.util.ptr_to_numpy(7), "no pointer"),
        (lambda: acl.mdl.load_from_file("missing.om"), "missing.om"),
    ]
    for call, said in refusals:
        with pytest.raises(evoq.Error, match=re.escape(said)):
            call()
    acl.rt.destroy_stream(stream)
    with pytest.raises(evoq.Error, match="destroyed"):
        acl.rt.synchronize_stream(stream)
    acl.mdl.unload(model)
    with pytest.raises(evoq.Error, match="unloaded"):
        acl.mdl.get_num_inputs(model)


def test_pointers_are_addresses():
    x = digits(1)
    pointer = acl.util.numpy_to_ptr(x)
    assert pointer == x.ctypes.data and acl.util.ptr_to_numpy(pointer) is x


@pytest.mark.skipif(not GUIDES, reason="no guide ../shared/seeds/004_*.txt (set EVOQ_SEEDS)")
def test_the_guide_runs_as_it_stands(tmp_path, monkeypatch):
    text = GUIDES[0].read_text(encoding="utf-8")
    example = text[text.index("import ascendctl as acl") :]
    end = "inference_engine.release()"
    example = example[: example.rindex(end) + len(end)]
    monitor = text[text.index("class PerformanceMonitor") :]
    end = 'return "normal"'
    monitor = monitor[: monitor.index(end) + len(end)]

    path = tmp_path / "resnet50_optimized_om.om"
    evoq.tool("zoo", "resnet50-bn", output=tmp_path / "resnet50.onnx")
    evoq.compile(tmp_path / "resnet50.onnx", path)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example, "the guide", "exec"), names)
    expected = evoq.load(path)(names["input_data"])
    assert len(names["results"]) == 4
    for (scores,) in names["results"]:
        np.testing.assert_array_equal(scores, expected)
    assert names["inference_engine"].input_desc["dims"] == [-1, 3, 224, 224]

    exec(compile(monitor, "the guide", "exec"), names)
    engine = names["inference_engine"]
    engine.expected_latency = 0.1
    watch = names["PerformanceMonitor"](engine)
    assert {watch.collect_metrics(8, 0.1) for _ in range(11)} == {"normal"}
    assert [watch.collect_metrics(8, 0.2) for _ in range(10)][-1] == "suggest_increase_batch_size"
    assert [watch.collect_metrics(8, 0.01) for _ in range(10)][-1] == (
        "suggest_decrease_stream_priority"
    )
