"""Training."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._error import Error
from ._job import texts_of
from ._verb import Progress, Report, tool
from .nn import Network


def _target_file(data: Any, targets: Any, folder: str, name: str) -> tuple[Any, Any]:
    """Paths as they are; arrays as .npy in the folder."""
    files = []
    for what, array in (("data", data), ("targets", targets)):
        if array is None or isinstance(array, (str, bytes, os.PathLike)):
            files.append(array)
            continue
        array = np.asarray(array)
        if array.ndim < 1 or not np.issubdtype(array.dtype, np.number):
            raise Error(f"{name}: {what} of {array.dtype}, shape {list(array.shape)}")
        files.append(os.path.join(folder, f"{name}-{what}.npy"))
        whole = np.issubdtype(array.dtype, np.integer) and what == "data"
        np.save(files[-1], array.astype(np.int64 if whole else np.float32))
    return files[0], files[1]


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
    targets: Any = None,
    test: Any = None,
    test_labels: Any = None,
    test_targets: Any = None,
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
    same, to measure on after each epoch. targets, test_targets: in place of labels, what the
    output is to be: files, or arrays whose first axis counts samples; loss 'mse' (unless one is
    given), 'l1', 'huber' or 'bce'.
    What is not given is as the network's recipe has it. scheme: 'int8' trains with its integers,
    'int4-weights' or another weights-only scheme with its rounded weights.
    Further options as `evoq train` has: weight_decay, warm_up, label_smoothing, mixup, ema, decay,
    freeze, context, tokenizer, teacher, distill_features, prune, lora, recompute, checkpoint,
    resume, log, tensorboard, ...

    Returns ``epochs`` with loss and accuracies, ``test_accuracy``, of targets ``test_mse``, of
    texts ``test_loss`` and ``test_perplexity``, ``parameters``, ``steps``, ``seconds``, ``recipe``,
    ...
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="evoq-"))
        if isinstance(model, Network):
            path = os.path.join(folder, model.description["name"].replace(os.sep, "_") + ".json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(model.json())
            model = path
        if targets is not None:
            data, targets = _target_file(data, targets, folder, "data")
            test, test_targets = _target_file(test, test_targets, folder, "test")
        else:
            data, labels = _data_file(data, labels, folder, "data")
            if test is not None:
                test, test_labels = _data_file(test, test_labels, folder, "test")
        return tool(
            "train",
            model,
            progress=progress,
            data=data,
            labels=labels,
            targets=targets,
            test=test,
            test_labels=test_labels,
            test_targets=test_targets,
            output=output,
            epochs=epochs,
            batch=batch,
            lr=lr,
            optimizer=optimizer,
            augment=texts_of(augment),
            scheme=scheme,
            seed=seed,
            threads=threads,
            **options,
        )
