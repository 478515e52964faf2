"""evoq: make a neural network smaller and really faster, and explain every millisecond and byte.

    import evoq

    # images: numpy, [n, 3, 224, 224]
    evoq.quantize("mobilenetv2.onnx", "mobilenetv2.etm", calibration=images)
    model = evoq.load("mobilenetv2.etm", threads=2)
    scores = model.run({"input": image})["output"]
    print(evoq.explain("mobilenetv2.etm", baseline="mobilenetv2.onnx").text)

    for text in evoq.LanguageModel("qwen2.etm").stream("Once upon a time"):
        print(text, end="", flush=True)

evoq.backend is the ONNX backend interface. docs/python.md has more.
"""

from . import nn
from ._error import Error
from ._evoq import Model, ValueInfo, __version__
from ._language import Generated, LanguageModel
from ._model import load
from ._streams import DeadlineExceeded, StreamFuture, Streams
from ._tools import (
    Report,
    bench,
    compare,
    compile,
    diff,
    explain,
    generate,
    inspect,
    limits,
    optimize,
    predict,
    profile,
    prune,
    quantize,
    run,
    sensitivity,
    tool,
    train,
    verify,
)
from ._tools import eval_ as eval
from ._tools import list_ as list
from ._tune import tune

__all__ = [
    "DeadlineExceeded",
    "Error",
    "Generated",
    "LanguageModel",
    "Model",
    "Report",
    "StreamFuture",
    "Streams",
    "ValueInfo",
    "__version__",
    "bench",
    "compare",
    "compile",
    "diff",
    "eval",
    "explain",
    "generate",
    "inspect",
    "limits",
    "list",
    "load",
    "nn",
    "optimize",
    "predict",
    "profile",
    "prune",
    "quantize",
    "run",
    "sensitivity",
    "tool",
    "train",
    "tune",
    "verify",
]
