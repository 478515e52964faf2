"""Samples and labels as the user has them: paths, or arrays, which some verbs read from a file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._error import Error
from ._job import text_of
from ._verb import tool

PATHS = (str, bytes, os.PathLike)


def paths_of(data: Any) -> str | list[str] | None:
    """A path, or NAME=FILE of each input; None where `data` is in memory."""
    if isinstance(data, PATHS):
        return text_of(data)
    if isinstance(data, Mapping) and data and all(isinstance(v, PATHS) for v in data.values()):
        return [f"{name}={text_of(path)}" for name, path in data.items()]
    if isinstance(data, (list, tuple)) and data and all(isinstance(v, PATHS) for v in data):
        return [text_of(path) for path in data]
    return None


class _Input:
    """An input, which arrays of its rank hold in rows of its first axis, arrays of one rank more
    whole, one behind the other."""

    def __init__(self, told: Mapping[str, Any]):
        self.name = told["name"]
        shape = told["shape"]
        self.rank = None if shape is None else len(shape)
        self.rows = shape[0] if shape and isinstance(shape[0], int) else 1

    def whole(self, array: Any) -> bool:
        return self.rank is not None and len(array.shape) == self.rank + 1

    def count(self, array: Any) -> int | None:
        """How many samples the array holds; None: any number, always the same."""
        if len(array.shape) == 0 or self.rows == 0:
            return None
        return array.shape[0] if self.whole(array) else array.shape[0] // self.rows

    def at(self, array: Any, index: int) -> Any:
        if len(array.shape) == 0:
            return array
        if self.whole(array):
            return array[index]
        return array[index * self.rows : (index + 1) * self.rows]


def samples_of(model: Any, calibration: Any) -> list[list[Any]]:
    """Calibration data as a list of samples of the model's batch size, each a list of arrays in the
    order of its inputs."""
    inputs = [_Input(value) for value in tool("inspect", model)["inputs"]]
    names = [value.name for value in inputs]
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
        counts = {x.count(a) for x, a in zip(inputs, arrays)} - {None}
        if len(counts) > 1:
            held = ", ".join(f"{x.name} {x.count(a)}" for x, a in zip(inputs, arrays))
            raise Error(
                f"calibration: the arrays hold different numbers of samples ({held}); an input "
                "whose first axis counts no samples takes arrays of one more, array[None] for one "
                "sample"
            )
        for i in range(counts.pop() if counts else 1):
            samples.append([x.at(a, i) for x, a in zip(inputs, arrays)])
    if not samples:
        raise Error("calibration: there are no samples")
    return samples


def calibration_of(model: Any, calibration: Any) -> tuple[dict[str, Any], list[list[Any]]]:
    """Calibration data as options of the command, or as samples in memory (`samples_of`)."""
    if calibration is None:
        return {}, []
    if (paths := paths_of(calibration)) is not None:
        return {"calib": paths}, []
    if isinstance(calibration, int):
        return {"calib_random": calibration}, []
    return {}, samples_of(model, calibration)


def _file_of(data: Any, model: Any, folder: str) -> str:
    samples = samples_of(model, data)
    names = [value["name"] for value in tool("inspect", model)["inputs"]]
    columns = [np.concatenate([np.asarray(s[i]) for s in samples]) for i in range(len(names))]
    path = os.path.join(folder, "data.npy" if len(names) == 1 else "data.npz")
    if len(names) == 1:
        np.save(path, columns[0])
    else:
        np.savez(path, **dict(zip(names, columns)))
    return path


def targets_as_files(stack: contextlib.ExitStack, targets: Any) -> Any:
    """What --targets takes: paths as they are; an array, or of several outputs a mapping from
    their names to arrays, in a file that lasts as long as the stack."""
    if targets is None or (kept := paths_of(targets)) is not None:
        return None if targets is None else kept
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="evoq-"))
    if isinstance(targets, Mapping):
        path = os.path.join(folder, "targets.npz")
        np.savez(path, **{name: np.asarray(array) for name, array in targets.items()})
        return path
    path = os.path.join(folder, "targets.npy")
    np.save(path, np.asarray(targets))
    return path


def as_files(
    stack: contextlib.ExitStack, model: Any, data: Any, labels: Any = None
) -> tuple[Any, Any]:
    """What the options --data and --labels take: paths as they are; arrays, as `samples_of` takes
    them, and classes in files that last as long as the stack."""
    kept = paths_of(data)
    of_path = labels is None or isinstance(labels, PATHS)
    if (data is None or kept is not None) and of_path:
        return kept, None if labels is None else text_of(labels)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="evoq-"))
    if data is not None and kept is None:
        kept = _file_of(data, model, folder)
    if of_path:
        return kept, None if labels is None else text_of(labels)
    classes = np.asarray(labels)
    if classes.ndim != 1 or not np.issubdtype(classes.dtype, np.integer):
        raise Error(
            f"labels: an array of {classes.dtype}, shape {list(classes.shape)}, expected a class "
            "for each sample"
        )
    path = os.path.join(folder, "labels.npy")
    np.save(path, classes.astype(np.int64))
    return kept, path
