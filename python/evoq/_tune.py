"""The closed loop of a deployment."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from ._data import as_files
from ._job import texts_of
from ._verb import Report, tool


def tune(
    model: Any,
    output: Any,
    *,
    report: Any = None,
    strategy: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    data: Any = None,
    min_sqnr: float | None = None,
    duration_s: float | None = None,
    threads: int | None = None,
    disable: Sequence[str] = (),
) -> Report:
    """Baseline, graph and operator optimization, validation: writes one .etm to `output`
    (docs/tuning.md).

    report: an HTML file to write. strategy: 'latency', 'balanced' or 'throughput', which also looks
    for the batch, streams and threads that do the most in a second. shapes: sizes of free inputs to
    measure at. data: samples to hold the outputs to the baseline's on; None: made-up ones.
    min_sqnr: decibels that each output must keep. disable: graph passes to leave out. Returns
    ``stages``, ``compare``, ``slowest``, ``advice``, ``sqnr_db``.

    Raises evoq.Error: 'condition failed' where an output is too far from the baseline's; nothing is
    written then.
    """
    with contextlib.ExitStack() as stack:
        data, _ = as_files(stack, model, data)
        return tool(
            "tune",
            model,
            output=output,
            report=report,
            strategy=strategy,
            shape=shapes,
            data=data,
            min_sqnr=min_sqnr,
            duration_s=duration_s,
            threads=threads,
            disable=texts_of(disable) or None,
        )
