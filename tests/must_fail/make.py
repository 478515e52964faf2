#!/usr/bin/env python3
"""Writes the broken models of this folder. Needs the PyPI package `onnx`; run it after changing it
and commit the files.

Every file has one fault. src/onnx/must_fail_test.cc says which error each must give.
"""

import os
import random
import sys

from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, helper as h

HERE = os.path.dirname(os.path.abspath(__file__))
FLOAT = TensorProto.FLOAT


def info(name, shape=(1, 4), kind=FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs=None, outputs=None, initializers=(), opset=17, **keys):
    graph = h.make_graph(
        nodes,
        "g",
        [info("x")] if inputs is None else inputs,
        [info("y", None)] if outputs is None else outputs,
        list(initializers),
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8, **keys)


def relu():
    return model([h.make_node("Relu", ["x"], ["y"])])


def weight(dims, kind=FLOAT, raw=None, name="w", **fields):
    t = TensorProto(name=name, data_type=kind, dims=dims)
    if raw is not None:
        t.raw_data = raw
    for field, values in fields.items():
        getattr(t, field).extend(values)
    return t


def with_weight(tensor):
    return model([h.make_node("Add", ["x", "w"], ["y"])], initializers=[tensor])


def ints(name, values):
    return h.make_tensor(name, TensorProto.INT64, [len(values)], values)


def external(location, offset=None, length=None):
    t = weight([4])
    t.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            t.external_data.add(key=key, value=str(value))
    return with_weight(t)


def node_model(op, operands, attrs=None, **keys):
    return model([h.make_node(op, operands, ["y"], **(attrs or {}))], **keys)


def attribute(op, operands, attr, **keys):
    node = h.make_node(op, operands, ["y"])
    node.attribute.append(attr)
    return model([node], **keys)


IMAGE = [info("x", (1, 3, 8, 8))]
KERNEL = [weight([2, 3, 3, 3], raw=bytes(4 * 54))]


def structure():
    whole = with_weight(weight([64], raw=bytes(256))).SerializeToString()
    noise = random.Random(1)
    yield "empty", b""
    yield "truncated", whole[: len(whole) // 2]
    yield "random", bytes(noise.randrange(256) for _ in range(256))
    yield "png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde"
    yield "text", b"This is not a model.\n"
    yield "bit_flipped", bytes([whole[0], whole[1], whole[2] ^ 0x80]) + whole[3:]
    yield "no_graph", ModelProto(ir_version=8, opset_import=[h.make_opsetid("", 17)])
    m = relu()
    del m.opset_import[:]
    yield "no_opset", m
    m = relu()
    m.opset_import.append(h.make_opsetid("ai.onnx", 13))
    yield "opset_twice", m
    yield "opset_5", model([h.make_node("Relu", ["x"], ["y"])], opset=5)
    yield "opset_999", model([h.make_node("Relu", ["x"], ["y"])], opset=999)
    m = relu()
    m.graph.sparse_initializer.add().dims.append(4)
    yield "sparse_initializer", m
    yield "no_outputs", model([h.make_node("Relu", ["x"], ["y"])], outputs=[])
    nested = GraphProto()
    for _ in range(150):
        outer = GraphProto()
        outer.node.add(op_type="If").attribute.add(name="b", type=AttributeProto.GRAPH).g.CopyFrom(
            nested
        )
        nested = outer
    yield "nested_150_deep", h.make_model(nested, opset_imports=[h.make_opsetid("", 17)])


def branch(node):
    return h.make_graph([node], "branch", [], [info("t", None)])


def loop(body_inputs, nodes, outputs):
    """A Loop of 3 rounds over the state x."""
    body = h.make_graph(
        nodes, "body", [info(n, None) for n in body_inputs], [info(n, None) for n in outputs]
    )
    return model(
        [h.make_node("Loop", ["count", "", "x"], ["y"], body=body)],
        initializers=[h.make_tensor("count", TensorProto.INT64, [], [3])],
    )


def subgraphs():
    yield (
        "if_condition",
        model(
            [
                h.make_node(
                    "If",
                    ["x"],
                    ["y"],
                    then_branch=branch(h.make_node("Relu", ["x"], ["t"])),
                    else_branch=branch(h.make_node("Neg", ["x"], ["t"])),
                )
            ]
        ),
    )
    yield "loop_inputs", loop(["i", "c"], [h.make_node("Identity", ["c"], ["d"])], ["d", "x"])
    yield (
        "loop_type",
        loop(
            ["i", "c", "s"],
            [
                h.make_node("Identity", ["c"], ["d"]),
                h.make_node("Cast", ["s"], ["t"], to=TensorProto.INT32),
            ],
            ["d", "t"],
        ),
    )
    nested = h.make_graph([h.make_node("Relu", ["x"], ["t"])], "inner", [], [info("t", None)])
    for _ in range(12):
        node = h.make_node(
            "If",
            ["c"],
            ["t"],
            then_branch=nested,
            else_branch=branch(h.make_node("Neg", ["x"], ["t"])),
        )
        nested = h.make_graph([node], "inner", [], [info("t", None)])
    yield (
        "subgraphs_deep",
        model(
            [
                h.make_node(
                    "If",
                    ["c"],
                    ["y"],
                    then_branch=nested,
                    else_branch=branch(h.make_node("Neg", ["x"], ["t"])),
                )
            ],
            inputs=[info("c", (), TensorProto.BOOL), info("x")],
        ),
    )


def operators():
    yield "unknown_operator", node_model("Frobnicate", ["x"])
    yield (
        "unknown_operators",
        model(
            [
                h.make_node("Frob", ["x"], ["a"], name="first"),
                h.make_node("Frob", ["a"], ["b"]),
                h.make_node("Nicate", ["b"], ["y"], name="third"),
            ]
        ),
    )
    yield "domain_not_imported", model([h.make_node("Relu", ["x"], ["y"], domain="org.example")])
    m = model([h.make_node("Relu", ["x"], ["y"], domain="org.example")])
    m.opset_import.append(h.make_opsetid("org.example", 3))
    yield "unknown_domain", m
    m = model([h.make_node("Silu", ["x"], ["y"], domain="evoq")])
    m.opset_import.append(h.make_opsetid("evoq", 1))
    yield "evoq_domain", m
    m = model([h.make_node("Again", ["x"], ["y"], domain="local", name="call")])
    m.opset_import.append(h.make_opsetid("local", 1))
    m.functions.append(
        h.make_function(
            "local",
            "Again",
            ["a"],
            ["b"],
            [h.make_node("Again", ["a"], ["b"], domain="local")],
            [h.make_opsetid("", 17), h.make_opsetid("local", 1)],
        )
    )
    yield "function_recursion", m
    m = model([h.make_node("Twice", ["x"], ["y"], domain="local")])
    m.opset_import.append(h.make_opsetid("local", 1))
    m.functions.append(
        h.make_function(
            "local",
            "Twice",
            ["a"],
            ["b"],
            [h.make_node("Add", ["a", "a"], ["b"])],
            [h.make_opsetid("", 99)],
        )
    )
    yield "function_opset", m
    yield (
        "subgraph_operators",
        model(
            [
                h.make_node(
                    "If",
                    ["c"],
                    ["y"],
                    then_branch=branch(h.make_node("Frob", ["x"], ["t"])),
                    else_branch=branch(h.make_node("Nicate", ["x"], ["t"])),
                )
            ],
            inputs=[info("c", (), TensorProto.BOOL), info("x")],
        ),
    )
    yield "no_operator", model([h.make_node("", ["x"], ["y"])])


def values():
    yield (
        "cycle",
        model(
            [
                h.make_node("Add", ["x", "b"], ["a"], name="one"),
                h.make_node("Relu", ["a"], ["b"], name="two"),
                h.make_node("Relu", ["b"], ["y"]),
            ]
        ),
    )
    yield "self_loop", model([h.make_node("Add", ["x", "y"], ["y"], name="loop")])
    yield "undefined_input", model([h.make_node("Add", ["x", "ghost"], ["y"])])
    yield "undefined_output", model([h.make_node("Relu", ["x"], ["z"])])
    yield (
        "duplicate_output",
        model([h.make_node("Relu", ["x"], ["y"]), h.make_node("Neg", ["x"], ["y"])]),
    )
    yield (
        "duplicate_input",
        model([h.make_node("Relu", ["x"], ["y"])], inputs=[info("x"), info("x")]),
    )
    yield (
        "duplicate_initializer",
        model(
            [h.make_node("Add", ["x", "w"], ["y"])],
            initializers=[weight([1], raw=bytes(4)), weight([1], raw=bytes(4))],
        ),
    )
    yield "output_is_input", model([h.make_node("Relu", ["x"], ["x"])], outputs=[info("x", None)])
    yield (
        "output_of_other_type",
        model([h.make_node("Relu", ["x"], ["y"])], outputs=[info("y", None, TensorProto.INT64)]),
    )
    yield (
        "sequence_input",
        model(
            [h.make_node("Relu", ["x"], ["y"])],
            inputs=[h.make_tensor_sequence_value_info("x", FLOAT, None)],
        ),
    )
    yield (
        "string_input",
        model([h.make_node("Relu", ["x"], ["y"])], inputs=[info("x", (1,), TensorProto.STRING)]),
    )
    yield "type_99", model([h.make_node("Relu", ["x"], ["y"])], inputs=[info("x", (1,), 99)])
    yield (
        "negative_input_dim",
        model([h.make_node("Relu", ["x"], ["y"])], inputs=[info("x", (1, -7))]),
    )


def tensors():
    yield "dims_overflow", with_weight(weight([1 << 40, 1 << 40], raw=bytes(4)))
    yield "dims_huge", with_weight(weight([1 << 36], raw=bytes(4)))
    yield "dims_huge_no_data", with_weight(weight([1 << 36]))
    yield "negative_dim", with_weight(weight([4, -1], raw=bytes(16)))
    yield "raw_too_short", with_weight(weight([4], raw=bytes(15)))
    yield "raw_too_long", with_weight(weight([4], raw=bytes(17)))
    yield "field_too_short", with_weight(weight([4], float_data=[1, 2, 3]))
    yield "field_of_other_type", with_weight(weight([4], int32_data=[1, 2, 3, 4]))
    yield "int4_too_short", with_weight(weight([5], TensorProto.INT4, raw=bytes(2)))
    yield "string_tensor", with_weight(weight([1], TensorProto.STRING, string_data=[b"a"]))
    yield "float8_tensor", with_weight(weight([1], TensorProto.FLOAT8E4M3FN, raw=bytes(1)))
    yield "constant_without_value", model([h.make_node("Constant", [], ["y"])])
    yield "constant_string", model([h.make_node("Constant", [], ["y"], value_string="a")])
    yield "external_dotdot", external("../../LICENSE")
    yield "external_absolute", external("/etc/hostname")
    yield "external_symlink", external("link_out")
    yield "external_missing", external("not_there.bin")
    yield "external_empty_name", external("")
    yield "external_past_end", external("data_16.bin", 8)
    yield "external_offset_overflow", external("data_16.bin", (1 << 63) - 4)
    yield "external_bad_offset", external("data_16.bin", "-4")
    yield "external_bad_length", external("data_16.bin", 0, 12)
    yield "external_is_folder", external(".")


def uses():
    yield (
        "attribute_kind",
        attribute(
            "Conv", ["x", "w"], h.make_attribute("strides", 1.5), inputs=IMAGE, initializers=KERNEL
        ),
    )
    yield (
        "attribute_list_kind",
        attribute(
            "Conv",
            ["x", "w"],
            h.make_attribute("strides", [1.0, 1.0]),
            inputs=IMAGE,
            initializers=KERNEL,
        ),
    )
    m = node_model("Softmax", ["x"], {"axis": 1})
    m.graph.node[0].attribute.append(m.graph.node[0].attribute[0])
    yield "attribute_twice", m
    yield (
        "attribute_of_function",
        attribute(
            "Softmax",
            ["x"],
            AttributeProto(name="axis", ref_attr_name="a", type=AttributeProto.INT),
        ),
    )
    yield (
        "attribute_of_dialect",
        attribute(
            "Conv",
            ["x", "w"],
            h.make_attribute("channels_last", 1),
            inputs=IMAGE,
            initializers=KERNEL,
        ),
    )
    yield "attribute_subgraph", attribute("Relu", ["x"], h.make_attribute("body", relu().graph))
    yield "too_few_inputs", node_model("Conv", ["x"], inputs=IMAGE)
    yield "too_many_inputs", node_model("Relu", ["x", "x"])
    yield "fused_inputs", node_model("Conv", ["x", "w", "", "x"], inputs=IMAGE, initializers=KERNEL)
    yield "omitted_input", node_model("Add", ["", "x"])
    yield (
        "too_many_outputs",
        model([h.make_node("Relu", ["x"], ["y", "z"])], outputs=[info("y", None), info("z", None)]),
    )
    yield (
        "old_softmax_outputs",
        model(
            [h.make_node("Softmax", ["x"], ["y", "z"], axis=0)],
            opset=11,
            outputs=[info("y", None), info("z", None)],
        ),
    )
    yield "concat_axis", node_model("Concat", ["x", "x"], {"axis": 9})
    yield "softmax_axis", node_model("Softmax", ["x"], {"axis": -3})
    yield "transpose_perm", node_model("Transpose", ["x"], {"perm": [0, 0]})
    yield (
        "matmul_sizes",
        node_model("MatMul", ["x", "w"], initializers=[weight([3, 2], raw=bytes(24))]),
    )
    yield (
        "matmul_scalar",
        node_model(
            "MatMul", ["x", "w"], inputs=[info("x", None)], initializers=[weight([], raw=bytes(4))]
        ),
    )
    yield "add_sizes", node_model("Add", ["x", "w"], initializers=[weight([3], raw=bytes(12))])
    yield (
        "conv_channels",
        node_model("Conv", ["x", "w"], initializers=KERNEL, inputs=[info("x", (1, 4, 8, 8))]),
    )
    yield (
        "conv_kernel_larger",
        node_model("Conv", ["x", "w"], initializers=KERNEL, inputs=[info("x", (1, 3, 2, 2))]),
    )
    yield (
        "conv_zero_stride",
        node_model("Conv", ["x", "w"], {"strides": [0, 0]}, initializers=KERNEL, inputs=IMAGE),
    )
    yield (
        "conv_zero_group",
        node_model("Conv", ["x", "w"], {"group": 0}, initializers=KERNEL, inputs=IMAGE),
    )
    # x does not say its channels; what follows takes the weight apart by its groups.
    yield (
        "conv_groups_of_weight",
        model(
            [
                h.make_node("ConvTranspose", ["x", "w"], ["h"], group=5),
                h.make_node("Mul", ["h", "f"], ["y"]),
            ],
            inputs=[info("x", ("N", "C", 4, 4))],
            initializers=[
                weight([3, 2, 1, 1], raw=bytes(4 * 6)),
                weight([10, 1, 1], raw=bytes(4 * 10), name="f"),
            ],
        ),
    )
    yield (
        "conv_huge_pads",
        node_model("Conv", ["x", "w"], {"pads": [1 << 62] * 4}, initializers=KERNEL, inputs=IMAGE),
    )
    yield "reshape_sizes", node_model("Reshape", ["x", "s"], initializers=[ints("s", [3, 5])])
    yield (
        "split_sizes",
        model(
            [h.make_node("Split", ["x", "s"], ["y", "z"], axis=1)],
            initializers=[ints("s", [1, 1])],
            outputs=[info("y", None), info("z", None)],
        ),
    )
    yield "cast_type", node_model("Cast", ["x"], {"to": 77})
    yield (
        "quantize_one_input",
        node_model("QuantizeLinear", ["x"], outputs=[info("y", None, TensorProto.UINT8)]),
    )


def bombs():
    yield (
        "expand_petabyte",
        model([h.make_node("Expand", ["x", "s"], ["y"])], initializers=[ints("s", [1 << 48, 4])]),
    )
    yield (
        "constant_of_shape_petabyte",
        model(
            [h.make_node("ConstantOfShape", ["s"], ["y"])],
            inputs=[],
            initializers=[ints("s", [1 << 25, 1 << 25])],
        ),
    )
    yield (
        "constant_of_shape_overflow",
        model(
            [h.make_node("ConstantOfShape", ["s"], ["y"])],
            inputs=[],
            initializers=[ints("s", [1 << 40, 1 << 40])],
        ),
    )
    tiles = [
        h.make_node("Tile", ["x" if i == 0 else f"t{i}", "r"], ["y" if i == 5 else f"t{i + 1}"])
        for i in range(6)
    ]
    yield "tile_chain", model(tiles, initializers=[ints("r", [1024, 1024])])
    doubling = [
        h.make_node(
            "Concat", ["x" if i == 0 else f"c{i}"] * 8, ["y" if i == 15 else f"c{i + 1}"], axis=1
        )
        for i in range(16)
    ]
    yield "concat_chain", model(doubling)
    yield (
        "pad_huge",
        node_model("Pad", ["x", "p"], initializers=[ints("p", [0, 1 << 40, 0, 1 << 40])]),
    )
    yield "pad_negative", node_model("Pad", ["x", "p"], initializers=[ints("p", [0, -9, 0, 0])])
    yield (
        "resize_huge",
        node_model(
            "Resize",
            ["x", "", "s"],
            inputs=IMAGE,
            initializers=[weight([4], name="s", float_data=[1, 1, 1e9, 1e9])],
        ),
    )
    yield (
        "range_huge",
        model(
            [h.make_node("Range", ["a", "b", "c"], ["y"])],
            inputs=[],
            outputs=[info("y", None, TensorProto.INT64)],
            initializers=[
                h.make_tensor(n, TensorProto.INT64, [], [v])
                for n, v in (("a", 0), ("b", 1 << 50), ("c", 1))
            ],
        ),
    )
    yield (
        "one_hot_huge",
        model(
            [h.make_node("OneHot", ["i", "d", "v"], ["y"])],
            inputs=[],
            initializers=[
                ints("i", [1]),
                h.make_tensor("d", TensorProto.INT64, [], [1 << 50]),
                weight([2], name="v", float_data=[0, 1]),
            ],
        ),
    )
    yield (
        "input_dim_huge",
        model(
            [h.make_node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2)],
            opset=18,
            inputs=[info("x", (1, (1 << 63) - 1))],
            outputs=[info("y", None), info("z", None)],
        ),
    )
    yield (
        "input_petabyte",
        model([h.make_node("Relu", ["x"], ["y"])], inputs=[info("x", (1 << 25, 1 << 25))]),
    )


def main():
    for group in (structure, subgraphs, operators, values, tensors, uses, bombs):
        for name, content in group():
            data = content if isinstance(content, bytes) else content.SerializeToString()
            if len(data) > 4096:
                sys.exit(f"{name}: {len(data)} bytes, at most 4096")
            with open(os.path.join(HERE, name + ".onnx"), "wb") as file:
                file.write(data)
    with open(os.path.join(HERE, "data_16.bin"), "wb") as file:
        file.write(bytes(16))
    link = os.path.join(HERE, "link_out")
    if not os.path.islink(link):
        os.symlink("../../LICENSE", link)


if __name__ == "__main__":
    main()
