"""The ONNX backend interface (onnx.backend.base) over evoq: prepare, run_model, run_node,
supports_device, is_compatible.

    import evoq.backend
    outputs = evoq.backend.prepare(onnx.load("model.onnx")).run([x])

Needs the package onnx.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from . import _evoq
from ._error import Error
from ._model import load


class EvoqRep(BackendRep):
    """A prepared model."""

    def __init__(self, model: _evoq.Model) -> None:
        self.model = model
        self._outputs = namedtupledict("Outputs", [value.name for value in model.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """inputs: a mapping by name, a sequence by position, or the only one. Returns a tuple that
        also goes by name."""
        if isinstance(inputs, Mapping):
            results = self.model.run(inputs)
        else:
            results = self.model.run(
                list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            )
        return self._outputs(*results.values())


class EvoqBackend(Backend):
    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device` is a CPU ('CPU', 'CPU:0')."""
        return Device(device).type == DeviceType.CPU

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether evoq has every operator of the model and the device is a CPU."""
        if not cls.supports_device(device):
            return False
        try:
            load(model, threads=1)
        except Error as error:
            if error.code == "unsupported":
                return False
            raise
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> EvoqRep:
        """Loads the model. Further arguments are those of evoq.load: threads, shapes, streams.
        Raises evoq.Error."""
        if not cls.supports_device(device):
            raise Error(f"device {device}: evoq runs on the CPU", "unsupported")
        return EvoqRep(load(model, **kwargs))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Loads the model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one operator once on the arrays of its present inputs, by position or by name.

        outputs_info: dtype and shape of each output; found by inference without it. opset_version:
        of the operator, the newest one without it.
        """
        opset = kwargs.pop("opset_version", None)
        names = [name for name in node.input if name]
        arrays = [inputs[name] for name in names] if isinstance(inputs, Mapping) else list(inputs)
        arrays = [np.asarray(array) for array in arrays]
        values = [_value_info(name, array.dtype, array.shape) for name, array in zip(names, arrays)]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        if outputs_info is not None:
            outputs = [
                _value_info(value.name, dtype, shape)
                for value, (dtype, shape) in zip(outputs, outputs_info)
            ]
        graph = onnx.helper.make_graph([node], "node", values, outputs)
        version = onnx.defs.onnx_opset_version() if opset is None or node.domain else opset
        opsets = [onnx.helper.make_opsetid("", version)]
        if node.domain not in ("", "ai.onnx"):
            opsets.append(onnx.helper.make_opsetid(node.domain, opset or 1))
        return cls.run_model(
            onnx.helper.make_model(graph, opset_imports=opsets), arrays, device, **kwargs
        )


def _value_info(name: str, dtype: Any, shape: Sequence[int]) -> onnx.ValueInfoProto:
    kind = (
        onnx.TensorProto.STRING
        if np.dtype(dtype).kind in "OUS"
        else onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    )
    return onnx.helper.make_tensor_value_info(name, kind, shape)


is_compatible = EvoqBackend.is_compatible
prepare = EvoqBackend.prepare
run_model = EvoqBackend.run_model
run_node = EvoqBackend.run_node
supports_device = EvoqBackend.supports_device
