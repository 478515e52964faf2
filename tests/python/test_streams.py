"""evoq.Streams: futures, priorities, deadlines, cancelling, asyncio."""

import asyncio
import concurrent.futures
import gc
import threading
import time
import weakref

import evoq
import numpy as np
import pytest
from models import float32, model
from onnx import ModelProto, helper

WIDTH = 64


def chain(steps):
    """A model of many steps on rows of numbers."""
    nodes = [helper.make_node("Softmax", [f"x{i}"], [f"x{i + 1}"]) for i in range(steps)]
    shape = ["N", WIDTH]
    return model(nodes, [float32("x0", shape)], [float32(f"x{steps}", shape)])


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def short():
    return chain(3)


@pytest.fixture(scope="module")
def long():
    return chain(500)


def test_results_are_those_of_the_model(short):
    net = evoq.load(short)
    with evoq.Streams(short, priorities=[0, 1, 1], at_once=2) as streams:
        assert len(streams) == 3 and streams.at_once == 2
        assert [v.name for v in streams.inputs] == ["x0"]
        assert [v.name for v in streams.outputs] == ["x3"]
        asked = [(rows(1 + i % 3, i), i % 3) for i in range(30)]
        futures = [streams.submit(x, stream=stream) for x, stream in asked]
        for (x, _), future in zip(asked, futures, strict=True):
            np.testing.assert_array_equal(future.result()["x3"], net.run(x)["x3"])
        assert streams.arena_bytes > 0


def test_runs_of_a_stream_follow_each_other(short):
    order = {0: [], 1: []}
    with evoq.Streams(short) as streams:
        for i in range(40):
            future = streams.submit(rows(1 + i % 5), stream=i % 2)
            future.add_done_callback(lambda _, i=i: order[i % 2].append(i))
        streams.wait()
    assert order == {s: list(range(s, 40, 2)) for s in (0, 1)}


def test_an_urgent_run_overtakes(long):
    with evoq.Streams(long, priorities=[5, 0], at_once=1) as streams:
        for _ in range(100):
            slow = [streams.submit(rows(300), stream=0) for _ in range(2)]
            streams.submit(rows(1), stream=1).result()
            overtook = not slow[0].done()
            assert [len(one.result()) for one in slow] == [1, 1]
            if overtook:
                return
    pytest.fail("no run was held up")


def test_cancelled_and_late_runs(long):
    with evoq.Streams(long, priorities=[0]) as streams:
        first, second = streams.submit(rows(300)), streams.submit(rows(300))
        late = streams.submit(rows(1), deadline_s=0)
        in_time = streams.submit(rows(1), deadline_s=1e6)
        assert second.cancel() and second.cancel() and second.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            second.result()
        with pytest.raises(evoq.DeadlineExceeded, match="has not ended at its deadline") as caught:
            late.result()
        assert isinstance(caught.value, TimeoutError) and caught.value.code == "condition failed"
        assert len(first.result()) == len(in_time.result()) == 1
        assert not first.cancel()
        assert concurrent.futures.wait([first, second], timeout=60).not_done == set()


def test_a_run_that_goes_on_is_cut(long):
    with evoq.Streams(long, priorities=[0, 0], at_once=2) as streams:
        for _ in range(100):
            whole, stopped = (streams.submit(rows(500), stream=s) for s in (0, 1))
            while not stopped.cancel():
                pass
            streams.wait(1)
            cut = not whole.done()
            whole.result()
            if cut:
                return
    pytest.fail("no run was cut")


def test_asyncio(short, long):
    async def main():
        with evoq.Streams(short) as streams:
            results = await asyncio.gather(
                *(streams.run(rows(2, i), stream=i % 2) for i in range(10))
            )
            assert [r["x3"].shape for r in results] == [(2, WIDTH)] * 10
            with pytest.raises(evoq.DeadlineExceeded):
                await streams.run(rows(1), deadline_s=0)
        with evoq.Streams(long, priorities=[0]) as streams:
            task = asyncio.create_task(streams.run(rows(300)))
            waits = asyncio.create_task(streams.run(rows(300)))
            await asyncio.sleep(0)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            assert len(await task) == 1

    asyncio.run(main())


def test_refused(short):
    for wrong in ({"priorities": []}, {"threads": -1}, {"at_once": -1}, {"queue": 0}):
        with pytest.raises(evoq.Error, match=next(iter(wrong))):
            evoq.Streams(short, **wrong)
    with evoq.Streams(short) as streams:
        for what, words in (
            ({"stream": 2}, "stream 2, expected 0 to 1"),
            ({"stream": -1}, "stream -1"),
            ({"deadline_s": -1.0}, "deadline_s=-1.0"),
            ({"deadline_s": float("nan")}, "deadline_s=nan"),
        ):
            with pytest.raises(evoq.Error, match=words):
                streams.submit(rows(1), **what)
        with pytest.raises(evoq.Error, match="input x0"):
            streams.submit(np.zeros((1, WIDTH), np.int8))
        with pytest.raises(evoq.Error, match="no input is named"):
            streams.submit({"y": rows(1)})
        with pytest.raises(evoq.Error):
            streams.submit(np.zeros((1, 1), np.float32)).result()
        with pytest.raises(evoq.Error, match="stream 9"):
            streams.set_priority(9, 0)
    with pytest.raises(evoq.Error, match="closed"):
        streams.submit(rows(1))


def test_a_full_queue(long):
    with evoq.Streams(long, priorities=[0], queue=3) as streams:
        with pytest.raises(evoq.Error, match="3 runs wait already") as caught:
            for _ in range(10000):
                streams.submit(rows(300))
        assert caught.value.code == "too large"


def test_closing_ends_what_waits(long):
    streams = evoq.Streams(long, priorities=[0])
    futures = [streams.submit(rows(300)) for _ in range(5)]
    streams.close()
    streams.close()
    assert all(future.done() for future in futures) and futures[-1].cancelled()


def test_inputs_are_let_go(short):
    class Owner(np.ndarray):
        pass

    x = rows(2).view(Owner)
    gone = weakref.ref(x)
    with evoq.Streams(short) as streams:
        future = streams.submit(x)
        del x
        future.result()
        streams.wait()
        for _ in range(100):
            gc.collect()
            if gone() is None:
                break
            time.sleep(0.05)
        assert gone() is None


def test_many_callers(short):
    with evoq.Streams(short, priorities=[0, 1, 1]) as streams:
        wrong = []

        def call(c):
            for i in range(50):
                future = streams.submit(rows(1 + c), stream=(c + i) % 3)
                if i % 7 == 0:
                    future.cancel()
                elif future.result()["x3"].shape != (1 + c, WIDTH):
                    wrong.append((c, i))

        threads = [threading.Thread(target=call, args=(c,)) for c in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_what_the_file_says(short):
    proto = ModelProto.FromString(short.SerializeToString())
    with evoq.Streams(proto) as streams:
        assert len(streams) == 2
    facts = {"streams": "3", "stream_priority": "[2, 0, 1]", "arenas": "apart"}
    helper.set_model_props(proto, {f"evoq.choice.{k}": v for k, v in facts.items()})
    with evoq.Streams(proto) as streams:
        assert len(streams) == 3
    with evoq.Streams(proto, priorities=[0]) as streams:
        assert len(streams) == 1
