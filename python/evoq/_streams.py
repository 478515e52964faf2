"""A model that several callers run at once."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Mapping, Sequence
from typing import Any

from . import _evoq
from ._error import Error
from ._source import to_bytes, to_path


class DeadlineExceeded(Error, TimeoutError):
    """A run that had not ended at its deadline, and was given up."""


class StreamFuture(concurrent.futures.Future):
    """A run that was asked for. `result()` gives its outputs by name, or raises what it raised:
    DeadlineExceeded for a late one, concurrent.futures.CancelledError for a cancelled one."""

    def __init__(self, streams: _evoq.Streams) -> None:
        super().__init__()
        self._streams = streams
        self._run = 0

    def cancel(self) -> bool:
        """Gives up the run, also one that goes on: it ends behind the step that it is at. False
        where it has ended."""
        if self.done() or not self._streams.cancel(self._run):
            return self.cancelled()
        return super().cancel()

    def _ended(
        self, outputs: dict[str, Any] | None, error: str | None, code: str | None, ending: str
    ) -> None:
        if ending == "cancelled":
            super().cancel()
        if not self.set_running_or_notify_cancel():
            return
        if error is None:
            self.set_result(outputs)
        elif ending == "late":
            self.set_exception(DeadlineExceeded(error, code or ""))
        else:
            self.set_exception(Error(error, code or ""))


class Streams:
    """A loaded model in several streams: runs of one follow each other, those of several go on
    beside each other over one set of weights, urgent ones first.

    model: as load() takes it.
    priorities: of each stream; smaller numbers go first. None: what the model's file says
    (docs/ascend.md), else two equally urgent streams.
    threads: of each run; 0: one per physical core.
    at_once: how many runs go on at once; 0: as many as the cores have room for. Where more are
    ready, the most urgent go on; one that goes on is held up between two of its steps when a more
    urgent one comes, and goes on when that has ended.
    share_arenas: a run takes memory that no other run needs at the time; False: each stream has
    its own. None: what the model's file says, else True.
    queue: runs that may wait in a stream; more are refused.
    shapes, tuned, gears: as load() takes them.

    Raises evoq.Error as load() does.

    >>> with evoq.Streams("resnet50.etm", priorities=[0, 1]) as streams:
    ...     future = streams.submit({"input": image}, stream=0, deadline_s=0.1)
    ...     scores = future.result()["output"]
    """

    def __init__(
        self,
        model: Any,
        *,
        priorities: Sequence[int] | None = None,
        threads: int = 1,
        at_once: int = 0,
        share_arenas: bool | None = None,
        queue: int = 1024,
        shapes: Mapping[str, Sequence[int]] | None = None,
        tuned: bool = True,
        gears: bool = True,
    ) -> None:
        data = to_bytes(model)
        sizes = {name: [int(size) for size in shape] for name, shape in (shapes or {}).items()}
        self._streams: _evoq.Streams | None = _evoq.load_streams(
            to_path(model) if data is None else data,
            None if priorities is None else list(priorities),
            threads,
            at_once,
            share_arenas,
            queue,
            sizes,
            tuned,
            gears,
        )

    def _open(self) -> _evoq.Streams:
        if self._streams is None:
            raise Error("the streams are closed")
        return self._streams

    @property
    def inputs(self) -> list[_evoq.ValueInfo]:
        """The model's inputs, in order."""
        return self._open().inputs

    @property
    def outputs(self) -> list[_evoq.ValueInfo]:
        """The model's outputs, in order."""
        return self._open().outputs

    @property
    def at_once(self) -> int:
        """How many runs go on at once."""
        return self._open().at_once

    @property
    def arena_bytes(self) -> int:
        """Bytes that runs compute in, of all streams; weights are not in it."""
        return self._open().arena_bytes

    @property
    def gears(self) -> dict[str, Any]:
        """What served the runs so far, as `Model.gears`."""
        return self._open().gears

    def save_sizes(self, path: Any) -> None:
        """Writes how often which sizes came, for ``compile(..., suggest_gears=K)``."""
        self._open().save_sizes(to_path(path))

    def wait_for_gears(self) -> None:
        """Until all sizes that the file declares are prepared."""
        self._open().wait_for_gears()

    def __len__(self) -> int:
        return self._open().count

    def submit(
        self, inputs: Any, *, stream: int = 0, deadline_s: float | None = None
    ) -> StreamFuture:
        """Asks for a run, and returns at once.

        inputs: as Model.run takes them; arrays must not change before the run has ended.
        deadline_s: seconds from now after which the run is given up.

        Raises evoq.Error: 'usage' for a stream that there is not and inputs that are not the
        model's, 'too large' where as many runs wait in the stream as may.
        """
        streams = self._open()
        if deadline_s is not None and not 0 <= deadline_s <= 1e6:
            raise Error(f"deadline_s={deadline_s}, expected 0 to 1e6")
        future = StreamFuture(streams)
        future._run = streams.submit(inputs, stream, deadline_s, future._ended)
        return future

    async def run(
        self, inputs: Any, *, stream: int = 0, deadline_s: float | None = None
    ) -> dict[str, Any]:
        """The outputs by name, for asyncio. A task that is cancelled gives up its run."""
        return await asyncio.wrap_future(self.submit(inputs, stream=stream, deadline_s=deadline_s))

    def set_priority(self, stream: int, priority: int) -> None:
        """Changes what is urgent from now on, also for runs that wait and go on."""
        self._open().set_priority(stream, priority)

    def wait(self, stream: int | None = None) -> None:
        """Until all runs of a stream that were asked for have ended; None: of all streams."""
        self._open().wait(-1 if stream is None else stream)

    def close(self) -> None:
        """Gives up all runs, and the model."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams.close()

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()
