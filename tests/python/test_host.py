"""What the program around has set for itself: its locale."""

import os
import shutil
import subprocess
import sys

import pytest

COMMAS = """
import locale, sys
locale.setlocale(locale.LC_ALL, "xx_XX.UTF-8")
assert locale.localeconv()["decimal_point"] == ",", locale.localeconv()
import evoq
from models import model, tensor
from onnx import TensorProto, helper

evoq.tool("zoo", "lenet", output=sys.argv[1] + "/lenet.onnx")
report = evoq.tool(
    "quantize", sys.argv[1] + "/lenet.onnx", output=sys.argv[1] + "/lenet.etm", calib_random=4,
    observer="percentile", percentile=99.5,
)
assert report["output_bytes"] > 0
net = evoq.load(model(
    [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
    [tensor("x", TensorProto.STRING, (1,))], [tensor("y", TensorProto.FLOAT, (1,))],
))
assert net(["1.5"]).tolist() == [1.5]
assert locale.localeconv()["decimal_point"] == ",", locale.localeconv()
"""


# As a program with windows sets it for its own texts.
@pytest.mark.skipif(shutil.which("localedef") is None, reason="no localedef")
def test_decimal_commas(tmp_path):
    made = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "xx_XX.UTF-8")],
        capture_output=True,
    )
    if made.returncode != 0:
        pytest.skip("no sources of locales")
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMAS, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "LOCPATH": str(tmp_path), "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
