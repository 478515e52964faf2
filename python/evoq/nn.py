"""Networks in code: layers, put together, which evoq.train trains (docs/nn.md).

    from evoq import nn

    net = nn.Network(
        nn.Conv(16, size=5), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool(2),
        nn.Flatten(), nn.Linear(10),
        input=(1, 28, 28),
    )
    evoq.train(net, "mine.onnx", data="mnist/", epochs=4)

What a layer needs to know of its input follows from the layers before it. ``evoq list layers`` has
the same layers with their options.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from ._error import Error

__all__ = [
    "Activation",
    "Attention",
    "AveragePool",
    "BatchNorm",
    "Concat",
    "Conv",
    "Embedding",
    "Flatten",
    "GlobalPool",
    "GroupNorm",
    "Layer",
    "LayerNorm",
    "Linear",
    "MaxPool",
    "Network",
    "Positions",
    "Residual",
    "RmsNorm",
    "Sequential",
]


class Layer:
    """A layer as JSON has it; layers are values and may be used several times."""

    def __init__(self, layer: str, **options: Any):
        self.options = {
            "layer": layer,
            **{name: value for name, value in options.items() if value is not None},
        }

    def __repr__(self) -> str:
        return f"Layer({self.options})"


def _list(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    for layer in layers:
        if not isinstance(layer, Layer):
            raise Error(f"a layer is {type(layer).__name__}, expected one of evoq.nn")
    return [layer.options for layer in layers]


def Conv(
    channels: int,
    *,
    size: int = 3,
    stride: int = 1,
    pad: int | None = None,
    groups: int = 1,
    dilation: int = 1,
    bias: bool = True,
) -> Layer:
    """A convolution of size x size; without `pad` it keeps the size (at stride 1)."""
    return Layer(
        "conv",
        channels=channels,
        size=size,
        stride=stride,
        pad=pad,
        groups=groups,
        dilation=dilation,
        bias=bias,
    )


def MaxPool(size: int = 2, *, stride: int | None = None, pad: int = 0) -> Layer:
    """The largest number of each window; stride: the size, without it."""
    return Layer("max-pool", size=size, stride=stride, pad=pad)


def AveragePool(size: int = 2, *, stride: int | None = None, pad: int = 0) -> Layer:
    """The mean of each window."""
    return Layer("average-pool", size=size, stride=stride, pad=pad)


def GlobalPool() -> Layer:
    """The mean of each channel."""
    return Layer("global-pool")


def Flatten() -> Layer:
    """One list of numbers for each sample."""
    return Layer("flatten")


def BatchNorm() -> Layer:
    """Batch normalization of each channel."""
    return Layer("batch-norm")


def GroupNorm(groups: int) -> Layer:
    """Normalization of each sample over groups of channels."""
    return Layer("group-norm", groups=groups)


def Linear(outputs: int, *, bias: bool = True) -> Layer:
    """A matrix product along the last axis."""
    return Layer("linear", outputs=outputs, bias=bias)


def LayerNorm() -> Layer:
    """Normalization over the last axis."""
    return Layer("layer-norm")


def RmsNorm() -> Layer:
    """Normalization over the last axis by the root of the mean square."""
    return Layer("rms-norm")


def Embedding(pieces: int, width: int) -> Layer:
    """Tokens become rows of a table."""
    return Layer("embedding", pieces=pieces, width=width)


def Positions(length: int) -> Layer:
    """Adds a learned row for each of the first `length` places of a text."""
    return Layer("positions", length=length)


def Attention(heads: int, *, causal: bool = False) -> Layer:
    """Self-attention; causal: tokens see none that come later."""
    return Layer("attention", heads=heads, causal=causal)


def Activation(kind: str = "relu") -> Layer:
    """relu, relu6, leaky-relu, elu, gelu, sigmoid, silu, hard-swish, mish, softplus or tanh."""
    return Layer("activation", kind=kind)


def Sequential(*layers: Layer) -> Layer:
    """Layers one behind the other."""
    return Layer("sequential", layers=_list(layers))


def Residual(*layers: Layer, shortcut: Sequence[Layer] = ()) -> Layer:
    """Adds what goes in, or what the shortcut's layers make of it."""
    return Layer("residual", layers=_list(layers), shortcut=_list(shortcut))


def Concat(*layers: Layer) -> Layer:
    """Layers beside each other, whose channels stand one behind the other."""
    return Layer("concat", layers=_list(layers))


class Network:
    """Layers and what goes into them.

    input: the sizes of a sample, or "tokens" for token numbers [N, T].
    """

    def __init__(self, *layers: Layer, input: Sequence[int] | str, name: str = "network"):
        self.description = {
            "name": name,
            "input": input if isinstance(input, str) else [int(size) for size in input],
            "layers": _list(layers),
        }

    def json(self) -> str:
        """What `evoq train NAME.json` takes."""
        return json.dumps(self.description, indent=1)

    def onnx(self, *, seed: int = 1) -> bytes:
        """The network as an ONNX file with random weights, which the seed decides.

        Raises evoq.Error naming the layer that does not fit: 'layer 3: conv: channels is 0, ...'.
        """
        from ._verb import tool

        with tempfile.TemporaryDirectory(prefix="evoq-") as folder:
            path, out = os.path.join(folder, "network.json"), os.path.join(folder, "network.onnx")
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.json())
            tool("zoo", path, output=out, seed=seed)
            with open(out, "rb") as file:
                return file.read()
