"""evoq on a Ray cluster: calibration, evaluation, search and batch inference by many machines.

    import ray
    import evoq

    ray.init(address="auto")
    evoq.ray.calibrate("/shared/model.onnx", "ranges.json", calibration=images)
    evoq.quantize("/shared/model.onnx", "model.etm", ranges="ranges.json")

Results are those of one machine, bit for bit, however many workers there are (docs/scale-out.md).
A worker that is lost, as with its machine, is replaced, and does its part again.

Models and data: a path is read by each worker, so it names a file that all machines have; the bytes
of an ONNX file, an onnx.ModelProto and arrays travel through Ray's object store, once for each
machine. Without a cluster (`ray.init`) Ray starts one of this machine. Needs the package ray:
``pip install evoq[ray]``.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _data, _judge, _make
from ._error import Error
from ._job import Progress, Report
from ._model import load
from ._source import to_bytes

__all__ = ["batch_infer", "calibrate", "evaluate", "infer_batches", "search"]


def _ray():
    try:
        import ray
    except ImportError:
        raise Error("evoq.ray needs the package ray: pip install evoq[ray]", "not found") from None
    if not ray.is_initialized():
        ray.init()
    return ray


class _Cluster:
    """How tasks are sent out. threads: processors that each takes. retries: how often a task whose
    worker was lost is begun again. target: EVOQ_TARGET of all workers."""

    def __init__(self, threads: int, retries: int, target: str | None) -> None:
        self.ray = _ray()
        self.options: dict[str, Any] = {"num_cpus": threads, "max_retries": retries}
        if target is not None:
            self.options["runtime_env"] = {"env_vars": {"EVOQ_TARGET": target}}

    def places(self) -> int:
        """How many tasks the cluster can run at once."""
        cpus = self.ray.cluster_resources().get("CPU", 1)
        return max(1, int(cpus // self.options["num_cpus"]))

    def send(self, function: Callable[..., Any], *arguments: Any, returns: int = 1):
        task = self.ray.remote(function).options(num_returns=returns, **self.options)
        return task.remote(*arguments)

    def get(self, reference: Any) -> Any:
        """The result; what the task raised."""
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Error) else error) from None

    def all(self, references: Sequence[Any], done: Callable[[int], None]) -> list[Any]:
        """The results in order. `done` is told how many there are; what it raises, Ctrl-C and the
        first error end the rest."""
        waiting = list(references)
        try:
            while waiting:
                ready, waiting = self.ray.wait(waiting)
                self.get(ready[0])
                done(len(references) - len(waiting))
            return [self.get(reference) for reference in references]
        except BaseException:
            for reference in waiting:
                self.ray.cancel(reference, force=True)
            raise


def _told(progress: Progress | None, stage: str, of: int) -> Callable[[int], None]:
    return lambda count: progress(stage, count / of) if progress else None


def _sent(model: Any) -> Any:
    """A model as tasks take it: a path, or the bytes."""
    data = to_bytes(model)
    return os.fsdecode(model) if data is None else data


def _call(function: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
    """What `function` writes to the file that is its second argument."""
    with tempfile.TemporaryDirectory(prefix="evoq-") as folder:
        path = os.path.join(folder, "out")
        function(arguments[0], path, *arguments[1:], **options)
        with open(path, "rb") as file:
            return file.read()


def _files(contents: Iterable[bytes], folder: str) -> list[str]:
    paths = []
    for content in contents:
        paths.append(os.path.join(folder, str(len(paths))))
        with open(paths[-1], "wb") as file:
            file.write(content)
    return paths


# ---- calibration


def _observe(model, calibration, options, part, first_pass) -> bytes:
    with contextlib.ExitStack() as stack:
        if first_pass is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="evoq-"))
            options = {**options, "after": _files([first_pass], folder)[0]}
        return _call(_make.calibrate, model, calibration=calibration, part=part, **options)


def calibrate(
    model: Any,
    output: Any,
    *,
    calibration: Any,
    parts: int | None = None,
    threads: int = 1,
    retries: int = 10,
    target: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Observes ranges as `evoq.calibrate` on one machine, and writes the same bytes to `output`, a
    ranges.json: ``evoq.quantize(model, "model.etm", ranges=output)``.

    calibration and options (observer, preprocess, calibration_limit, ...): those of evoq.calibrate.
    parts: into how many the samples are cut (as many as tasks fit into the cluster). threads: the
    processors of each task. retries: how often a part whose worker was lost is begun again.
    target: the instruction set (EVOQ_TARGET) of all workers, where the machines differ: sums of
    another set differ in their last bits, and a warning says so.
    """
    cluster = _Cluster(threads, retries, target)
    count = parts or cluster.places()
    given, samples = _data.calibration_of(model, calibration)
    # In memory: tuples of arrays, which each worker sees without a copy.
    data = [tuple(sample) for sample in samples] if samples else given.get("calib", calibration)
    if isinstance(calibration, Mapping) and not samples:
        data = dict(calibration)
    sent, shared = cluster.ray.put(_sent(model)), cluster.ray.put(data)
    how = {**options, "threads": threads}

    def one_pass(first_pass: bytes | None, stage: str) -> list[bytes]:
        behind = None if first_pass is None else cluster.ray.put(first_pass)
        tasks = [
            cluster.send(_observe, sent, shared, how, (k, count), behind)
            for k in range(1, count + 1)
        ]
        return cluster.all(tasks, _told(progress, stage, count))

    fixed = {
        name: value
        for name, value in options.items()
        if name in ("fixed_shapes", "disable", "opt_level")
    }
    with tempfile.TemporaryDirectory(prefix="evoq-") as folder:
        first = _files(one_pass(None, "calibrating"), folder)
        merged = os.path.join(folder, "merged")
        report = _make.calibrate(model, merged, merge=first, **fixed)
        if not report["needs_second_pass"]:
            return _make.calibrate(model, output, merge=first, **fixed)
        with open(merged, "rb") as file:
            first_pass = file.read()
        second = _files(one_pass(first_pass, "counting"), folder)
        return _make.calibrate(model, output, merge=second, **fixed)


# ---- evaluation


def _measure(model, data, options, part) -> bytes:
    def measure(model, path):
        _judge.eval_(model, data=data, part=part, save_part=path, **options)

    return _call(measure, model)


def evaluate(
    model: Any,
    *,
    data: Any,
    labels: Any = None,
    reference: Any = None,
    parts: int | None = None,
    threads: int = 1,
    retries: int = 10,
    target: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """The accuracy of a model on files, as `evoq.eval` measures it on one machine: the same numbers
    but for ``ms_per_sample``, which is the mean of the workers'.

    data, labels, reference and options (preprocess, limit): those of evoq.eval; parts, threads,
    retries and target as of `calibrate`.
    """
    cluster = _Cluster(threads, retries, target)
    count = parts or cluster.places()
    how = {**options, "labels": labels, "threads": threads}
    how["reference"] = None if reference is None else _sent(reference)
    sent, shared = cluster.ray.put(_sent(model)), cluster.ray.put(how)
    tasks = [
        cluster.send(_measure, sent, data, shared, f"{k}/{count}") for k in range(1, count + 1)
    ]
    results = cluster.all(tasks, _told(progress, "evaluating", count))
    with tempfile.TemporaryDirectory(prefix="evoq-") as folder:
        return _judge.eval_(model, merge=_files(results, folder), reference=reference)


# ---- search


def _try(model, calibration, choice, quantize, evaluate) -> tuple[dict[str, Any], bytes]:
    with tempfile.TemporaryDirectory(prefix="evoq-") as folder:
        path = os.path.join(folder, "model.etm")
        try:
            made = _make.quantize(model, path, calibration=calibration, **{**quantize, **choice})
            found = _judge.eval_(path, reference=model, **evaluate)
        except Error as error:
            return {"options": choice, "error": str(error)}, b""
        row = {"options": choice, "output_bytes": made["output_bytes"]}
        row.update((key, found.get(key)) for key in ("top1", "top5", "agreement", "sqnr_db"))
        with open(path, "rb") as file:
            return row, file.read()


def search(
    model: Any,
    output: Any,
    space: Mapping[str, Sequence[Any]],
    *,
    calibration: Any,
    data: Any,
    labels: Any = None,
    by: str | None = None,
    max_bytes: int | None = None,
    limit: int | None = None,
    threads: int = 1,
    retries: int = 10,
    target: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Quantizes a model in every way that `space` names, each as a task of the cluster, measures
    each beside the float model, and writes the best to `output`, an .etm.

    space: options of `evoq.quantize` with the values to try, as
    ``{"observer": ["sqnr", "minmax"], "scheme": ["int8", "int8-dynamic"]}``: all combinations.
    calibration and options (exclude, preprocess, ...): those of evoq.quantize, of all of them.
    data, labels, limit: what accuracy is measured on, as of evoq.eval.
    by: what the best has most of: 'top1' (with labels), 'agreement' or 'sqnr_db' (without);
    fewer bytes where it is equal, then what stands first. max_bytes: of a file, at most.

    Returns ``best``, the options, and ``tried``: for each ``options``, ``output_bytes``, ``top1``,
    ``agreement``, ``sqnr_db``, or ``error``. Raises evoq.Error where none can be made or is small
    enough.
    """
    by = by or ("top1" if labels is not None else "sqnr_db")
    if by not in ("top1", "top5", "agreement", "sqnr_db"):
        raise Error(f"search: by={by!r}, expected 'top1', 'top5', 'agreement' or 'sqnr_db'")
    if by in ("top1", "top5") and labels is None:
        raise Error(f"search: by={by!r} needs labels")
    cluster = _Cluster(threads, retries, target)
    choices = [dict(zip(space, values)) for values in itertools.product(*space.values())]
    sent, shared = cluster.ray.put(_sent(model)), cluster.ray.put(calibration)
    measured = {"data": data, "labels": labels, "limit": limit, "threads": threads}
    if "preprocess" in options:
        measured["preprocess"] = options["preprocess"]
    tasks = [
        cluster.send(
            _try, sent, shared, choice, {**options, "threads": threads}, measured, returns=2
        )
        for choice in choices
    ]
    rows = cluster.all([row for row, _ in tasks], _told(progress, "searching", len(tasks)))
    fit = [
        i
        for i, row in enumerate(rows)
        if "error" not in row and (max_bytes is None or row["output_bytes"] <= max_bytes)
    ]
    if not fit:
        found = "; ".join(
            f"{row['options']}: {row.get('error') or str(row['output_bytes']) + ' bytes'}"
            for row in rows
        )
        raise Error(f"search: nothing that was tried serves: {found}", "condition failed")
    # A signal without noise has no finite sqnr_db.
    value = [float("inf") if row.get(by) is None else row[by] for row in rows]
    best = min(fit, key=lambda i: (-value[i], rows[i]["output_bytes"], i))
    _write(output, cluster.get(tasks[best][1]))
    report = Report(best=rows[best]["options"], by=by, tried=rows)
    report.text = "".join(
        f"{'*' if i == best else ' '} {row['options']}: "
        + (row.get("error") or f"{by} {row[by]}, {row['output_bytes']} bytes")
        + "\n"
        for i, row in enumerate(rows)
    )
    return report


def _write(path: Any, content: bytes) -> None:
    """All of it, or nothing of it."""
    path = os.fsdecode(path)
    folder, name = os.path.split(path)
    with tempfile.NamedTemporaryFile(dir=folder or ".", prefix=name, delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


# ---- batch inference


@functools.lru_cache(maxsize=1)
def _loaded(model, threads: int):
    """The model that this worker ran last; the next batch finds it."""
    return load(model, threads=threads)


def _run(model, batch, threads):
    inputs = (
        batch if isinstance(batch, Mapping) else {_loaded(model, threads).inputs[0].name: batch}
    )
    return _loaded(model, threads).run({name: np.asarray(array) for name, array in inputs.items()})


def infer_batches(
    model: Any,
    batches: Iterable[Any],
    *,
    threads: int = 1,
    ahead: int | None = None,
    retries: int = 10,
    target: str | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Runs a model on batches, each as a task of the cluster, and yields what `Model.run` gives for
    each, in their order.

    batches: mappings from input names to arrays, or arrays of a model with one input. They are read
    `ahead` (twice as many as tasks fit into the cluster) before their results are taken, no
    further: an endless source is fine.
    """
    cluster = _Cluster(threads, retries, target)
    sent = cluster.ray.put(_sent(model))
    ahead = ahead or 2 * cluster.places()
    under_way: collections.deque[Any] = collections.deque()
    try:
        for batch in batches:
            if len(under_way) == ahead:
                yield cluster.get(under_way.popleft())
            under_way.append(cluster.send(_run, sent, batch, threads))
        while under_way:
            yield cluster.get(under_way.popleft())
    finally:
        for reference in under_way:
            cluster.ray.cancel(reference, force=True)


def batch_infer(
    model: Any, inputs: Any, *, batch: int = 32, threads: int = 1, **options: Any
) -> dict[str, np.ndarray]:
    """Runs a model on all samples of arrays, `batch` of them in each run, and returns its outputs
    for all, by name: the bits of `Model.run` on the same slices.

    inputs: an array whose first axis counts samples, or a mapping from input names to such.
    options: those of `infer_batches`.
    """
    arrays = dict(inputs) if isinstance(inputs, Mapping) else {"": np.asarray(inputs)}
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1:
        raise Error(f"batch_infer: inputs of {sorted(counts)} samples, expected equal numbers")
    if batch < 1:
        raise Error(f"batch_infer: batch={batch}, expected at least 1")
    count = counts.pop()
    if count == 0:
        raise Error("batch_infer: there are no samples")

    def slices():
        for first in range(0, count, batch):
            part = {name: array[first : first + batch] for name, array in arrays.items()}
            yield part if isinstance(inputs, Mapping) else part[""]

    results = list(infer_batches(model, slices(), threads=threads, **options))
    return {name: np.concatenate([result[name] for result in results]) for name in results[0]}
