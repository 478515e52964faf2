"""What a model's runs take and meet while it serves, and what would help."""

from __future__ import annotations

import collections
import math
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._error import Error

INCREASE_BATCH, DECREASE_PRIORITY, NORMAL = (
    "suggest_increase_batch_size",
    "suggest_decrease_stream_priority",
    "normal",
)
_RATIO = 1.02  # from one bucket of a histogram to the next


class LatencyHistogram:
    """Counts of latencies in buckets that are 2% wide, so that a percentile is within 1% of that of
    all latencies, however many there are."""

    def __init__(self) -> None:
        self._counts: collections.Counter[int] = collections.Counter()
        self._sum = 0.0
        self._most = 0.0

    def add(self, seconds: float) -> None:
        if not 0 <= seconds < math.inf:
            raise Error(f"a latency of {seconds} seconds, expected 0 or more")
        self._counts[self._bucket(seconds)] += 1
        self._sum += seconds
        self._most = max(self._most, seconds)

    @staticmethod
    def _bucket(seconds: float) -> int:
        return math.floor(math.log(max(seconds, 1e-9)) / math.log(_RATIO))

    def __len__(self) -> int:
        return self._counts.total()

    def percentile(self, percent: float) -> float:
        """Seconds that `percent` of the latencies do not exceed (nearest rank); nan of none."""
        if not 0 <= percent <= 100:
            raise Error(f"percentile {percent}, expected 0 to 100")
        rank = max(1, math.ceil(len(self) * percent / 100))
        for bucket in sorted(self._counts):
            rank -= self._counts[bucket]
            if rank <= 0:
                return min(_RATIO ** (bucket + 0.5), self._most)
        return math.nan

    def buckets(self) -> list[tuple[float, float, int]]:
        """(from, to, count), in milliseconds, of those buckets that are not empty."""
        return [
            (1e3 * _RATIO**bucket, 1e3 * _RATIO ** (bucket + 1), self._counts[bucket])
            for bucket in sorted(self._counts)
        ]

    def report(self) -> dict[str, float]:
        """'count', and 'mean_ms', 'p50_ms', 'p90_ms', 'p99_ms', 'max_ms'."""
        told: dict[str, float] = {"count": len(self)}
        if len(self) == 0:
            return told
        told["mean_ms"] = 1e3 * self._sum / len(self)
        for percent in (50, 90, 99):
            told[f"p{percent}_ms"] = 1e3 * self.percentile(percent)
        told["max_ms"] = 1e3 * self._most
        return told


class PerformanceMonitor:
    """Watches the runs of a model: latencies by stream, inputs that drift away from the calibrated
    ranges, sizes that wait for a plan; and says what would help, with what was measured of it.

    engine: a Model, whose run() the monitor calls and times; or anything, of whose runs it is told
    by collect_metrics() or record().
    expected_latency: seconds that a run should take; None: ``engine.expected_latency``, else the
    median of the first `window` runs.
    window: how many of the last runs the suggestion looks at.
    clip_limit: the share of a tensor's watched elements that its range may cut off
    (``load(..., adaptive={"watch": True})`` makes a model count them).

    >>> model = evoq.load("resnet50.etm", adaptive={"watch": True})
    >>> monitor = evoq.PerformanceMonitor(model, expected_latency=0.005)
    >>> outputs = monitor.run({"input": image})
    >>> monitor.report()["latency"]["p99_ms"]
    """

    def __init__(
        self,
        engine: Any,
        *,
        expected_latency: float | None = None,
        window: int = 10,
        clip_limit: float = 0.005,
    ) -> None:
        if window < 1:
            raise Error(f"window={window}, expected 1 or more")
        if not 0 <= clip_limit <= 1:
            raise Error(f"clip_limit={clip_limit}, expected 0 to 1")
        self.engine = engine
        self.clip_limit = clip_limit
        self._expected = expected_latency
        self._last: collections.deque[float] = collections.deque(maxlen=window)
        self._runs = 0
        self._samples = 0
        self._seconds = 0.0
        self._histograms: dict[int, LatencyHistogram] = {}
        self._lock = threading.Lock()

    @property
    def expected_latency(self) -> float | None:
        """Seconds; None where nothing is known yet."""
        if self._expected is not None:
            return self._expected
        return getattr(self.engine, "expected_latency", None)

    def collect_metrics(self, batch_size: int, latency: float) -> str:
        """Counts a run of so many samples that took so many seconds, and suggests: once there are
        more than `window` runs, the mean of the last ones above 1.2 times of what is expected is
        'suggest_increase_batch_size', below 0.8 times 'suggest_decrease_stream_priority', else
        'normal'."""
        self.record(latency, batch=batch_size)
        return self.suggestion()

    def record(self, latency: float, *, batch: int = 1, stream: int = 0) -> None:
        """Counts a run of `batch` samples that took `latency` seconds."""
        with self._lock:
            self._histograms.setdefault(stream, LatencyHistogram()).add(latency)
            self._last.append(latency)
            self._runs += 1
            self._samples += batch
            self._seconds += latency
            if self._runs == self._last.maxlen and self.expected_latency is None:
                self._expected = float(np.median(self._last))

    def suggestion(self) -> str:
        """As collect_metrics() says, of the runs so far."""
        with self._lock:
            expected = self.expected_latency
            if expected is None or self._runs <= (self._last.maxlen or 0):
                return NORMAL
            mean = sum(self._last) / len(self._last)
        if mean > 1.2 * expected:
            return INCREASE_BATCH
        return DECREASE_PRIORITY if mean < 0.8 * expected else NORMAL

    def run(self, inputs: Any, *, stream: int = 0) -> Any:
        """engine.run(inputs), timed. stream: by which the latency is told apart."""
        begin = time.perf_counter()
        outputs = self.engine.run(inputs)
        self.record(time.perf_counter() - begin, batch=_batch_of(inputs), stream=stream)
        return outputs

    def histogram(self, stream: int = 0) -> LatencyHistogram:
        """The latencies of a stream."""
        with self._lock:
            return self._histograms.setdefault(stream, LatencyHistogram())

    def drift(self) -> list[dict[str, Any]]:
        """Tensors whose ranges cut off more than `clip_limit` of their watched elements, the worst
        first: 'tensor', 'clip_rate'. Empty where the model does not count them."""
        state = getattr(self.engine, "adaptive", None)
        if not state:
            return []
        rates = sorted(state["clip_rates"].items(), key=lambda item: (-item[1], item[0]))
        return [
            {"tensor": tensor, "clip_rate": rate}
            for tensor, rate in rates
            if rate > self.clip_limit
        ]

    def report(self) -> dict[str, Any]:
        """'runs', 'samples_per_s', 'suggestion', 'streams' (by number, as LatencyHistogram.report),
        'latency' (of all streams), 'drift', and 'gears' (`Model.gears`) where the engine has
        them."""
        with self._lock:
            streams = {stream: h.report() for stream, h in sorted(self._histograms.items())}
            every = LatencyHistogram()
            for histogram in self._histograms.values():
                every._counts.update(histogram._counts)
                every._sum += histogram._sum
                every._most = max(every._most, histogram._most)
            told: dict[str, Any] = {
                "runs": self._runs,
                "samples_per_s": self._samples / self._seconds if self._seconds > 0 else 0.0,
                "latency": every.report(),
                "streams": streams,
            }
        told["suggestion"] = self.suggestion()
        told["drift"] = self.drift()
        gears = getattr(self.engine, "gears", None)
        if isinstance(gears, Mapping):
            told["gears"] = dict(gears)
        return told

    def advise(self, inputs: Any = None, *, seconds: float = 1.0) -> list[dict[str, Any]]:
        """What would help, each with what was measured of it: 'code', 'sentence', 'gain'.

        gain: of 'larger-batch' how many times as many samples per second, measured here on `inputs`
        (of one sample, by name; nothing without) for about `seconds`; of 'declare-gears' the
        milliseconds of a run that waiting for plans took, the mean over all runs; of 'recalibrate'
        the largest clip rate.
        """
        found = []
        if isinstance(inputs, Mapping):
            found += self._larger_batch(inputs, seconds)
        gears = getattr(self.engine, "gears", None)
        if isinstance(gears, Mapping) and gears.get("misses", 0) > 0:
            each = gears["miss_ms"] / gears["runs"]
            found.append(
                {
                    "code": "declare-gears",
                    "sentence": f"{gears['misses']} of {gears['runs']} runs waited "
                    f"{gears['miss_ms']:.1f} ms for a plan, {gears['worst_miss_ms']:.1f} at most: "
                    "save_sizes() and compile(..., suggest_gears=K) prepare the sizes ahead",
                    "gain": each,
                }
            )
        drift = self.drift()
        if drift:
            found.append(
                {
                    "code": "recalibrate",
                    "sentence": f"the ranges of {len(drift)} tensors cut off more than "
                    f"{self.clip_limit:.2%}, {drift[0]['clip_rate']:.2%} of {drift[0]['tensor']}: "
                    "the inputs are no longer those of the calibration",
                    "gain": drift[0]["clip_rate"],
                }
            )
        return found

    def _larger_batch(self, inputs: Mapping[str, Any], seconds: float) -> list[dict[str, Any]]:
        rates: dict[int, float] = {}
        for batch in (1, 2, 4, 8):
            fed = {name: np.repeat(np.asarray(x), batch, axis=0) for name, x in inputs.items()}
            try:
                self.engine.run(fed)  # prepares it
            except Error:
                break  # the model fixes its batch
            runs, begin = 0, time.perf_counter()
            while runs == 0 or time.perf_counter() - begin < seconds / 4:
                self.engine.run(fed)
                runs += 1
            rates[batch] = runs * batch / (time.perf_counter() - begin)
        if len(rates) < 2:
            return []
        best = max(rates, key=rates.__getitem__)
        gain = rates[best] / rates[1]
        if gain < 1.05:
            return []
        return [
            {
                "code": "larger-batch",
                "sentence": f"{rates[best]:.1f} samples per second in batches of {best}, "
                f"{rates[1]:.1f} one by one",
                "gain": gain,
            }
        ]


def _batch_of(inputs: Any) -> int:
    values = list(inputs.values()) if isinstance(inputs, Mapping) else inputs
    first = values[0] if isinstance(values, (list, tuple)) and values else values
    shape = getattr(first, "shape", ())
    return int(shape[0]) if len(shape) > 0 else 1
