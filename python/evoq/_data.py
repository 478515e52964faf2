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

_PATHS = (str, bytes, os.PathLike)


def paths_of(data: Any) -> str | list[str] | None:
    """A path, or NAME=FILE of each input; None where `data` is in memory."""
    if isinstance(data, _PATHS):
        return text_of(data)
    if isinstance(data, Mapping) and data and all(isinstance(v, _PATHS) for v in data.values()):
        return [f"{name}={text_of(path)}" for name, path in data.items()]
    if isinstance(data, (list, tuple)) and data and all(isinstance(v, _PATHS) for v in data):
        return [text_of(path) for path in data]
    return None


def _file_of(data: Any, model: Any, folder: str) -> str:
    from ._make import inspect, samples_of

    samples = samples_of(model, data)
    names = [value["name"] for value in inspect(model)["inputs"]]
    columns = [np.concatenate([np.asarray(s[i]) for s in samples]) for i in range(len(names))]
    path = os.path.join(folder, "data.npy" if len(names) == 1 else "data.npz")
    if len(names) == 1:
        np.save(path, columns[0])
    else:
        np.savez(path, **dict(zip(names, columns)))
    return path


def as_files(
    stack: contextlib.ExitStack, model: Any, data: Any, labels: Any = None
) -> tuple[Any, Any]:
    """What the options --data and --labels take: paths as they are; arrays, as `samples_of` takes
    them, and classes in files that last as long as the stack."""
    kept = paths_of(data)
    of_path = labels is None or isinstance(labels, _PATHS)
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
