"""evoq.load and Model: inputs in all their forms, outputs, shapes, types, lifetimes."""

import array
import gc
import weakref

import evoq
import ml_dtypes
import numpy as np
import onnx
import pytest
from models import DIGITS, convolutions, digits, float32, model, tensor, unary
from onnx import TensorProto, helper


@pytest.fixture(scope="module")
def net():
    return evoq.load(DIGITS, threads=1)


def test_describes_inputs_and_outputs(net):
    assert [v.name for v in net.inputs] == ["image"]
    assert (
        net.inputs[0].dtype == "float32"
        and net.inputs[0].kind == "tensor"
        and net.inputs[0].quantization is None
    )
    assert net.inputs[0].shape[1:] == (1, 28, 28)
    assert isinstance(net.inputs[0].shape[0], str)
    assert net.outputs[0].shape[1] == 10
    assert net.threads == 1 and net.streams == 1 and net.in_regions == ""
    assert "image: float32[" in repr(net) and repr(net.inputs[0]).startswith("image: float32[")


def test_describes_a_compiled_model(net, tmp_path):
    evoq.compile(DIGITS, tmp_path / "digits.etm")
    assert repr(evoq.load(tmp_path / "digits.etm")) == repr(net)


def test_inputs_by_name_position_and_alone_are_the_same(net):
    x = digits(3)
    name = net.outputs[0].name
    expected = net.run({"image": x})[name]
    assert expected.shape == (3, 10) and expected.dtype == np.float32
    for given in (x, [x], (x,)):
        np.testing.assert_array_equal(net.run(given)[name], expected)
    np.testing.assert_array_equal(net(x), expected)


def test_from_bytes_and_proto_as_from_file(net):
    x = digits(2)
    proto = onnx.load(DIGITS)
    for source in (proto, proto.SerializeToString(), __import__("pathlib").Path(DIGITS)):
        np.testing.assert_array_equal(evoq.load(source, threads=1)(x), net(x))


def test_from_the_bytes_of_an_etm(net, tmp_path):
    evoq.compile(DIGITS, tmp_path / "digits.etm")
    x = digits(2)
    expected = evoq.load(tmp_path / "digits.etm", threads=1)(x)
    data = bytearray((tmp_path / "digits.etm").read_bytes())
    first, second = (evoq.load(data, threads=1) for _ in range(2))
    odd = evoq.load(memoryview(b"x" + data)[1:], threads=1)
    data[:] = bytes(len(data))  # they have copies
    del first
    gc.collect()
    for other in (second, odd):
        np.testing.assert_array_equal(other(x), expected)
    with evoq.Streams((tmp_path / "digits.etm").read_bytes(), threads=1) as streams:
        told = streams.submit(x).result()
        np.testing.assert_array_equal(told[second.outputs[0].name], expected)


def test_damaged_bytes_of_an_etm_are_refused(tmp_path):
    evoq.compile(DIGITS, tmp_path / "digits.etm")
    data = (tmp_path / "digits.etm").read_bytes()
    for size in (8, 31, 32, 33, 1000, len(data) - 1):
        with pytest.raises(evoq.Error, match="^model: ") as caught:
            evoq.load(data[:size])
        assert caught.value.code == "invalid input"
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    with pytest.raises(evoq.Error, match="^model: .*checksum"):
        evoq.load(damaged)


def test_any_batch(net):
    x = digits(9)
    whole = net(x)
    for n in (1, 2, 9, 1):
        np.testing.assert_allclose(net(x[:n]), whole[:n], rtol=1e-5, atol=1e-6)


def test_free_sizes():
    net = evoq.load(unary("Relu", ("N", "C", "H")))
    for shape in ((1, 2, 3), (4, 1, 7), (2, 2, 2), (1, 2, 3)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(net(x), np.maximum(x, 0))


class OnlyDlpack:
    """Speaks DLPack and nothing else, as a tensor of another framework would."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **arguments):
        return self.values.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_layouts():
    net = evoq.load(unary("Neg", (3, 4)))
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    misaligned = (
        np.frombuffer(b"x" + base[:3, :4].tobytes(), dtype=np.uint8)[1:]
        .view(np.float32)
        .reshape(3, 4)
    )
    read_only = base[:3, :4].copy()
    read_only.flags.writeable = False
    for x in (
        base[::2, ::2],
        base[:4, :3].T,
        base[2::-1, 3::-1],
        np.asfortranarray(base[:3, :4]),
        misaligned,
        read_only,
        OnlyDlpack(base[:3, :4].copy()),
        np.broadcast_to(np.float32(2), (3, 4)),
    ):
        expected = -(x.values if isinstance(x, OnlyDlpack) else np.asarray(x))
        np.testing.assert_array_equal(net(x), expected)
    flat = evoq.load(unary("Neg", (4,)))
    np.testing.assert_array_equal(flat(array.array("f", [1, 2, 3, 4])), [-1, -2, -3, -4])
    np.testing.assert_array_equal(flat([1, 2, 3, 4.5]), [-1, -2, -3, -4.5])
    assert evoq.load(unary("Neg", ()))(2.0) == -2


def test_outputs_speak_dlpack(net):
    y = net(digits(2))
    again = np.from_dlpack(y)
    assert again.ctypes.data == y.ctypes.data


def test_inputs_stay_as_they_are():
    # Relu is computed over its input where the compiler may: never over the caller's.
    for net, x in (
        (unary("Relu", ("N", 4)), np.float32([[-1, 2, -3, 4]])),
        (convolutions(layers=2), None),
    ):
        x = (
            np.random.default_rng(0).standard_normal((1, 32, 32, 32)).astype(np.float32)
            if x is None
            else x
        )
        before = x.copy()
        evoq.load(net)(x)
        np.testing.assert_array_equal(x, before)


def test_outputs_are_fresh_and_writable(net):
    x = digits(1)
    first = net(x)
    copy = first.copy()
    second = net(digits(1, seed=5))
    np.testing.assert_array_equal(first, copy)
    first[:] = 0
    np.testing.assert_array_equal(net(x), copy)
    assert not np.shares_memory(first, second)


def test_outputs_outlive_the_model():
    net = evoq.load(DIGITS)
    y = net(digits(4))
    copy = y.copy()
    del net
    gc.collect()
    others = [evoq.load(DIGITS)(digits(4, seed=i)) for i in range(3)]
    np.testing.assert_array_equal(y, copy)
    assert len(others) == 3


def test_an_output_that_is_an_input_or_a_constant_has_its_own_memory():
    weights = np.float32([1, 2, 3])
    net = evoq.load(
        model(
            [
                helper.make_node("Identity", ["x"], ["y"]),
                helper.make_node("Identity", ["w"], ["z"]),
            ],
            [float32("x", (3,))],
            [float32("y", (3,)), float32("z", (3,))],
            {"w": weights},
        )
    )
    x = np.float32([4, 5, 6])
    outputs = net.run(x)
    outputs["y"][:] = 0
    outputs["z"][:] = 0
    np.testing.assert_array_equal(x, [4, 5, 6])
    np.testing.assert_array_equal(net.run(x)["z"], weights)


PLAIN = [
    "float32",
    "float64",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]
EXTENDED = [
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "int4",
    "uint4",
    "float4_e2m1fn",
]


@pytest.mark.parametrize("name", PLAIN + EXTENDED)
def test_every_type_comes_and_goes(name):
    dtype = np.dtype(name) if name in PLAIN else np.dtype(getattr(ml_dtypes, name))
    values = np.array([[0, 1, 2, 3, 1], [4, 6, 1, 0, 2], [1, 1, 0, 2, 3]])
    x = values.astype(dtype)
    proto = unary("Transpose", (3, 5), helper.np_dtype_to_tensor_dtype(dtype), perm=[1, 0])
    proto.graph.output[0].CopyFrom(tensor("y", helper.np_dtype_to_tensor_dtype(dtype), (5, 3)))
    proto.ir_version = 11
    proto.opset_import[0].version = 23
    net = evoq.load(proto)
    y = net(x)
    assert y.dtype == dtype and y.shape == (5, 3)
    np.testing.assert_array_equal(y.astype(np.float64), x.astype(np.float64).T)
    np.testing.assert_array_equal(
        net(np.asfortranarray(x)).astype(np.float64), x.astype(np.float64).T
    )


def test_bools_of_other_bytes_are_true():
    x = np.array([0, 1, 2, 255], dtype=np.uint8).view(np.bool_)
    np.testing.assert_array_equal(
        evoq.load(unary("Not", (4,), TensorProto.BOOL))(x), [True, False, False, False]
    )


def test_strings():
    node = helper.make_node("StringConcat", ["a", "b"], ["y"])
    net = evoq.load(
        model(
            [node],
            [tensor(n, TensorProto.STRING, ("N",)) for n in "ab"],
            [tensor("y", TensorProto.STRING, ("N",))],
        )
    )
    assert net.inputs[0].dtype == "string" and net.in_regions
    y = net(np.array(["ä", "b"]), ["c", b"d"])
    assert y.tolist() == ["äc", "bd"] and y.dtype == object


def test_sequences():
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    sequence = [helper.make_value_info(n, kind) for n in ("s", "t")]
    node = helper.make_node("SequenceInsert", ["s", "x"], ["t"])
    net = evoq.load(model([node], [sequence[0], float32("x", (None,))], [sequence[1]]))
    assert net.inputs[0].kind == "sequence"
    s = [np.float32([1]), np.float32([2, 3])]
    t = net.run({"s": s, "x": np.float32([4])})["t"]
    assert [a.tolist() for a in t] == [[1], [2, 3], [4]]
    t[0][:] = 9
    assert s[0].tolist() == [1]


def test_optionals():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, (2,)))
    node = helper.make_node("OptionalHasElement", ["o"], ["y"])
    net = evoq.load(
        model([node], [helper.make_value_info("o", kind)], [tensor("y", TensorProto.BOOL, ())])
    )
    assert net.inputs[0].kind == "optional"
    assert bool(net(np.float32([1, 2]))) and not bool(net(None))


def test_sizes_that_depend_on_data():
    net = evoq.load(
        model(
            [helper.make_node("NonZero", ["x"], ["y"])],
            [float32("x", ("N",))],
            [tensor("y", TensorProto.INT64, (1, "M"))],
        )
    )
    assert net(np.float32([0, 5, 0, 7])).tolist() == [[1, 3]]
    assert net(np.float32([0, 0])).shape == (1, 0)


def test_quantized_values_say_their_scale():
    q = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    net = evoq.load(
        model(
            [q],
            [float32("x", (2,))],
            [tensor("y", TensorProto.UINT8, (2,))],
            {"s": np.float32(0.5), "z": np.uint8(3)},
        )
    )
    assert net(np.float32([1, -1])).tolist() == [5, 1]
    scales, zero_points = net.outputs[0].quantization
    assert scales == [0.5] and zero_points == [3]


def test_models_in_weak_tables_and_sizes_to_a_path(tmp_path):
    net = evoq.load(unary("Neg"))
    kept = weakref.WeakValueDictionary(net=net)
    net(np.zeros((3, 4), np.float32))
    net.save_sizes(tmp_path / "sizes.txt")
    assert "3x4" in (tmp_path / "sizes.txt").read_text()
    del net
    assert not kept
