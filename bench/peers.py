#!/usr/bin/env python3
"""Runs evoq and ONNX Runtime side by side: same model, threads and batch, in alternating rounds.

    bench/peers.py [--evoq build/release/bin/evoq] [--models DIR] [--threads 1,2] [--rounds 5] [--out bench/results]

Models: resnet50 from the zoo (random weights), mobilenetv2 and squeezenet1.1 from --models when given, else from the zoo.
int8 for both is static: evoq's .etm, and for ONNX Runtime the QDQ model that evoq exports from the same ranges.
Needs onnxruntime and numpy from PyPI. Prints medians over rounds of each round's median, and their ratios.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort


def evoq_ms(evoq, model, threads, batch, seconds, out):
    command = [evoq, "bench", model, "--threads", str(threads), "--duration-s", str(seconds), "--warmup-ms", "100",
               "--json", out]
    if batch > 1:
        command += ["--batch", str(batch)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(out) as f:
        return json.load(f)["p50_ms"]


class Ort:
    def __init__(self, model, threads, batch):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # A session that waits must not spin on the core that the other side is measured on.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.inputs = {}
        for i in self.session.get_inputs():
            shape = [batch if k == 0 else (d if isinstance(d, int) else 1) for k, d in enumerate(i.shape)]
            if i.type == "tensor(float)":
                self.inputs[i.name] = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
            else:
                self.inputs[i.name] = np.zeros(shape, np.int64)

    def ms(self, seconds):
        for _ in range(2):
            self.session.run(None, self.inputs)
        times = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 5:
            t = time.perf_counter()
            self.session.run(None, self.inputs)
            times.append((time.perf_counter() - t) * 1e3)
        return float(np.median(times))


def prepare(evoq, name, models, folder):
    """Returns the float ONNX file, the .etm and the QDQ ONNX of one model."""
    source = os.path.join(models, name + ".onnx") if models else ""
    if not os.path.exists(source):
        source = os.path.join(folder, name + ".onnx")
        subprocess.run([evoq, "zoo", name, "-o", source], check=True, stdout=subprocess.DEVNULL)
    ranges = os.path.join(folder, name + ".ranges.json")
    etm, qdq = os.path.join(folder, name + ".etm"), os.path.join(folder, name + ".qdq.onnx")
    subprocess.run([evoq, "quantize", source, "--calib-random", "4", "--save-ranges", ranges, "-o", etm], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([evoq, "quantize", source, "--ranges", ranges, "-o", qdq], check=True, stdout=subprocess.DEVNULL)
    return source, etm, qdq


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evoq", default="build/release/bin/evoq")
    parser.add_argument("--models", default="", help="folder with real models; missing ones come from the zoo")
    parser.add_argument("--names", default="resnet50,mobilenetv2,squeezenet1.1")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--out", default="bench/results")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "bench.json")
        for name in args.names.split(","):
            source, etm, qdq = prepare(args.evoq, name, args.models, folder)
            for threads in map(int, args.threads.split(",")):
                peers = {"ort_fp32": Ort(source, threads, args.batch), "ort_int8": Ort(qdq, threads, args.batch)}
                rounds = {"evoq_fp32": [], "evoq_int8": [], "ort_fp32": [], "ort_int8": []}
                for _ in range(args.rounds):
                    rounds["evoq_fp32"].append(evoq_ms(args.evoq, source, threads, args.batch, args.seconds, out))
                    rounds["ort_fp32"].append(peers["ort_fp32"].ms(args.seconds))
                    rounds["evoq_int8"].append(evoq_ms(args.evoq, etm, threads, args.batch, args.seconds, out))
                    rounds["ort_int8"].append(peers["ort_int8"].ms(args.seconds))
                row = {k: float(np.median(v)) for k, v in rounds.items()}
                row.update(model=name, threads=threads, batch=args.batch,
                           int8_speedup=row["evoq_fp32"] / row["evoq_int8"],
                           fp32_vs_ort=row["ort_fp32"] / row["evoq_fp32"], int8_vs_ort=row["ort_int8"] / row["evoq_int8"])
                rows.append(row)
                print(f"{name:14} threads {threads}  float32: evoq {row['evoq_fp32']:8.3f} ms, ort {row['ort_fp32']:8.3f} "
                      f"({row['fp32_vs_ort']:.2f}x)  int8: evoq {row['evoq_int8']:8.3f}, ort {row['ort_int8']:8.3f} "
                      f"({row['int8_vs_ort']:.2f}x)  int8 over own float32 {row['int8_speedup']:.2f}x", flush=True)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, f"peers-batch{args.batch}.json"), "w") as f:
        json.dump({"onnxruntime": ort.__version__, "rounds": args.rounds, "rows": rows}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    sys.exit(main())
