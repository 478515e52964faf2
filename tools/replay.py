"""Compares what two evoq programs make of every model of a folder (see tools/replay.sh).

For each model and recipe: the file that is written, byte by byte; what the command prints, but for
times and paths; the outputs of the written model on made-up inputs, byte by byte; and of some
recipes the decisions, steps and bytes of `explain`, but for measured numbers."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

QUANTIZE = ["quantize", "{model}", "-o", "{out}"]
RANDOM = ["--calib-random", "4"]
# name: (arguments, ending of the written file, whether it is run, whether it is explained)
RECIPES = {
    "compile": (["compile", "{model}", "-o", "{out}"], ".etm", True, True),
    "optimize": (["optimize", "{model}", "-o", "{out}"], ".onnx", False, False),
    "int8": ([*QUANTIZE, "--scheme", "int8", *RANDOM], ".etm", True, True),
    "int8-entropy": (
        [*QUANTIZE, "--scheme", "int8", "--observer", "entropy", "--signed", *RANDOM],
        ".etm",
        True,
        False,
    ),
    "int8-tensor": ([*QUANTIZE, "--scheme", "int8", "--per-tensor", *RANDOM], ".etm", True, False),
    "int8-ort": (
        [*QUANTIZE, "--scheme", "int8", "--target", "ort", *RANDOM],
        ".onnx",
        False,
        False,
    ),
    "int8-dynamic": ([*QUANTIZE, "--scheme", "int8-dynamic"], ".etm", True, True),
    "int8-weights": ([*QUANTIZE, "--scheme", "int8-weights"], ".etm", True, False),
    "bf16": ([*QUANTIZE, "--scheme", "bf16"], ".etm", True, True),
}
# Measured on this machine, now: no part of what must be equal.
MEASURED = re.compile(
    r"^(ms|share|gops|busy|disturbance|roofline_share|beyond_roofline|time|compare|seconds|"
    r"total_ms|.*_ms|.*_s|.*_rss_bytes)$"
)

DTYPES = {  # of .npy files: name, struct's code, how a made-up element is drawn
    "float32": ("<f4", "f", lambda r: r.uniform(-1, 1)),
    "float64": ("<f8", "d", lambda r: r.uniform(-1, 1)),
    "float16": ("<f2", "e", lambda r: r.uniform(-1, 1)),
    "int64": ("<i8", "q", lambda r: r.randrange(2)),
    "int32": ("<i4", "i", lambda r: r.randrange(2)),
    "int16": ("<i2", "h", lambda r: r.randrange(2)),
    "int8": ("|i1", "b", lambda r: r.randrange(-100, 100)),
    "uint8": ("|u1", "B", lambda r: r.randrange(256)),
    "bool": ("|b1", "?", lambda r: bool(r.randrange(2))),
}


def made_up_input(path, dtype, shape, seed):
    """Writes a .npy file of random elements; free sizes are 1, but 8 behind the first axis."""
    name, code, draw = DTYPES[dtype]
    sizes = [
        size if isinstance(size, int) and size >= 0 else (1 if i == 0 else 8)
        for i, size in enumerate(shape)
    ]
    count = 1
    for size in sizes:
        count *= size
    generator = random.Random(seed)
    header = f"{{'descr': '{name}', 'fortran_order': False, 'shape': {tuple(sizes)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = struct.pack(f"<{count}{code}", *(draw(generator) for _ in range(count)))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def without_measured(value):
    if isinstance(value, dict):
        return {k: without_measured(v) for k, v in value.items() if not MEASURED.match(k)}
    if isinstance(value, list):
        return [without_measured(v) for v in value]
    return value


def without_times(text, folder):
    text = text.replace(str(folder), "DIR")
    return re.sub(r"[-+]?\d[\d.]*( ?)(ms|us|ns|s)\b", r"T\1\2", text)


def difference(a, b):
    """Where two texts or byte strings first differ, in a few words."""
    if isinstance(a, bytes):
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        return f"{len(a)} and {len(b)} bytes, first difference at {at}"
    for x, y in zip(a.splitlines() + [""], b.splitlines() + [""]):
        if x != y:
            return f"{x.strip()[:200]!r} and {y.strip()[:200]!r}"
    return "one is longer"


class Side:
    """One program's results for one model and recipe: names and texts or bytes, in order."""

    def __init__(self, evoq, folder, env, renamed):
        self.evoq, self.folder, self.env, self.renamed = evoq, folder, env, renamed
        self.results = {}

    def call(self, name, arguments):
        done = subprocess.run(
            [self.evoq, *arguments, "--threads", "1"],
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self.folder,
        )
        self.results[name] = without_times(
            f"status {done.returncode}\n{done.stdout}\n{done.stderr}", self.folder
        )
        return done.returncode == 0

    def run(self, model, recipe, seconds):
        arguments, ending, runs, explains = RECIPES[recipe]
        out = self.folder / f"out{ending}"
        filled = [a.format(model=model, out=out) for a in arguments]
        if not self.call("printed", filled):
            return
        self.results["file"] = out.read_bytes()
        if runs:
            self.run_written(out)
        if explains:
            self.explain(out, seconds)

    def run_written(self, etm):
        about = self.folder / "about.json"
        if not self.call("inspect", ["inspect", str(etm), "--json", str(about)]):
            return
        inputs = json.loads(about.read_text())["inputs"]
        given = []
        for i, description in enumerate(inputs):
            if description["dtype"] not in DTYPES:
                self.results["run"] = f"not run: input of {description['dtype']}"
                return
            path = self.folder / f"input_{i}.npy"
            made_up_input(path, description["dtype"], description["shape"], i)
            given += ["--input", f"{description['name']}={path}"]
        outputs = self.folder / "outputs"
        if self.call("run", ["run", str(etm), *given, "--output-dir", str(outputs)]):
            for path in sorted(outputs.glob("*.npy")):
                self.results[f"output {path.name}"] = path.read_bytes()

    def explain(self, etm, seconds):
        about = self.folder / "explained.json"
        arguments = ["explain", str(etm), "--duration-s", str(seconds), "--json", str(about)]
        if not self.call("explain", arguments):
            return
        # Of the text, what tells no times: the float steps and the bytes.
        text = self.results.pop("explain")
        kept = re.search(r"^(steps that could|every step that could).*", text, re.M | re.S)
        self.results["explain"] = kept.group(0) if kept else ""
        explained = without_measured(json.loads(about.read_text()))
        self.results["explain --json"] = json.dumps(explained, indent=1)
        for name in ("explain", "explain --json"):
            for old, new in self.renamed:
                self.results[name] = self.results[name].replace(old, new)


def compare(before, after, model, recipe, options):
    """What differs between the two for a model and a recipe, as lines; and whether both made it."""
    sides = []
    with tempfile.TemporaryDirectory(prefix="evoq_replay_") as base:
        for name, evoq in (("before", before), ("after", after)):
            # Folders of one length: paths stand in what is printed.
            folder = pathlib.Path(base) / name[:5].ljust(6, "_")
            folder.mkdir()
            env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
            side = Side(evoq, folder, env, [r.split("=", 1) for r in options.renamed])
            side.run(model, recipe, options.seconds)
            sides.append(side)
    a, b = (side.results for side in sides)
    lines = []
    for name in {**a, **b}:
        if name not in a or name not in b:
            lines.append(f"{name}: only {'before' if name in a else 'after'}")
        elif a[name] != b[name]:
            lines.append(f"{name}: {difference(a[name], b[name])}")
    return lines, a["printed"].startswith("status 0")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", help="an evoq program")
    parser.add_argument("after", help="another one")
    parser.add_argument(
        "--data", default=os.environ.get("EVOQ_DATA", ROOT / "../shared/data"), help="models"
    )
    parser.add_argument("--only", default="", help="models whose path has this text")
    parser.add_argument("--recipe", action="append", choices=RECIPES, help="only these")
    parser.add_argument(
        "--renamed",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="explanations that say OLD on one side mean NEW: the exceptions of a change",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=0.05, help="of each explain")
    options = parser.parse_args()
    before, after = (str(pathlib.Path(p).resolve()) for p in (options.before, options.after))
    models = sorted(pathlib.Path(options.data).resolve().glob("**/*.onnx"))
    models = [m for m in models if "onnx-backend-tests" not in m.parts and options.only in str(m)]
    if not models:
        print(f"replay: no model in {options.data}", file=sys.stderr)
        return 2
    tasks = [(m, r) for m in models for r in options.recipe or RECIPES]
    equal = different = refused = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(compare, before, after, m, r, options) for m, r in tasks]
        for (model, recipe), future in zip(tasks, running):
            lines, worked = future.result()
            refused += not worked
            if lines:
                different += 1
                print(f"{model.name} {recipe}:", *lines, sep="\n  ", flush=True)
            else:
                equal += 1
    print(f"{len(models)} models, {refused} cases refused by both or one")
    print(f"{equal} equal, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
