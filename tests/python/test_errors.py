"""What is refused, with which code and which sentence."""

import contextlib
import pickle

import evoq
import numpy as np
import onnx
import pytest
from models import DIGITS, digits, float32, model, unary
from onnx import helper


@contextlib.contextmanager
def refused(code, *parts):
    with pytest.raises(evoq.Error) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_names_are_printable(tmp_path):
    with refused("not found", "a\\u001b[2J\\nb\\u202e.onnx"):
        evoq.load(tmp_path / "a\x1b[2J\nb\u202e.onnx")
    with refused("not found", "a\\u001b[2J.onnx"):
        evoq.inspect(tmp_path / "a\x1b[2J.onnx")


def test_paths_that_are_none(tmp_path):
    for path in ("a\0b.onnx", "\udcff.onnx"):
        with refused("usage", f"{ascii(path)}: expected UTF-8 without NUL"):
            evoq.load(path)
        with refused("usage", "expected UTF-8 without NUL"):
            evoq.inspect(path)
        with refused("usage", "expected UTF-8 without NUL"):
            evoq.compile(DIGITS, tmp_path / path)


def test_long_names():
    net = unary("NoSuchOp")
    net.graph.node[0].name = "n" * 1000000
    with refused("unsupported", "NoSuchOp", "nnn ... ", " bytes ... nnn") as caught:
        evoq.load(net)
    assert len(str(caught.value)) < 4200


def test_files(tmp_path):
    with refused("not found", "none.onnx"):
        evoq.load(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with refused("invalid input", "text.onnx"):
        evoq.load(tmp_path / "text.onnx")
    data = onnx.load(DIGITS).SerializeToString()
    with refused("invalid input"):
        evoq.load(data[: len(data) // 2])
    evoq.compile(DIGITS, tmp_path / "digits.etm")
    damaged = bytearray((tmp_path / "digits.etm").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "damaged.etm").write_bytes(damaged)
    with refused("invalid input", "damaged.etm"):
        evoq.load(tmp_path / "damaged.etm")
    with refused("usage", "expected a path"):
        evoq.load(3.5)


def test_operators_that_are_missing():
    with refused("unsupported", "NoSuchOp", "the_node"):
        evoq.load(unary("NoSuchOp"))


def test_inputs():
    net = evoq.load(DIGITS)
    with refused("usage", "image is missing"):
        net.run({})
    with refused("usage", "'picture'", "the inputs are image"):
        net.run({"picture": digits(1), "image": digits(1)})
    with refused("usage", "input image", "float64[1, 1, 28, 28] given", "expected float32["):
        net(digits(1).astype(np.float64))
    with refused("usage", "2 inputs given, expected 1"):
        net(digits(1), digits(1))
    for odd in (
        "a string",
        np.array([1 + 2j]),
        np.array(["a", "b"], dtype=object),
        {1, 2},
        None,
        [object()],
        [[1, 2], [3]],
    ):
        with refused("usage", "input"):
            net.run([odd])
    for shape in ((1, 1, 28), (1, 2, 28, 28), (28,)):
        with pytest.raises(evoq.Error, match="input"):
            net(np.zeros(shape, np.float32))


def test_definitions_refuse_data():
    reverse = helper.make_node(
        "ReverseSequence", ["x", "n"], ["y"], "the_node", time_axis=0, batch_axis=1
    )
    net = evoq.load(
        model(
            [reverse],
            [float32("x", (3, 2)), helper.make_tensor_value_info("n", 7, (2,))],
            [float32("y", (3, 2))],
        )
    )
    x = np.float32([[0, 1], [2, 3], [4, 5]])
    assert net(x, np.int64([2, 3])).tolist() == [[2, 5], [0, 3], [4, 1]]
    with refused("invalid input", "length 4"):
        net(x, np.int64([2, 4]))
    assert net(x, np.int64([1, 1])).tolist() == x.tolist()


def test_options():
    with refused("usage", "threads=-1"):
        evoq.load(DIGITS, threads=-1)
    with refused("usage", "streams=0"):
        evoq.load(DIGITS, streams=0)
    with refused("usage", "no-such-option"):
        evoq.tool("inspect", DIGITS, no_such_option=3)
    with refused("usage", "unknown command 'nothing'"):
        evoq.tool("nothing")
    with refused("usage", "--shape"):
        evoq.tool("inspect", DIGITS, shape=["image"])


def test_quantize(tmp_path):
    with refused("usage", "needs data"):
        evoq.quantize(DIGITS, tmp_path / "out.etm")
    with refused("usage", "int9"):
        evoq.quantize(DIGITS, tmp_path / "out.etm", scheme="int9")
    with refused("usage", "no samples"):
        evoq.quantize(DIGITS, tmp_path / "out.etm", calibration=[])
    with refused("usage", "lacks image"):
        evoq.quantize(DIGITS, tmp_path / "out.etm", calibration={"picture": digits(4)})
    with refused("usage", "2 arrays"):
        evoq.quantize(DIGITS, tmp_path / "out.etm", calibration=[(digits(4), digits(4))])
    with refused("invalid input", "sample 1"):
        data = digits(3)
        data[1, 0, 3, 3] = np.nan
        evoq.quantize(DIGITS, tmp_path / "out.etm", calibration=data)
    assert not (tmp_path / "out.etm").exists()


def test_a_condition_that_fails(tmp_path):
    slow, fast = tmp_path / "slow.json", tmp_path / "fast.json"
    slow.write_text(str([{"latencyMs": 2.0 + i % 7 * 0.01} for i in range(400)]).replace("'", '"'))
    fast.write_text(str([{"latencyMs": 1.0 + i % 5 * 0.01} for i in range(400)]).replace("'", '"'))
    assert evoq.compare(slow, fast)["verdict"] == "faster"
    with refused("condition failed", "slower than A"):
        evoq.compare(fast, slow, fail_slower=3)


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(evoq.Error("here: 3, expected 4", "invalid input")))
    assert (str(error), error.code) == ("here: 3, expected 4", "invalid input")
