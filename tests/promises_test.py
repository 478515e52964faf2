#!/usr/bin/env python3
"""What README and docs promise of every verb and every file, through the command line alone. Each
function is one promise; what one kind of input or one reader promises is tested beside its code.

    tests/promises_test.py [FUNCTION...]

Skips (exit status 77) where numpy or onnx from PyPI is missing.
"""

import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import agree
from agree import EVOQ, ROOT, verbs

agree.need("numpy", "onnx")
import numpy as np
import onnx
import tiny_lms
import tiny_models

QUICK = ["--duration-s", "0.02"]
failures = []


def check(what, holds, detail=""):
    if not holds:
        failures.append(f"{what}: {detail}")


def run(*arguments, status=0, **environment):
    """A verb; its exit code is checked: `status`, or one of them."""
    done = subprocess.run(
        [EVOQ, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    words = " ".join(map(str, arguments))
    expected = status if isinstance(status, tuple) else (status,)
    check(f"evoq {words}", done.returncode in expected, f"{done.returncode}: {done.stderr[:300]}")
    return done


def result(*arguments):
    path = pathlib.Path("result.json")
    path.unlink(missing_ok=True)
    run(*arguments, "--json", path)
    return json.loads(path.read_text(encoding="utf-8"))


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


DIGITS = {"color": "GRAY", "resize": [28, 28]}  # how they become lenet's input


def make_images():
    """A folder of images, and their labels."""
    pathlib.Path("images").mkdir()
    rng = np.random.default_rng(0)
    for i in range(4):
        pixels = rng.integers(0, 256, 28 * 28, dtype=np.uint8).tobytes()
        pathlib.Path(f"images/{i}.pgm").write_bytes(b"P5 28 28 255\n" + pixels)
    labels = [f"{i}.pgm\t{i % 10}" for i in range(4)]
    pathlib.Path("labels.tsv").write_text("\n".join(["file\tclass_index", *labels, ""]))


def line_of(option, told):
    """An option in a --help, with other names around it; [1]: what stands behind its names."""
    names = rf"(?:-{{1,2}}[\w-]+,)*{option}(?:,--[\w-]+)*"
    return re.search(rf"^  {names}(?![\w-])(.*?)(?:  |$)", told, re.MULTILINE)


def examples_work():
    """docs/cli.md: --help shows an example that works. README: every verb has --json, --threads."""
    make_images()
    shutil.copy("images/0.pgm", "cat.jpg")  # read by what it is, whatever its name
    shutil.copy("lenet.onnx", "mobilenetv2.onnx")
    shutil.copy("lenet.onnx", "resnet.onnx")
    shutil.copy("lenet.onnx", "kept.onnx")  # `train` writes over it
    pathlib.Path("mobilenetv2.preprocess.json").write_text(json.dumps(DIGITS))
    rng = np.random.default_rng(0)
    pathlib.Path("mnist").mkdir()
    for part, count in (("train", 64), ("t10k", 8)):
        pixels = rng.integers(0, 256, count * 28 * 28, dtype=np.uint8).tobytes()
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        pathlib.Path(f"mnist/{part}-images-idx3-ubyte").write_bytes(header + pixels)
        header = struct.pack(">II", 0x801, count)
        digits = bytes(i % 10 for i in range(count))
        pathlib.Path(f"mnist/{part}-labels-idx1-ubyte").write_bytes(header + digits)
    # `verify` wants a certificate: so the file of the example of `quantize` gets one.
    promise = "--data images/ --labels labels.tsv --max-drop 100 --measure-s 0.05".split()
    tiny_lms.write_with_tokenizer("lm")
    shutil.copy("lm/tokenizer.json", "tokenizer.json")
    run("compile", "lm", "-o", "model.etm")
    pathlib.Path("test.txt").write_text("the hen and the cat ate a hat on the hill " * 40)
    # What the examples of the Ascend tools read; each reads what the one before wrote.
    models = {"input_model": "lenet.onnx", "output_model": "resnet50_optimized.onnx"}
    pathlib.Path("optimization_config.json").write_text(json.dumps({"model_info": models}))
    run("benchmark", "--model=lenet.onnx", "--output=baseline_perf", *QUICK)
    known = verbs()
    for verb in sorted(known, key=lambda v: v != "quantize"):
        text = run(verb, "--help").stdout
        for option in ("--json", "--threads"):
            check(f"{verb} --help", line_of(option, text), f"no {option}")
        example = re.search(r"Example:\n  (evoq .*)", text)
        # demo: tests/whole/demo_test.cc; serve goes on until it is stopped: tests/serve_test.py.
        if not example or verb in ("demo", "serve"):
            check(verb, example, "no example")
            continue
        words = shlex.split(example[1])[1:]
        if verb == "quantize":
            words += promise
        elif "--duration-s" in text:
            words += QUICK
        # Whether a speed that was measured so shortly holds is chance.
        run(*words, status=(0, 1) if verb == "verify" else 0)
    shutil.copy("kept.onnx", "lenet.onnx")
    rows = re.search(r"\| verb \| what it does \|\n\|[-|]*\n((?:\|.*\n)+)", page("README.md"))[1]
    told = {name for row in rows.splitlines() for name in row.split("|")[1].strip().split(", ")}
    check("README's verbs", told == set(known), told ^ set(known))


def migration_works():
    """docs/migration.md: what is typed here instead of elsewhere runs."""
    os.chdir(tempfile.mkdtemp(dir="."))
    run("zoo", "lenet", "-o", "model.onnx")
    make_images()
    pathlib.Path("model.preprocess.json").write_text(json.dumps(DIGITS))
    pathlib.Path("calibration.json").write_text(json.dumps({"relu_1": [0, 1]}))
    pathlib.Path("F").write_text(
        json.dumps({"version": "0.6.1", "activation_encodings": {}, "param_encodings": {}})
    )
    tiny_lms.write_with_tokenizer("FOLDER", max_position_embeddings=512, intermediate_size=128)
    pathlib.Path("FILE").write_text("the hen and the cat ate a hat on the hill " * 80)
    cells = re.findall(r"^\| .* \| (.*) \|$", page("docs/migration.md"), re.MULTILINE)
    told = [text for cell in cells for text in re.findall("`([^`]+)`", cell)]
    commands = [shlex.split(text)[1:] for text in told if text.startswith("evoq quantize ")]
    for text in told:  # options alone are of static quantization
        if text.startswith("--") and len(words := shlex.split(text)) > 1:
            data = [] if "--data" in words else ["--calib", "images/"]
            of_weights = {"awq", "gptq", "clip"} & set(words) and "--scheme" not in words
            scheme = ["--scheme", "int4-weights"] if of_weights else []
            commands.append(["quantize", "model.onnx", *scheme, *words, *data, "-o", "model.etm"])
    check("commands", len(commands) > 40, len(commands))
    # What one of them writes another one reads.
    for words in sorted(commands, key=lambda words: not any("-out" in word for word in words)):
        run(*words, *(["--measure-s", 0.05, "--search-s", 1] if "auto" in words else []))
    os.chdir("..")


def streams_and_failures():
    """docs/cli.md: results on stdout, messages on stderr, JSON only when the verb succeeds;
    docs/bad-input.md: one sentence, and which exit code."""
    pathlib.Path("kept.json").write_text("kept")
    measured = ("run", "bench", "profile", "explain", "predict")
    cases = [
        (2, ["inspekt", "lenet.onnx"], "inspekt"),
        (2, ["inspect", "lenet.onnx", "--nothing"], "--nothing"),
        (2, ["inspect"], "model"),
        (2, ["quantize", "lenet.onnx", "-o", "x.etm", "--scheme", "int3"], "int3"),
        (2, ["quantize", "lenet.onnx", "-o", "x.etm", "--observer", "most"], "most"),
        (2, ["optimize", "lenet.onnx", "-o", "x.onnx", "--disable", "no-pass"], "no-pass"),
        (2, ["bench", "lenet.onnx", "--shape", "input=1xtwo"], "1xtwo"),
        (2, ["bench", "lenet.onnx", "--shape", "nothing=1x1x28x28"], "nothing"),
        (2, ["bench", "lenet.onnx", "--shape", "input=1x1x28x29"], "29"),
        (3, ["bench", "lenet.onnx", "--shape", "input=400000000x1x28x28"], "more than"),
        (3, ["inspect", "missing.onnx"], "missing.onnx"),
        (3, ["inspect", "broken.etm"], "broken.etm"),
        *((3, [v, "lenet.onnx", "--input", "input=small.npy"], "small.npy") for v in measured),
        (3, ["quantize", "lenet.onnx", "-o", "x.etm", "--calib", "small.npy"], "small.npy"),
        (3, ["eval", "lenet.onnx", "--data", "small.npy", "--labels", "l.tsv"], "l.tsv"),
    ]
    pathlib.Path("broken.etm").write_bytes(b"EvoTiny\n" + bytes(100))
    np.save("small.npy", np.zeros((1, 1, 27, 28), np.float32))
    for status, words, named in cases:
        done = run(*words, "--json", "kept.json", status=status)
        what = "evoq " + " ".join(words)
        check(what, done.stdout == "", f"on stdout: {done.stdout[:200]}")
        told = done.stderr.removesuffix("Run with --help for more information.\n")
        one = told.startswith("evoq: ") and told.count("\n") == 1
        check(what, one and named in done.stderr, f"no sentence of {named}: {done.stderr[:300]}")
        check(what, not os.path.exists("x.etm"), "left a file")
    check("kept.json", pathlib.Path("kept.json").read_text() == "kept", "a failing verb wrote it")
    # One sample is a reason for a warning.
    done = run("quantize", "lenet.onnx", "-o", "x.etm", "--calib-random", 1)
    check("a warning", "warning: " in done.stderr and "warning" not in done.stdout, done.stdout)
    done = run("bench", "lenet.onnx", *QUICK, status=2, EVOQ_TARGET="NEON9")
    check("EVOQ_TARGET", "NEON9" in done.stderr and "AVX2" in done.stderr, done.stderr)


def conditions_write_nothing():
    """docs/certificate.md: where a promise does not hold the old file stays, the exit code is 1 and
    the message says what was measured."""
    pathlib.Path("old.etm").write_text("old")
    arguments = ["--calib-random", 2, "--min-sqnr", 300, "--measure-s", 0.05]
    done = run("quantize", "lenet.onnx", "-o", "old.etm", *arguments, status=1)
    check("--min-sqnr 300", re.search(r"\d+\.\d+ dB", done.stderr), done.stderr)
    check("--min-sqnr 300", pathlib.Path("old.etm").read_text() == "old", "the file is another")


def verify_measures_again():
    """docs/certificate.md: accuracy on the certificate's samples is repeatable; on others it is
    measured beside the float model, and exit code 1 says that it does not hold. docs/cli.md: the
    JSON is written also then."""
    x = np.random.default_rng(3).random((16, 1, 28, 28)).astype(np.float32)
    np.savez("tame.npz", input=x)
    np.savez("wild.npz", input=100 * x)
    search = ["--min-sqnr", 15, "--measure-s", 0.1]
    run("quantize", "lenet.onnx", "-o", "cert.etm", "--data", "tame.npz", *search)
    values = []
    for data, holds in (("tame.npz", True), ("tame.npz", True), ("wild.npz", False)):
        path = pathlib.Path("verified.json")
        path.unlink(missing_ok=True)
        words = ["--data", data, "--baseline", "lenet.onnx", "--measure-s", "0.1", "--json", path]
        done = subprocess.run([EVOQ, "verify", "cert.etm", *words], capture_output=True, text=True)
        told = json.loads(path.read_text())
        check(f"verify on {data}", done.returncode == (0 if told["holds"] else 1), done.stderr)
        line = next(line for line in told["lines"] if line["line"] == "accuracy")
        check(f"verify on {data}", line["state"] == ("holds" if holds else "FAILS"), line)
        values.append(told["sqnr_db"]["value"])
    check("verify", values[0] == values[1] > 15 > values[2], values)


def files_say_how_they_run():
    """docs/ascend.md: bench and benchmark follow what an optimization_config.json said."""

    def asked(config):
        pathlib.Path("asked.json").write_text(json.dumps(config))
        run("optimize", "lenet.onnx", "-o", "asked.onnx", "--config", "asked.json")
        return result("bench", "asked.onnx", *QUICK)

    for strategy in ("latency", "balanced", "throughput"):
        found = asked({"dynamic_shape_config": {"optimization_strategy": strategy}})
        check(strategy, ("trials" in found) == (strategy == "throughput"), found)
    check("--hint none", "trials" not in result("bench", "asked.onnx", "--hint", "none", *QUICK))
    config = {"stream_config": {"num_streams": 2}}
    check("num_streams", asked(config)["streams"] == 2)
    check("--streams", result("bench", "asked.onnx", "--streams", 1, *QUICK)["streams"] == 1)
    measured = result("benchmark", "--model=asked.onnx", "--output=asked", *QUICK)
    check("num_streams of benchmark", measured["streams"] == 2)


def interfaces_stay():
    """docs/quantization.md: inputs and outputs keep names and types, in an .etm and in ONNX."""
    half = onnx.numpy_helper.from_array(np.ones((8, 4), np.float16), "w")
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, ["N", size])
        for name, size in (("x", 8), ("y", 4))
    ]
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    graph = onnx.helper.make_graph([product], "half", values[:1], values[1:], [half])
    opset = [onnx.helper.make_opsetid("", 21)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), "half.onnx")
    tiny_models.detector("detector.onnx")
    tiny_models.two_by_two("two.onnx")

    def interface(path):
        told = result("inspect", path)
        return [[(v["name"], v["dtype"]) for v in told[side]] for side in ("inputs", "outputs")]

    for name in ("half", "detector", "two", "lenet"):
        want = interface(f"{name}.onnx")
        for scheme in ("int8", "int8-dynamic", "int8-weights", "bf16", "float32"):
            calib = ["--calib-random", 2] if scheme == "int8" else []
            for out in ("i.etm", "i.onnx"):
                run("quantize", f"{name}.onnx", "--scheme", scheme, *calib, "-o", out)
                check(f"{name} {scheme} {out}", interface(out) == want, interface(out))


def caches_live_where_they_are_told():
    """docs/cli.md, tuning.md, predict.md: below $XDG_CACHE_HOME, in a named file, or nowhere; a
    damaged file is told of and replaced."""
    commands = {
        "limits.json": ("EVOQ_LIMITS_CACHE", ["predict", "lenet.onnx", "--threads", 1]),
        "tuning.json": (
            "EVOQ_TUNING_CACHE",
            [*"quantize lenet.onnx --calib-random 2 --tune -o t.etm --threads".split(), 1],
        ),
    }
    nowhere = {variable: "" for variable, _ in commands.values()}
    for name, (variable, words) in commands.items():
        home = pathlib.Path("home").absolute()
        shutil.rmtree(home, ignore_errors=True)
        run(*words, HOME=str(home), XDG_CACHE_HOME=str(home / "xdg"), **nowhere)
        check(f"no {name}", not home.exists(), "written")
        unset = {k: v for k, v in os.environ.items() if k not in nowhere}
        for xdg, place in ((str(home / "xdg"), home / "xdg"), ("", home / ".cache")):
            environment = {**unset, "HOME": str(home), "XDG_CACHE_HOME": xdg}
            subprocess.run([EVOQ, *map(str, words)], capture_output=True, env=environment)
            check(f"{name} by {xdg}", is_json(place / "evoq" / name), "not there")
        own = pathlib.Path(f"own.{name}")
        own.write_text("{damaged")
        done = run(*words, **{**nowhere, variable: str(own)})
        check(f"own {name}", is_json(own) and str(own) in done.stderr, done.stderr)


def is_json(path):
    try:
        return isinstance(json.loads(path.read_text()), dict)
    except (OSError, ValueError):
        return False


def same_bytes():
    """docs/tuning.md: the same command gives the same bytes, with any number of threads;
    docs/calibration.md: in any order of the samples, but for the moving average."""
    rng = np.random.default_rng(1)
    samples = rng.random((12, 1, 28, 28)) ** 3 * np.arange(1, 13).reshape(12, 1, 1, 1)
    np.savez("a.npz", input=samples.astype(np.float32))
    np.savez("b.npz", input=samples[rng.permutation(12)].astype(np.float32))
    observers = [row["name"] for row in result("list", "observers")]
    schemes = {m["name"]: m for m in result("list", "schemes")}
    plain = [name for name in schemes if name not in ("int8", "auto")]
    check("observers", len(observers) >= 5 and len(plain) >= 4, [observers, plain])
    rows = [["--observer", name] for name in observers] + [["--scheme", name] for name in plain]
    for row in rows:
        first = None
        for data, threads in (("a.npz", 1), ("a.npz", 2), ("a.npz", 1), ("b.npz", 3)):
            if data == "b.npz" and row[1] == "moving-average":
                continue
            calibrated = row[0] == "--observer" or schemes[row[1]]["needs_calibration"]
            calib = ["--calib", data] if calibrated else []
            run("quantize", "lenet.onnx", *row, *calib, "-o", "s.etm", "--threads", threads)
            written = pathlib.Path("s.etm").read_bytes()
            first = first or written
            check(f"quantize {row} {data} on {threads}", written == first, "other bytes")


def outputs(model, x, threads, target=""):
    folder = pathlib.Path("out")
    shutil.rmtree(folder, ignore_errors=True)
    more = {"EVOQ_TARGET": target} if target else {}
    arguments = ["--input", x, "--output-dir", folder, "--threads", threads]
    run("run", model, *arguments, **more)
    return {f.name: f.read_bytes() for f in sorted(folder.iterdir())}


def results_on_any_threads():
    """docs/python.md, float32-linear.md, bf16.md: results do not depend on the number of threads;
    README: integer ones not on the instruction set either."""
    run("zoo", "mobilenetv2", "-o", "net.onnx")
    tiny_models.attention("attention.onnx", 2, 40)
    rng = np.random.default_rng(2)
    np.save("net.npy", rng.standard_normal((1, 3, 224, 224)).astype(np.float32))
    np.save("attention.npy", rng.standard_normal((2, 40, 16)).astype(np.float32))
    for name in ("net", "attention"):
        for scheme in ("float32", "bf16", "int8-dynamic", "int8-weights", "int8"):
            calib = ["--calib-random", 2] if scheme == "int8" else []
            run("quantize", f"{name}.onnx", "--scheme", scheme, *calib, "-o", "n.etm")
            want = outputs("n.etm", f"{name}.npy", 1)
            check(f"{name} {scheme}", len(want) >= 1, "no output")
            for threads in (2, 3):
                same = outputs("n.etm", f"{name}.npy", threads) == want
                check(f"{name} {scheme} on {threads} threads", same, "other bits")
            if scheme == "int8" and name == "net":
                targets = {"SCALAR": "", "AVX2": "avx2"}
                targets |= {"AVX512": "avx512_vnni", "AMX_SOFTWARE": "avx512_vnni"}
                for target, flag in targets.items():
                    if not flag or flag in agree.cpu_flags():
                        same = outputs("n.etm", f"{name}.npy", 2, target) == want
                        check(f"{name} {scheme} with {target}", same, "other bits")
            if scheme == "bf16" and "avx512_vnni" in agree.cpu_flags():
                tiles = [outputs("n.etm", f"{name}.npy", n, "AMX_SOFTWARE") for n in (1, 3)]
                check(f"{name} {scheme} with AMX_SOFTWARE", tiles[0] == tiles[1], "other bits")


def reasons():
    """README: for every convolution and matrix product that stays in float32 the file says why."""
    kinds = {
        "image": lambda path: tiny_models.image_net(path, 1, 16, 16),
        "attention": lambda path: tiny_models.attention(path, 1, 7),
        "branches": tiny_models.branches,
    }
    schemes = ["int8 --exclude *", "int8", "int8-dynamic", "int8-weights"]
    schemes += ["bf16 --exclude *", "bf16", "float32"]
    seen = collections.Counter()
    for kind, make in kinds.items():
        make("kind.onnx")
        for scheme in schemes:
            more = ["--calib-random", 2] if scheme.split()[0] == "int8" else []
            run("quantize", "kind.onnx", "--scheme", *scheme.split(), *more, "-o", "k.etm")
            for step in result("explain", "k.etm", "--threads", 1, *QUICK)["decisions"]:
                linear = step["op"] in ("Conv", "ConvTranspose", "MatMul")
                if linear:
                    stays = step["precision"] == "float32"
                    seen[scheme, stays] += 1
                    same = stays == bool(step["code"]) == bool(step["why"])
                    check(f"{kind} {scheme}", same, step)
    check("reasons", all(seen[s, True] for s in schemes) and seen["bf16", False], seen)


def json_of_pages():
    """The fields of JSON that docs/certificate.md, compare.md and predict.md name are there."""

    def keys(value):
        if isinstance(value, dict):
            return set(value).union(*map(keys, value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    run("quantize", "lenet.onnx", "-o", "int8.etm", "--calib-random", 2)
    search = "--calib-random 8 --search-s 1 --measure-s 0.1".split()
    certified = result("quantize", "lenet.onnx", "-o", "auto.etm", "--scheme", "auto", *search)
    done = subprocess.run(
        [EVOQ, "verify", "auto.etm", "--measure-s", "0.1", "--json", "verify.json"],
        capture_output=True,
        text=True,
    )
    check("evoq verify", done.returncode in (0, 1), done.stderr)
    verified = json.loads(pathlib.Path("verify.json").read_text())
    text = page("docs/certificate.md").split("## In files and JSON")[1]
    text += re.search(r"`quantize --json` has in `spent`[^)]*\)", page("docs/certificate.md"))[0]
    named = set(re.findall(r"`([a-z]\w*)`", text)) - {"certificate"}
    tiny_lms.write_with_tokenizer("language")
    pathlib.Path("text.txt").write_text(
        "the hen and the cat ate a hat on the hill when he was " * 4
    )
    promise = "--max-perplexity-growth 100 --text text.txt --window 16 --measure-s 0.1".split()
    language = result("quantize", "language", "-o", "l.etm", "--scheme", "int8-dynamic", *promise)
    have = keys(certified) | keys(verified) | keys(language)
    check("docs/certificate.md", len(named) > 25 and named <= have, named - have)
    compared = result("compare", "lenet.onnx", "int8.etm", *QUICK)
    text = re.search(r"^JSON: (.*?)\n\n", page("docs/compare.md"), re.MULTILINE | re.DOTALL)[1]
    named = set(re.findall(r'"([a-z]\w*)"', text)) - {"steps", "name"}  # where models differ
    check("docs/compare.md", len(named) > 8 and named <= keys(compared), named - keys(compared))
    ratio = compared["a_ms"] / compared["b_ms"]
    check("compare's speedup", abs(ratio / compared["speedup"] - 1) < 1e-9, compared)
    forecast = result("predict", "lenet.onnx", "--check")
    text = page("docs/predict.md").split("## JSON")[1]
    named = set(re.findall(r'"([a-z]\w*)"(?=[:,}])', text)) | {"measured_ms", "machine_share"}
    named -= {"unavailable", "faster", "same", "slower"}
    have = keys(forecast) | keys(result("predict", "language"))
    if not any(scheme.get("hindrances") for scheme in forecast["schemes"]):
        named -= {"code", "sentence", "lost_ms"}
    check("docs/predict.md", len(named) > 25 and named <= have, named - have)


def sizes_in_pages():
    """Figures of docs/predict.md that no measurement is in."""
    text = " ".join(page("docs/predict.md").split())
    told = re.search(
        r"LeNet's int8 file takes (\d+), (\d+) and (\d+) bytes when calibrated with (\d+), (\d+) "
        r"and (\d+) samples of the same noise.*?predict says (\d+)",
        text,
    )
    for size, count in zip(told.groups()[:3], told.groups()[3:6]):
        run("quantize", "lenet.onnx", "-o", "n.etm", "--calib-random", count)
        check(f"LeNet by {count} samples", os.path.getsize("n.etm") == int(size), size)
    schemes = result("predict", "lenet.onnx")["schemes"]
    forecast = next(s["file_bytes"] for s in schemes if s["scheme"] == "int8")
    check("LeNet's forecast", forecast == int(told[7]), forecast)


def defaults_of_the_toolchain():
    """docs/toolchain.md: the defaults of its options are the command's."""
    text = page("include/evoq/toolchain.h")
    called = {  # where it is not the member's name
        "calibration_random": "calib-random",
        "calibration_limit": "calib-limit",
        "signed_activations": "signed",
        "min_sqnr_db": "min-sqnr",
    }
    kinds = {"bool": "false", "int": "0", "std::int64_t": "0", "double": "0", "std::string": ""}
    member = re.compile(rf"^  ({'|'.join(kinds)}) (\w+) = ([^;,]+);", re.M)
    off = {"stop_after": "-1"}  # what is not asked for, where that is not kinds[kind]
    seen = 0
    verbs = {"evaluate": "eval", "probe": "diff"}  # of options of another name
    for verb in (
        "calibrate",
        "quantize",
        "compile",
        "explain",
        "evaluate",
        "predict",
        "compare",
        "probe",
        "diff",
        "sensitivity",
        "optimize",
        "tune",
        "prune",
        "train",
    ):
        body = re.search(rf"struct {verb.title()}Options {{(.*?)^}};", text, re.DOTALL | re.M)[1]
        told = run(verbs.get(verb, verb), "--help").stdout
        for kind, name, value in member.findall(body):
            option = called.get(name, name.replace("_", "-"))
            line = line_of(f"--{option}", told)
            # An option without a default that --help shows is off, 0 or empty.
            default = line and line[1].partition("=")[2] or off.get(name, kinds[kind])
            value = value.strip('"')
            same = line and (
                float(value) == float(default) if kind == "double" else value == default
            )
            check(f"{verb}'s {name}", same, f"{value}, of the command {line and default}")
            seen += 1
    check("defaults", seen == members_with_defaults(text), seen)


def members_with_defaults(text):
    """Members of options with a default, but for those that hold several values."""
    bodies = re.findall(r"struct \w+Options {(.*?)^};", text, re.DOTALL | re.M)
    return sum(body.count(" = ") for body in bodies)


def defaults_of_language_models():
    """include/evoq/language.h: the defaults are the command's, and Python's names are the same."""
    text = page("include/evoq/language.h")
    told = run("generate", "--help").stdout
    member = re.compile(r"^  (?:bool|int|double|std::\w+) (\w+)(?: = ([^;,]+))?;", re.M)
    # Where it is not the member's name, or where the default is 1 and not 0.
    called = {"sequences": "parallel"}
    seen = []
    for name in ("Model", "Generate"):
        body = re.search(rf"struct {name}Options {{(.*?)^}};", text, re.DOTALL | re.M)[1]
        for found, value in member.findall(body):
            option = called.get(found, found.replace("_", "-"))
            line = line_of(f"--{option}", told)
            default = line and line[1].partition("=")[2] or "0"
            same = line and float((value or "0").replace("false", "0")) == float(default)
            check(f"language.h: {found}", same, f"{value}, of the command {line and default}")
            seen.append(found)
    check("options of language models", len(seen) == 15, seen)


def compiled(name, language, source):
    """Checks that a source compiles on the public headers, by the language's oldest standard."""
    pathlib.Path("one.src").write_text(source)
    standard = {"c": "-std=c99", "c++": "-std=c++17"}[language]
    done = subprocess.run(
        [{"c": "cc", "c++": "c++"}[language], standard, "-Wall", "-Wextra", "-Werror"]
        + ["-fsyntax-only", "-I", str(ROOT / "include"), "-x", language, "one.src"],
        capture_output=True,
        text=True,
    )
    check(f"{name} as {standard[5:]}", done.returncode == 0, done.stderr[:500])


def headers_stand_alone():
    """evoq.h, language.h, nn.h, streams.h, toolchain.h: C++17 and nothing of evoq's inner headers.
    evoq_c.h, gemm.h, language_c.h, streams_c.h: C99, and C++17 too."""
    headers = sorted(f.name for f in (ROOT / "include/evoq").glob("*.h"))
    ours = ("evoq.h", "language.h", "nn.h", "streams.h", "toolchain.h")
    check("headers", headers == sorted([*IN_C, *ours]), headers)
    for header in headers:
        compiled(header, "c++", f"#include <evoq/{header}>\n")
        if header in IN_C:
            compiled(header, "c", f"#include <evoq/{header}>\n")


IN_C = ("evoq_c.h", "gemm.h", "language_c.h", "streams_c.h")


def library_has_what_headers_declare():
    """include/evoq: libevoq exports the functions and methods of its headers, those of versioned
    namespaces by the version's name, and no other functions of the C interfaces."""
    library = agree.BUILD / "include/libevoq.so"
    if not library.exists():
        print("library_has_what_headers_declare: skipped, there is no libevoq.so")
        return
    listed = subprocess.run(
        ["nm", "-DC", "--defined-only", library], capture_output=True, text=True, check=True
    )
    exported = set(re.findall(r"^\w+ [TW] ([^([\n]+)", listed.stdout, re.M))
    functions, methods = set(), set()
    for header in (ROOT / "include/evoq").glob("*.h"):
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", page(header), flags=re.S)
        if header.name in IN_C:
            functions.update(re.findall(r"\b(evoq_\w+)\(", text))
            continue
        space = re.search(r"^namespace (\S+) {", text, re.M)[1]
        if version := re.search(r"^inline namespace (v\d+) {", text, re.M):
            space += f"::{version[1]}"
        free = re.findall(r"^(?!using|#)\w.*?(\w+)\(", text, re.M)
        methods.update(f"{space}::{name}" for name in free)
        for kind, members in re.findall(r"^class (\w+) {\n(.*?)^};", text, re.M | re.S):
            public = re.sub(
                r"using .*?;|^.*\{.*\} *$", "", members.split(" private:")[0], flags=re.M
            )
            names = re.findall(r"(~?\w+|operator=)\(", public)
            methods.update(f"{space}::{kind}::{name}" for name in names)
    known = {
        "evoq::Session::Run",
        "evoq::toolchain::v1::Quantize",
        "evoq::language::v2::Model::~Model",
        "evoq::language::v2::EndedName",
    }
    check("the C++ headers are read", known <= methods and len(methods) == 84, sorted(methods))
    check("the C headers are read", len(functions) == 74, sorted(functions))
    missing = sorted((functions | methods) - exported)
    check("exported", not missing, missing)
    others = {name for name in exported if re.fullmatch(r"evoq_\w+", name)} - functions
    check("no other functions in C", not others, sorted(others))


# What the snippets of the pages leave out, by the language of their blocks.
LEFT_OUT = {
    "cpp": "std::string error; std::vector<evoq::Array> outputs;",
    "c": "const int64_t m = 4, n = 5, k = 6; float *a = 0, *b = 0, *c = 0;",
}


def snippets_compile():
    """README and docs: what they show of C++ and C is C++17 and C99 on the public headers."""
    found = []
    for name in ("README.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))):
        found += [(name, *block) for block in re.findall(r"```(cpp|c)\n(.*?)```", page(name), re.S)]
    kinds = collections.Counter(kind for _, kind, _ in found)
    check("snippets", kinds == {"cpp": 5, "c": 2}, kinds)
    for name, kind, block in found:
        includes = re.findall(r"^#include.*$", block, re.M)
        body = re.sub(r"^#include.*$", "", block, flags=re.M)
        if kind == "cpp":
            includes += ['#include "evoq/evoq.h"', "#include <iostream>"]
        alone = re.search(r"^(std::string|char) error", body, re.M)
        left_out = "" if alone else LEFT_OUT[kind]
        head = "void Snippet(void);\nvoid Snippet(void) {"
        source = "\n".join([*includes, head, left_out, body, "}", ""])
        compiled(name, {"cpp": "c++", "c": "c"}[kind], source)


def header_of_the_file():
    """docs/etm.md: where the numbers of header and directory stand."""
    run("quantize", "lenet.onnx", "-o", "header.etm", "--calib-random", 2)
    data = pathlib.Path("header.etm").read_bytes()
    magic, version, entries, size = struct.unpack_from("<8sIIQ", data)
    check("the header", (magic, version, size) == (b"EvoTiny\n", 1, len(data)), data[:24])
    names, end = [], 32 + 48 * entries
    for i in range(entries):
        name, offset, stored, _, _, codec, required, zero = struct.unpack_from(
            "<16sQQQIBBH", data, 32 + 48 * i
        )
        names.append(name.rstrip(b"\0").decode())
        check(names[-1], codec in (0, 1) and required in (0, 1) and zero == 0, [codec, required])
        check(names[-1], not any(data[end:offset]) and offset >= end, "no zeros before it")
        end = offset + stored
    check("the end", end == len(data), end)
    check("the blobs", {"graph", "plans", "weights"} <= set(names), names)


PROMISES = (
    examples_work,
    migration_works,
    streams_and_failures,
    conditions_write_nothing,
    verify_measures_again,
    caches_live_where_they_are_told,
    files_say_how_they_run,
    interfaces_stay,
    same_bytes,
    results_on_any_threads,
    reasons,
    json_of_pages,
    sizes_in_pages,
    defaults_of_the_toolchain,
    defaults_of_language_models,
    headers_stand_alone,
    library_has_what_headers_declare,
    snippets_compile,
    header_of_the_file,
)


def main():
    known = {promise.__name__: promise for promise in PROMISES}
    if unknown := set(sys.argv[1:]) - set(known):
        sys.exit(f"{' '.join(sorted(unknown))}: no promise; expected one of {', '.join(known)}")
    chosen = [known[name] for name in sys.argv[1:]] or PROMISES
    if agree.SANITIZED:  # what a compiler says does not depend on how evoq was built
        chosen = [p for p in chosen if p not in (headers_stand_alone, snippets_compile)]
    with tempfile.TemporaryDirectory(prefix="evoq_promises_") as folder:
        os.chdir(folder)
        os.environ["EVOQ_LIMITS_CACHE"] = os.path.join(folder, "limits.json")
        os.environ["EVOQ_TUNING_CACHE"] = ""
        run("zoo", "lenet", "-o", "lenet.onnx")
        for promise in chosen:
            before = len(failures)
            start = time.monotonic()
            try:
                promise()
            except (OSError, KeyError, TypeError, ValueError) as error:
                failures.append(f"{promise.__name__}: {error!r}")
            seconds = time.monotonic() - start
            print(f"{promise.__name__}: {len(failures) - before} failures, {seconds:.1f} s")
        os.chdir(ROOT)
    for failure in failures:
        print(failure)
    print(f"{len(chosen)} promises, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
