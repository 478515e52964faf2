"""What a model loses: diff, sensitivity, verify, eval."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from . import _evoq
from ._data import as_files, paths_of, samples_of, targets_as_files
from ._job import texts_of
from ._source import as_file
from ._verb import Progress, Report, Shapes, run_verb, tool


def _probed(model: Any, data: Any, options: dict[str, Any]) -> list[list[Any]]:
    """What `data` says, as options of the verb or as samples."""
    if (paths := paths_of(data)) is not None:
        options["data"] = paths
    elif isinstance(data, int):
        options["random"] = data
    elif data is not None:
        return samples_of(model, data)
    return []


def diff(
    a: Any,
    b: Any,
    *,
    data: Any = None,
    text: Any = None,
    tokenizer: Any = None,
    limit: int | None = None,
    shapes: Shapes | None = None,
    reference: bool = False,
    bad: float | None = None,
    keep: Any = None,
    min_sqnr: float | None = None,
    max_error: float | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Where model `b` parts from model `a`: ``values``, in execution order, with the error of each
    and what its step adds by itself (``own``), ``first_bad`` and ``worst_sample`` (docs/diff.md).

    data: what both run on: a path, an array whose first axis counts samples, a mapping from input
    names to either, or a number of made-up samples. text, tokenizer: a language model's, instead.
    limit: at most so many samples (32; 0: all). shapes: sizes of free inputs of made-up samples.
    reference: `a` by the reference evaluator. bad: dB below which a step is bad by itself. keep: an
    .npz to write the worst sample to.
    min_sqnr, max_error: raise evoq.Error ('condition failed') where an output is further off.
    """
    samples = _probed(a, data, options)
    return tool(
        "diff",
        a,
        b,
        samples=samples,
        progress=progress,
        text=text,
        tokenizer=tokenizer,
        limit=limit,
        shape=shapes,
        reference=reference,
        bad=bad,
        keep=keep,
        min_sqnr=min_sqnr,
        max_error=max_error,
        threads=threads,
        **options,
    )


def sensitivity(
    model: Any,
    *,
    data: Any = None,
    labels: Any = None,
    text: Any = None,
    tokenizer: Any = None,
    limit: int | None = None,
    scheme: str | None = None,
    method: str | None = None,
    calib: Any = None,
    observer: str | None = None,
    per_tensor: bool = False,
    block: int | str | None = None,
    exclude: Sequence[str] = (),
    shapes: Shapes | None = None,
    min_sqnr: float | None = None,
    report: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """How much each layer adds to the error of the quantized model (docs/sensitivity.md): ``all``,
    the model with every layer quantized; ``layers``, ranked, each with ``alone`` (it alone is
    quantized) and ``spared`` (it alone stays in float); ``tensors`` with their outliers.

    data: what outputs are compared on, and what calibrates without `calib`: a path, an array whose
    first axis counts samples, a mapping from input names to either, or a number of made-up samples.
    labels: a file of labels or an array of classes; with it top-1 is measured. text, tokenizer: a
    language model's.
    limit: compare on at most so many samples (32; 0: all). scheme, method, observer, per_tensor,
    block, exclude: as of `quantize`.
    min_sqnr: also look for the layers that, left in float, give so many dB: ``exclude``, whose
    ``layers`` are for `quantize`'s `exclude`. report: also write one HTML file with a heat map.
    """
    with contextlib.ExitStack() as stack:
        if labels is not None and not isinstance(data, int):
            data, labels = as_files(stack, model, data, labels)
        samples = _probed(model, data, options)
        return tool(
            "sensitivity",
            model,
            samples=samples,
            progress=progress,
            labels=labels,
            text=text,
            tokenizer=tokenizer,
            limit=limit,
            scheme=scheme,
            method=method,
            calib=calib,
            observer=observer,
            per_tensor=per_tensor,
            block=block,
            exclude=texts_of(exclude),
            shape=shapes,
            min_sqnr=min_sqnr,
            report=report,
            threads=threads,
            **options,
        )


def verify(
    model: Any,
    *,
    data: Any = None,
    labels: Any = None,
    baseline: Any = None,
    measure_s: float | None = None,
    threads: int | None = None,
    **options: Any,
) -> Report:
    """Measures again what the certificate of an .etm guarantees: ``holds``, ``lines``, ``ratio``,
    ``drop``, ...

    data, labels: the samples that it was measured on, as paths or as arrays. baseline: the float
    model; needed for other samples.
    Raises evoq.Error: 'condition failed' where it does not hold; 'invalid input' where there is no
    certificate.
    """
    with contextlib.ExitStack() as stack:
        path = None if baseline is None else stack.enter_context(as_file(baseline))
        data, labels = as_files(stack, model, data, labels)
        return tool(
            "verify",
            model,
            data=data,
            labels=labels,
            baseline=path,
            measure_s=measure_s,
            threads=threads,
            **options,
        )


def perplexity(
    model: Any,
    text: Any,
    *,
    tokenizer: Any = None,
    window: int | None = None,
    limit: int | None = None,
    kv_cache: str = "",
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """How well a language model predicts a text file: ``perplexity``, ``nll``,
    ``samples`` (windows), ...

    tokenizer: its file or folder, where the model carries none. window: tokens that the model sees
    at once, 256 without it. limit: the first so many windows only. kv_cache: what keys and values
    are kept in, 'float32', 'float16' or 'int8'; '': as the model has it (docs/llm.md).
    """
    return run_verb(
        "perplexity",
        _evoq.PerplexityJob(),
        progress,
        {"model": model},
        text=text,
        tokenizer=tokenizer,
        window=window,
        limit=limit,
        kv_cache=kv_cache,
        threads=threads,
        **options,
    )


def eval_(
    model: Any,
    *,
    data: Any = None,
    labels: Any = None,
    targets: Any = None,
    reference: Any = None,
    text: Any = None,
    tokenizer: Any = None,
    limit: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """The accuracy of a model: ``top1`` and ``top5`` with labels, ``targets`` with what outputs
    are to be, ``agreement`` with a reference, ``perplexity`` on a text.

    data: a folder of images or .npy, an .npy, .npz, MNIST or CIFAR file; of several inputs an .npz
    with their names, a folder of such files, or a list of "NAME=FILE"; or arrays as of `quantize`'s
    calibration. labels: a .tsv with file and class_index, a file of classes, or an array of them.
    targets: files as data, or an array whose first axis counts samples; of several outputs a
    mapping from their names to arrays.
    reference: another model, to measure agreement with. text, tokenizer: a language model's,
    instead of data.
    limit: use the first so many samples only.
    """
    if text is not None:
        return perplexity(
            model,
            text,
            tokenizer=tokenizer,
            limit=limit,
            threads=threads,
            progress=progress,
            data=data,
            **options,
        )
    with contextlib.ExitStack() as stack:
        data, labels = as_files(stack, model, data, labels)
        targets = targets_as_files(stack, targets)
        return run_verb(
            "eval",
            _evoq.EvalJob(),
            progress,
            {"model": model, "reference": reference},
            data=data,
            labels=labels,
            targets=targets,
            limit=limit,
            threads=threads,
            **options,
        )
