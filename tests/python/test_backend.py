"""evoq.backend beyond what the official runner calls (backend_test.py)."""

import evoq.backend
import numpy as np
import onnx
import pytest
from models import DIGITS, digits, unary
from onnx import helper


def test_devices():
    assert evoq.backend.supports_device("CPU") and evoq.backend.supports_device("CPU:0")
    assert not evoq.backend.supports_device("CUDA")
    with pytest.raises(evoq.Error) as caught:
        evoq.backend.prepare(onnx.load(DIGITS), "CUDA")
    assert caught.value.code == "unsupported"


def test_prepare_and_run():
    proto = onnx.load(DIGITS)
    x = digits(2)
    expected = evoq.load(DIGITS)(x)
    rep = evoq.backend.prepare(proto, threads=1)
    assert rep.model.threads == 1
    for outputs in (
        rep.run([x]),
        rep.run((x,)),
        rep.run(x),
        rep.run({"image": x}),
        evoq.backend.run_model(proto, [x]),
    ):
        np.testing.assert_array_equal(outputs[0], expected)
    assert outputs[proto.graph.output[0].name] is outputs[0]


def test_compatible():
    assert evoq.backend.is_compatible(unary("Relu"))
    assert not evoq.backend.is_compatible(unary("NoSuchOp"))
    assert not evoq.backend.is_compatible(unary("Relu"), "CUDA")
    with pytest.raises(evoq.Error):
        evoq.backend.is_compatible(onnx.ModelProto())


def test_run_node():
    x = np.float32([[3, 1, 2]])
    values, indices = evoq.backend.run_node(
        helper.make_node("TopK", ["x", "k"], ["v", "i"]), [x, np.int64([2])]
    )
    assert values.tolist() == [[3, 2]] and indices.tolist() == [[0, 2]]
    (y,) = evoq.backend.run_node(
        helper.make_node("Clip", ["x", "", "max"], ["y"]), {"x": x, "max": np.float32(2)}
    )
    assert y.tolist() == [[2, 1, 2]]
    info = [(np.dtype(np.float32), (1, 3))]
    (y,) = evoq.backend.run_node(
        helper.make_node("Softmax", ["x"], ["y"], axis=1), [x], outputs_info=info, opset_version=13
    )
    assert abs(y.sum() - 1) < 1e-6
    with pytest.raises(evoq.Error):
        evoq.backend.run_node(helper.make_node("NoSuchOp", ["x"], ["y"]), [x])
