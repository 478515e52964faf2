"""Several Python threads: one model, several models, one at a time or several streams."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import evoq
import numpy as np
import pytest
from models import DIGITS, convolutions, digits, unary


def inputs(count):
    rng = np.random.default_rng(3)
    return [rng.standard_normal((1 + i % 3, 32, 32, 32)).astype(np.float32) for i in range(count)]


@pytest.mark.parametrize("streams", [1, 3])
def test_one_model_in_many_threads(streams):
    proto = convolutions(layers=3)
    data = inputs(24)
    expected = [evoq.load(proto, threads=1)(x) for x in data]
    net = evoq.load(proto, threads=1, streams=streams)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(net, data * 2))
    for got, want in zip(results, expected * 2):
        np.testing.assert_array_equal(got, want)


def test_many_models_in_many_threads():
    nets = [evoq.load(convolutions(layers=2, seed=i), threads=2) for i in range(3)] + [
        evoq.load(DIGITS, threads=2)
    ]
    data = [inputs(1)[0]] * 3 + [digits(5)]
    expected = [net(x) for net, x in zip(nets, data)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for got, want in zip(
                pool.map(lambda pair: pair[0](pair[1]), zip(nets, data)), expected
            ):
                np.testing.assert_array_equal(got, want)


def test_models_without_a_plan_in_many_threads():
    net = evoq.load(
        unary("StringNormalizer", ("N",), 8, case_change_action="UPPER", is_case_sensitive=1)
    )
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: net([f"a{i}", "b"]).tolist(), range(40)))
    assert results == [[f"A{i}", "B"] for i in range(40)]


def test_threads_run_while_python_goes_on():
    # No switch but where the GIL is given up: the main thread sees the worker half way only if a
    # run gives it up.
    net = evoq.load(convolutions(), threads=1)
    x = inputs(1)[0]
    net(x)
    started, done = threading.Event(), []

    def work():
        started.set()
        for _ in range(200):
            done.append(net(x).shape)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        worker = threading.Thread(target=work)
        worker.start()
        started.wait()
        seen = len(done)
    finally:
        sys.setswitchinterval(interval)
    worker.join()
    assert seen < 200 and len(done) == 200


def test_loading_and_tools_in_many_threads(tmp_path):
    def job(i):
        path = tmp_path / f"{i}.etm"
        evoq.quantize(DIGITS, path, calibration=digits(4), threads=1)
        return evoq.inspect(path)["nodes"], evoq.load(path, threads=1)(digits(1)).tolist()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(job, range(8)))
    assert all(result == results[0] for result in results)


def test_an_error_in_one_thread_leaves_the_others_alone():
    net = evoq.load(DIGITS, threads=1, streams=2)
    good = digits(1)
    expected = net(good)

    def job(i):
        if i % 3 == 0:
            with pytest.raises(evoq.Error):
                net(good[:, :, :5])
            return expected
        return net(good)

    with ThreadPoolExecutor(6) as pool:
        for got in pool.map(job, range(60)):
            np.testing.assert_array_equal(got, expected)
