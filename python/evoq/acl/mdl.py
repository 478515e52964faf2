"""Models: any file that evoq reads, among them the `.om` that its `atc` writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._error import Error
from .._evoq import Model, ValueInfo
from ._runtime import MODES, RUNTIME, Future, Stream
from .util import Pointer

__all__ = [
    "execute",
    "execute_async",
    "get_input_dims",
    "get_input_name_by_index",
    "get_num_inputs",
    "get_num_outputs",
    "get_output_dims",
    "get_output_name_by_index",
    "load_from_file",
    "unload",
]


def load_from_file(path: str | os.PathLike[str]) -> int:
    """Loads a model and returns its number for the other calls."""
    return RUNTIME.load(os.fspath(path))


def unload(model_id: int) -> int:
    """Waits for the model's runs and gives it up."""
    RUNTIME.unload(model_id)
    return 0


def _value(values: Sequence[ValueInfo], index: int, what: str) -> ValueInfo:
    if not 0 <= index < len(values):
        raise Error(f"{what} {index}: the model has {len(values)}")
    return values[index]


def _dims(value: ValueInfo) -> dict[str, Any]:
    shape = value.shape or []
    dims = [size if isinstance(size, int) else -1 for size in shape]
    return {"name": value.name, "dimCount": len(dims), "dims": dims}


def get_num_inputs(model_id: int) -> int:
    return len(RUNTIME.model(model_id).inputs)


def get_num_outputs(model_id: int) -> int:
    return len(RUNTIME.model(model_id).outputs)


def get_input_name_by_index(model_id: int, index: int) -> str:
    return _value(RUNTIME.model(model_id).inputs, index, "input").name


def get_output_name_by_index(model_id: int, index: int) -> str:
    return _value(RUNTIME.model(model_id).outputs, index, "output").name


def get_input_dims(model_id: int, index: int) -> dict[str, Any]:
    """{"name", "dimCount", "dims"}; -1 for a size that is free."""
    return _dims(_value(RUNTIME.model(model_id).inputs, index, "input"))


def get_output_dims(model_id: int, index: int) -> dict[str, Any]:
    """As get_input_dims."""
    return _dims(_value(RUNTIME.model(model_id).outputs, index, "output"))


def _arrays(inputs: Sequence[Pointer | np.ndarray]) -> list[Any]:
    arrays: list[Any] = []
    for i, one in enumerate(inputs):
        if isinstance(one, Pointer):
            arrays.append(one.array)
        elif isinstance(one, int):
            raise Error(
                f"input {i}: an address alone says no shape and type: pass what "
                "acl.util.numpy_to_ptr gives, or the array"
            )
        else:
            arrays.append(one)
    return arrays


def _run(model: Model, arrays: list[Any]) -> list[Any]:
    outputs = model.run(arrays)
    return [outputs[value.name] for value in model.outputs]


def execute(model_id: int, inputs: Sequence[Pointer | np.ndarray]) -> list[Any]:
    """Runs on all threads and returns the outputs, in order."""
    return _run(RUNTIME.model(model_id), _arrays(inputs))


def execute_async(
    model_id: int, inputs: Sequence[Pointer | np.ndarray], stream: Stream, mode: str = "low_latency"
) -> Future:
    """Asks for a run in the stream, behind those that it was asked for before; `get()` of what
    this returns waits for the outputs, in order, or raises what the run raised.

    mode: "low_latency" runs on all threads, one run after the other; "high_throughput" on one
    thread each, as many runs of different streams at once as the processor has cores.
    """
    if mode not in MODES:
        raise Error(f"mode {mode!r}: expected one of {', '.join(MODES)}")
    arrays = _arrays(inputs)
    return RUNTIME.submit(model_id, stream, mode, lambda model: _run(model, arrays))
