#!/usr/bin/env python3
"""Encodings beside aimet-onnx (PyPI, which brings torch: some gigabytes).

What evoq writes, in every version, loads there with the same scales and zero points, and each
layer, simulated there on the integers that evoq feeds it, gives evoq's within one step. What
aimet-onnx calibrates and exports, in every version, gives evoq the same scales and zero points.
Skips without aimet-onnx and the data folder.
"""

import json
import logging
import os
import pathlib
import sys
import tempfile
import warnings

from agree import DATA, evoq, need, need_data

need("numpy", "onnx", "aimet_onnx")
need_data()
warnings.filterwarnings("ignore")

import numpy as np
import onnx
from aimet_onnx.quantsim import QuantizationSimModel, load_encodings_to_sim
from onnx.utils import Extractor

logging.disable(logging.WARNING)
MODEL = "resnet8_cifar10_mlperf"
VERSIONS = ["0.6.1", "1.0.0", "2.0.0", "2.1.0"]
# Sums are exact here and in float32 there, so that some fall on the other side of a tie.
LEAST_EQUAL = 0.99


def entries(path):
    """name -> entry of version 1.0.0."""
    file = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return {e["name"]: e for e in file["activation_encodings"] + file["param_encodings"]}


def differences(ours, theirs):
    """Names whose numbers differ; scales are float32 here and float64 there."""
    return [
        name
        for name in theirs
        if name not in ours
        or ours[name]["offset"] != theirs[name]["offset"]
        or ours[name]["bw"] != theirs[name]["bw"]
        or not np.allclose(ours[name]["scale"], theirs[name]["scale"], rtol=1e-7, atol=0)
    ]


def loaded(model, path):
    """A simulation with the encodings of a file. Of 2.1.0 it takes no entries of what only moves
    numbers, as Reshape, which its own files of 2.0.0 have."""
    sim = QuantizationSimModel(model)
    file = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if file["version"] == "2.1.0":
        moved = {n.output[0] for n in model.graph.node if n.op_type == "Reshape"}
        file["encodings"] = [e for e in file["encodings"] if e["name"] not in moved]
    load_encodings_to_sim(sim, file, strict=False)
    return sim


def exported(sim):
    """name -> entry of version 1.0.0 of what a simulation rounds with."""
    found = {}
    for name, quantizer in sim.qc_quantize_op_dict.items():
        entry = quantizer.export_encodings("1.0.0") if quantizer.enabled else None
        if entry:
            found[name] = entry
    return found


def tied(sim):
    """Values that share one quantizer there, as those before and after a pool."""
    by_quantizer = {}
    for name, quantizer in sim.qc_quantize_op_dict.items():
        by_quantizer.setdefault(id(quantizer.quant_info), []).append(name)
    return {name for names in by_quantizer.values() if len(names) > 1 for name in names}


def written_loads(folder, path, calib):
    """What evoq writes."""
    for version in VERSIONS:
        evoq("quantize", path, "-o", folder / "m.etm", "--calib", calib, "--encodings-out",
             folder / f"{version}.encodings", "--encodings-version", version)  # fmt: skip
    wanted = entries(folder / "1.0.0.encodings")
    for version in VERSIONS:
        sim = loaded(onnx.load(path), folder / f"{version}.encodings")
        got = exported(sim)
        assert len(got) > 20, f"{version}: {len(got)} entries"
        wrong = set(differences(wanted, got)) - tied(sim)
        assert not wrong, f"{version}: {sorted(wrong)} differ"
        print(f"{MODEL}: {len(got)} entries of version {version} load in aimet-onnx")
    return wanted


def layers_agree(folder, path, x, wanted):
    """Each layer on evoq's integers."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    values = {v.name: v for v in model.graph.value_info}
    steps = {name: e for name, e in wanted.items() if name in values}
    with_outputs = onnx.load(path)
    with_outputs.graph.output.extend(values[name] for name in steps)
    onnx.save(with_outputs, folder / "outputs.onnx")
    evoq("quantize", folder / "outputs.onnx", "-o", folder / "o.etm", "--encodings",
         folder / "1.0.0.encodings")  # fmt: skip
    (folder / "out").mkdir()
    np.save(folder / "x.npy", x)
    evoq("run", folder / "o.etm", "--input", folder / "x.npy", "--output-dir", folder / "out")
    known = {name: np.load(folder / "out" / f"{name}.npy") for name in steps}
    name = model.graph.input[0].name
    known[name] = x
    producers = {output: node for node in model.graph.node for output in node.output}
    compared = equal = layers = 0
    for target in steps:
        sources, open_values = [], list(producers[target].input)
        while open_values:
            value = open_values.pop()
            if value in known:
                sources.append(value)
            elif value in producers:
                open_values.extend(producers[value].input)
        sources = sorted(set(sources))
        layer = Extractor(model).extract_model(sources, [target])
        part = folder / "layer.encodings"
        names = {i.name for i in layer.graph.initializer} | {target}
        whole = json.loads((folder / "1.0.0.encodings").read_text(encoding="utf-8"))
        for section in ("activation_encodings", "param_encodings"):
            whole[section] = [e for e in whole[section] if e["name"] in names]
        part.write_text(json.dumps(whole), encoding="utf-8")
        sim = loaded(layer, part)
        if target in tied(sim):  # rounds the layer's input with the output's scale
            continue
        layers += 1
        y = sim.session.run(None, {source: known[source] for source in sources})[0]
        apart = np.abs(y.astype(np.float64) - known[target]) / steps[target]["scale"][0]
        assert apart.max() < 1.01, f"{target}: {apart.max()} steps apart"
        compared += apart.size
        equal += int((apart < 0.01).sum())
    print(f"{MODEL}: {layers} layers, {equal} of {compared} values equal, none over a step")
    assert equal >= LEAST_EQUAL * compared


def exported_reads(folder, path, samples):
    """What aimet-onnx calibrates and exports."""
    model = onnx.load(path)
    sim = QuantizationSimModel(model)
    name = model.graph.input[0].name
    sim.compute_encodings([{name: x} for x in samples])
    wanted = exported(sim)
    moved = {n.input[0]: n.output[0] for n in model.graph.node if n.op_type == "Reshape"}
    for version in VERSIONS:
        try:
            sim.export(str(folder), f"aimet{version}", export_model=False, encoding_version=version)
        except ValueError as error:  # some versions are read there and not written
            print(f"{MODEL}: aimet-onnx does not write version {version}: {error}")
            continue
        told = evoq("quantize", path, "-o", folder / "a.etm", "--encodings",
                    folder / f"aimet{version}.encodings", "--encodings-out",
                    folder / "back.encodings")  # fmt: skip
        got = entries(folder / "back.encodings")
        print(told.splitlines()[1].strip())
        wrong = differences(got, {n: e for n, e in wanted.items() if n in got})
        assert not wrong, f"{version}: {wrong} differ"
        # evoq has one value for what stands before and after a Reshape, by the latter's name.
        missing = set(wanted) - set(got) - {n for n, after in moved.items() if after in got}
        assert not missing, f"{version}: {sorted(missing)} are not used"


def main():
    path = f"{DATA}/models/{MODEL}.onnx"
    shape = [d.dim_value or 1 for d in onnx.load(path).graph.input[0].type.tensor_type.shape.dim]
    samples = [np.random.default_rng(i).uniform(-1, 1, shape).astype(np.float32) for i in range(4)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        calib = folder / "calib"
        os.mkdir(calib)
        for i, x in enumerate(samples):
            np.save(calib / f"{i}.npy", x)
        wanted = written_loads(folder, path, calib)
        layers_agree(folder, path, samples[0], wanted)
        exported_reads(folder, path, samples)


if __name__ == "__main__":
    sys.exit(main())
