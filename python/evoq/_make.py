"""What makes another model of a model: inspect, optimize, compile, calibrate, quantize, prune."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from . import _evoq
from ._data import as_files, calibration_of
from ._error import Error
from ._job import fill, report_of, text_of, texts_of
from ._source import as_file
from ._verb import FixedShapes, Progress, Report, Shapes, run_verb, tool


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
    merge_adapters: bool = False,
    config: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Runs the graph passes only and writes ONNX to `output`.

    disable: passes to leave out: 'PASS', 'PASS@NODE', 'PASS@op=OPERATOR', each a glob pattern
    (``evoq list passes``). opt_level: run passes up to this level, 0 to 3. The file keeps both for
    whatever is made of it. stop_after: run only the first N passes that change something.
    merge_adapters: make one weight of each product and the LoRA adapter beside it. config: these
    options as a JSON file. Returns ``nodes_before``, ``nodes_after`` and ``passes``.
    """
    job = _evoq.OptimizeJob()
    chosen = {"disable": texts_of(disable), "opt_level": opt_level, "stop_after": stop_after}
    fill(job, "optimize", chosen)
    job.merge_adapters = merge_adapters
    if config is not None:
        job.read_config(text_of(config))
    return run_verb("optimize", job, progress, {"model": model}, output=output, **options)


def compile(
    model: Any,
    output: Any,
    *,
    shapes: Shapes | None = None,
    fixed_shapes: FixedShapes | None = None,
    gears: Mapping[str, Sequence[int | Sequence[int]]] | None = None,
    suggest_gears: int = 0,
    observed: Any = None,
    measure_s: float = 6,
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
    gears: sizes that loaded models keep ready, and serve other batches by: of each input by name
    its free size, or all its sizes, in each gear. suggest_gears: so many instead, those with the
    least expected time for the sizes of the file `observed` (`Model.save_sizes`, or lines of
    'RUNS NAME=1x128'), which are measured for about `measure_s` seconds. `model` may be an .etm
    then.
    disable, opt_level: which graph passes run, as for `optimize`.
    tune: measure what each step does fastest on this machine with `threads`
    threads, and keep it in the file. Returns ``output_bytes``, ``float_weight_bytes``,
    ``steps_total``.
    """
    job = _evoq.CompileJob()
    job.gears = {name: [_gear(size) for size in sizes] for name, sizes in (gears or {}).items()}
    if (suggest_gears > 0) != (observed is not None):
        raise Error("compile: suggest_gears and observed go together")
    if suggest_gears > 0:
        job.suggest(suggest_gears, text_of(observed), measure_s)
    return run_verb(
        "compile",
        job,
        progress,
        {"model": model},
        output=output,
        shape=shapes,
        fix_shape=fixed_shapes,
        disable=texts_of(disable),
        opt_level=opt_level,
        tune=tune,
        threads=threads,
        **options,
    )


def _gear(sizes: int | Sequence[int]) -> list[int]:
    return [int(size) for size in sizes] if isinstance(sizes, Sequence) else [int(sizes)]


def _scale_sets(given: int | Mapping[str, Any] | None, file: list[str]) -> list[str]:
    if given is None:
        return file
    if isinstance(given, Mapping):
        return [f"{name}={text_of(path)}" for name, path in given.items()]
    return [str(given)]


def calibrate(
    model: Any,
    output: Any,
    *,
    calibration: Any = None,
    calibration_limit: int | None = None,
    calibration_samples: int | str | None = None,
    preprocess: Any = None,
    observer: str | None = None,
    percentile: float | None = None,
    shapes: Shapes | None = None,
    fixed_shapes: FixedShapes | None = None,
    disable: Sequence[str] = (),
    opt_level: int | None = None,
    part: tuple[int, int] | None = None,
    after: Any = None,
    merge: Sequence[Any] = (),
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Observes the ranges of a model's activations and writes them to `output`, a ranges.json for
    ``quantize(..., ranges=output)``. Options as of `quantize`.

    In parts, by other processes or on other machines: part=(k, n) observes only part k, from 1, of
    n of the samples; merge=[files of all parts] puts those together and runs no sample. Where the
    result says ``needs_second_pass``, it is not yet a ranges.json: each part is observed once more
    with after=that file, and those are merged. Whatever the number of parts, ranges.json is the
    same bytes. evoq.ray does this on a cluster.

    Returns ``complete``, ``needs_second_pass``, ``samples_used``, ``ranges``, ``warnings``, ...
    """
    given, samples = calibration_of(model, calibration)
    return tool(
        "calibrate",
        model,
        samples=samples,
        progress=progress,
        output=output,
        calib_limit=calibration_limit,
        samples_=calibration_samples,
        preprocess=preprocess,
        observer=observer,
        percentile=percentile,
        shape=shapes,
        fix_shape=fixed_shapes,
        disable=texts_of(disable) or None,
        opt_level=opt_level,
        part=None if part is None else f"{part[0]}/{part[1]}",
        after=after,
        merge=texts_of(merge) or None,
        threads=threads,
        **given,
    )


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
    activation_bits: int | str | Sequence[str] = (),
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
    preprocess: how images become inputs, as a JSON file. observer: how ranges are chosen, 'sqnr'
    without it (``evoq list observers``).
    per_tensor: one scale per weight tensor. block: weights of int4 that share a scale: 32 (without
    it), 64, 128 or 'channel'. weight_bits: of 'int8', 8, 4, 2 or 1 bits for the weights of all
    layers, or 'PATTERN=BITS' of some; of several the last that matches counts. activation_bits: the
    same of what layers give (8, 4 or 2), kept in bytes. signed: int8 activations, not uint8.
    symmetric: zero points in the middle.
    exclude: nodes that stay float, as glob patterns of names, or one. disable, opt_level: which
    graph passes run, as for `optimize`. target: the runtime that an .onnx is written for.
    shapes: sizes of free inputs to prepare for, and of random samples; the model stays free.
    fixed_shapes: sizes to fix for good, None staying free. ranges, save_ranges: files of calibrated
    ranges. encodings, encodings_out: parameters by tensor name to take and to write, as files of
    AIMET (docs/encodings.md). config: options as a JSON file. Further options as `evoq quantize`
    has; of those `data` and `labels` of 'auto' are paths, or arrays as of `calibration`.

    Returns ``input_bytes``, ``output_bytes``, ``float_weight_bytes``, ``quantized_weight_bytes``,
    ``steps_total``, ``steps_int8``, ``steps_float``, ``int8_weights``, ``low_bit_weights`` by type,
    ``weight_bits`` by layer,
    ``float_reasons`` by node, ``samples_used``, ``warnings``, ...
    Raises evoq.Error: 'usage' without calibration where the scheme needs it; 'invalid input' for
    NaN in the data.
    """
    with contextlib.ExitStack() as stack:
        options["data"], options["labels"] = as_files(
            stack, model, options.get("data"), options.get("labels")
        )
        given, samples = calibration_of(model, calibration)
        options.update(given)
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
                "weight_bits": texts_of(weight_bits),
                "activation_bits": texts_of(activation_bits),
                "signed": signed,
                "symmetric": symmetric,
                "exclude": [*job.exclude, *texts_of(exclude)],
                "disable": [*job.disable, *texts_of(disable)],
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


def prune(
    model: Any,
    output: Any,
    *,
    pattern: str | None = None,
    sparsity: float | None = None,
    layers: Sequence[str] = (),
    score: str | None = None,
    scope: str | None = None,
    multiple: int | None = None,
) -> Report:
    """Sets the weights that matter least to 0, or removes whole channels, and writes ONNX to
    `output` (docs/pruning.md).

    pattern: 'block-4x4', 'block-1x16', '2:4', 'unstructured' or 'channel'. sparsity: the share of
    weights that become 0, or of channels that go. layers: glob patterns of the products to prune.
    score: 'magnitude', 'lamp' or 'squares'. scope: 'layer' or 'global'. multiple: of channels that
    stay in a layer. Returns ``sparsity``, ``layers``, ``left``; ``zeros``, or of channels
    ``float_weight_bytes`` and ``macs`` with what they were before.
    """
    return tool(
        "prune",
        model,
        output=output,
        pattern=pattern,
        sparsity=sparsity,
        layers=texts_of(layers) or None,
        score=score,
        scope=scope,
        multiple=multiple,
    )
