"""A model as the user has it: a path, the bytes of a file, or an onnx.ModelProto."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from ._error import Error


def to_bytes(model: Any) -> bytes | None:
    """The serialized model, or None for a path."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    return None


def plain_text(value: Any) -> str:
    """A text or a path for the C++ side, whose texts are UTF-8 and whose paths end at a NUL."""
    text = os.fsdecode(value)
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise Error(f"{ascii(text)}: expected UTF-8 without NUL")
    return text


def to_path(path: Any) -> str:
    try:
        return plain_text(path)
    except TypeError:
        raise Error(
            f"a model is {type(path).__name__}, expected a path, bytes or an onnx.ModelProto"
        ) from None


@contextlib.contextmanager
def as_file(model: Any) -> Iterator[str]:
    """A path that holds the model while the context lasts."""
    data = to_bytes(model)
    if data is None:
        yield to_path(model)
        return
    with tempfile.TemporaryDirectory(prefix="evoq-") as folder:
        name = "model.etm" if data.startswith(b"EvoTiny\n") else "model.onnx"
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        yield path
