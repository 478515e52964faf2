#!/usr/bin/env python3
"""The Ascend tool chain's guide runs as it stands: its optimization_config.json and its commands,
taken from its text, on the zoo's resnet50 with BatchNormalization left in; and its fragments for
operators, dynamic shapes and streams in the same file. Then the model in int8. Skips (exit status
77) without the text.

    tests/ascend_guide_test.py [--bars]

--bars: also fails below the speed that the guide promises; for an otherwise idle machine."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from agree import BUILD, ROOT, SANITIZED, evoq

SEEDS = pathlib.Path(os.environ.get("EVOQ_SEEDS", ROOT / "../shared/seeds"))
PROGRAMS = ("graph_opt", "atc", "benchmark", "perf_compare")
SETUP = "set_env.sh"
# What the guide promises: 15% less latency by the graph alone, 1.5 times the speed in all.
GRAPH_BAR, INT8_BAR = 1 / 0.85, 1.5


def config_of(text):
    """The first JSON object of the guide, as it stands."""
    text = text[text.index('{\n  "optimization_version"') :]
    return text[: json.JSONDecoder().raw_decode(text)[1]]


def fragments_of(text):
    """The members that the guide adds to it: '"name": {...}' at the beginning of a line."""
    found = {}
    for match in re.finditer(r'^"(\w+)": (?={)', text, re.MULTILINE):
        found[match[1]] = json.JSONDecoder().raw_decode(text[match.end() :])[0]
    return found


def commands_of(text):
    """The shell's lines, in order, continued ones joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    first = "|".join((*PROGRAMS, "source"))
    return re.findall(rf"^(?:{first}) .*$", joined, re.MULTILINE)


def shell(command, folder):
    """Runs a line of the guide with evoq's programs on the path."""
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def run_as_it_stands(text, folder):
    (folder / "optimization_config.json").write_text(config_of(text))
    evoq("zoo", "resnet50-bn", "-o", folder / "resnet50_original.onnx")
    # The guide has this one from elsewhere.
    shell(
        "atc --model=resnet50_original.onnx --framework=5 --output=resnet50_original_om "
        "--optimization_level=0",
        folder,
    )
    commands = commands_of(text)
    ran = [command.split()[0] for command in commands]
    assert ran == ["source", "graph_opt", "atc", "benchmark", "benchmark", "perf_compare"], ran
    said = ""
    for command in commands:
        if command.startswith("source"):
            assert command.endswith(SETUP), command
            command = f"source {ROOT / 'src/cli' / SETUP}"
        said = shell(command, folder)
    judge("graph optimization alone", said, GRAPH_BAR)
    page = (folder / "comparison.html").read_text()
    assert "resnet50_optimized_om.om" in page and "resnet50_original_om.om" in page
    original = json.loads(evoq_json("inspect", folder / "resnet50_original_om.om", folder=folder))
    optimized = json.loads(evoq_json("inspect", folder / "resnet50_optimized_om.om", folder=folder))
    assert original["operators"]["BatchNormalization"] == 53, original["operators"]
    assert "BatchNormalization" not in optimized["operators"], optimized["operators"]


def judge(what, said, bar):
    """Prints what perf_compare found; with --bars fails where it is below `bar`."""
    found = re.search(r"^(\w+): ([\d.]+)x .* latency ([-+][\d.]+)%$", said, re.MULTILINE)
    assert found, said
    speedup = float(found[2])
    missed = "" if speedup >= bar else ": MISSED"
    print(f"{what}: {speedup}x, latency {found[3]}%, bar {bar:.2f}x{missed}")
    assert speedup >= bar or "--bars" not in sys.argv, said


def run_int8(folder):
    """The original model in int8 beside its unfused float32 form."""
    evoq(
        "quantize", folder / "resnet50_original.onnx", "--calib-random", "2",
        "-o", folder / "resnet50_int8.etm",
    )  # fmt: skip
    shell("benchmark --model=resnet50_int8.etm --device=0 --output=int8_perf", folder)
    judge(
        "with int8",
        shell("perf_compare --baseline=baseline_perf --optimized=int8_perf", folder),
        INT8_BAR,
    )


def evoq_json(*arguments, folder):
    path = folder / "result.json"
    evoq(*arguments, "--json", path)
    return path.read_text()


def run_with_fragments(text, folder):
    """All the guide's keys in one file."""
    fragments = fragments_of(text)
    assert set(fragments) == {"operator_tuning", "dynamic_shape_config", "stream_config"}, fragments
    config = {**json.loads(config_of(text)), **fragments}
    config["model_info"]["output_model"] = "all.onnx"
    (folder / "all.json").write_text(json.dumps(config))
    said = shell("graph_opt --config all.json --optimize", folder)
    assert "precision_mode fp16" in said, said
    said = shell("atc --model=all.onnx --framework=5 --output=all", folder)
    assert "prepared for 3 sets of input sizes" in said, said
    facts = json.loads(evoq_json("inspect", folder / "all.om", folder=folder))
    precisions = facts["precisions"]  # the weights' elements; convolutions have 23.4 million
    assert precisions.get("bfloat16", 0) > 23e6, precisions
    chosen = {
        key: facts["metadata"].get(f"evoq.choice.{key}") for key in ("streams", "tile", "batch")
    }
    assert chosen == {"streams": "4", "tile": "64", "batch": "whole"}, chosen
    evoq("bench", folder / "all.om", "--duration-s", "0.1", "--json", folder / "bench.json")
    bench = json.loads((folder / "bench.json").read_text())
    assert bench["streams"] == 4, bench
    urgency = [stream["priority"] for stream in bench["priorities"]["by_stream"]]
    assert urgency == [1, 2, 2, 1], urgency


def main():
    guides = sorted(SEEDS.glob("004_*.txt"))
    if not guides:
        print(f"skipped: no guide {SEEDS}/004_*.txt (set EVOQ_SEEDS)")
        sys.exit(77)
    text = guides[0].read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        run_as_it_stands(text, pathlib.Path(folder))
        if not SANITIZED:  # which are ten times as slow
            run_int8(pathlib.Path(folder))
        run_with_fragments(text, pathlib.Path(folder))
    print("the guide's file and commands run as they stand")


if __name__ == "__main__":
    main()
