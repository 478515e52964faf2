"""PerformanceMonitor: the guide's rule, latencies by stream, drift and advice."""

import math

import numpy as np
import pytest

import evoq


class Engine:
    """What a monitor reads of a model."""

    expected_latency = 0.1

    def __init__(self, adaptive=None, gears=None):
        self.adaptive, self.gears = adaptive, gears
        self.batches = []

    def run(self, inputs):
        self.batches.append(len(inputs["x"]))
        if len(inputs["x"]) > 4:
            raise evoq.Error("the batch is 1 to 4")
        return {"y": inputs["x"]}


def test_the_guides_rule():
    monitor = evoq.PerformanceMonitor(Engine())
    assert {monitor.collect_metrics(8, 0.2) for _ in range(10)} == {"normal"}  # too few
    assert monitor.collect_metrics(8, 0.2) == "suggest_increase_batch_size"
    assert [monitor.collect_metrics(8, 0.01) for _ in range(10)][-1] == (
        "suggest_decrease_stream_priority"
    )
    assert [monitor.collect_metrics(8, 0.1) for _ in range(10)][-1] == "normal"
    assert [monitor.collect_metrics(8, 0.1201) for _ in range(10)][-1] == (
        "suggest_increase_batch_size"
    )


def test_without_an_expectation_the_first_runs_are_it():
    monitor = evoq.PerformanceMonitor(object(), window=3)
    for latency in (0.1, 0.5, 0.1):
        assert monitor.expected_latency is None
        monitor.record(latency)
    assert monitor.expected_latency == 0.1
    assert [monitor.collect_metrics(1, 0.3) for _ in range(3)][-1] == "suggest_increase_batch_size"


def test_percentiles_are_those_of_all_latencies():
    latencies = np.random.default_rng(1).lognormal(-6, 1, 20000)
    monitor = evoq.PerformanceMonitor(Engine())
    for i, latency in enumerate(latencies):
        monitor.record(latency, stream=i % 2)
    told = monitor.report()
    for percent in (50, 90, 99):
        exact = 1e3 * np.percentile(latencies, percent, method="inverted_cdf")
        assert told["latency"][f"p{percent}_ms"] == pytest.approx(exact, rel=0.0101)
        exact = 1e3 * np.percentile(latencies[1::2], percent, method="inverted_cdf")
        assert told["streams"][1][f"p{percent}_ms"] == pytest.approx(exact, rel=0.0101)
    assert told["latency"]["max_ms"] == 1e3 * latencies.max()
    assert told["latency"]["mean_ms"] == pytest.approx(1e3 * latencies.mean())
    assert told["runs"] == told["latency"]["count"] == 20000
    buckets = monitor.histogram(1).buckets()
    assert sum(count for _, _, count in buckets) == 10000
    assert all(high == pytest.approx(1.02 * low) for low, high, _ in buckets)


def test_what_is_no_latency():
    histogram = evoq.LatencyHistogram()
    assert math.isnan(histogram.percentile(50))
    assert histogram.report() == {"count": 0}
    histogram.add(0)
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(evoq.Error, match="a latency of"):
            histogram.add(bad)
    with pytest.raises(evoq.Error, match="percentile 101"):
        histogram.percentile(101)
    with pytest.raises(evoq.Error, match="window=0"):
        evoq.PerformanceMonitor(Engine(), window=0)
    with pytest.raises(evoq.Error, match="clip_limit=2"):
        evoq.PerformanceMonitor(Engine(), clip_limit=2)


def test_drift_and_advice():
    adaptive = {"clip_rates": {"a": 0.001, "b": 0.02, "c": 0.3}}
    gears = {"runs": 10, "misses": 2, "miss_ms": 50.0, "worst_miss_ms": 40.0}
    monitor = evoq.PerformanceMonitor(Engine(adaptive, gears))
    assert [entry["tensor"] for entry in monitor.drift()] == ["c", "b"]
    advice = {entry["code"]: entry for entry in monitor.advise()}
    assert set(advice) == {"declare-gears", "recalibrate"}
    assert advice["declare-gears"]["gain"] == 5.0
    assert advice["recalibrate"]["gain"] == 0.3
    assert "30.00% of c" in advice["recalibrate"]["sentence"]
    assert evoq.PerformanceMonitor(Engine()).advise() == []


def test_the_gain_of_a_batch_is_measured():
    engine = Engine()
    monitor = evoq.PerformanceMonitor(engine)
    (advice,) = monitor.advise({"x": np.zeros((1, 4), np.float32)}, seconds=0.02)
    assert advice["code"] == "larger-batch" and advice["gain"] > 1.05
    assert set(engine.batches) == {1, 2, 4, 8}
    monitor.run({"x": np.zeros((3, 4), np.float32)})
    assert monitor.report()["runs"] == 1
