"""Options of a call as the fields of a job of the extension, and what it found as a Report."""

from __future__ import annotations

import json
import operator
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._error import Error
from ._source import plain_text

Progress = Callable[[str, float], None]


class Report(dict):
    """What a tool found: the JSON of ``evoq VERB --json`` as a dict. ``print(report.text)`` shows
    what the command prints."""

    text: str = ""


def text_of(value: Any) -> str:
    return plain_text(value) if isinstance(value, (str, bytes, os.PathLike)) else str(value)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, str) else operator.index(value)


def texts_of(value: Any) -> list[str]:
    """Of one text, or of several: a text is not the list of its letters."""
    one = isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable)
    return [text_of(item) for item in ([value] if one else value)]


def _files(value: Any) -> dict[str, str]:
    """NAME=FILE, as the command takes them, or a mapping."""
    if isinstance(value, Mapping):
        return {name: text_of(path) for name, path in value.items()}
    split = [text.rpartition("=") for text in texts_of(value)]
    if any(not equals for _, equals, _ in split):
        raise ValueError
    return {name: path for name, _, path in split}


def _sizes(value: Any) -> dict[str, list[int]]:
    return {
        name: [-1 if size is None else _number(size) for size in sizes]
        for name, sizes in value.items()
    }


def _biases(value: Any) -> list[tuple[int, float]]:
    """A mapping, or TOKEN=NUMBER as the command takes them."""
    if isinstance(value, Mapping):
        return [(_number(token), float(bias)) for token, bias in value.items()]
    split = [text.partition("=") for text in texts_of(value)]
    return [(int(token), float(bias)) for token, _, bias in split]


# Of options whose values have a form of their own, and of others by their default.
_NAMED = {
    "input": _files,
    "json_schema": lambda value: value if isinstance(value, str) else json.dumps(value),
    "logit_bias": _biases,
    "stop_tokens": lambda value: [_number(token) for token in value],
}
_FORMS = {bool: bool, int: _number, float: float, type(None): float, str: text_of, list: texts_of}


def fill(job: Any, verb: str, options: Mapping[str, Any]) -> Any:
    """Sets the fields of the options' names; None and False leave a field at its default."""
    for option, value in options.items():
        name = option.rstrip("_")
        if value is None or value is False:
            continue
        if name.startswith("_") or not isinstance(getattr(type(job), name, None), property):
            raise Error(f"{verb}: there is no option '{name}' here")
        default = getattr(job, name)
        form = _NAMED.get(name) or _FORMS.get(type(default), _sizes)
        try:
            setattr(job, name, form(value))
        except (AttributeError, OverflowError, TypeError, ValueError):
            raise Error(f"{verb}: {name}={value!r} is none of its values") from None
    return job


def report_of(found: tuple[str, str, list[str]], stacklevel: int = 3) -> Report:
    """What the extension returned; warnings point `stacklevel` callers up."""
    text, out, log = found
    for line in log:
        if line.startswith("warning: "):
            warnings.warn(line.removeprefix("warning: "), RuntimeWarning, stacklevel=stacklevel)
    value = json.loads(text)
    report = Report(value if isinstance(value, dict) else {"items": value})
    report.text = out
    return report
