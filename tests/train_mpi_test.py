#!/usr/bin/env python3
"""`evoq train --mpi` under mpirun: two and three processes write the bytes that one writes, with
batch normalization, augmentation and a checkpoint that is stopped and resumed; processes that
differ, and too many of them, are refused; without Open MPI the program says what is missing.

Skips (77) without numpy or without mpirun."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np

MPIRUN = shutil.which("mpirun")
if MPIRUN is None:
    print("skipped: no mpirun (openmpi-bin)")
    sys.exit(77)
COMMAND = [agree.EVOQ, "train", "net.json", "--data", "x.npy", "--labels", "y.npy"]
COMMAND += ["--test", "x.npy", "--test-labels", "y.npy", "--batch", "48", "--shard", "8"]
COMMAND += ["--augment", "shift=1", "--seed", "3", "--threads", "1"]


# Open MPI's plugins keep memory until the process ends, behind the back of a leak detector.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"}


def run(folder, processes, *more, status=0):
    """One process without mpirun, several with it."""
    command = [*COMMAND, *map(str, more)]
    if processes > 1:
        mpirun = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        command = [*mpirun, "-n", str(processes), *command, "--mpi"]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode == 0) == (status == 0), f"{command}: {done.stdout} {done.stderr}"
    return done


def write_data(folder):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 240)
    images = rng.normal(0, 0.3, (240, 1, 8, 8))
    for image, label in zip(images, labels):
        image[0, :, label * 2] += 1
    np.save(folder / "x.npy", images.astype(np.float32))
    np.save(folder / "y.npy", labels)
    layers = [
        {"layer": "conv", "channels": 8},
        {"layer": "batch-norm"},
        {"layer": "activation"},
        {"layer": "max-pool"},
        {"layer": "flatten"},
        {"layer": "linear", "outputs": 3},
    ]
    net = {"name": "net", "input": [1, 8, 8], "layers": layers}
    (folder / "net.json").write_text(json.dumps(net), encoding="utf-8")


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_mpi_") as name:
        folder = pathlib.Path(name)
        write_data(folder)
        models, checkpoints, told = {}, {}, {}
        for n in (1, 2, 3):
            more = ["--epochs", 3, "--checkpoint", f"{n}.npz", "--json", f"{n}.told"]
            done = run(folder, n, *more, "-o", f"{n}.onnx")
            assert done.stderr.count("epoch 3/3") == 1, done.stderr
            models[n] = (folder / f"{n}.onnx").read_bytes()
            checkpoints[n] = (folder / f"{n}.npz").read_bytes()
            told[n] = json.loads((folder / f"{n}.told").read_text(encoding="utf-8"))
        for n in (2, 3):
            assert models[n] == models[1], f"{n} processes wrote another model"
            assert checkpoints[n] == checkpoints[1], f"{n} processes wrote another checkpoint"
            for field in ("loss", "accuracy", "test_accuracy"):
                assert told[n][field] == told[1][field], (n, field, told)
            assert told[n]["processes"] == n, told[n]
        run(folder, 2, "--epochs", 3, "--resume", "1.npz", "-o", "resumed.onnx")
        assert (folder / "resumed.onnx").read_bytes() == models[1]
        refused = run(folder, 7, "--epochs", 1, "-o", "x.onnx", status=1)
        assert "7 processes for batches of 6 shards" in refused.stderr, refused.stderr
        mpirun = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        both = [*mpirun, "-n", "1", *COMMAND, "--mpi", "--epochs", "1", "-o", "x.onnx", ":"]
        both += ["-n", "1", *COMMAND, "--mpi", "--epochs", "1", "-o", "x.onnx", "--lr", "0.5"]
        done = subprocess.run(
            both, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
        )
        assert done.returncode != 0 and "have other options than the first" in done.stderr, done
        assert not (folder / "x.onnx").exists()
    print(f"2 and 3 processes: the bytes of one, {len(models[1])} of the model and the checkpoint")


if __name__ == "__main__":
    main()
