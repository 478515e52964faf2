#!/usr/bin/env python3
"""evoq.ray on a Ray cluster of this machine: calibration writes the bytes of one process, also
where a worker is killed in the middle; evaluation and batch inference give the numbers and bits of
one process; a search finds what trying by hand does. The deployment of examples/ray answers what
`Model.run` does. Skips (exit status 77) where ray (pip install ray: 240 MB), the Python package or
onnx is missing; the deployment where Ray Serve is."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import warnings

import agree

PACKAGE = str(agree.BUILD / "python")
sys.path.insert(0, PACKAGE)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [PACKAGE, *filter(None, [os.environ.get("PYTHONPATH")])]
)  # of the workers
os.environ.update(
    RAY_AUTH_MODE="disabled",  # a token would be kept in the home folder
    RAY_USAGE_STATS_ENABLED="0",
    RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S="300",
    RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S="300",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
)
agree.need("numpy", "onnx", "ray", "evoq")
import numpy as np
import ray
import tiny_models

import evoq

failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail, flush=True)
    if not holds:
        failures.append(what)


def model(path, channels=32):
    net = tiny_models.Net(seed=3)
    x = net.add("Relu", [net.conv("c1", "x", 3, channels)], "r1")
    for i in range(2, 5):
        x = net.add("Relu", [net.conv(f"c{i}", x, channels, channels)], f"r{i}")
    x = net.add("Flatten", [net.add("GlobalAveragePool", [x], "pool")], "flat")
    net.add("Gemm", [x, net.weight("fc.w", channels, 10), net.weight("fc.b", 10)], "y")
    net.save(path, [tiny_models.value("x", "n", 3, 64, 64)], [tiny_models.value("y", "n", 10)])
    return str(path)


def workers(name):
    """Processes of this session's cluster that run the task of that name."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            )
    found = []
    for pid in parents:
        with contextlib.suppress(OSError):
            if f"ray::{name}".encode() not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                continue
            above = pid
            while above > 1 and above != os.getpid():
                above = parents.get(above, 0)
            if above == os.getpid():
                found.append(pid)
    return found


def kill_one(name, killed, stop):
    """Kills the first worker that is seen at it, half a second into its work."""
    while not stop.is_set() and not killed:
        if seen := workers(name):
            time.sleep(0.5)
            with contextlib.suppress(ProcessLookupError):
                if seen[0] in workers(name):
                    os.kill(seen[0], signal.SIGKILL)
                    killed.append(seen[0])
        time.sleep(0.01)


def check_calibration(work, onnx, images):
    wanted = {}
    for observer in ("sqnr", "moving-average"):
        etm, ranges = work / "wanted.etm", work / "wanted.json"
        evoq.quantize(
            onnx, etm, calibration=images, observer=observer, save_ranges=ranges, threads=1
        )
        wanted[observer] = ranges.read_bytes(), etm.read_bytes()
        stages = []
        report = evoq.ray.calibrate(
            onnx,
            work / "ranges.json",
            calibration=images,
            observer=observer,
            parts=3,
            progress=lambda stage, done: stages.append((stage, round(done, 3))),
        )
        check(
            f"{observer}: ranges are those of one process",
            (work / "ranges.json").read_bytes() == wanted[observer][0],
        )
        evoq.quantize(onnx, work / "q.etm", ranges=work / "ranges.json", observer=observer)
        check(f"{observer}: so is the .etm", (work / "q.etm").read_bytes() == wanted[observer][1])
        check(
            f"{observer}: {report['samples_used']} samples", report["samples_used"] == len(images)
        )
        passes = ["calibrating", "counting"] if observer == "sqnr" else ["calibrating"]
        told = [(stage, round(k / 3, 3)) for stage in passes for k in (1, 2, 3)]
        check(f"{observer}: progress", stages == told, str(stages))
    np.save(work / "images.npy", images)
    evoq.ray.calibrate(
        pathlib.Path(onnx).read_bytes(), work / "ranges.json", calibration=work / "images.npy"
    )
    check(
        "bytes of a model, samples of a file",
        (work / "ranges.json").read_bytes() == wanted["sqnr"][0],
    )
    warnings.simplefilter("ignore", RuntimeWarning)  # of samples that are there eight times
    killed, stop = [], threading.Event()
    killer = threading.Thread(target=kill_one, args=("_observe", killed, stop))
    killer.start()
    try:
        many = np.concatenate([images] * 8)
        evoq.ray.calibrate(
            onnx, work / "ranges.json", calibration=many, parts=2, calibration_limit=0
        )
    finally:
        stop.set()
        killer.join()
    evoq.calibrate(onnx, work / "one.json", calibration=many, calibration_limit=0)
    check("a worker was killed in the middle", len(killed) == 1, str(killed))
    check(
        "which changes nothing",
        (work / "ranges.json").read_bytes() == (work / "one.json").read_bytes(),
    )


def check_refusals(work, onnx, images):
    images = images.copy()
    images[5, 0, 0, 0] = np.nan
    for what, sentence, call in (
        (
            "a NaN in a worker's part",
            "holds a NaN or an infinity",
            lambda: evoq.ray.calibrate(onnx, work / "no.json", calibration=images, parts=2),
        ),
        (
            "an observer that is none",
            "--observer best: not one of",
            lambda: evoq.ray.calibrate(onnx, work / "no.json", calibration=images, observer="best"),
        ),
        (
            "a search by top1 without labels",
            "by='top1' needs labels",
            lambda: evoq.ray.search(
                onnx,
                work / "no.json",
                {"observer": ["sqnr"]},
                calibration=images,
                data="",
                by="top1",
            ),
        ),
        (
            "inputs of different lengths",
            "inputs of [1, 2] samples",
            lambda: evoq.ray.batch_infer(onnx, {"x": images[:1], "y": images[:2]}),
        ),
    ):
        try:
            call()
            check(f"{what} is refused", False, "it was not")
        except evoq.Error as error:
            check(f"{what} is refused", sentence in str(error), str(error))
    check("nothing was written", not (work / "no.json").exists())


def check_evaluation(work, onnx):
    etm = work / "wanted.etm"
    (work / "labels.tsv").write_text("")
    one = evoq.eval(etm, data=work / "images.npy", reference=onnx)
    many = evoq.ray.evaluate(etm, data=str(work / "images.npy"), reference=onnx, parts=3)
    one.pop("ms_per_sample"), many.pop("ms_per_sample")
    check("evaluation gives the numbers of one process", one == many, f"{one} {many}")


def check_search(work, onnx, images):
    space = {"observer": ["minmax", "sqnr", "entropy"], "scheme": ["int8", "int8-dynamic"]}
    found = evoq.ray.search(
        onnx, work / "best.etm", space, calibration=images, data=str(work / "images.npy")
    )
    check("a search tries all", len(found["tried"]) == 6, found.text)
    best = max(found["tried"], key=lambda row: row["sqnr_db"])
    check("and takes the best", found["best"] == best["options"], found.text)
    evoq.quantize(onnx, work / "hand.etm", calibration=images, **found["best"])
    check(
        "which is what quantize makes",
        (work / "best.etm").read_bytes() == (work / "hand.etm").read_bytes(),
    )
    try:
        evoq.ray.search(
            *(onnx, work / "none.etm", {"observer": ["minmax"]}),
            **{"calibration": images, "data": str(work / "images.npy"), "max_bytes": 10},
        )
        check("a search without a result is refused", False)
    except evoq.Error as error:
        check("a search without a result is refused", "nothing that was tried serves" in str(error))


def check_inference(onnx, images):
    local = evoq.load(onnx, threads=1)
    wanted = np.concatenate([local.run({"x": images[i : i + 5]})["y"] for i in range(0, 24, 5)])
    got = evoq.ray.batch_infer(onnx, images, batch=5)
    check("batches give the bits of Model.run", got["y"].tobytes() == wanted.tobytes())
    read = []

    def source():
        for i in range(24):
            read.append(i)
            yield {"x": images[i : i + 1]}

    results = evoq.ray.infer_batches(onnx, source(), ahead=3)
    first = next(results)["y"]
    check("a source is read ahead, no further", len(read) == 4, str(read))
    check("in order", np.array_equal(first, local.run({"x": images[:1]})["y"]))
    results.close()


def check_deployment(onnx, images):
    try:
        from ray import serve
    except ImportError as error:
        print(f"skipped: Ray Serve: {error}")
        return
    os.environ["EVOQ_MODEL"] = onnx
    sys.path.insert(0, str(agree.ROOT / "examples/ray"))
    import serve_model

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with contextlib.suppress(TimeoutError):  # Ray waits for a minute; a busy machine takes longer
        serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(serve_model.app)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if ask(port, {})[0] == 400:
                break
        time.sleep(0.5)
    try:
        wanted = evoq.load(onnx, threads=1).run({"x": images[:12]})["y"]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            got = list(pool.map(lambda image: ask(port, {"x": image.tolist()}), images[:12]))
        check("the deployment answers", [status for status, _ in got] == [200] * 12, str(got)[:300])
        outputs = np.array([answer["outputs"]["y"] for _, answer in got], np.float32)
        check("what Model.run does", np.allclose(outputs, wanted, rtol=1e-5, atol=1e-6))
        for inputs, sentence in (
            ({}, "inputs: 'x'"),
            ({"x": [1, 2]}, "inputs: x: [2], expected [3, 64, 64]"),
            ({"x": "no"}, "inputs: could not convert"),
        ):
            status, answer = ask(port, inputs)
            check(f"{inputs} is refused", status == 400 and sentence in answer["error"], answer)
    finally:
        serve.shutdown()


def ask(port, inputs):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/", json.dumps({"inputs": inputs}).encode()
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def main():
    images = np.random.default_rng(2).standard_normal((24, 3, 64, 64)).astype(np.float32)
    ray.init(
        num_cpus=2,
        num_gpus=0,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200 << 20,
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            onnx = model(work / "model.onnx")
            check_calibration(work, onnx, images)
            check_refusals(work, onnx, images)
            check_evaluation(work, onnx)
            check_search(work, onnx, images)
            check_inference(onnx, images)
            check_deployment(onnx, images)
    finally:
        ray.shutdown()
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
