"""Arrays at the edges of their types: signs, sizes of 0, strings, sequences; what values say."""

import ctypes
import sys

import evoq
import ml_dtypes
import numpy as np
import pytest
from models import DIGITS, float32, model, tensor, unary
from onnx import TensorProto, helper


def refused(code, message, call):
    with pytest.raises(evoq.Error) as caught:
        call()
    assert (caught.value.code, str(caught.value)) == (code, message)


def typed(op, dtype, shape):
    proto = unary(op, shape, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    proto.ir_version, proto.opset_import[0].version = 11, 23
    return evoq.load(proto)


# Each type from its least to its greatest value, five of them: two to a byte leave half of one.
@pytest.mark.parametrize(
    "name,values",
    [
        ("int4", [-8, -1, 0, 7, -5]),
        ("uint4", [15, 8, 0, 7, 1]),
        ("int8", [-128, 127, -1, 0, 1]),
        ("float4_e2m1fn", [-6, 6, -0.5, 1.5, 0]),
        ("float8_e4m3fn", [-448, 448, 0.5, 0, 1]),
        ("float8_e5m2", [-57344, 57344, 0.5, 0, 1]),
        ("bfloat16", [-1.5, 3e38, 0, 1, 2]),
    ],
)
def test_least_and_greatest(name, values):
    x = np.array(values, np.float64).astype(getattr(ml_dtypes, name, name))
    y = typed("Identity", x.dtype, (5,))(x)
    assert y.dtype == x.dtype and y.astype(np.float64).tolist() == x.astype(np.float64).tolist()


class OfAnotherFramework:
    """Bytes as a DLPack tensor of one dimension, of a type that numpy itself has not."""

    class Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device", ctypes.c_int32 * 2),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
        ]

    def __init__(self, values, code, bits):
        self.values, self.sizes = values, (ctypes.c_int64 * 1)(len(values))
        self.tensor = self.Tensor(
            values.ctypes.data, (1, 0), 1, code, bits, 1, self.sizes, None, 0, None, None
        )

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


# The type codes of dlpack.h.
@pytest.mark.parametrize(
    "name,code",
    [
        ("bfloat16", 4),
        ("float8_e4m3fn", 10),
        ("float8_e4m3fnuz", 11),
        ("float8_e5m2", 12),
        ("float8_e5m2fnuz", 13),
    ],
)
def test_dlpack_of_short_floats(name, code):
    dtype = getattr(ml_dtypes, name)
    x = np.array([0.5, -2, 1], dtype)
    bits, net = 8 * dtype(0).itemsize, typed("Identity", dtype, (3,))
    y = net(OfAnotherFramework(x, code, bits))
    assert y.dtype == dtype and y.astype(float).tolist() == [0.5, -2, 1]
    for other in ((14, bits), (code, 24 - bits)):  # float8_e8m0fnu; 16 for 8 bits, 8 for 16
        with pytest.raises(evoq.Error):
            net(OfAnotherFramework(x, *other))


def test_dlpack_of_halves_of_bytes_is_refused():
    for name, code in (("int4", 0), ("uint4", 1)):
        net = typed("Identity", getattr(ml_dtypes, name), (3,))
        with pytest.raises(evoq.Error):
            net(OfAnotherFramework(np.zeros(3, np.int8), code, 4))


def test_no_elements():
    for dtype in (np.float32, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4):
        net = typed("Identity", dtype, ("N", 4))
        y = net(np.zeros((0, 4), dtype))
        assert y.shape == (0, 4) and y.dtype == dtype
    assert evoq.load(unary("Neg", ("N",)))([]).shape == (0,)


def test_scalars():
    assert typed("Identity", ml_dtypes.bfloat16, ())(np.array(2.5, ml_dtypes.bfloat16)).shape == ()
    assert typed("Identity", ml_dtypes.int4, ())(np.array(-3, ml_dtypes.int4)).astype(int) == -3


def test_misaligned_and_odd_bools():
    for dtype, values in (
        (np.int64, [1, -2]),
        (np.float16, [0.5, 2]),
        (ml_dtypes.bfloat16, [0.5, 2]),
    ):
        x = np.array(values, dtype)
        odd = np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(dtype)
        assert typed("Identity", dtype, (2,))(odd).tolist() == x.tolist()
    odd = np.array([2, 0, 1], np.uint8).view(np.bool_)
    y = typed("Identity", np.bool_, (3,))(odd)
    assert y.view(np.uint8).tolist() == [1, 0, 1]


def test_without_ml_dtypes(monkeypatch):
    net = typed("Identity", ml_dtypes.bfloat16, (2,))
    x = np.zeros(2, ml_dtypes.bfloat16)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    refused(
        "unsupported", "bfloat16 is no type of numpy: install the package ml_dtypes", lambda: net(x)
    )


def test_what_is_no_array():
    floats = evoq.load(unary("Neg", (2,)))
    refused(
        "usage",
        "input x: list given, expected an array of bfloat16",
        lambda: typed("Identity", ml_dtypes.bfloat16, (2,))([1, 2]),
    )
    refused(
        "usage",
        "input x: an array of a type that ONNX does not have",
        lambda: floats(np.array([1j, 2j])),
    )
    refused(
        "usage",
        "input x: ndarray is no array of numbers in this machine's memory",
        lambda: floats(np.array(["a", "b"])),
    )
    refused(
        "usage", "input x: int32[2] given, expected float32[2]", lambda: floats(np.int32([1, 2]))
    )
    with pytest.raises(evoq.Error, match="input x: str is no array of float32: could not convert"):
        floats("a string")
    refused(
        "usage",
        "input x: list is no array of float32: an element is no number",
        lambda: floats([1, None]),
    )
    refused(
        "usage",
        "input x: list is no array of float32: an element is no number",
        lambda: floats(["1", "2"]),
    )
    for absent in (floats, evoq.load(unary("Neg", ()))):
        refused("usage", "input x: None given, expected an array of float32", lambda: absent(None))
    refused(
        "usage",
        "input x: an element is no text: 'utf-8' codec can't encode character '\\ud800' in "
        "position 0: surrogates not allowed",
        lambda: strings()([["\ud800"]]),
    )


def test_lists_keep_their_numbers():
    ints, bools = typed("Neg", np.int8, (2,)), typed("Identity", np.bool_, (2,))
    assert ints([1, 2.0]).tolist() == [-1, -2] and bools([1, False]).tolist() == [True, False]
    changed = "input x: list is no array of int8: it has other numbers"
    refused("usage", changed, lambda: ints([1.7, 1]))
    refused("usage", changed.replace("int8", "bool"), lambda: bools([0, 2]))
    with pytest.raises(evoq.Error, match="input x: list is no array of int8: .* 300 out of bounds"):
        ints([300, 1])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint16, np.float16])
def test_bytes_in_another_order(dtype):
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    other = x.astype(x.dtype.newbyteorder())
    assert other.tobytes() != x.tobytes()
    y = typed("Identity", dtype, (2, 3))(other)
    assert y.dtype == dtype and y.tolist() == x.tolist()


def strings(op="Identity", shape=("N", "M")):
    return evoq.load(unary(op, shape, TensorProto.STRING))


def test_strings_of_any_shape_and_bytes():
    net = strings()
    for x in (
        [["a", "b"], ["", "d"], ["ä", "nul\0l"]],
        np.zeros((0, 2), object),
        [["one"]],
        [[b"\xff\xfe", "\udcff"]],
    ):
        y = net(x)
        assert y.dtype == object and y.shape == np.array(x, object).shape
        assert y.tolist() == [
            [s.decode("utf-8", "surrogateescape") if isinstance(s, bytes) else s for s in row]
            for row in x
        ]
    refused("usage", "input x: an element is int, expected str", lambda: net([["a", 3]]))


def test_sequences_and_optionals():
    of = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    sequence, optional = helper.make_sequence_type_proto(of), helper.make_optional_type_proto(of)
    both = helper.make_optional_type_proto(sequence)

    def identity(kind):
        return evoq.load(
            model(
                [helper.make_node("Identity", ["o"], ["y"])],
                [helper.make_value_info("o", kind)],
                [helper.make_value_info("y", kind)],
            )
        )

    one, two = np.float32([1]), np.float32([2, 3])
    net = identity(sequence)
    assert net.inputs[0].kind == net.outputs[0].kind == "sequence"
    assert [a.tolist() for a in net.run({"o": (one, two)})["y"]] == [[1], [2, 3]] and net.run([[]])[
        "y"
    ] == []
    refused("usage", "input o: ndarray given, expected a list of arrays", lambda: net(one))
    net = identity(optional)
    assert net.inputs[0].kind == "optional" and net(two).tolist() == [2, 3] and net(None) is None
    net = identity(both)
    assert net.inputs[0].kind == "optional sequence" and net(None) is None
    assert [a.tolist() for a in net((one, two))] == [[1], [2, 3]]


def test_several_outputs():
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["z"])]
    net = evoq.load(model(nodes, [float32("x", (2,))], [float32("y", (2,)), float32("z", (2,))]))
    y, z = net(np.float32([1, -2]))
    assert y.tolist() == [-1, 2] and z.tolist() == [1, 2]
    named = net.run(np.float32([1, -2]))
    assert list(named) == ["y", "z"] and named["z"].tolist() == [1, 2]
    assert repr(net) == "evoq.Model(x: float32[2]) -> y: float32[2], z: float32[2]"


def test_descriptions():
    nodes = [helper.make_node("Add", ["a", "b"], ["y"]), helper.make_node("NonZero", ["a"], ["z"])]
    net = evoq.load(
        model(
            nodes,
            [float32("a", ("N", 3)), float32("b", None)],
            [float32("y", None), tensor("z", TensorProto.INT64, None)],
        )
    )
    assert [value.shape for value in (*net.inputs, *net.outputs)] == [
        ("N", 3),
        None,
        None,
        (2, None),
    ]
    assert (
        repr(net)
        == "evoq.Model(a: float32[N, 3], b: float32[...]) -> y: float32[...], z: int64[2, ?]"
    )
    assert repr(net.inputs[0]) == "a: float32[N, 3]"
    assert net.inputs[1].quantization is None and net.inputs[1].dtype == "float32"
    constant = evoq.load(
        model(
            [helper.make_node("Neg", ["w"], ["y"])],
            [],
            [float32("y", (1,))],
            {"w": np.float32([3])},
        )
    )
    assert (
        repr(constant) == "evoq.Model() -> y: float32[1]"
        and constant().tolist() == [-3]
        and constant.run({})["y"].tolist() == [-3]
    )
    refused("usage", "1 inputs given, expected 0", lambda: constant.run([np.float32([3])]))


def test_numbers_of_threads_and_streams():
    assert evoq.load(DIGITS, threads=1024).threads == 1024
    assert evoq.load(DIGITS, threads=1, streams=256).streams == 256
    for options, message in (
        ({"threads": 1025}, "threads=1025, expected 0 to 1024"),
        ({"threads": -1}, "threads=-1, expected 0 to 1024"),
        ({"streams": 257}, "streams=257, expected 1 to 256"),
        ({"streams": 0}, "streams=0, expected 1 to 256"),
    ):
        refused("usage", message, lambda: evoq.load(DIGITS, **options))


def test_bytes_are_named_model():
    with pytest.raises(
        evoq.Error, match="^model: 1 operator that evoq does not have: NoSuchOp "
    ) as caught:
        evoq.load(unary("NoSuchOp"))
    assert caught.value.code == "unsupported"
    proto = model(
        [helper.make_node("Add", ["x", "w"], ["y"], "sum")],
        [float32("x", (2,))],
        [float32("y", (2,))],
        {"w": np.float32([1, 2, 3])},
    )
    with pytest.raises(evoq.Error, match="^model: .*sum"):
        evoq.load(proto)


def test_samples_are_named(tmp_path):
    with pytest.raises(evoq.Error, match="^input of sample 1: "):
        evoq._evoq.verb(
            "quantize",
            ["--output=x", "--", DIGITS],
            [[np.zeros((1, 1, 28, 28), np.float32)], ["a"]],
        )
