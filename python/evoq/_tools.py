"""The verbs of the command line as functions: the same options, the same JSON, as dicts.

An option that is not given keeps its default, which stands in one place, in C++. Any function takes
`progress`, called with the stage and how much of it is done, from 0 to 1; Ctrl-C and an exception
that it raises stop the work, and nothing is written.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from . import _evoq
from ._error import Error
from ._job import Progress, Report, fill, report_of, text_of
from ._language import tokens_of
from ._source import as_file
from .nn import Network

Shapes = Mapping[str, Sequence[int]]
FixedShapes = Mapping[str, Sequence[int | None]]

# Options of `explain` that name another runtime's files.
FOREIGN = sorted(
    name
    for name, field in vars(_evoq.ForeignJob).items()
    if isinstance(field, property) and name != "baseline"
)


def _arguments(options: Mapping[str, Any]) -> list[str]:
    arguments = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
        elif isinstance(value, Mapping):
            for key, sizes in value.items():
                shape = "x".join("?" if size is None else str(int(size)) for size in sizes)
                arguments.append(f"{option}={key}={shape}")
        elif isinstance(value, (list, tuple, set, frozenset)):
            arguments += [f"{option}={text_of(item)}" for item in value]
        else:
            arguments.append(f"{option}={text_of(value)}")
    return arguments


def tool(
    verb: str,
    *models: Any,
    samples: Sequence[Sequence[Any]] = (),
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Runs any verb of the command line (``evoq --help``) in this process.

    models: what stands without a dash: paths, bytes of ONNX files or onnx.ModelProtos.
    options: the verb's options by their names, dashes as underscores; True for a flag, a list for a
    repeated option, a mapping from names to sizes for ``shape``. None and False leave an option
    out.
    A verb that gives a list (``list``, ``zoo``) has it as ``items``. Warnings are RuntimeWarnings.
    Raises evoq.Error: 'usage' for options; the verb's own errors; 'condition failed' where the
    command would exit with 1.

    >>> evoq.tool("zoo", "resnet50", output="resnet50.onnx")["output_bytes"]
    """
    with contextlib.ExitStack() as stack:
        paths = [stack.enter_context(as_file(model)) for model in models]
        found = _evoq.verb(
            verb, [*_arguments(options), "--", *paths], [list(s) for s in samples], progress
        )
    return report_of(found, stacklevel=4)


def _run(verb: str, job: Any, progress: Progress | None, models: Mapping[str, Any], **options: Any):
    """The task of that name in the extension. models: fields that are models, or None."""
    with contextlib.ExitStack() as stack:
        paths = {
            name: stack.enter_context(as_file(model))
            for name, model in models.items()
            if model is not None
        }
        fill(job, verb.partition("_")[0], {**options, **paths})
        return report_of(getattr(_evoq, verb)(job, progress=progress), stacklevel=4)


def inspect(model: Any, *, shapes: Shapes | None = None) -> Report:
    """Inputs, outputs, operators, parameters, multiply-accumulates, bytes and precisions of a
    model.

    shapes: sizes of free inputs, by name, for the counts that depend on them (``macs`` is None
    without).
    """
    return tool("inspect", model, shape=shapes)


def optimize(
    model: Any,
    output: Any,
    *,
    disable: Sequence[str] = (),
    opt_level: int | None = None,
    stop_after: int | None = None,
    config: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Runs the graph passes only and writes ONNX to `output`.

    disable: passes to leave out: 'PASS', 'PASS@NODE', 'PASS@op=OPERATOR', each a glob pattern
    (``evoq list passes``). opt_level: run passes up to this level, 0 to 3. The file keeps both for
    whatever is made of it. stop_after: run only the first N passes that change something.
    config: these options as a JSON file. Returns ``nodes_before``, ``nodes_after`` and ``passes``.
    """
    job = _evoq.OptimizeJob()
    chosen = {"disable": list(disable), "opt_level": opt_level, "stop_after": stop_after}
    fill(job, "optimize", chosen)
    if config is not None:
        job.read_config(text_of(config))
    return _run("optimize", job, progress, {"model": model}, output=output, **options)


def compile(
    model: Any,
    output: Any,
    *,
    shapes: Shapes | None = None,
    fixed_shapes: FixedShapes | None = None,
    disable: Sequence[str] = (),
    opt_level: int | None = None,
    tune: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Writes a model as .etm to `output` without a change of precision.

    shapes: sizes of free inputs to prepare for; the model stays free. fixed_shapes: sizes to fix
    for good, None staying free.
    disable, opt_level: which graph passes run, as for `optimize`.
    tune: measure what each step does fastest on this machine with `threads`
    threads, and keep it in the file. Returns ``output_bytes``, ``float_weight_bytes``,
    ``steps_total``.
    """
    return _run(
        "compile",
        _evoq.CompileJob(),
        progress,
        {"model": model},
        output=output,
        shape=shapes,
        fix_shape=fixed_shapes,
        disable=list(disable),
        opt_level=opt_level,
        tune=tune,
        threads=threads,
        **options,
    )


def _samples(model: Any, calibration: Any) -> list[list[Any]]:
    """Calibration data as a list of samples of the model's batch size, each a list of arrays in the
    order of its inputs."""
    inputs = inspect(model)["inputs"]
    names = [value["name"] for value in inputs]
    fixed = [
        value["shape"][0] if value["shape"] and isinstance(value["shape"][0], int) else 1
        for value in inputs
    ]
    batches = (
        [calibration]
        if isinstance(calibration, Mapping) or hasattr(calibration, "dtype")
        else calibration
    )
    samples = []
    for batch in batches:
        if isinstance(batch, Mapping):
            missing = [name for name in names if name not in batch]
            if missing:
                raise Error(
                    f"calibration: a sample lacks {', '.join(missing)}, the inputs are "
                    f"{', '.join(names)}"
                )
            arrays = [batch[name] for name in names]
        else:
            arrays = list(batch) if isinstance(batch, (list, tuple)) else [batch]
        if len(arrays) != len(names):
            raise Error(
                f"calibration: a sample has {len(arrays)} arrays, the model {len(names)} inputs"
            )
        arrays = [array if hasattr(array, "shape") else np.asarray(array) for array in arrays]
        counts = {a.shape[0] // n for a, n in zip(arrays, fixed) if len(a.shape) > 0 and n > 0}
        if len(counts) > 1:
            raise Error(
                f"calibration: the arrays hold {', '.join(map(str, sorted(counts)))} samples, "
                "expected equal numbers"
            )
        for i in range(counts.pop() if counts else 1):
            samples.append(
                [a[i * n : (i + 1) * n] if len(a.shape) > 0 else a for a, n in zip(arrays, fixed)]
            )
    if not samples:
        raise Error("calibration: there are no samples")
    return samples


def _scale_sets(given: int | Mapping[str, Any] | None, file: list[str]) -> list[str]:
    if given is None:
        return file
    if isinstance(given, Mapping):
        return [f"{name}={text_of(path)}" for name, path in given.items()]
    return [str(given)]


def quantize(
    model: Any,
    output: Any,
    *,
    scheme: str | None = None,
    method: str | None = None,
    calibration: Any = None,
    calibration_limit: int | None = None,
    calibration_samples: int | str | None = None,
    scale_sets: int | Mapping[str, Any] | None = None,
    preprocess: Any = None,
    observer: str | None = None,
    percentile: float | None = None,
    per_tensor: bool = False,
    block: int | str | None = None,
    weight_bits: int | str | Sequence[str] = (),
    signed: bool = False,
    symmetric: bool = False,
    exclude: Sequence[str] = (),
    disable: Sequence[str] = (),
    opt_level: int | None = None,
    target: str | None = None,
    ranges: Any = None,
    save_ranges: Any = None,
    encodings: Any = None,
    encodings_out: Any = None,
    shapes: Shapes | None = None,
    fixed_shapes: FixedShapes | None = None,
    tune: bool = False,
    config: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Quantizes a model and writes it to `output`: .etm, or .onnx with QuantizeLinear and
    DequantizeLinear.

    model: the path of an .onnx file, its bytes, or an onnx.ModelProto.
    scheme: 'int8' (without it), 'int8-dynamic', 'int8-weights', 'int4-weights', 'bf16', 'float32',
    ... (``evoq list schemes``).
    method: quantization methods in addition, 'gptq' or 'equalize,bias-correction', or 'none';
    without it those that are the scheme's own (``evoq list methods``); 'auto': those that pay,
    found by trying them for up to a minute.
    calibration: what the ranges of 'int8' and methods are observed on: a path (a folder of images
    or .npy, an .npy, .npz, MNIST or CIFAR file); an array whose first axis counts samples; a
    mapping from input names to such paths or arrays; an iterable of arrays, of tuples of arrays or
    of mappings, each a sample or a batch; or a number of random samples, for speed tests only.
    calibration_limit: use at most so many samples, evenly spread (0: all).
    calibration_samples: 'auto': no more than tell the ranges well enough; a number: as the limit.
    scale_sets: several scale sets, which runs change between (docs/adaptive.md): so many groups of
    the calibration samples, or a mapping from names to paths with the samples of each.
    preprocess: how images become inputs, as a JSON file. observer: how ranges are chosen, 'minmax'
    without it (``evoq list observers``).
    per_tensor: one scale per weight tensor. block: weights of int4 that share a scale: 32 (without
    it), 64, 128 or 'channel'. weight_bits: of 'int8', 8, 4 or 2 bits for the weights of all layers,
    or 'PATTERN=BITS' of some; of several the last that matches counts. signed: int8 activations,
    not uint8. symmetric: zero points in the middle.
    exclude: nodes that stay float, as glob patterns of names. disable, opt_level: which graph
    passes run, as for `optimize`. target: the runtime that an .onnx is written for.
    shapes: sizes of free inputs to prepare for, and of random samples; the model stays free.
    fixed_shapes: sizes to fix for good, None staying free. ranges, save_ranges: files of calibrated
    ranges. encodings, encodings_out: parameters by tensor name to take and to write, as files of
    AIMET (docs/encodings.md). config: options as a JSON file. Further options as `evoq quantize`
    has.

    Returns ``input_bytes``, ``output_bytes``, ``float_weight_bytes``, ``quantized_weight_bytes``,
    ``steps_total``, ``steps_int8``, ``steps_float``, ``int8_weights``, ``low_bit_weights`` by type,
    ``float_reasons`` by node, ``samples_used``, ``warnings``, ...
    Raises evoq.Error: 'usage' without calibration where the scheme needs it; 'invalid input' for
    NaN in the data.
    """
    samples: list[list[Any]] = []
    if isinstance(calibration, (str, bytes, os.PathLike)):
        options["calib"] = calibration
    elif (
        isinstance(calibration, Mapping)
        and calibration
        and all(isinstance(data, (str, bytes, os.PathLike)) for data in calibration.values())
    ):
        options["calib"] = [f"{name}={text_of(path)}" for name, path in calibration.items()]
    elif isinstance(calibration, int):
        options["calib_random"] = calibration
    elif calibration is not None:
        samples = _samples(model, calibration)
    job = _evoq.QuantizeJob()
    if config is not None:
        job.read_config(text_of(config))
    fill(
        job,
        "quantize",
        {
            "output": output,
            "scheme": scheme,
            "method": method,
            "calib_limit": calibration_limit,
            "samples": None if calibration_samples is None else str(calibration_samples),
            "scale_sets": _scale_sets(scale_sets, job.scale_sets),
            "preprocess": preprocess,
            "observer": observer,
            "percentile": percentile,
            "per_tensor": per_tensor,
            "block": block,
            "weight_bits": [str(weight_bits)]
            if isinstance(weight_bits, (int, str))
            else [*weight_bits],
            "signed": signed,
            "symmetric": symmetric,
            "exclude": [*job.exclude, *exclude],
            "disable": [*job.disable, *disable],
            "opt_level": opt_level,
            "target": target,
            "ranges": ranges,
            "save_ranges": save_ranges,
            "encodings": encodings,
            "encodings_out": encodings_out,
            "shape": shapes,
            "fix_shape": fixed_shapes,
            "tune": tune,
            "threads": threads,
            **options,
        },
    )
    with as_file(model) as path:
        job.model = path
        return report_of(_evoq.quantize(job, samples, progress))


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
    opens offline. Instead of a model, another runtime's files: trtexec=DIR, ort_profile=F,
    benchmark_app=F (docs/foreign-profiles.md).
    """
    foreign = {name: options.pop(name) for name in FOREIGN if options.get(name) is not None}
    if foreign:
        if model is not None or options.get("target") is not None:
            raise Error("explain: another runtime's files, a model and target= exclude each other")
        return _run(
            "explain_foreign", _evoq.ForeignJob(), progress, {}, baseline=baseline, **foreign
        )
    if model is None:
        raise Error("explain what? Give a model, or another runtime's files")
    if options.get("target") is not None:
        job = _evoq.TargetJob()
        return _run("explain_target", job, progress, {"model": model}, shape=shapes, **options)
    return _run(
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
    return _run(
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


def _probed(model: Any, data: Any, options: dict[str, Any]) -> list[list[Any]]:
    """What `data` says, as options of the verb or as samples."""
    if isinstance(data, (str, bytes, os.PathLike)):
        options["data"] = data
    elif isinstance(data, Mapping) and all(
        isinstance(part, (str, bytes, os.PathLike)) for part in data.values()
    ):
        options["data"] = [f"{name}={text_of(path)}" for name, path in data.items()]
    elif isinstance(data, int):
        options["random"] = data
    elif data is not None:
        return _samples(model, data)
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
    labels: a file of labels; with it top-1 is measured. text, tokenizer: a language model's.
    limit: compare on at most so many samples (32; 0: all). scheme, method, observer, per_tensor,
    block, exclude: as of `quantize`.
    min_sqnr: also look for the layers that, left in float, give so many dB: ``exclude``, whose
    ``layers`` are for `quantize`'s `exclude`. report: also write one HTML file with a heat map.
    """
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
        exclude=list(exclude),
        shape=shapes,
        min_sqnr=min_sqnr,
        report=report,
        threads=threads,
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
    return _run(
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

    data, labels: the samples that it was measured on, as paths. baseline: the float model; needed
    for other samples.
    Raises evoq.Error: 'condition failed' where it does not hold; 'invalid input' where there is no
    certificate.
    """
    with contextlib.ExitStack() as stack:
        path = None if baseline is None else stack.enter_context(as_file(baseline))
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


def eval_(
    model: Any,
    *,
    data: Any = None,
    labels: Any = None,
    reference: Any = None,
    text: Any = None,
    tokenizer: Any = None,
    limit: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """The accuracy of a model on files: ``top1`` and ``top5`` with labels, ``agreement`` with a
    reference, ``perplexity`` on a text.

    data: a folder of images or .npy, an .npy, .npz, MNIST or CIFAR file; of several inputs an .npz
    with their names, a folder of such files, or a list of "NAME=FILE". labels: a .tsv with file and
    class_index.
    reference: another model, to measure agreement with. text, tokenizer: a language model's,
    instead of data.
    limit: use the first so many samples only.
    """
    if text is not None:
        return _run(
            "perplexity",
            _evoq.PerplexityJob(),
            progress,
            {"model": model},
            data=data,
            text=text,
            tokenizer=tokenizer,
            limit=limit,
            threads=threads,
            **options,
        )
    return _run(
        "eval",
        _evoq.EvalJob(),
        progress,
        {"model": model, "reference": reference},
        data=data,
        labels=labels,
        limit=limit,
        threads=threads,
        **options,
    )


def run(
    model: Any,
    inputs: Mapping[str, Any],
    *,
    output_dir: Any = None,
    topk: int | None = None,
    labels: Any = None,
    threads: int | None = None,
    **options: Any,
) -> Report:
    """Runs a model once on files: ``outputs`` with name, type, shape and range; with topk ``top``.
    (On arrays: evoq.load.)

    inputs: paths of .npy, .jpg or .png files by input. output_dir: write each output there as
    NAME.npy.
    """
    files = [f"{name}={text_of(path)}" for name, path in inputs.items()]
    return tool(
        "run",
        model,
        input=files,
        output_dir=output_dir,
        topk=topk,
        labels=labels,
        threads=threads,
        **options,
    )


def generate(
    model: Any,
    prompt: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]],
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    stop: Sequence[str] = (),
    chat: bool = False,
    system: str | None = None,
    tokenizer: Any = None,
    draft: Any = None,
    context: int | None = None,
    parallel: int | None = None,
    prompt_cache: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Loads a language model and writes a text with it. (To keep it loaded: evoq.LanguageModel.)

    prompt: a text or tokens, or a list of them, of which `parallel` run at the same time.
    chat: a text is a user's message, system one before it. tokenizer: its file or folder, where the
    model carries none. draft: a smaller model of the same tokens. prompt_cache: a file that keeps
    the keys and values of one prompt. Further options as `evoq generate` has: top_k, top_p, min_p,
    repeat_penalty, ignore_end, plain.
    Returns ``texts`` by prompt with ``text``, ``tokens``, ``ended``, ``prompt_tokens_per_s``,
    ``tokens_per_s``, ...
    """
    one = isinstance(prompt, str) or all(isinstance(token, Integral) for token in prompt)
    prompts = [prompt] if one else list(prompt)
    job = _evoq.GenerateJob()
    job.prompt = [text for text in prompts if isinstance(text, str)]
    job.prompt_tokens = [tokens_of(tokens) for tokens in prompts if not isinstance(tokens, str)]
    report = _run(
        "generate",
        job,
        progress,
        {"model": model, "draft": draft},
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        stop=stop,
        chat=chat,
        system=system,
        tokenizer=tokenizer,
        context=context,
        parallel=parallel,
        prompt_cache=prompt_cache,
        threads=threads,
        **options,
    )
    texts = [text["text"] or " ".join(map(str, text["tokens"])) for text in report["texts"]]
    report.text = "".join(
        f"{text}\n" if len(texts) == 1 else f"--- {number}\n{text}\n"
        for number, text in enumerate(texts, 1)
    )
    return report


def prune(
    model: Any,
    output: Any,
    *,
    pattern: str | None = None,
    sparsity: float | None = None,
    layers: Sequence[str] = (),
    score: str | None = None,
    scope: str | None = None,
) -> Report:
    """Sets the weights that matter least to 0 and writes ONNX to `output` (docs/pruning.md).

    pattern: 'block-4x4', 'block-1x16', '2:4' or 'unstructured'. sparsity: the share of weights that
    become 0. layers: glob patterns of the products to prune. score: 'magnitude', 'lamp' or
    'squares'. scope: 'layer' or 'global'. Returns ``sparsity``, ``zeros``, ``layers``, ``left``.
    """
    return tool(
        "prune",
        model,
        output=output,
        pattern=pattern,
        sparsity=sparsity,
        layers=list(layers) or None,
        score=score,
        scope=scope,
    )


def _data_file(data: Any, labels: Any, folder: str, name: str) -> tuple[Any, Any]:
    """Paths as they are; arrays as an .npz, or an .npy of tokens, in the folder."""
    if isinstance(data, (str, bytes, os.PathLike)):
        if labels is not None and not isinstance(labels, (str, bytes, os.PathLike)):
            raise Error(f"{name}: labels of a file are a file")
        return data, labels
    data = np.asarray(data)
    if labels is None:
        if data.ndim != 1 or not np.issubdtype(data.dtype, np.integer):
            raise Error(f"{name}: an array without labels, expected one row of tokens")
        path = os.path.join(folder, name + ".npy")
        np.save(path, data.astype(np.int64))
        return path, None
    labels = np.asarray(labels)
    if data.ndim < 1 or labels.shape != data.shape[:1]:
        raise Error(
            f"{name}: labels of shape {list(labels.shape)} for data of shape {list(data.shape)}, "
            "expected one for each sample"
        )
    path = os.path.join(folder, name + ".npz")
    np.savez(path, x=data.astype(np.float32), labels=labels.astype(np.int64))
    return path, None


def train(
    model: Any,
    output: Any,
    *,
    data: Any,
    labels: Any = None,
    test: Any = None,
    test_labels: Any = None,
    epochs: int | None = None,
    batch: int | None = None,
    lr: float | None = None,
    optimizer: str | None = None,
    augment: Sequence[str] = (),
    scheme: str | None = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Trains a network on labelled samples and writes it to `output`, .onnx or .etm
    (docs/training.md).

    model: an evoq.nn.Network or a built-in network ('lenet'), with random weights; or an ONNX model
    to train further: a path, bytes or an onnx.ModelProto.
    data, labels: files as of `evoq train`; or an array whose first axis counts samples with an
    array of classes; of a language model a text file or a row of tokens. test, test_labels: the
    same, to measure on after each epoch.
    What is not given is as the network's recipe has it. scheme: 'int8' trains with its integers.
    Further options as `evoq train` has: weight_decay, warm_up, label_smoothing, mixup, ema, decay,
    freeze, context, tokenizer, teacher, prune, checkpoint, resume, log, tensorboard, ...

    Returns ``epochs`` with loss and accuracies, ``test_accuracy``, of texts ``test_loss`` and
    ``test_perplexity``, ``parameters``, ``steps``, ``seconds``, ``recipe``, ...
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="evoq-"))
        if isinstance(model, Network):
            path = os.path.join(folder, model.description["name"].replace(os.sep, "_") + ".json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(model.json())
            model = path
        data, labels = _data_file(data, labels, folder, "data")
        if test is not None:
            test, test_labels = _data_file(test, test_labels, folder, "test")
        return tool(
            "train",
            model,
            progress=progress,
            data=data,
            labels=labels,
            test=test,
            test_labels=test_labels,
            output=output,
            epochs=epochs,
            batch=batch,
            lr=lr,
            optimizer=optimizer,
            augment=list(augment),
            scheme=scheme,
            seed=seed,
            threads=threads,
            **options,
        )


def list_(what: str) -> Report:
    """What this evoq has: 'ops', 'kernels', 'passes', 'schemes', 'methods', 'observers',
    'rules', 'layers', 'gradients' or 'verbs', as ``items``."""
    return tool("list", what)
