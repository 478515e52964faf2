#!/usr/bin/env python3
"""Writes the models of this folder: small files that ask for much memory or work. Needs the PyPI
package `onnx`; run it after changing it and commit the files. src/engine/bombs_test.cc says what
becomes of each.
"""

import os

import numpy as np
from onnx import TensorProto, helper as h, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
BOOL, STRING = TensorProto.BOOL, TensorProto.STRING


def info(name, kind=FLOAT, shape=None):
    return h.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, initializers=(), functions=(), opset=20):
    graph = h.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [h.make_opsetid("", opset)] + ([h.make_opsetid("f", 1)] if functions else [])
    return h.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=9)


def string_concat():
    """A constant of 16 characters, doubled 40 times; the model's output has the length of its
    number of words."""
    text = h.make_tensor("s0", STRING, [1], [b"sixteen letters."])
    nodes = [h.make_node("StringConcat", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(40)]
    nodes.append(h.make_node("StringConcat", ["x", "s40"], ["y"]))
    return model(nodes, [info("x", STRING, [1])], [info("y", STRING)], [text])


def nested_loops():
    """Six Loops in one another. Each starts from x and rotates twelve states, one of which loses
    its shape: a round for each of them
    until all have, at every level anew."""
    states = 12

    def loop(level):
        names = [f"s{i}_{level}" for i in range(states)]
        inputs = [info(f"i{level}", INT64), info(f"c{level}", BOOL)] + [info(n) for n in names]
        nodes = [h.make_node("Identity", [f"c{level}"], [f"d{level}"])]
        if level > 0:
            nodes.append(
                h.make_node("Loop", ["n", ""] + ["x"] * states, [f"r{level}"], body=loop(level - 1))
            )
            nodes.append(h.make_node("Add", [names[0], f"r{level}"], [f"u{level}"]))
        else:
            nodes.append(h.make_node("Unsqueeze", [names[0], "zero"], [f"u{level}"]))
        return h.make_graph(
            nodes,
            f"b{level}",
            inputs,
            [info(f"d{level}", BOOL)] + [info(r) for r in names[1:] + [f"u{level}"]],
        )

    top = h.make_node("Loop", ["n", ""] + ["x"] * states, ["y"], body=loop(5))
    return model(
        [top],
        [info("x", FLOAT, [2])],
        [info("y")],
        [h.make_tensor("n", INT64, [], [2]), h.make_tensor("zero", INT64, [1], [0])],
    )


def roi_align():
    """A constant region of 10^9 pixels a side: 4096 x 4096 samples for each of 2^20 bins."""
    node = h.make_node(
        "RoiAlign", ["p", "r", "b"], ["a"], output_height=1024, output_width=1024, sampling_ratio=0
    )
    return model(
        [node, h.make_node("ReduceMean", ["a"], ["m"]), h.make_node("Add", ["x", "m"], ["y"])],
        [info("x", FLOAT, [1])],
        [info("y")],
        [
            numpy_helper.from_array(np.ones((1, 1, 2, 2), np.float32), "p"),
            numpy_helper.from_array(np.array([[0, 0, 1e9, 1e9]], np.float32), "r"),
            numpy_helper.from_array(np.zeros(1, np.int64), "b"),
        ],
    )


def functions():
    """Functions that call the next one ten times, seven deep."""
    made = []
    for level in range(7):
        op, domain = ("Neg", "") if level == 0 else (f"f{level - 1}", "f")
        names = ["x"] + [f"v{i}" for i in range(9)] + ["y"]
        nodes = [h.make_node(op, [a], [b], domain=domain) for a, b in zip(names, names[1:])]
        made.append(
            h.make_function(
                "f",
                f"f{level}",
                ["x"],
                ["y"],
                nodes,
                [h.make_opsetid("", 20), h.make_opsetid("f", 1)],
            )
        )
    return model(
        [h.make_node("f6", ["x"], ["y"], domain="f")],
        [info("x", FLOAT, [1])],
        [info("y")],
        functions=made,
    )


def growing(op):
    """A Loop of 60 rounds: its state is doubled, or with op None a row of a million numbers is
    added, 16,384 times."""
    big = h.make_tensor("shape", INT64, [1], [1 << 20])
    ones = h.make_node(
        "ConstantOfShape", ["shape"], ["ones"], value=h.make_tensor("v", FLOAT, [1], [1])
    )
    inputs = [info("i", INT64), info("c", BOOL), info("s")]
    if op:
        body = [h.make_node(op, ["s", "s"], ["t"], axis=0)]
        outputs = ["t"]
    else:
        body = [h.make_node("Identity", ["s"], ["t"]), h.make_node("Add", ["ones", "x"], ["row"])]
        outputs = ["t", "row"]
    body.append(h.make_node("Identity", ["c"], ["d"]))
    graph = h.make_graph(body, "b", inputs, [info("d", BOOL)] + [info(o) for o in outputs])
    loop = h.make_node("Loop", ["n", "", "x"], ["y"] if op else ["z", "y"], body=graph)
    nodes, start = (
        ([loop], [info("x", FLOAT, [1 << 10])]) if op else ([ones, loop], [info("x", FLOAT, [1])])
    )
    return model(
        nodes,
        start,
        [info("y")],
        [h.make_tensor("n", INT64, [], [60 if op else 1 << 14])] + ([] if op else [big]),
    )


def main():
    made = {
        "string_concat": string_concat(),
        "nested_loops": nested_loops(),
        "roi_align": roi_align(),
        "functions": functions(),
        "growing_state": growing("Concat"),
        "growing_rows": growing(None),
    }
    for name, m in made.items():
        with open(os.path.join(HERE, name + ".onnx"), "wb") as f:
            f.write(m.SerializeToString())


if __name__ == "__main__":
    main()
