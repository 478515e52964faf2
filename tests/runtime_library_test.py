#!/usr/bin/env python3
"""libevoq_runtime stands alone: it links neither protobuf nor image decoders, takes no more than
MOST_BYTES stripped, and a C program linked to nothing else of evoq gives the outputs of `evoq run`,
bit for bit, at fixed and at free sizes. What it cannot do it says in a sentence that names libevoq.

Skips (77) without numpy or a C compiler, and in builds with sanitizers (EVOQ_BUILD says which).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np

LIBRARY = str(agree.BUILD / "include/libevoq_runtime.so")
# docs/runtime.md says what it is made of.
MOST_BYTES = 8_000_000
# What it may ask the loader for by itself.
ALLOWED = r"lib(c|m|stdc\+\+|gcc_s|pthread|fmt|cpuinfo|zstd)\.so|ld-linux"
# What must not come in through others either.
REFUSED = r"protobuf|onnx|jpeg|png|re2|flatc|absl"
failures = []


def check(what, holds, detail=""):
    print(f"{'ok' if holds else 'FAILED'}: {what}{': ' if detail else ''}{detail}")
    if not holds:
        failures.append(what)


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_links():
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said("readelf", "-d", LIBRARY))
    others = [name for name in needed if not re.match(ALLOWED, name)]
    check("needs only small libraries", needed and not others, " ".join(others or needed))
    loaded = re.findall(r"^\s*(\S+)", said("ldd", LIBRARY), re.M)
    refused = [name for name in loaded if re.search(REFUSED, name)]
    check("loads no protobuf, no image decoders", loaded and not refused, " ".join(refused))


def promised():
    """The functions that the public headers declare, without templates."""

    def header(name):
        text = (agree.ROOT / "include/evoq" / name).read_text(encoding="utf-8")
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
        return re.sub(r"template <typename T>\n.*?\n  \}\n", "", text, flags=re.S)

    names = set()
    for name in ("evoq_c.h", "gemm.h", "streams_c.h"):
        names.update(re.findall(r"\b(evoq_\w+)\(", header(name)))
    for name in ("evoq.h", "streams.h"):
        text = header(name)
        names.update(f"evoq::{f}" for f in re.findall(r"^\w.*?(\w+)\(", text, re.M))
        kinds = re.findall(r"^(?:class|struct) (\w+) \{\n(.*?)^\};", text, re.M | re.S)
        for kind, members in kinds:
            public = re.sub(r"using .*?;", "", members.split(" private:")[0])
            names.update(f"evoq::{kind}::{m}" for m in re.findall(r"(~?\w+|operator=)\(", public))
    return names


def check_exports():
    lines = said("nm", "-DC", "--defined-only", LIBRARY).splitlines()
    symbols = {line.split(" ", 2)[2] for line in lines}
    names = {symbol.partition("(")[0].removesuffix("[abi:cxx11]") for symbol in symbols}
    inner = {symbol for symbol in symbols if "Impl" in symbol}
    wrong = " ".join(sorted(names ^ promised() | inner))
    check("exports what the headers declare and nothing else", len(names) > 30 and not wrong, wrong)
    known = {"evoq_sgemm", "evoq_version", "evoq::Session::Run", "evoq::Array::size"}
    check("the headers are read", known <= promised() and len(promised()) == 98, len(promised()))


UNLOADED = """
import _ctypes, ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
library.evoq_session_load.restype = ctypes.c_void_p
library.evoq_session_free.argtypes = [ctypes.c_void_p]
session = library.evoq_session_load(sys.argv[2].encode(), 2, None, 0)
assert session is not None
library.evoq_session_free(session)
_ctypes.dlclose(library._handle)
os.kill(os.getpid(), 7)  # SIGBUS: ends the process, as if there had been no evoq
"""


def check_unload(model):
    """A program may close the library while its handler of SIGBUS is installed."""
    done = subprocess.run(
        [sys.executable, "-c", UNLOADED, LIBRARY, model], capture_output=True, text=True
    )
    check("unloaded", done.returncode == -7, f"{done.returncode} {done.stderr.strip()}")


def check_size(folder):
    stripped = os.path.join(folder, "stripped.so")
    subprocess.run(["strip", "-o", stripped, LIBRARY], check=True)
    size = os.path.getsize(stripped)
    check("stripped size", size <= MOST_BYTES, f"{size} bytes, at most {MOST_BYTES}")
    return size


def check_parts(whole):
    """Prints the bytes of the library by room, kernels by instruction set, as lld's map has them;
    they are most of the whole."""
    text = (agree.BUILD / "include/libevoq_runtime.sizes").read_text(encoding="utf-8")
    if not re.match(r" *VMA +LMA +Size", text):
        return print("sizes by room: only lld's map has them, and another linker was used")
    placed = re.findall(r"^ *[0-9a-f]{3,} +[0-9a-f]+ +([0-9a-f]+) +\d+ {9}(.*):\(\.", text, re.M)
    sizes = {}
    for size, path in placed:
        room = re.search(r"libevoq_(\w+)\.a|$", path)[1] or "others"
        isa = re.search(
            r"_(avx2_vnni_evex|avx2_vnni|avx2|avx512|amx_software|amx|scalar)\b|$", path
        )[1]
        row = f"kernels {isa or 'for all'}" if room == "kernels" else room
        sizes[row] = sizes.get(row, 0) + int(size, 16)
    for row, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"  {size / 1e6:5.2f} MB {row}")
    share = sum(sizes.values()) / whole
    check("the parts add up to the whole", 0.9 < share <= 1.01, f"{share:.1%}")


def compiled(folder):
    program = os.path.join(folder, "run_etm")
    library_folder = os.path.dirname(LIBRARY)
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Werror", "-I", os.path.join(agree.ROOT, "include")]
        + [os.path.join(agree.ROOT, "examples/runtime/run_etm.c"), "-o", program]
        + ["-L", library_folder, "-levoq_runtime", f"-Wl,-rpath,{library_folder}"],
        check=True,
    )
    return program


def check_run(program, folder, what, model, shape):
    """Outputs of the C program and of `evoq run` on the same random input."""
    x = np.random.default_rng(7).random(shape, dtype=np.float32)
    given, got = os.path.join(folder, "x.npy"), os.path.join(folder, "y.bin")
    np.save(given, x)
    x.tofile(os.path.join(folder, "x.bin"))
    outputs = tempfile.mkdtemp(dir=folder)
    agree.evoq("run", model, "--input", given, "--output-dir", outputs, "--threads", "1")
    done = subprocess.run(
        [program, model, os.path.join(folder, "x.bin"), got, *map(str, shape)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return check(what, False, done.stderr.strip())
    [wanted] = [np.load(os.path.join(outputs, name)) for name in os.listdir(outputs)]
    y = np.fromfile(got, np.float32)
    same = y.tobytes() == wanted.tobytes() and np.ptp(y) > 0
    check(what, same, f"{done.stdout.strip()}, {y.size} elements")


def check_refused(program, what, path, elements, wanted, *sizes):
    """What the C program says of the model with so many zeros for its input."""
    given = path + ".bin"
    np.zeros(elements, np.float32).tofile(given)
    words = [program, path, given, path + ".out", *map(str, sizes)]
    done = subprocess.run(words, capture_output=True, text=True)
    check(what, done.returncode == 1 and wanted in done.stderr, done.stderr.strip())


def write_onnx(path, nodes, shape, initializers=()):
    from onnx import TensorProto, helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [x], [y], list(initializers))
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def check_small_models(program, folder):
    """A model of free sizes with shape arithmetic, one in dynamic partitions, one by definition."""
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError as error:
        return print(f"without small models: {error}")
    at = lambda name: os.path.join(folder, name)
    ints = lambda name, *v: numpy_helper.from_array(np.array(v, np.int64), name)
    free = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["to"], axis=0),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "to"], ["flat"]),
        helper.make_node("Softmax", ["flat"], ["y"]),
    ]
    write_onnx(at("free.onnx"), free, ["N", 4, "W"], [ints("first", 0), ints("rest", -1)])
    agree.evoq("compile", at("free.onnx"), "-o", at("free.etm"), "--no-tune")
    for shape in [(1, 4, 6), (5, 4, 3)]:
        check_run(program, folder, f"free sizes at {shape}", at("free.etm"), shape)
    parted = [
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=1),
    ]
    write_onnx(at("parted.onnx"), parted, [6])
    agree.evoq("compile", at("parted.onnx"), "-o", at("parted.etm"))
    wanted = "NonZero): output i has the type"
    check_refused(program, "dynamic partitions", at("parted.etm"), 6, wanted)
    write_onnx(at("defined.onnx"), [helper.make_node("Det", ["x"], ["y"])], [1, 2, 2])
    agree.evoq("compile", at("defined.onnx"), "-o", at("defined.etm"), "--no-tune")
    check_refused(program, "no kernel", at("defined.etm"), 4, "(Det)")
    check_refused(program, "an .onnx file", at("free.onnx"), 1, "libevoq_runtime reads only .etm")
    check_refused(program, "no file", at("none.etm"), 1, "none.etm: cannot open: No such file")
    os.mkdir(at("folder"))
    check_refused(program, "a folder", at("folder"), 1, "folder: not a regular file")
    for elements in (23, 25):
        check_refused(program, "a wrong length", at("free.etm"), elements, "of 96 bytes", 1, 4, 6)
    for size in (0, -4, 1 << 62):
        check_refused(program, "wrong sizes", at("free.etm"), 1, "these sizes", 4, 4, size)


def main():
    if agree.SANITIZED or not shutil.which("cc"):
        print("skipped: sanitizers, or no C compiler")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        check_links()
        check_exports()
        check_parts(check_size(folder))
        program = compiled(folder)
        at = lambda name: os.path.join(folder, name)
        agree.evoq("zoo", "resnet50", "-o", at("resnet50.onnx"))
        quantize = ["--scheme", "int8", "--calib-random", "1", "--no-tune"]
        agree.evoq("quantize", at("resnet50.onnx"), *quantize, "-o", at("resnet50.etm"))
        check_run(program, folder, "resnet50 int8", at("resnet50.etm"), (1, 3, 224, 224))
        check_unload(at("resnet50.etm"))
        check_small_models(program, folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
