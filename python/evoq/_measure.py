"""What a model takes: bench, profile, explain, compare, limits, predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _evoq
from ._data import PATHS
from ._error import Error
from ._source import plain_text
from ._verb import Progress, Report, Shapes, run_verb, tool

# Options of `explain` that name another runtime's files.
FOREIGN = sorted(
    name
    for name, field in vars(_evoq.ForeignJob).items()
    if isinstance(field, property) and name != "baseline"
)


def bench(
    model: Any,
    *,
    batch: int | None = None,
    shapes: Shapes | None = None,
    streams: int | None = None,
    hint: str | None = None,
    threads: int | None = None,
    warmup_ms: float | None = None,
    duration_s: float | None = None,
    iterations: int | None = None,
    percentiles: Sequence[float] = (),
    **options: Any,
) -> Report:
    """Measures latency, throughput, load time and memory of a model on random inputs.

    batch: samples per run, where the model leaves it free. streams: concurrent runs, each with
    `threads` threads. hint: "throughput" finds batch, streams and threads that do the most in a
    second (``trials`` says what was tried).
    Returns ``p50_ms``, ``mean_ms``, ``p99_ms``, ``per_second``, ``load_ms``, ``arena_bytes``,
    ``weight_bytes``, ...
    """
    return tool(
        "bench",
        model,
        batch=batch,
        shape=shapes,
        streams=streams,
        hint=hint,
        threads=threads,
        warmup_ms=warmup_ms,
        duration_s=duration_s,
        iterations=iterations,
        percentile=list(percentiles),
        **options,
    )


def profile(
    model: Any,
    *,
    batch: int | None = None,
    shapes: Shapes | None = None,
    threads: int | None = None,
    warmup_ms: float | None = None,
    duration_s: float | None = None,
    trace: Any = None,
    **options: Any,
) -> Report:
    """What each step of a model takes: ``total_ms`` and ``steps`` with ms, share, gops and share of
    the roofline.

    trace: also write a Chrome trace.
    """
    return tool(
        "profile",
        model,
        batch=batch,
        shape=shapes,
        threads=threads,
        warmup_ms=warmup_ms,
        duration_s=duration_s,
        trace=trace,
        **options,
    )


def explain(
    model: Any = None,
    *,
    baseline: Any = None,
    report: Any = None,
    batch: int | None = None,
    shapes: Shapes | None = None,
    threads: int | None = None,
    duration_s: float | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Where each millisecond and each byte of a model went, why, and what helps.

    baseline: the float model to compare with; with it the result has ``time``. An .etm gives
    ``bytes``. Always there: ``profile`` and ``decisions``. report: also write one HTML file that
    opens offline. Instead of a model, another runtime's profile: its path, or trtexec=DIR,
    ort_profile=F, benchmark_app=F, openvino=F, tflite=F, msprof=DIR, torch_trace=F
    (docs/foreign-profiles.md).
    """
    foreign = {name: options.pop(name) for name in FOREIGN if options.get(name) is not None}
    if model is not None and not foreign and options.get("target") is None:
        profile = _evoq.profile_at(plain_text(model)) if isinstance(model, PATHS) else None
        if profile is not None:
            model, foreign = None, dict([profile])
    if foreign:
        if model is not None or options.get("target") is not None:
            raise Error("explain: another runtime's files, a model and target= exclude each other")
        return run_verb(
            "explain_foreign", _evoq.ForeignJob(), progress, {}, baseline=baseline, **foreign
        )
    if model is None:
        raise Error("explain what? Give a model, or another runtime's files")
    if options.get("target") is not None:
        job = _evoq.TargetJob()
        return run_verb("explain_target", job, progress, {"model": model}, shape=shapes, **options)
    return run_verb(
        "explain",
        _evoq.ExplainJob(),
        progress,
        {"model": model, "baseline": baseline},
        report=report,
        batch=batch,
        shape=shapes,
        threads=threads,
        duration_s=duration_s,
        **options,
    )


def compare(
    a: Any,
    b: Any,
    *,
    batch: int | None = None,
    shapes: Shapes | None = None,
    threads: int | None = None,
    duration_s: float | None = None,
    rounds: int | None = None,
    report: Any = None,
    fail_slower: float | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Whether `b` is faster or slower than `a`, from interleaved runs: ``verdict``, ``speedup`` and
    its 95% interval.

    fail_slower: raise evoq.Error ('condition failed') when b is slower by more than so many
    percent.
    """
    return run_verb(
        "compare",
        _evoq.CompareJob(),
        progress,
        {"a": a, "b": b},
        batch=batch,
        shape=shapes,
        threads=threads,
        duration_s=duration_s,
        rounds=rounds,
        report=report,
        fail_slower=fail_slower,
        **options,
    )


def limits(*, threads: int | None = None) -> Report:
    """What this machine can do at most: operations per second by type, bytes per second by level of
    memory."""
    return tool("limits", threads=threads)


def predict(
    model: Any,
    *,
    scheme: Sequence[str] = (),
    batch: int | None = None,
    shapes: Shapes | None = None,
    limits: Any = None,
    check: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """What each quantization scheme would give, without data and without running the model:
    ``schemes`` with size, ms and payoff.

    scheme: only these; float32 is always there to compare with. limits: those of another machine,
    as a JSON file of ``evoq limits``. check: then run every scheme, and say what it takes.
    """
    return run_verb(
        "predict",
        _evoq.PredictJob(),
        progress,
        {"model": model},
        scheme=scheme,
        batch=batch,
        shape=shapes,
        limits=limits,
        check=check,
        threads=threads,
        **options,
    )
