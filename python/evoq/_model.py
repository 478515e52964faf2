from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _evoq
from ._source import to_bytes, to_path


def load(
    model: Any,
    *,
    threads: int = 0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    streams: int = 1,
    tuned: bool = True,
    adaptive: bool | Mapping[str, Any] = False,
    gears: bool = True,
) -> _evoq.Model:
    """Loads a model to be run.

    model: the path of an .etm, .onnx or .tflite file, the bytes of one (which are copied), or an
    onnx.ModelProto.
    threads: of each run; 0: one per physical core.
    shapes: sizes of the inputs, by name, to prepare the model for at once. Other shapes are
    prepared when they come.
    streams: how many runs may go on at once, each on threads of its own.
    tuned: follow what was measured for this machine and stored in the .etm
    (``compile(..., tune=True)``).
    adaptive: change between the scale sets of the .etm (``quantize(..., scale_sets=2)``) as the
    input asks for from run to run; or a mapping with clip_limit (0.005, a share of the watched
    elements), widen_after (1), narrow_after (8), look_every (0: by cost), scale_set (the name of
    one that is always used) and watch (also of a model with one set: counts what its ranges cut
    off, which evoq.PerformanceMonitor reads). `Model.adaptive` tells what happens.
    gears: prepare the sizes that the file declares (``compile(..., gears=...)``) at once, beside
    the runs, and serve other batches by them, exactly, until those are prepared. `Model.gears`
    tells what happens.

    Raises evoq.Error: 'not found', 'invalid input' for a damaged file, 'unsupported' with all
    operators that evoq lacks.

    >>> model = evoq.load("mobilenetv2.etm", threads=1)
    >>> scores = model.run({"input": image})["output"]
    """
    data = to_bytes(model)
    sizes = {name: [int(size) for size in shape] for name, shape in (shapes or {}).items()}
    numbers = dict(adaptive) if isinstance(adaptive, Mapping) else ({} if adaptive else None)
    source = to_path(model) if data is None else data
    return _evoq.load(source, threads, sizes, streams, tuned, numbers, gears)
