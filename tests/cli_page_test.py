#!/usr/bin/env python3
"""Holds docs/cli.md and the program to each other: the options are those of the program's own help
(EVOQ_UPDATE_GOLDENS=1 writes them anew), the verbs give the JSON fields that the page names, and
exit codes are as it says."""

import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import textwrap

from agree import EVOQ, ROOT, verbs

PAGE = ROOT / "docs/cli.md"
HEADING = "## Options\n"
QUICK = ["--duration-s", "0.02"]
CALIB = ["--calib-random", "2"]
PROGRAMS = ("graph_opt", "atc", "benchmark", "perf_compare")


def run(*arguments, status=0, folder=None):
    done = subprocess.run([EVOQ, *arguments], capture_output=True, text=True, cwd=folder)
    if done.returncode != status:
        sys.exit(
            f"evoq {' '.join(arguments)}: exit code {done.returncode}, expected {status}\n"
            f"{done.stderr}"
        )
    return done.stdout


def narrow(text):
    """Help in lines of at most 100 columns: what an option says goes on below its beginning."""
    column = " " * 30  # where the program writes it
    lines = [
        textwrap.wrap(line, 100, subsequent_indent=column, break_on_hyphens=False) or [""]
        for line in text.splitlines()
    ]
    return "\n".join(part for wrapped in lines for part in wrapped)


def options():
    """The second half of the page."""
    parts = []
    for verb in verbs():
        text = narrow(run(verb, "--help").replace(EVOQ, "evoq"))
        parts.append(f"### evoq {verb}\n\n```\n{text.strip()}\n```\n")
    return "\n".join(parts)


def documented_fields(page):
    """The rows of the table of fields: what is run, and the fields."""
    rows = {}
    for line in page.split("## JSON")[1].split(HEADING)[0].splitlines():
        cells = re.fullmatch(r"\| `([a-z_ -]+)` \| (.*) \|", line)
        if cells:
            rows[cells[1]] = re.findall(r"`([^`]+)`", cells[2])
    return rows


def missing(value, field):
    """Whether the JSON value lacks the field: every element of a list has it."""
    if field.startswith("[]"):
        if not isinstance(value, list) or not value:
            return True
        return any(missing(v, field[3:]) for v in value)
    name, _, rest = field.partition(".")
    is_list = name.endswith("[]")
    name = name.removesuffix("[]")
    if not isinstance(value, dict) or name not in value:
        return True
    if not rest:
        return False
    return missing(value[name], "[]." + rest if is_list else rest)


def check_missing():
    value = {"a": [{"b": 1}, {"b": 2, "c": 3}], "d": {"e": None}}
    for field, wrong in [("a", 0), ("a[].b", 0), ("a[].c", 1), ("d.e", 0), ("d.f", 1), ("g", 1)]:
        assert missing(value, field) == bool(wrong), field
    assert not missing([{"n": 1}], "[].n") and missing([], "[].n")


def write_language_model(path):
    """A checkpoint of llama2.c whose weights are zeros."""
    width, inner, layers, heads, kv_heads, words, context = sizes = (8, 8, 1, 2, 1, 4, 16)
    keys = kv_heads * width // heads
    layer = 2 * width + 2 * width * width + 2 * keys * width + 3 * inner * width
    floats = words * width + layers * layer + width + context * width // heads
    path.write_bytes(struct.pack("<7i", *sizes) + bytes(4 * floats))


def write_digits(folder):
    """A few of MNIST's files, of zeros."""
    folder.mkdir()
    head = struct.pack(">4B3I", 0, 0, 8, 3, 64, 28, 28)
    (folder / "train-images-idx3-ubyte").write_bytes(head + bytes(64 * 28 * 28))
    labels = bytes(i % 10 for i in range(64))
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 64) + labels)


def results(folder):
    """The JSON of each row of the table."""
    run("zoo", "lenet", "-o", "lenet.onnx", "--json", "zoo.json", folder=folder)
    quantize = ["quantize", "lenet.onnx", "-o", "lenet.etm", *CALIB]
    commands = {
        "inspect": ["inspect", "lenet.onnx"],
        "optimize": ["optimize", "lenet.onnx", "-o", "optimized.onnx"],
        "compile": ["compile", "lenet.onnx", "-o", "float.etm"],
        "tune": ["tune", "lenet.onnx", "-o", "tuned.etm", "--duration-s", "0.3"],
        "calibrate": ["calibrate", "lenet.onnx", "-o", "ranges.json", "--calib-random", "2"],
        "quantize": quantize,
        "bench": ["bench", "lenet.etm", *QUICK],
        "bench --stream-priority": ["bench", "lenet.etm", "--stream-priority", "1,0", *QUICK],
        "bench of a language model": ["bench", "lm.bin", *QUICK],
        "explain of a language model": ["explain", "lm.bin", *QUICK],
        "inspect of a language model": ["inspect", "lm.bin"],
        "profile": ["profile", "lenet.etm", *QUICK],
        "explain": ["explain", "lenet.etm", "--baseline", "lenet.onnx", *QUICK],
        "explain --target": ["explain", "lenet.onnx", "--target", "ort-cpu"],
        "compare": ["compare", "lenet.onnx", "lenet.etm", *QUICK],
        "diff": ["diff", "lenet.onnx", "lenet.etm", "--random", "2", "--bad", "200"],
        "sensitivity": ["sensitivity", "lenet.onnx", "--random", "2", "--min-sqnr", "200"],
        "predict": ["predict", "lenet.onnx"],
        "limits": ["limits"],
        "generate": ["generate", "lm.bin", "--prompt-tokens", "1,2", "--max-tokens", "2"],
        "tokenize": ["tokenize", "t.vocab", "a"],
        "list ops": ["list", "ops"],
        "prune": ["prune", "lenet.onnx", "-o", "pruned.onnx"],
        "quantize a pruned model": ["quantize", "pruned.onnx", "-o", "pruned.etm", *CALIB],
        "explain of a pruned model": ["explain", "pruned.etm", *QUICK],
        "prune of channels": ["prune", "lenet.onnx", "--pattern", "channel", "-o", "fewer.onnx"],
        "graph_opt": ["graph_opt", "--config", "config.json", "--optimize"],
        "atc": ["atc", "--model=optimized.onnx", "--output=atc"],
        "benchmark": ["benchmark", "--model=atc.om", "--output=perf", *QUICK],
        "perf_compare": ["perf_compare", "--baseline=perf", "--optimized=perf"],
        "train": ["train", "lenet", "--data", "digits", "--epochs", "1", "-o", "trained.onnx"],
    }
    write_language_model(folder / "lm.bin")
    write_digits(folder / "digits")
    models = {"input_model": "lenet.onnx", "output_model": "optimized.onnx"}
    (folder / "config.json").write_text(json.dumps({"model_info": models}))
    (folder / "t.vocab").write_text("<unk>\t0\n<s>\t0\na\t0\n")
    found = {"zoo": json.loads((folder / "zoo.json").read_text())}
    for name, arguments in commands.items():
        path = folder / "result.json"
        run(*arguments, "--json", str(path), folder=folder)
        found[name] = json.loads(path.read_text())
    about = found["inspect"]["inputs"][0]
    count = 1
    for size in about["shape"]:
        count *= size if isinstance(size, int) else 1
    shape = tuple(size if isinstance(size, int) else 1 for size in about["shape"])
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    (folder / "x.npy").write_bytes(data + bytes(4 * count))
    arguments = ["run", "lenet.etm", "--input", "x.npy", "--topk", "2", "--json", "result.json"]
    run(*arguments, folder=folder)
    found["run"] = json.loads((folder / "result.json").read_text())
    return found


def main():
    check_missing()
    page = PAGE.read_text(encoding="utf-8")
    head = page.split(HEADING)[0]
    wanted = head + HEADING + "\n" + options()
    errors = []
    if os.environ.get("EVOQ_UPDATE_GOLDENS"):
        PAGE.write_text(wanted, encoding="utf-8")
    elif page != wanted:
        pairs = zip(page.splitlines(), wanted.splitlines())
        at = next((i for i, (a, b) in enumerate(pairs, 1) if a != b), "the end")
        errors.append(
            f"docs/cli.md differs from the program's help at {at}: EVOQ_UPDATE_GOLDENS=1 "
            f"tests/cli_page_test.py writes it"
        )
    rows = documented_fields(page)
    with tempfile.TemporaryDirectory(prefix="evoq_cli_") as name:
        folder = pathlib.Path(name)
        os.environ["EVOQ_LIMITS_CACHE"] = str(folder / "limits.json")
        found = results(folder)
        for row, fields in rows.items():
            for field in fields:
                if missing(found[row], field):
                    errors.append(f"evoq {row} --json: no field {field}, which docs/cli.md names")
        # Exit codes: bad usage, bad input, a stated condition.
        run("inspekt", status=2)
        run("bench", "lenet.etm", "--no-such-option", status=2, folder=folder)
        (folder / "broken.onnx").write_bytes(b"\x00broken")
        run("inspect", "broken.onnx", status=3, folder=folder)
        run("inspect", "missing.onnx", status=3, folder=folder)
        impossible = ["--calib-random", "2", "--min-sqnr", "300", "--measure-s", "0.05"]
        run("quantize", "lenet.onnx", "-o", "n.etm", *impossible, status=1, folder=folder)
        # A regression, by made-up times: the figures are written although the exit code is 1.
        run("bench", "lenet.etm", "--export-times", "a.json", *QUICK, folder=folder)
        measured = json.loads((folder / "a.json").read_text())[0]
        for name, ms in (("a.json", 1.0), ("b.json", 3.0)):
            times = [
                {k: ms + 0.001 * (i % 5) if k.endswith("Ms") else v for k, v in measured.items()}
                for i in range(40)
            ]
            (folder / name).write_text(json.dumps(times))
        compare = ["compare", "a.json", "b.json", "--fail-slower", "10", "--json", "c.json"]
        run(*compare, status=1, folder=folder)
        diff = ["diff", "lenet.onnx", "lenet.etm", "--random", "1"]
        run(*diff, "--min-sqnr", "200", "--json", "d.json", status=1, folder=folder)
        if not json.loads((folder / "d.json").read_text())["values"]:
            errors.append("evoq diff --min-sqnr: the JSON has no values")
        if json.loads((folder / "c.json").read_text())["verdict"] != "slower":
            errors.append("evoq compare --fail-slower: the JSON does not say slower")
        for program in PROGRAMS:  # links of these names to the program
            link = pathlib.Path(EVOQ).parent / program
            said = subprocess.run([link, "--help"], capture_output=True, text=True).stdout
            if said != run(program, "--help").replace(EVOQ, "evoq"):
                errors.append(f"{program} --help: not what evoq {program} --help says")
        for verb in verbs():
            example = re.search(r"Example:\n  (evoq .*)", run(verb, "--help"))
            if not example or f"evoq {verb}" not in example[1]:
                errors.append(f"evoq {verb} --help: no example")
    for verb, path in re.findall(r"evoq (\w+) \S+ --json - \| jq \.([\w.]+)", page):
        if not any(re.split(r"[.\[]", field)[0] == path for field in rows.get(verb, [])):
            errors.append(f"evoq {verb} --json - | jq .{path}: there is no such field")
    for error in errors:
        print(error)
    print(f"{len(verbs())} verbs, {sum(map(len, rows.values()))} fields, {len(errors)} errors")
    return 1 if errors or len(rows) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
