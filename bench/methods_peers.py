#!/usr/bin/env python3
"""Static int8 by evoq and by the field's tools: same model, same calibration images, same bits
(int8 weights per channel, uint8 activations), top-1 on other images, and seconds.

    bench/methods_peers.py --data DIR [--evoq build/release/bin/evoq] [--models NAME,...]
                           [--evoq-options="--method cle,bias-correction"]... [--json F]

Peers are those that are installed beside this Python: onnxruntime (quantize_static: MinMax,
Entropy, Percentile), nncf (quantize, both presets), onnx-neural-compressor, aimet-onnx (CLE,
SeqMSE, AdaRound of ADAROUND_STEPS). One that is not installed or fails is named with its error.
What a peer writes (Q/DQ in ONNX) is run by ONNX Runtime without graph optimizations: as float32
between rounded values, so that no processor's integer shortcuts change its accuracy. Seconds are
those of the quantization with its calibration; evoq's are of the whole command.

Images come from bench/vision.py's split: those that calibrate are not measured. Preprocessing is
Pillow's, which evoq's equals byte for byte (docs/preprocess.md).
"""

import argparse
import csv
import json
import os
import tempfile
import time

import numpy as np
import vision
from PIL import Image
from runners import one_line, run_evoq
from tables import table

MODELS = ("mobilenetv2", "squeezenet1.1", "tiny_darknet", "resnet56_cifar10")
CALIBRATION = {"resnet56_cifar10": 200}
INTERVAL = 1.96  # of a normal distribution, 95%


def prepare(path, steps):
    """An image as the model's input, by NAME.preprocess.json."""
    image = Image.open(path).convert("RGB")
    if short := steps.get("resize_short"):
        w, h = image.size
        size = (short, int(short * h / w)) if w < h else (int(short * w / h), short)
        image = image.resize(size, Image.BILINEAR)
    if crop := steps.get("crop"):
        left, top = (image.width - crop[1]) // 2, (image.height - crop[0]) // 2
        image = image.crop((left, top, left + crop[1], top + crop[0]))
    if resize := steps.get("resize"):
        image = image.resize((resize[1], resize[0]), Image.BILINEAR)
    return to_input(np.asarray(image, np.float32), steps)


def to_input(pixels, steps):
    """Height, width, RGB."""
    if steps.get("color", "RGB") == "BGR":
        pixels = pixels[..., ::-1]
    scale = np.float32(steps.get("scale", 1 / 255))
    mean, std = (np.float32(steps.get(k, d)) for k, d in (("mean", 0), ("std", 1)))
    x = (pixels * scale - mean) / std
    if steps.get("layout", "NCHW") == "NCHW":
        x = x.transpose(2, 0, 1)
    return np.ascontiguousarray(x[None], np.float32)


def cifar(path, steps, limit=0):
    records = np.fromfile(path, np.uint8).reshape(-1, 3073)
    if limit:  # evenly spread, as evoq takes them
        records = records[[i * len(records) // limit for i in range(limit)]]
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype(np.float32)
    return [to_input(p, steps) for p in pixels], records[:, 0].astype(int)


class Images:
    """The calibration and the measured samples of a model."""

    def __init__(self, case, data):
        with open(case.preprocess[1]) as f:
            steps = json.load(f)
        offset = steps.get("label_offset", 0)
        if "cifar" in case.name:
            self.calib, _ = cifar(case.calib[1], steps, CALIBRATION[case.name])
            self.score, labels = cifar(case.score[1], steps)
            self.labels = labels + offset
            return
        with open(f"{data}/images/labels.tsv") as f:
            classes = {r["file"]: int(r["class_index"]) for r in csv.DictReader(f, delimiter="\t")}
        calib, score = case.calib[1], case.score[1]
        self.calib = [prepare(f"{calib}/{n}", steps) for n in sorted(os.listdir(calib))]
        names = sorted(os.listdir(score))
        self.score = [prepare(f"{score}/{n}", steps) for n in names]
        self.labels = np.array([classes[n] for n in names]) + offset


def session(path):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = os.cpu_count()
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def top1(path, images):
    run = session(path)
    name = run.get_inputs()[0].name
    classes = [int(np.argmax(run.run(None, {name: x})[0])) for x in images.score]
    return float(np.mean(np.array(classes) == images.labels))


def ort_static(method):
    def quantize(model, out, images, folder):
        from onnxruntime import quantization as q
        from onnxruntime.quantization.shape_inference import quant_pre_process

        ready = os.path.join(folder, "ready.onnx")
        quant_pre_process(model, ready, skip_symbolic_shape=True)
        name = session(ready).get_inputs()[0].name

        class Reader(q.CalibrationDataReader):
            def __init__(self):
                self.rest = iter(images.calib)

            def get_next(self):
                x = next(self.rest, None)
                return None if x is None else {name: x}

        q.quantize_static(
            ready,
            out,
            Reader(),
            quant_format=q.QuantFormat.QDQ,
            per_channel=True,
            activation_type=q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
            calibrate_method=getattr(q.CalibrationMethod, method),
        )

    return quantize


def nncf_ptq(preset):
    def quantize(model, out, images, folder):
        import nncf
        import onnx

        loaded = onnx.load(model)
        name = loaded.graph.input[0].name
        data = nncf.Dataset(images.calib, lambda x: {name: x})
        made = nncf.quantize(
            loaded,
            data,
            preset=getattr(nncf.QuantizationPreset, preset),
            subset_size=len(images.calib),
        )
        onnx.save(made, out)

    return quantize


def neural_compressor(method):
    def quantize(model, out, images, folder):
        from onnx_neural_compressor import data_reader, quantization
        from onnx_neural_compressor.quantization import config

        name = session(model).get_inputs()[0].name

        class Reader(data_reader.CalibrationDataReader):
            def __init__(self):
                self.rewind()

            def get_next(self):
                x = next(self.rest, None)
                return None if x is None else {name: x}

            def rewind(self):
                self.rest = iter(images.calib)

        wanted = config.StaticQuantConfig(
            calibration_data_reader=Reader(),
            calibrate_method=getattr(quantization.CalibrationMethod, method),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            calibration_sampling_size=len(images.calib),
        )
        quantization.quantize(model, out, wanted)

    return quantize


ADAROUND_STEPS = 1000  # of each layer; the default, 10000, takes hours on two cores


def aimet(method):
    def quantize(model, out, images, folder):
        import pathlib

        import aimet_onnx
        import onnx

        loaded = onnx.load(model)
        data = [{loaded.graph.input[0].name: x} for x in images.calib]
        if method == "CLE":
            from aimet_onnx.cross_layer_equalization import equalize_model

            equalize_model(loaded)
        else:
            from aimet_onnx.batch_norm_fold import fold_all_batch_norms_to_weight

            fold_all_batch_norms_to_weight(loaded)
        rows = pathlib.Path(aimet_onnx.__file__).parent / "common/quantsim_config"
        sim = aimet_onnx.QuantizationSimModel(
            loaded,
            param_type=aimet_onnx.int8,
            activation_type=aimet_onnx.int8,
            config_file=str(rows / "default_config_per_channel.json"),
        )
        if method == "SeqMSE":
            aimet_onnx.apply_seq_mse(sim, data)
        if method == "AdaRound":
            aimet_onnx.apply_adaround(sim, data, num_iterations=ADAROUND_STEPS)
        sim.compute_encodings(data)
        onnx.save(sim.to_onnx_qdq(), out)

    return quantize


PEERS = {
    "onnxruntime MinMax": ort_static("MinMax"),
    "onnxruntime Entropy": ort_static("Entropy"),
    "onnxruntime Percentile": ort_static("Percentile"),
    "nncf PERFORMANCE": nncf_ptq("PERFORMANCE"),
    "nncf MIXED": nncf_ptq("MIXED"),
    "neural-compressor MinMax": neural_compressor("MinMax"),
    "neural-compressor Entropy": neural_compressor("Entropy"),
    "aimet-onnx": aimet(""),
    "aimet-onnx CLE": aimet("CLE"),
    "aimet-onnx SeqMSE": aimet("SeqMSE"),
    "aimet-onnx AdaRound": aimet("AdaRound"),
}


def by_evoq(evoq, case, options, folder):
    out, etm = os.path.join(folder, "out.json"), os.path.join(folder, "model.etm")
    start = time.perf_counter()
    run_evoq(
        [evoq, "quantize", case.path, "-o", etm, *case.calib, *case.preprocess, *options.split()],
        out,
    )
    seconds = time.perf_counter() - start
    scored = run_evoq([evoq, "eval", etm, *case.score, *case.preprocess], out)
    return scored["top1"], seconds


def measure(case, images, evoq, evoq_options, peers, folder):
    """Rows of one model."""
    rows = []

    def add(tool, found=None, error=None):
        row = {"model": case.name, "tool": tool, "samples": len(images.score)}
        if found:
            row["top1"], row["seconds"] = found
        else:
            row["error"] = one_line(error)
        rows.append(row)
        print(row, flush=True)

    add("float32", (top1(case.path, images), 0))
    for options in evoq_options:
        add(f"evoq {options}".strip(), by_evoq(evoq, case, options, folder))
    for name in peers:
        out = os.path.join(folder, "peer.onnx")
        start = time.perf_counter()
        try:
            PEERS[name](case.path, out, images, folder)
            seconds = time.perf_counter() - start
            add(name, (top1(out, images), seconds))
        except Exception as error:  # a peer may fail in any way
            add(name, error=f"{type(error).__name__}: {error}")
    return rows


def show(rows):
    cells = []
    real = {r["model"]: r["top1"] for r in rows if r["tool"] == "float32"}
    for row in rows:
        if "error" in row:
            cells.append([row["model"], row["tool"], row["error"], "", ""])
            continue
        lost = 100 * (real[row["model"]] - row["top1"])
        width = 100 * INTERVAL * (row["top1"] * (1 - row["top1"]) / row["samples"]) ** 0.5
        cells.append(
            [
                row["model"],
                row["tool"],
                f"{row['top1']:.4f} +- {width / 100:.3f}",
                f"{lost:+.2f}",
                f"{row['seconds']:.1f}",
            ]
        )
    print(table(["model", "tool", "top-1, 95% of the sample", "points lost", "seconds"], cells))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evoq", default="build/release/bin/evoq")
    parser.add_argument("--data", required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--evoq-options", action="append", default=[])
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    data, rows = os.path.abspath(args.data), []
    with tempfile.TemporaryDirectory() as folder:
        for case in vision.cases(data, folder):
            if case.name not in args.models.split(","):
                continue
            images = Images(case, data)
            peers = [p for p in args.peers.split(",") if p]
            options = args.evoq_options or [""]
            rows += measure(case, images, args.evoq, options, peers, folder)
            if args.json:
                with open(args.json, "w") as f:
                    json.dump({"rows": rows}, f, indent=1)
    show(rows)


if __name__ == "__main__":
    main()
