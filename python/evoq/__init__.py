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

from . import nn, ray
from ._error import Error
from ._evoq import Model, ValueInfo, __version__
from ._judge import diff, perplexity, sensitivity, verify
from ._judge import eval_ as eval
from ._language import Generated, LanguageModel
from ._make import calibrate, compile, inspect, optimize, prune, quantize
from ._measure import bench, compare, explain, limits, predict, profile
from ._model import load
from ._monitor import LatencyHistogram, PerformanceMonitor
from ._streams import DeadlineExceeded, StreamFuture, Streams
from ._train import train
from ._tune import tune
from ._use import generate, run
from ._verb import Report, tool
from ._verb import list_ as list

__all__ = [
    "DeadlineExceeded",
    "Error",
    "Generated",
    "LanguageModel",
    "LatencyHistogram",
    "Model",
    "PerformanceMonitor",
    "Report",
    "StreamFuture",
    "Streams",
    "ValueInfo",
    "__version__",
    "bench",
    "calibrate",
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
    "perplexity",
    "predict",
    "profile",
    "prune",
    "quantize",
    "ray",
    "run",
    "sensitivity",
    "tool",
    "train",
    "tune",
    "verify",
]
