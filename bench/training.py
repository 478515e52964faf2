#!/usr/bin/env python3
"""Trains LeNet on MNIST from nothing, once for each seed, and prints accuracy on the test set, time
and processor time, and the median of the seeds beside the bar. With --qat also what it loses as
integers with weights of 8, 4 and 2 bits: quantized after training, and trained on as these integers
(docs/training.md).

    bench/training.py --data ../shared/data/mnist [--evoq build/release/bin/evoq] [--seeds 1 2 3]
                      [--qat] [--json F] [-- options of evoq train]
    bench/training.py --peers build/venv-peers/bin/python [--networks lenet resnet20 tiny-gpt]
                      [--rounds 3] [--limit 0] [--json F]
    bench/training.py --peers ... --accuracy EPOCHS [--networks resnet20] [--seeds 1 2 3]

With --peers, the command beside PyTorch in that Python (bench/training_peers.py), in turn, on the
same samples, batches and threads: seconds of an epoch's steps (the second one's), the processor
seconds of the whole process (reading and starting too) and the most memory that it held. With
--accuracy, both train so many epochs by the network's own recipe, augmentation and schedule too,
once for each seed, and the accuracy on the test samples of the data folder is compared.

Wall seconds are those of the whole command: reading the data, training, measuring after each epoch
and writing the model. On a machine that others use too, processor seconds say what it took.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BAR_ACCURACY, BAR_SECONDS = 0.993, 60
# The most that a LeNet may lose that was trained with weights of so many bits, in points.
QAT = ["--augment", "shift=2"]  # as the network's own recipe has it
QAT_BARS = {8: 0.05, 4: 0.1, 2: 0.4}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


def run(command, folder):
    """What a command of evoq writes with --json."""
    result = os.path.join(folder, "result.json")
    done = subprocess.run([*command, "--json", result], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(pathlib.Path(result).read_text(encoding="utf-8"))


def train(evoq, data, seed, threads, more, folder):
    """One run: its row; the model is lenet.onnx in the folder."""
    command = [evoq, "train", "lenet", "--data", data, "--seed", str(seed), "--threads"]
    command += [str(threads), "-o", os.path.join(folder, "lenet.onnx"), *more]
    user, system = cpu_seconds()
    start = time.monotonic()
    told = run(command, folder)
    seconds = time.monotonic() - start
    return {
        "seed": seed,
        "test_accuracy": told["test_accuracy"],
        "epochs": len(told["epochs"]),
        "seconds": seconds,
        "user_s": cpu_seconds()[0] - user,
        "system_s": cpu_seconds()[1] - system,
        "images_per_s": statistics.median(e["images_per_s"] for e in told["epochs"]),
    }


def mnist(data, name):
    """A file of the folder, plain or gzipped."""
    for end in ("", ".gz"):
        path = os.path.join(data, name + end)
        if os.path.exists(path):
            return path
    sys.exit(f"{data}: no {name}")


def integers(args, seed, folder):
    """A row for each number of bits: lenet.onnx of the folder as integers, quantized after training
    and trained on."""
    model, threads = os.path.join(folder, "lenet.onnx"), ["--threads", str(args.threads)]
    measured = ["--data", mnist(args.data, "t10k-images-idx3-ubyte")]
    measured += ["--labels", mnist(args.data, "t10k-labels-idx1-ubyte")]
    measured += ["--preprocess", os.path.join(folder, "lenet.preprocess.json"), *threads]
    real = run([args.evoq, "eval", model, *measured], folder)["top1"]
    rows = []
    for bits in QAT_BARS:
        etm = os.path.join(folder, f"w{bits}.etm")
        command = [args.evoq, "quantize", model, "--weight-bits", str(bits), "--calib-limit", "512"]
        command += ["--calib", mnist(args.data, "train-images-idx3-ubyte"), "-o", etm, *threads]
        run(command, folder)
        after = run([args.evoq, "eval", etm, *measured], folder)["top1"]
        command = [args.evoq, "train", model, "--data", args.data, "--scheme", "int8"]
        command += ["--weight-bits", str(bits), "--seed", str(seed), "-o", etm, *threads, *QAT]
        start = time.monotonic()
        told = run(command, folder)
        seconds = time.monotonic() - start
        trained = run([args.evoq, "eval", etm, *measured], folder)["top1"]
        agreement = told["agreement"]
        rows.append(
            {
                "seed": seed,
                "bits": bits,
                "float": real,
                "quantized": after,
                "trained": trained,
                "seconds": seconds,
                "bytes": os.path.getsize(etm),
                "equal_scores": agreement["scores"],
                "samples": agreement["samples"],
            }
        )
        print(
            f"seed {seed}, {bits} bits: float {100 * real:.2f}%, quantized {100 * after:.2f}% "
            f"({100 * (after - real):+.2f}), trained {100 * trained:.2f}% "
            f"({100 * (trained - real):+.2f}) in {seconds:.0f} s, {os.path.getsize(etm)} bytes; "
            f"simulated scores equal the compiled ones on {agreement['scores']} of "
            f"{agreement['samples']} samples",
            flush=True,
        )
    return rows


# Of the networks that peers train: the file of the data folder, samples, their number in a batch.
PEERS = {
    "lenet": ("mnist/train-images-idx3-ubyte.gz", 6400, 64),
    "resnet20": ("cifar10/train_5000.bin", 1280, 64),
    "tiny-gpt": ("text/tinystories_sample.txt", 256, 16),
}
CONTEXT = 128
SIDES = ("evoq", "torch")


def watched(command):
    """What a command printed, the most kB that it held, and its processor seconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, error = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: {error.strip()}")
    return out, used.ru_maxrss, used.ru_utime + used.ru_stime


def beside(args, network, folder):
    """One round: seconds, kB, processor seconds and the loss of each side."""
    path, limit, batch = PEERS[network]
    data, told = str(pathlib.Path(args.data).parent / path), os.path.join(folder, "told.json")
    common = [data, "--limit", str(args.limit or limit), "--batch", str(batch), "--epochs", "2"]
    common += ["--threads", str(args.threads)]
    texts = ["--context", str(CONTEXT)] if network == "tiny-gpt" else []
    own = [args.evoq, "train", network, "--data", *common, "--augment", "none", "--json", told]
    own += ["--schedule", "constant", "--warm-up", "0"]
    own += ["-o", os.path.join(folder, "a.onnx"), *texts, *(["--hold-out", "0"] if texts else [])]
    _, held, busy = watched(own)
    epochs = json.loads(pathlib.Path(told).read_text(encoding="utf-8"))["epochs"]
    rows = {"evoq": {"s": epochs[1]["seconds"], "kb": held, "loss": epochs[1]["loss"]}}
    rows["evoq"]["cpu"] = busy
    script = str(pathlib.Path(__file__).parent / "training_peers.py")
    out, held, busy = watched([args.peers, script, network, *common, *texts])
    theirs = json.loads(out)
    rows["torch"] = {"s": theirs["seconds"][1], "kb": held, "loss": theirs["loss"][1]}
    rows["torch"]["cpu"] = busy
    return rows, theirs["torch"]


def peers(args):
    found = []
    for network in args.networks:
        rounds = []
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory(prefix="evoq_training_") as folder:
                row, version = beside(args, network, folder)
            rounds.append(row)
        middle = {
            side: {key: statistics.median(r[side][key] for r in rounds) for key in rounds[0][side]}
            for side in SIDES
        }
        least = {side: min(r[side]["s"] for r in rounds) for side in SIDES}
        own, theirs = middle["evoq"], middle["torch"]
        print(
            f"{network}: an epoch of {args.limit or PEERS[network][1]} samples, median of "
            f"{args.rounds}: evoq {own['s']:.2f} s, PyTorch {version} {theirs['s']:.2f} s, "
            f"{theirs['s'] / own['s']:.2f}x; least {least['evoq']:.2f} and {least['torch']:.2f} s, "
            f"{least['torch'] / least['evoq']:.2f}x; processor seconds of the whole run "
            f"{own['cpu']:.1f} and {theirs['cpu']:.1f}; most memory {own['kb'] / 1024:.0f} and "
            f"{theirs['kb'] / 1024:.0f} MB; loss {own['loss']:.3f} and {theirs['loss']:.3f}",
            flush=True,
        )
        found.append({"network": network, "rounds": rounds, "torch": version})
    return found


# Of the networks whose accuracy is compared: samples to train and test on, moves of images.
RECIPES = {
    "lenet": ("mnist/train-images-idx3-ubyte.gz", "mnist/t10k-images-idx3-ubyte.gz", ["2"]),
    "resnet20": ("cifar10/train_5000.bin", "cifar10/test_1000.bin", ["4", "--flip"]),
}


def accuracies(args):
    """Both sides by one recipe, seed by seed."""
    rows = []
    for network in (n for n in args.networks if n in RECIPES):
        folder = pathlib.Path(args.data).parent
        train_on, test_on, moves = RECIPES[network]
        common = [str(folder / train_on), "--epochs", str(args.accuracy)]
        common += ["--threads", str(args.threads), "--test", str(folder / test_on)]
        if args.limit:
            common += ["--limit", str(args.limit)]
        for seed in args.seeds:
            common_seed = [*common, "--seed", str(seed)]
            with tempfile.TemporaryDirectory(prefix="evoq_training_") as out:
                own = [args.evoq, "train", network, "--data", *common_seed, "--schedule", "cosine"]
                told = run([*own, "--warm-up", "1", "-o", f"{out}/a.onnx"], out)
            script = str(pathlib.Path(__file__).parent / "training_peers.py")
            theirs = [args.peers, script, network, *common_seed, "--cosine", "--shift", *moves]
            theirs = json.loads(watched(theirs)[0])
            row = {"network": network, "seed": seed, "evoq": told["test_accuracy"]}
            row.update(torch=theirs["test_accuracy"], evoq_s=told["seconds"])
            row["torch_s"] = sum(theirs["seconds"])
            rows.append(row)
            print(
                f"{network}, seed {seed}, {args.accuracy} epochs: evoq {100 * row['evoq']:.2f}% in "
                f"{row['evoq_s']:.0f} s, PyTorch {theirs['torch']} {100 * row['torch']:.2f}% in "
                f"{row['torch_s']:.0f} s",
                flush=True,
            )
        own, theirs = ([r[side] for r in rows if r["network"] == network] for side in SIDES)
        apart = 100 * (statistics.mean(own) - statistics.mean(theirs))
        print(f"{network}: mean of {len(own)} seeds, evoq {apart:+.2f} points (bar -1)")
    return rows


def tell_integers(rows):
    for bits, bar in QAT_BARS.items():
        of_bits = [r for r in rows if r["bits"] == bits]
        lost = statistics.median(r["float"] - r["trained"] for r in of_bits)
        after = statistics.median(r["float"] - r["quantized"] for r in of_bits)
        print(
            f"{bits} bits, median: {100 * after:.2f} points lost quantized, {100 * lost:.2f} "
            f"trained (bar {bar})"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    option = parser.add_argument
    option("--evoq", default=str(ROOT / "build/release/bin/evoq"))
    option("--data", default=str(ROOT / "../shared/data/mnist"))
    option("--seeds", type=int, nargs="+", default=[1, 2, 3])
    option("--threads", type=int, default=2)
    option("--qat", action="store_true", help="also integers with weights of 8, 4 and 2 bits")
    option("--peers", help="a Python with torch: an epoch of each network beside it")
    option("--networks", nargs="+", default=list(PEERS), choices=list(PEERS))
    option("--accuracy", type=int, help="with --peers: the accuracy after so many epochs")
    option("--rounds", type=int, default=3)
    option("--limit", type=int, default=0, help="samples of --peers; 0: as the bench has them")
    option("--json", help="also write the rows to this file")
    option("more", nargs="*", help="options of evoq train, behind --")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{args.threads} threads, load {load:.1f} when it began")
    if args.peers:
        found = accuracies(args) if args.accuracy else peers(args)
        if args.json:
            told = {"load": load, "threads": args.threads, "peers": found}
            pathlib.Path(args.json).write_text(json.dumps(told, indent=1), encoding="utf-8")
        return 0
    rows, integer_rows = [], []
    for seed in args.seeds:
        folder = tempfile.mkdtemp(prefix="evoq_training_")
        row = train(args.evoq, args.data, seed, args.threads, args.more, folder)
        rows.append(row)
        print(
            f"seed {seed}: {100 * row['test_accuracy']:.2f}% after {row['epochs']} epochs, "
            f"{row['seconds']:.1f} s, {row['user_s']:.1f} user + {row['system_s']:.1f} system "
            f"processor seconds, {row['images_per_s']:.0f} images/s",
            flush=True,
        )
        if args.qat:
            integer_rows += integers(args, seed, folder)
        shutil.rmtree(folder)
    accuracy = statistics.median(r["test_accuracy"] for r in rows)
    seconds = statistics.median(r["seconds"] for r in rows)
    busy = statistics.median(r["user_s"] + r["system_s"] for r in rows)
    print(
        f"median: {100 * accuracy:.2f}% (bar {100 * BAR_ACCURACY:.1f}%), {seconds:.1f} s (bar "
        f"{BAR_SECONDS} s), {busy:.1f} processor seconds, {busy / args.threads:.1f} s a thread"
    )
    if args.qat:
        tell_integers(integer_rows)
    if args.json:
        told = {"load": load, "threads": args.threads, "runs": rows, "integers": integer_rows}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(told, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
