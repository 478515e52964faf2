"""The verbs of the command line as functions: the same options, the same JSON, as dicts.

An option that is not given keeps its default, which stands in one place, in C++. Any function takes
`progress`, called with the stage and how much of it is done, from 0 to 1; Ctrl-C and an exception
that it raises stop the work, and nothing is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from . import _evoq
from ._job import Progress, Report, fill, report_of, text_of
from ._source import as_file

Shapes = Mapping[str, Sequence[int]]
FixedShapes = Mapping[str, Sequence[int | None]]


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


def run_verb(
    verb: str, job: Any, progress: Progress | None, models: Mapping[str, Any], **options: Any
):
    """The task of that name in the extension. models: fields that are models, or None."""
    with contextlib.ExitStack() as stack:
        paths = {
            name: stack.enter_context(as_file(model))
            for name, model in models.items()
            if model is not None
        }
        fill(job, verb.partition("_")[0], {**options, **paths})
        return report_of(getattr(_evoq, verb)(job, progress=progress), stacklevel=4)


def list_(what: str) -> Report:
    """What this evoq has: 'ops', 'kernels', 'passes', 'schemes', 'methods', 'observers',
    'rules', 'layers', 'gradients' or 'verbs', as ``items``."""
    return tool("list", what)
