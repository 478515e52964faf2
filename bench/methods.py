#!/usr/bin/env python3
"""What quantization methods buy: accuracy or perplexity, seconds and memory of the quantization,
for each model, scheme and method. With --write each row goes into its model's table in
docs/methods.md as soon as it is measured; other rows stay.

    bench/methods.py [--models GLOB] [--schemes GLOB] [--methods GLOB] [--samples N]
                     [--limit WINDOWS] [--write]

Language models calibrate on the second half of the text and are evaluated on windows of the first.
Classifiers calibrate on every fifth image and are evaluated on the others, those of CIFAR-10 on
training and test images; magika on every second of its 76 files and on the others."""

import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import vision

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("EVOQ_DATA", ROOT / "../shared/data"))
EVOQ = os.environ.get("EVOQ", str(ROOT / "build/release/bin/evoq"))
PAGE = ROOT / "docs/methods.md"
BEGIN, END = "<!-- bench/methods.py -->\n", "<!-- end -->\n"

ROUNDING = ["none", "gptq", "adaround", "quantease", "gptq,quantease"]
WEIGHTS = ["awq", "hadamard", "clip", "seqmse", "awq,quantease", "clip,quantease"]


class LanguageModel:
    """Perplexity."""

    header = "perplexity"

    def __init__(self, checkpoint, tokenizer):
        self.path = DATA / "llm" / checkpoint
        self.tokenizer = ["--tokenizer", DATA / "llm" / tokenizer]
        self.rows = [("float32", "none")]
        self.rows += [("int8-weights", method) for method in ("none", "gptq")]
        self.rows += [("int4-weights", method) for method in ROUNDING + WEIGHTS]
        self.rows += [("int4-weights", "brecq"), ("int4-dynamic", "gptq,quantease")]
        self.rows += [
            (scheme, method)
            for scheme in ("nf4-weights", "nvfp4-weights")
            for method in ("none", "gptq,quantease")
        ]
        self.rows += [("uint4-weights", method) for method in ("none", "hqq")]
        self.rows += [("int2-weights", method) for method in ("none", "hqq", "gptq,quantease")]

    def samples(self, options, work):
        text = work / "calibration.txt"
        whole = (DATA / "text/tinystories_sample.txt").read_bytes()
        text.write_bytes(whole[len(whole) // 2 :])
        return ["--text", text, *self.tokenizer, "--calib-limit", options.samples]

    def score(self, model, options, work):
        text = DATA / "text/tinystories_sample.txt"
        told = run_json(
            work, "eval", model, "--text", text, *self.tokenizer, "--limit", options.limit
        )
        return told["perplexity"]

    @staticmethod
    def show(value, exact):
        return f"{value:.3f} ({100 * (value / exact - 1):+.2f}%)"


class Classifier:
    """Top-1 of labelled images."""

    header = "top-1"

    def __init__(self, name, rows, calib=None, data=None):
        self.path = DATA / "models" / f"{name}.onnx"
        self.calib, self.data = calib, data  # files; None: the folder of images, in two parts
        preprocess = DATA / "models" / f"{name}.preprocess.json"
        self.preprocess = ["--preprocess", preprocess] if preprocess.exists() else []
        self.rows = [("float32", "none"), *rows]

    def samples(self, options, work):
        calib = DATA / self.calib if self.calib else part_of_images(work, 0)
        return ["--calib", calib, *self.preprocess, "--calib-limit", options.samples]

    def score(self, model, options, work):
        data = ["--data", DATA / self.data] if self.data else ["--data", part_of_images(work, 1)]
        labels = [] if self.data else ["--labels", DATA / "images/labels.tsv"]
        told = run_json(work, "eval", model, *data, *labels, *self.preprocess)
        return told["top1"]

    @staticmethod
    def show(value, exact):
        return f"{value:.3f} ({100 * (value - exact):+.1f} points)"


class Magika(Classifier):
    """Of its own files, half for each."""

    def samples(self, options, work):
        return ["--calib", vision.halves_of_magika(DATA, work)[0]]

    def score(self, model, options, work):
        data = vision.halves_of_magika(DATA, work)[1]
        return run_json(work, "eval", model, "--data", data)["top1"]


def part_of_images(work, part):
    """A folder of every fifth image (0), or of the others (1)."""
    folder = work / f"images{part}"
    if not folder.exists():
        folder.mkdir()
        for i, image in enumerate(sorted((DATA / "images/imagenet").iterdir())):
            if (i % 5 == 0) == (part == 0):
                (folder / image.name).symlink_to(image.resolve())
    return folder


# Without samples.
FREE = [(scheme, "none") for scheme in ("bf16", "int8-weights", "int8-dynamic", "int16x8-dynamic")]
INT8 = [
    *FREE,
    ("int16x8", "none"),
    ("int8", ""),
    ("int8", "none"),
    ("int8", "equalize,gptq,bias-correction"),
    ("int8", "equalize,adaround,bias-correction"),
    ("int8", "equalize,quantease,bias-correction"),
    ("int8 --per-tensor", ""),
    ("int8 --per-tensor", "gptq,bias-correction"),
    ("int8 --per-tensor", "adaround,bias-correction"),
    ("int8 --weight-bits 4", "none"),
    ("int8 --weight-bits 4", "equalize,gptq,bias-correction"),
    ("int8 --weight-bits 4", "cle,seqmse,gptq,bias-correction"),
    ("int8 --weight-bits 4", "cle,seqmse,gptq,brecq"),
]
CIFAR = ("cifar10/train_5000.bin", "cifar10/test_1000.bin")

MODELS = {
    "stories260K": LanguageModel("stories260K.bin", "tok512.bin"),
    "babyllama105": LanguageModel("babyllama105_model5000.bin", "tok105.vocab"),
    "mobilenetv2": Classifier("mobilenetv2", INT8),
    "squeezenet1.1": Classifier("squeezenet1.1", INT8),
    "tiny_darknet": Classifier("tiny_darknet", INT8),
    "resnet20_cifar10": Classifier("resnet20_cifar10", INT8, *CIFAR),
    "resnet56_cifar10": Classifier("resnet56_cifar10", INT8, *CIFAR),
    "magika": Magika("magika_standard_v3_3", INT8),
}


def run(*arguments):
    """Seconds and the largest resident memory, in MB, of a run of evoq."""
    begun = time.monotonic()
    with subprocess.Popen(
        [EVOQ, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        message = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"evoq {' '.join(map(str, arguments))}: {message.strip()}")
    return time.monotonic() - begun, usage.ru_maxrss / 1024


def run_json(work, *arguments):
    path = work / "told.json"
    run(*arguments, "--json", path)
    return json.loads(path.read_text(encoding="utf-8"))


def measure(model, options, work):
    """Scheme, method and line of each row."""
    exact = None
    for scheme, method in model.rows:
        asked = fnmatch.fnmatch(scheme, options.schemes) and fnmatch.fnmatch(
            method, options.methods
        )
        if exact is not None and not asked:
            continue
        output = work / "q.etm"
        words = ["--scheme", *scheme.split(), *(["--method", method] if method else [])]
        needed = scheme.split()[0] in ("int8", "int16x8") or method not in ("", "none")
        samples = model.samples(options, work) if needed else []
        seconds, megabytes = run("quantize", model.path, *words, *samples, "-o", output)
        value = model.score(output, options, work)
        exact = value if exact is None else exact
        yield (
            f"{begin(scheme, method)}{model.show(value, exact)} | {seconds:.1f} | {megabytes:.0f} |"
        )


def begin(scheme, method):
    """Of a row: no two of a model's have the same."""
    return f"| `{scheme}` | {f'`{method}`' if method else '(default)'} | "


def write(name, line):
    """Puts a row into its model's table on the page, which keeps the others in the order of
    MODELS."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    old, tail = rest.split(END)
    lines = {}
    part = ""
    for kept in old.splitlines():
        if kept.rstrip(":") in MODELS:
            part = kept.rstrip(":")
        lines.setdefault(part, []).append(kept)
    lines.setdefault(name, []).append(line)
    tables = []
    for each, model in MODELS.items():
        rows = []
        for row in model.rows:
            found = [kept for kept in lines.get(each, []) if kept.startswith(begin(*row))]
            rows += found[-1:]
        if rows:
            header = f"| scheme | method | {model.header} | seconds | MB |\n|---|---|---|---|---|"
            tables.append("\n".join([f"{each}:\n", header, *rows]))
    text = "\n\n".join(tables)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n\n{END}{tail}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="*", help="a glob pattern of names")
    parser.add_argument("--schemes", default="*", help="and their options; float32 always")
    parser.add_argument("--methods", default="*", help="float32 always")
    parser.add_argument("--samples", type=int, default=64, help="of the calibration")
    parser.add_argument("--limit", type=int, default=60, help="windows of 256 tokens to evaluate")
    parser.add_argument("--write", action="store_true", help="rows into docs/methods.md")
    options = parser.parse_args()
    if not DATA.is_dir():
        print(f"skipped: no data folder {DATA} (set EVOQ_DATA)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        for name, model in MODELS.items():
            if not fnmatch.fnmatch(name, options.models):
                continue
            print(f"\n{name}:")
            for line in measure(model, options, pathlib.Path(folder)):
                print(line, flush=True)
                if options.write:
                    write(name, line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
