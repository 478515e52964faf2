"""What AscendCL's calls share: models by number, streams, and the threads that serve them."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import itertools
import threading
from collections.abc import Callable
from typing import Any

from .._error import Error
from .._evoq import Model
from .._model import load

MODES = ("low_latency", "high_throughput")
_PRIORITIES = range(8)


class Future(concurrent.futures.Future):
    """A run that was asked for. `cancel()` takes back one that has not begun."""

    def get(self, timeout: float | None = None) -> list[Any]:
        """The outputs, in order. Raises what the run raised, and TimeoutError after `timeout`
        seconds."""
        return self.result(timeout)


@dataclasses.dataclass(frozen=True)
class Context:
    device: int


@dataclasses.dataclass(eq=False)
class Stream:
    """Runs that follow each other."""

    priority: int = 0
    waiting: collections.deque[_Task] = dataclasses.field(default_factory=collections.deque)
    running: bool = False

    def idle(self) -> bool:
        return not self.running and not self.waiting


@dataclasses.dataclass
class _Task:
    number: int  # in the order in which runs were asked for
    model: _LoadedModel
    mode: str
    run: Callable[[Model], list[Any]]
    future: Future


class _LoadedModel:
    """One file, loaded once for each mode that is used; the weights are mapped."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.whole = load(path)
        self.tasks = 0  # that wait or run
        self._single: Model | None = None
        self._lock = threading.Lock()

    def of(self, mode: str) -> Model:
        if mode == "low_latency":
            return self.whole
        with self._lock:
            if self._single is None:
                self._single = load(self.path, threads=1, streams=self.whole.threads)
            return self._single


class Runtime:
    """`_change` guards all of it, and is notified whenever a run is asked for or ends."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._models: dict[int, _LoadedModel] = {}
        self._streams: list[Stream] = []
        self._pool: concurrent.futures.Executor | None = None
        self._all_threads_taken = False  # by a run of mode low_latency
        self._model_ids = itertools.count(1)
        self._task_numbers = itertools.count()

    def load(self, path: str) -> int:
        model = _LoadedModel(path)
        with self._change:
            number = next(self._model_ids)
            self._models[number] = model
        return number

    def _loaded(self, model_id: int) -> _LoadedModel:
        model = self._models.get(model_id)
        if model is None:
            raise Error(f"model {model_id!r}: not loaded, or unloaded", "not found")
        return model

    def model(self, model_id: int) -> Model:
        with self._change:
            return self._loaded(model_id).whole

    def unload(self, model_id: int) -> None:
        with self._change:
            model = self._loaded(model_id)
            del self._models[model_id]
            self._change.wait_for(lambda: model.tasks == 0)

    def create_stream(self) -> Stream:
        stream = Stream()
        with self._change:
            self._streams.append(stream)
        return stream

    def _check(self, stream: Stream) -> None:
        if not any(stream is known for known in self._streams):
            raise Error(f"{type(stream).__name__}: no stream of create_stream, or destroyed")

    def set_priority(self, stream: Stream, priority: int) -> None:
        if priority not in _PRIORITIES:
            raise Error(f"stream priority {priority!r}: expected 0 to {_PRIORITIES[-1]}")
        with self._change:
            self._check(stream)
            stream.priority = priority

    def synchronize(self, stream: Stream) -> None:
        with self._change:
            self._check(stream)
            self._change.wait_for(stream.idle)

    def destroy_stream(self, stream: Stream) -> None:
        with self._change:
            self._check(stream)
            self._change.wait_for(stream.idle)
            self._streams.remove(stream)

    def clear(self) -> None:
        with self._change:
            self._change.wait_for(lambda: all(stream.idle() for stream in self._streams))
            self._streams.clear()
            self._models.clear()

    def submit(
        self, model_id: int, stream: Stream, mode: str, run: Callable[[Model], list[Any]]
    ) -> Future:
        future = Future()
        with self._change:
            model = self._loaded(model_id)
            self._check(stream)
            if self._pool is None:
                self._pool = concurrent.futures.ThreadPoolExecutor(
                    max(2, model.whole.threads), "evoq-acl"
                )
            # A turn for each run; whoever has it takes the run that is next by then.
            self._pool.submit(self._serve)
            model.tasks += 1
            stream.waiting.append(_Task(next(self._task_numbers), model, mode, run, future))
            self._change.notify_all()
        return future

    def _next(self) -> Stream | None:
        """The stream whose first waiting run is next."""

        def may_begin(stream: Stream) -> bool:
            if stream.running or not stream.waiting:
                return False
            return stream.waiting[0].mode != "low_latency" or not self._all_threads_taken

        ready = filter(may_begin, self._streams)
        return min(ready, key=lambda s: (s.priority, s.waiting[0].number), default=None)

    def _serve(self) -> None:
        """One run."""
        with self._change:
            self._change.wait_for(lambda: self._next() is not None)
            stream = self._next()
            task = stream.waiting.popleft()
            stream.running = True
            takes_all = task.mode == "low_latency"
            self._all_threads_taken |= takes_all
        try:
            self._compute(task)
        finally:
            with self._change:
                stream.running = False
                self._all_threads_taken &= not takes_all
                task.model.tasks -= 1
                self._change.notify_all()

    @staticmethod
    def _compute(task: _Task) -> None:
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            task.future.set_result(task.run(task.model.of(task.mode)))
        except BaseException as error:  # whoever waits for the future gets it
            task.future.set_exception(error)


RUNTIME = Runtime()
