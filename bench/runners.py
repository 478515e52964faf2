"""Whoever runs a model: evoq (its own `bench` command), ONNX Runtime and OpenVINO. All are measured
the same way: the same file or its counterpart, the same threads and batch, a warm-up, then the
median of the runs of one round; rounds of all in turn, and the median over rounds. Inputs and
outputs are allocated once for all of them.
"""

import json
import os
import subprocess
import time

import numpy as np

WARMUP_S = 0.05
MIN_RUNS = 3


def one_line(error):
    return " ".join(str(error).split())[-200:]


def timed(run, seconds):
    """Median milliseconds of run()."""
    end = time.perf_counter() + WARMUP_S
    run()
    while time.perf_counter() < end:
        run()
    times = []
    end = time.perf_counter() + seconds
    while len(times) < MIN_RUNS or (time.perf_counter() < end and len(times) < 100000):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3


def random_input(dtype, shape, seed):
    """As `evoq bench` fills it: uniform in -1..1, bytes, else zeros."""
    rng = np.random.default_rng(seed)
    if dtype == np.float32:
        return rng.uniform(-1, 1, shape).astype(np.float32)
    if np.dtype(dtype).itemsize == 1 and dtype != np.bool_:
        return rng.integers(0, 256, shape).astype(np.uint8).view(dtype)
    return np.zeros(shape, dtype)


def sizes(shape, batch, fixed):
    """A shape's sizes: as fixed, else the batch in front and 1 for what else is free."""
    if fixed:
        return list(fixed)
    return [d if isinstance(d, int) else (batch if k == 0 else 1) for k, d in enumerate(shape)]


class Evoq:
    """One `evoq bench` process per round."""

    def __init__(self, evoq, model, threads, batch=1, shapes=None, environment=None):
        self.command = [
            evoq,
            "bench",
            model,
            "--threads",
            str(threads),
            "--warmup-ms",
            str(WARMUP_S * 1e3),
            "--iterations",
            str(MIN_RUNS),
        ]
        if shapes:
            for name, shape in shapes.items():
                self.command += ["--shape", f"{name}=" + "x".join(map(str, shape))]
        elif batch > 1:
            self.command += ["--batch", str(batch)]
        self.environment = {**os.environ, **(environment or {})}
        self.out = f"{model}.{os.getpid()}.json"
        self.last = {}

    def ms(self, seconds):
        self.last = run_evoq(
            self.command + ["--duration-s", str(seconds)], self.out, self.environment
        )
        return self.last["p50_ms"]


def run_evoq(command, out, environment=None):
    """The JSON that an evoq command writes; RuntimeError with its message otherwise."""
    done = subprocess.run(
        command + ["--json", out], capture_output=True, text=True, env=environment
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    with open(out) as f:
        result = json.load(f)
    os.remove(out)
    return result


class OnnxRuntime:
    def __init__(self, model, threads, batch=1, shapes=None):
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # Threads spin within a run, but a waiting session must not take the core that another is
        # measured on.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        types = {
            "tensor(float)": np.float32,
            "tensor(uint8)": np.uint8,
            "tensor(int8)": np.int8,
            "tensor(int64)": np.int64,
        }
        self.values = [
            ort.OrtValue.ortvalue_from_numpy(
                random_input(
                    types[i.type], sizes(i.shape, batch, (shapes or {}).get(i.name)), k + 1
                )
            )
            for k, i in enumerate(self.session.get_inputs())
        ]
        first, self.binding = self.session.io_binding(), self.session.io_binding()
        for binding in (first, self.binding):
            for i, value in zip(self.session.get_inputs(), self.values):
                binding.bind_ortvalue_input(i.name, value)
        for o in self.session.get_outputs():
            first.bind_output(o.name)
        self.session.run_with_iobinding(first)
        for o, value in zip(self.session.get_outputs(), first.get_outputs()):
            self.binding.bind_ortvalue_output(o.name, value)

    def ms(self, seconds):
        return timed(lambda: self.session.run_with_iobinding(self.binding), seconds)


class OpenVino:
    precision = "f32"  # of what the file has in float32

    def __init__(self, model, threads, batch=1, shapes=None):
        import openvino as ov

        core = ov.Core()
        network = core.read_model(model)
        network.reshape(
            {
                i: sizes(
                    [d.get_length() if d.is_static else None for d in i.partial_shape],
                    batch,
                    (shapes or {}).get(i.any_name),
                )
                for i in network.inputs
            }
        )
        compiled = core.compile_model(
            network,
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": self.precision,
                "PERFORMANCE_HINT": "LATENCY",
                "NUM_STREAMS": 1,
                "INFERENCE_NUM_THREADS": threads,
            },
        )
        self.request = compiled.create_infer_request()
        for k, i in enumerate(compiled.inputs):
            self.request.set_tensor(
                i, ov.Tensor(random_input(i.element_type.to_dtype(), list(i.shape), k + 1))
            )

    def ms(self, seconds):
        return timed(self.request.infer, seconds)


class OpenVinoBf16(OpenVino):
    """OpenVINO without a hint takes bfloat16 where the processor has it."""

    precision = "bf16"


def available_peers():
    """name -> class of the peers that are installed."""
    peers = {}
    for name, module, peer in (("ort", "onnxruntime", OnnxRuntime), ("ov", "openvino", OpenVino)):
        try:
            __import__(module)
            peers[name] = peer
        except ImportError:
            print(f"{module} is not installed: pip install {module}", flush=True)
    return peers


def create(make, *arguments, **named):
    """A runner, or why there is none."""
    try:
        return make(*arguments, **named), None
    except (
        Exception
    ) as e:  # each peer has exceptions of its own; any means that it refuses the model
        return None, one_line(e)


def wait_idle():
    """Until no thread of this process takes a core: peers' threads may spin for a while behind a
    run."""
    for _ in range(100):
        start = time.process_time()
        time.sleep(0.01)
        if time.process_time() - start < 0.002:
            return


def interleave(runners, rounds, seconds):
    """{name: (runner, error)} -> ({name: the times of all rounds}, {name: error}). Odd rounds run
    backwards."""
    names = [n for n, (runner, _) in runners.items() if runner]
    errors = {n: error for n, (runner, error) in runners.items() if not runner}
    times = {n: [] for n in names}
    for k in range(rounds):
        for name in names if k % 2 == 0 else names[::-1]:
            if name in errors:
                continue
            wait_idle()
            try:
                times[name].append(runners[name][0].ms(seconds))
            except Exception as e:
                errors[name] = one_line(e)
    return {n: t for n, t in times.items() if n not in errors}, errors


def medians(rounds, names):
    """{name: median over rounds}; None for those of `names` that have none."""
    return {n: float(np.median(rounds[n])) if rounds.get(n) else None for n in names}


def versions():
    found = {}
    for module in ("onnxruntime", "openvino"):
        try:
            found[module] = __import__(module).__version__
        except ImportError:
            pass
    return found
