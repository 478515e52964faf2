"""Arrays go into a model and come out of it without a copy."""

import gc
import os
import subprocess
import sys

import evoq
import numpy as np
import pytest
from models import unary

# Prints how much more memory was resident at most during a run on 64 MB, in bytes. The input is
# pages of zeros that nobody wrote: only the output's pages come to be.
PROGRAM = """
import evoq, numpy as np, sys
sys.path.insert(0, sys.argv[1])
from models import unary

class OnlyDlpack:
    def __init__(self, array):
        self.array = array
    def __dlpack__(self, **options):
        return self.array.__dlpack__()
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

model = evoq.load(unary("Relu", ("N",)).SerializeToString(), threads=1)
model(np.zeros(16, np.float32))
x = np.zeros(16 << 20, np.float32)
given = {"numpy": x, "dlpack": OnlyDlpack(x), "buffer": memoryview(x)}[sys.argv[2]]
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")
before = peak()
y = model(given)
print(peak() - before)
assert y.shape == x.shape and y.dtype == x.dtype
"""


@pytest.mark.parametrize("form", ["numpy", "dlpack", "buffer"])
def test_nothing_is_copied(form):
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(evoq.__file__))}
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, here, form], capture_output=True, text=True, env=environment
    )
    if "clear_refs" in done.stderr:
        pytest.skip("the system does not tell how much memory was used")
    assert done.returncode == 0, done.stderr
    assert 32 << 20 < int(done.stdout) < 96 << 20


# Prints how many bytes of memory of the process's own a second model of a file takes.
SECOND = """
import evoq, numpy as np, sys

def own():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon:"))

def run():
    model = evoq.load(sys.argv[1], threads=1)
    model(np.zeros((1, 3, 224, 224), np.float32))
    return model

first = run()
before = own()
second = run()
print(own() - before)
"""


# float32 has Winograd's weights, AVX2 what it splits off integers: once for all models of a file.
@pytest.mark.parametrize("scheme", ["float32", "bf16", "int8"])
def test_weights_are_shared(scheme, tmp_path):
    net, file = str(tmp_path / "net.onnx"), str(tmp_path / "net.etm")
    evoq.tool("zoo", "resnet18", output=net)
    evoq.quantize(net, file, scheme=scheme, **({"calib_random": 2} if scheme == "int8" else {}))
    weights = evoq.inspect(file)["weight_bytes"]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(evoq.__file__))}
    done = subprocess.run(
        [sys.executable, "-c", SECOND, file], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert weights > 11_000_000 and int(done.stdout) < weights / 2


def test_outputs_are_handed_on_as_they_are():
    model = evoq.load(unary("Neg", (4,)))
    x = np.float32([1, 2, 3, 4])
    y = model(x)
    shared = np.from_dlpack(y)
    assert shared.ctypes.data == y.ctypes.data
    assert np.frombuffer(y, np.float32).ctypes.data == y.ctypes.data
    again = model(x)
    assert again.ctypes.data != y.ctypes.data  # a later run writes elsewhere
    again[:] = 0
    del model, y
    gc.collect()
    assert shared.tolist() == [-1, -2, -3, -4]  # the memory outlives the model
