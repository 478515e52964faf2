#!/usr/bin/env python3
"""Operators of com.microsoft, functions of a model and control flow: evoq's definition beside ONNX
Runtime.

usage: microsoft_test.py [ONNX_TOOL]
Skips (exit status 77) where onnx or onnxruntime is missing.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import agree  # noqa: E402

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from microsoft_cases import cases, real
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOOL = os.path.abspath(
    sys.argv[1]
    if len(sys.argv) > 1
    else os.path.join(os.environ["EVOQ_BUILD"], "tests/onnx/onnx_tool")
)
TYPES = {
    np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t))
    for t in ("f4", "f8", "i4", "i8", "i1", "u1", "b1")
}


ROUNDED = ("integer_to_float", "qattention")
UNUSED_KEYS = ("group_query_ragged", "group_query_ragged_rotary", "group_query_long_past")


def operator_model(op, inputs, attrs, outputs):
    names, infos, constants = [], [], []
    for i, value in enumerate(inputs):
        names.append("" if value is None else f"x{i}")
        if isinstance(value, tuple):
            constants.append(numpy_helper.from_array(np.asarray(value[1]), f"x{i}"))
        elif value is not None:
            value = np.asarray(value)
            infos.append(helper.make_tensor_value_info(f"x{i}", TYPES[value.dtype], value.shape))
    wanted = list(range(outputs)) if isinstance(outputs, int) else outputs
    ys = [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    domain = "" if op in ("SimplifiedLayerNormalization", "QLinearConv") else "com.microsoft"
    node = helper.make_node(op, names, ys, domain=domain, **attrs)
    graph = helper.make_graph(
        [node], "g", infos, [helper.make_empty_tensor_value_info(y) for y in ys if y], constants
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )


def function_model():
    """y = f(f(x, b), b) with f(x, b) = leaky(x + b), whose slope is the call's attribute."""
    slope = helper.make_node("LeakyRelu", ["t"], ["y"])
    slope.attribute.append(
        onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    )
    body = [helper.make_node("Add", ["x", "b"], ["t"]), slope]
    function = helper.make_function(
        "own", "F", ["x", "b"], ["y"], body, [helper.make_opsetid("", 17)], ["slope"]
    )
    nodes = [
        helper.make_node("F", ["x", "b"], ["t"], domain="own", slope=0.1),
        helper.make_node("F", ["t", "b"], ["y"], domain="own", slope=0.3),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [3, 4]), helper.make_tensor_value_info("b", 1, [4])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    return helper.make_model(
        graph,
        functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        ir_version=8,
    ), [real(3, 4), real(4)]


def versions_model():
    """A function of operator set 12 in a model of 17: axes of Squeeze as an attribute, Softmax over
    all axes from its own on. ONNX Runtime takes no such function: the third value is what it must
    give."""
    body = [
        helper.make_node("Squeeze", ["x"], ["t"], axes=[0]),
        helper.make_node("Softmax", ["t"], ["y"], axis=1),
    ]
    function = helper.make_function("own", "Old", ["x"], ["y"], body, [helper.make_opsetid("", 12)])
    nodes = [
        helper.make_node("Old", ["x"], ["t"], domain="own"),
        helper.make_node("Softmax", ["t"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 2, 3, 4])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(
        graph,
        functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        ir_version=8,
    )
    softmax = lambda v, axes: np.exp(v) / np.exp(v).sum(axes, keepdims=True)
    x = real(1, 2, 3, 4)
    return model, [x], [softmax(softmax(x[0], (1, 2)), 1)]


def loop_model():
    """A Loop in an If: s += x * i while s's first element is below 20; the condition, x and a
    constant come from outside."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=1),
            helper.make_node("Mul", ["x", "f"], ["step"]),
            helper.make_node("Add", ["s", "step"], ["s2"]),
            helper.make_node("Gather", ["s2", "zero"], ["head"]),
            helper.make_node("Less", ["head", "limit"], ["go"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("c", 9, []),
            helper.make_tensor_value_info("s", 1, None),
        ],
        [
            helper.make_tensor_value_info("go", 9, []),
            helper.make_tensor_value_info("s2", 1, None),
            helper.make_tensor_value_info("step", 1, None),
        ],
        [numpy_helper.from_array(np.array(0, np.int64), "zero")],
    )
    then = helper.make_graph(
        [helper.make_node("Loop", ["count", "", "x"], ["last", "steps"], body=body)],
        "then",
        [],
        [
            helper.make_tensor_value_info("last", 1, None),
            helper.make_tensor_value_info("steps", 1, None),
        ],
    )
    other = helper.make_graph(
        [
            helper.make_node("Neg", ["x"], ["n"]),
            helper.make_node("Unsqueeze", ["n", "axes"], ["u"]),
        ],
        "else",
        [],
        [helper.make_tensor_value_info("n", 1, None), helper.make_tensor_value_info("u", 1, None)],
        [numpy_helper.from_array(np.array([0], np.int64), "axes")],
    )
    graph = helper.make_graph(
        [helper.make_node("If", ["choose"], ["y", "rows"], then_branch=then, else_branch=other)],
        "g",
        [
            helper.make_tensor_value_info("choose", 9, []),
            helper.make_tensor_value_info("x", 1, [3]),
        ],
        [
            helper.make_tensor_value_info("y", 1, None),
            helper.make_tensor_value_info("rows", 1, None),
        ],
        [
            numpy_helper.from_array(np.array(20, np.float32), "limit"),
            numpy_helper.from_array(np.array(9, np.int64), "count"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(process, folder, name, model, feeds, tolerance, expected=None):
    path = f"{folder}/{name}.onnx"
    onnx.save(model, path)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    agree.exact_integers(options)
    try:
        if expected is None:
            session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            expected = session.run(None, {i.name: v for i, v in zip(session.get_inputs(), feeds)})
    except Exception as error:
        return f"ONNX Runtime: {error}"
    words = ["evaluate", path, f"{folder}/{name}"]
    for i, value in enumerate(feeds):
        words.append(f"{folder}/{name}_{i}.pb")
        with open(words[-1], "wb") as f:
            f.write(numpy_helper.from_array(np.asarray(value)).SerializeToString())
    process.stdin.write("\t".join(words) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline().strip()
    if answer != "ok":
        return answer or "the tool died"
    for i, want in enumerate(expected):
        got = np.load(f"{folder}/{name}_{i}.npy")
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"output {i} is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        if i > 0 and name in UNUSED_KEYS:
            continue  # keys behind an item's last one mean nothing
        worst = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)
        limit = 1 if want.dtype.kind in "iu" else tolerance * max(1.0, np.abs(want).max(initial=0))
        if not worst <= limit:
            return f"output {i} differs by {worst}"
    return ""


def main():
    failed = 0
    process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with tempfile.TemporaryDirectory() as folder:
        pending = [
            (
                name,
                operator_model(op, inputs, attrs, outputs),
                [np.asarray(v) for v in inputs if v is not None and not isinstance(v, tuple)],
                0.02 if name in ROUNDED or name.startswith("lstm") else 1e-3,
            )
            for name, op, inputs, attrs, outputs in cases()
        ]
        model, feeds = function_model()
        pending.append(("function", model, feeds, 1e-5))
        model, feeds, expected = versions_model()
        pending.append(("function_versions", model, feeds, 1e-5, expected))
        for choose in (True, False):
            pending.append(
                (
                    f"loop_{choose}",
                    loop_model(),
                    [np.array(choose), np.array([1, 2, 3], np.float32)],
                    1e-6,
                )
            )
        for name, *rest in pending:
            problem = check(process, folder, name, *rest)
            if problem:
                print(f"{name}: {problem}")
                failed += 1
        print(
            f"{len(pending) - failed} of {len(pending)} agree with ONNX Runtime {ort.__version__}"
        )
    sys.exit(1 if failed else 0)


main()
