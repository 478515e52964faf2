#!/usr/bin/env python3
"""Holds knowledge in rows.

Of operators: no statement outside src/ops, src/reference, src/onnx, src/tflite and src/zoo names
two operators, but in the files listed here with the reason. What a list of names would answer
(which input is the weight, how axes pass through, ...) is a field of OpDef (src/ops/op.h,
src/ops/roles.h).

Of instruction sets: no code asks whether a set is a certain one, so that a new set falls to the
next row of each kernel family and to no `else` (src/kernels/isa_table.h).

Of the rows themselves: each names its fields (`.name = ...`), those of list files as those of
kernel families."""

import re
import sys

from agree import ROOT

# Rooms that are about operators by name: their definitions, files of models, generated models.
ABOUT_NAMES = ("src/ops/", "src/reference/", "src/onnx/", "src/tflite/", "src/zoo/")

ALLOWED = {  # files: why they name operators
    "src/foreign/profiles/ort_profile.cc": "names in another tool's files",
    "src/llm/pooling.cc": "the operators of the names that torch has for activations",
    "src/nn/layers/tokens.cc": "the operators of the names that networks have for activations",
    "src/kernels/activation.cc": "the names that attributes and files have for activations",
    "src/kernels/move/views.cc": "rows of kernels: each names its operator",
    "src/kernels/norm/norm_bf16.cc": "rows of kernels: each names its operator",
    "src/kernels/norm/normalize.cc": "rows of kernels: each names its operator",
    "src/kernels/pool/pool.cc": "rows of kernels: each names its operator",
    "src/kernels/recurrent/sequence.cc": "the names that attributes have for activations",
    "src/kernels/slower.cc": "rows of kernels: each names its operator",
    "src/passes/lower_einsum.cc": "what constant weights come from, and what it becomes",
    "src/passes/lower_lp_normalization.cc": "what its definition is written with",
    "src/passes/lower_normalization.cc": "what definitions are written with",
    "src/passes/lower_selection.cc": "what definitions are written with",
    "src/passes/lower_log_sum_exp.cc": "what its definition is written with",
    "src/passes/transposed_narrow.cc": "what puts places into order on one axis",
    "src/passes/fold_bias.cc": "a pattern: a product, then a sum or difference",
    "src/passes/fold_scale.cc": "a pattern: a product, then a factor or divisor",
    "src/passes/fit_kernels.cc": "which types have an integer definition differs by operator",
    "src/passes/fuse_attention.cc": "the pattern that exporters write for attention",
    "src/passes/fuse_layer_norm.cc": "the pattern that exporters write for a normalization",
    "src/passes/fuse_pad.cc": "what zeros around the input mean differs by operator",
    "src/passes/fuse_rotary.cc": "the pattern that exporters write for a rotary embedding",
    "src/passes/merge_constants.cc": "a pattern of sums and products",
    "src/passes/products.h": "a pattern of factors and divisors",
    "src/passes/remove_identity.cc": "each operator passes its input on in its own case",
    "src/foreign/forecasts/qdq.cc": "means whose integer forms other runtimes have",
    "src/foreign/forecasts/rules/kernels.cc": "operators that other runtimes compute slowly",
    "src/foreign/forecasts/rules/placement.cc": "operators between whose pairs other runtimes fuse",
    "src/foreign/forecasts/rules/split.cc": "activations without an integer form elsewhere",
    "src/foreign/forecasts/runtimes/openvino.cc": "what another runtime computes in integers",
    "src/foreign/forecasts/runtimes/ort_cpu.cc": "what another runtime computes in integers",
    "src/foreign/forecasts/runtimes/ort_cuda.cc": "what another runtime has kernels for",
    "src/foreign/forecasts/runtimes/ort_graph.cc": "what another runtime's optimizer does",
    "src/foreign/forecasts/runtimes/tensorrt.cc": "what another runtime computes in integers",
    "src/quant/assume.cc": "a guess of ranges where nothing was measured",
    "src/quant/logarithm.cc": "functions behind which relative errors matter",
    "src/quant/plain_arithmetic.cc": "differences and quotients as sums and products",
}


ISA_ALLOWED = {  # files: why they compare sets of features
    "src/predict/cost.cc": "constants are looked up by the set that they were fitted on",
    "src/profile/limits_file.cc": "measured figures hold for the set that they were measured on",
}
ISA_COMPARED = re.compile(r"\bisa\s*[!=]=|[!=]=\s*Isa::k|\bcase Isa::k")


ROW_TYPE = re.compile(r"#define EVOQ_ROW_TYPE (\w+)|EVOQ_ISA_TABLE\((\w+)\)|IsaRow<(\w+)>")
ROW = re.compile(r"\bconst(?:expr)? (\w+) (\w+) ?(?:= ?)?\{(?:[\s\\]|//[^\n]*\n)*([^\s\\])")
FAMILY_ROW = re.compile(r"\{Isa::\w+, (?:&[\w:#]+(?:\(\))?|nullptr)\}")


def row_types(texts):
    """The types of which list files and kernel families have rows."""
    found = {name for text in texts for match in ROW_TYPE.findall(text) for name in match if name}
    return found - {"Table", "symbol"}  # parameters


def positional(text, types):
    """Rows of these types whose fields have no names, and the lines they begin at."""
    rows = [
        (text.count("\n", 0, row.start()) + 1, row[2])
        for row in ROW.finditer(text)
        if row[1] in types and row[3] not in ".}"
    ]
    rows += [(text.count("\n", 0, r.start()) + 1, "of a family") for r in FAMILY_ROW.finditer(text)]
    return rows


def operators():
    """The names of all operators, from their rows."""
    names = set()
    for path in sorted((ROOT / "src/ops").glob("*.cc")):
        text = path.read_text(encoding="utf-8")
        names |= set(re.findall(r'\.name = "(\w+)"', text))
        names |= set(
            re.findall(r'^extern const OpDef \w+ =\s*\w+(?:<[^;]*?>)?\("(\w+)"', text, re.M)
        )
    return names


def lists(text, names):
    """Lines at which a statement names two operators, and which."""
    text = re.sub(r"//[^\n]*", "", text)
    found = []
    for statement in re.finditer(r"[^;{}]*(?:\{[^{};]*\}[^;{}]*)*[;{}]", text):
        quoted = sorted({n for n in re.findall(r'"(\w+)"', statement[0]) if n in names})
        if len(quoted) >= 2:
            skipped = len(statement[0]) - len(statement[0].lstrip())
            found.append((text.count("\n", 0, statement.start() + skipped) + 1, quoted))
    return found


def check_reader(names):
    """A list is told from two statements with a name each."""
    assert {"Conv", "MatMul", "Relu", "ReduceSum", "Sub", "Max", "IsNaN"} <= names, names
    condition = 'bool f() {\n  return op == "Conv" ||\n         op == "MatMul";\n}'
    assert lists(condition, names) == [(2, ["Conv", "MatMul"])], lists(condition, names)
    assert lists('for (const char* op : {"Relu", "Conv"}) {', names)
    assert not lists('if (op == "Conv") return 1;\nif (op == "Relu") return 2;', names)
    assert ISA_COMPARED.search("if (isa == Isa::kAvx2)") and ISA_COMPARED.search("x != Isa::kAvx2")
    assert not ISA_COMPARED.search("Isa isa = Isa::kScalar; isa.Has(Isa::kAvx2)")
    assert not lists('// "Conv", "Relu"\nf("Conv", "other", "Conv");', names)
    types = row_types(["#define EVOQ_ROW_TYPE PassDef\nEVOQ_ISA_TABLE(DwTable)"])
    assert types == {"PassDef", "DwTable"}, types
    assert positional('\nextern const PassDef kFold = {\n    "fold", Run};', types) == [
        (2, "kFold")
    ]
    assert positional("#define X(a) \\\n  const DwTable a = { \\\n      Rows}", types) == [(2, "a")]
    assert positional("rows[] = {{Isa::kAvx2, &table}};", types)
    assert not positional("const PassDef kFold = {  // it folds\n    .run = Run};", types)
    assert not positional("const Other kOne = {1}; const PassDef kNone = {};", types)


def main():
    names = operators()
    check_reader(names)
    errors, seen, files = [], set(), 0
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "src").rglob("*"))
        if path.suffix in (".cc", ".h")
    }
    types = row_types(texts.values())
    for path, text in texts.items():
        for line, row in positional(text, types):
            name = path.relative_to(ROOT)
            errors.append(f"{name}:{line}: the row {row} is positional; expected .field = value")
    for path in sorted((ROOT / "src").rglob("*")):
        name = str(path.relative_to(ROOT))
        test = re.search(r"_(test|testing|bench)\.\w+$|/(test|bench)_\w+\.h$|/must_fail/", name)
        if path.suffix not in (".cc", ".h") or name.startswith(ABOUT_NAMES) or test:
            continue
        files += 1
        text = path.read_text(encoding="utf-8")
        for line, content in enumerate(text.split("\n"), 1):
            if ISA_COMPARED.search(content) and name not in ISA_ALLOWED:
                errors.append(
                    f"{name}:{line}: compares instruction sets; expected Isa::Has or rows"
                )
        for line, quoted in lists(text, names):
            seen.add(name)
            if name not in ALLOWED:
                errors.append(
                    f"{name}:{line}: names {', '.join(quoted)}; expected a question to OpDef"
                )
    errors += [f"{name}: listed here, but names no two operators" for name in ALLOWED.keys() - seen]
    for error in errors:
        print(error)
    print(
        f"{len(names)} operators, {files} files, {len(ALLOWED)} allowed, "
        f"{len(types)} types of rows, {len(errors)} errors"
    )
    return 1 if errors or len(names) < 100 or files < 200 or len(types) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
