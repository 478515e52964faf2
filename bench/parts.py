"""The parts of the peers' benchmark. Each yields rows: what was measured (key fields), "ms" by
runner, errors, and figures derived from them. Files are made first (prepare), so that measuring
runs nothing else."""

import math
import os
import re
import signal
import subprocess
import sys
import time

import blocks
import networks
import products
from models import MODELS
from pairs import paired
from runners import Evoq, OpenVinoBf16, available_peers, create, interleave, medians, one_line


# of `evoq quantize --target`: each peer runs the file that it is faster with
TARGETS = ("ort", "openvino")


class Bench:
    """What all parts share."""

    def __init__(self, files, evoq, only, threads, batches, rounds, seconds, peers=None):
        self.files, self.evoq, self.only = files, evoq, re.compile(only)
        self.threads, self.batches, self.rounds, self.seconds = threads, batches, rounds, seconds
        self.peers = available_peers() if peers is None else peers
        self.rooflines = True  # whether rows say what the machine can do at most

    def peak(self, threads):
        """What `evoq limits` measures, now: clocks drift."""
        return self.files.call("limits", "--threads", str(threads))

    def ours(self, make_file, threads, batch=1, shapes=None, environment=None):
        """evoq on the file that make_file() returns; where evoq cannot make it, the reason."""
        try:
            return Evoq(self.evoq, make_file(), threads, batch, shapes, environment), None
        except (RuntimeError, ValueError) as e:
            return None, one_line(e)

    def theirs(self, peer, make_file, threads, batch=1, shapes=None):
        try:
            return create(self.peers[peer], make_file(), threads, batch, shapes)
        except (RuntimeError, ValueError) as e:
            return None, one_line(e)

    def fastest(self, peer, makers, threads, batch=1, shapes=None):
        """A peer on that one of several files of the same model that it runs fastest, and which it
        is."""
        best = (None, "no file", 0, math.inf)
        for number, make in enumerate(makers):
            runner, error = self.theirs(peer, make, threads, batch, shapes)
            ms = runner.ms(0.1) if runner else math.inf
            if ms <= best[3]:
                best = (runner, error, number, ms)
        return best[:2], best[2]

    def row(self, runners, threads, **key):
        rounds, errors = interleave(runners, self.rounds, self.seconds)
        row = dict(key, threads=threads, ms=medians(rounds, runners))
        if self.rooflines:
            row["peak"] = {k: v for k, v in self.peak(threads).items() if isinstance(v, float)}
        if errors:
            row["errors"] = errors
        return row


def ratio(a, b):
    return a / b if a and b else None


def faster(ms, *names):
    times = [ms[n] for n in names if ms.get(n)]
    return min(times) if times else None


def models(bench, prepare):
    """Whole models, float32 and static int8 (and evoq's other schemes), against every peer."""
    files = bench.files
    for model in MODELS:
        if not bench.only.search(model.name):
            continue
        for batch in bench.batches:
            shapes = files.batched_shapes(model, batch) or None
            try:
                source = files.source(model, batch)
            except ValueError as e:
                yield {
                    "model": model.name,
                    "batch": batch,
                    "threads": 0,
                    "ms": {},
                    "errors": {"all": str(e)},
                }
                continue
            name = model.name + (f".batch{batch}" if batch > 1 and model.fixed_batch else "")
            etm = {
                "evoq_fp32": lambda: files.compiled(source, name + ".fp32", shapes),
                "evoq_int8": lambda: files.quantized(model, batch),
                "evoq_bf16": lambda: files.quantized(model, batch, scheme="bf16"),
                "evoq_int8w": lambda: files.quantized(model, batch, scheme="int8-weights"),
            }
            exported = [
                lambda target=target: files.quantized(model, batch, target=target)
                for target in TARGETS
            ]
            onnx = {"fp32": [lambda: source], "int8": exported}
            if prepare:
                for make in [*etm.values(), *onnx["int8"]]:
                    bench.ours(make, 1)
                continue
            macs = files.macs(model, batch)
            for threads in bench.threads:
                runners = {n: bench.ours(make, threads, batch, shapes) for n, make in etm.items()}
                chosen = {}
                for precision, makers in onnx.items():
                    for peer in bench.peers:
                        runners[f"{peer}_{precision}"], chosen[f"{peer}_{precision}"] = (
                            bench.fastest(peer, makers, threads, batch, shapes)
                        )
                if "ov" in bench.peers:
                    runners["ov_bf16"] = create(OpenVinoBf16, source, threads, batch, shapes)
                exports = {peer: TARGETS[chosen[f"{peer}_int8"]] for peer in bench.peers}
                yield models_figures(
                    bench.row(
                        runners, threads, model=model.name, batch=batch, exported_for=exports
                    ),
                    macs,
                )


def models_figures(row, macs):
    ms, peak = row["ms"], row["peak"]
    row["macs"] = macs
    for precision, gops in (("int8", peak["int8_gops"]), ("fp32", peak["fp32_gflops"])):
        ours = ms.get(f"evoq_{precision}")
        for peer in ("ort", "ov"):
            row[f"{precision}_vs_{peer}"] = ratio(ms.get(f"{peer}_{precision}"), ours)
        row[f"{precision}_vs_faster"] = ratio(
            faster(ms, f"ort_{precision}", f"ov_{precision}"), ours
        )
        row[f"{precision}_of_peak"] = 2e-6 * macs / ours / gops if ours else None
    row["int8_vs_own_fp32"] = ratio(ms.get("evoq_fp32"), ms.get("evoq_int8"))
    row["bf16_vs_ov"] = ratio(ms.get("ov_bf16"), ms.get("evoq_bf16"))
    row["bf16_vs_own_fp32"] = ratio(ms.get("evoq_fp32"), ms.get("evoq_bf16"))
    row["int8w_vs_own_fp32"] = ratio(ms.get("evoq_fp32"), ms.get("evoq_int8w"))
    return row


def form_files(bench):
    """network -> form -> the file: the int8 forms of ResNet-50 and MobileNetV2, and a file that
    another tool made."""
    folder, data = bench.files.generated("forms"), bench.files.data
    found = {
        net: {form: os.path.join(folder, f"{net}_{form}.onnx") for form in networks.FORMS}
        for net in networks.NETWORKS
    }
    found["edgeopt"] = {
        "fp32": os.path.join(data, "models", "mobilenetv2.onnx"),
        "dynamic_u8": os.path.join(data, "quantized", "edgeopt_model_uint8.onnx"),
    }
    return {
        net: {form: path for form, path in of.items() if os.path.exists(path)}
        for net, of in found.items()
    }


def forms(bench, prepare):
    """Each form of int8 as it is, beside the peers on the same file."""
    bench.rooflines = False
    for net, of in form_files(bench).items():
        for form, path in of.items():
            if not bench.only.search(f"{net}_{form}"):
                continue
            etm = lambda: bench.files.compiled(path, f"{net}_{form}")
            if prepare:
                bench.ours(etm, 1)
                continue
            for threads in bench.threads:
                runners = {
                    "evoq": bench.ours(etm, threads),
                    **{p: create(make, path, threads) for p, make in bench.peers.items()},
                }
                row = bench.row(runners, threads, net=net, form=form)
                row.update(
                    {f"vs_{p}": ratio(row["ms"].get(p), row["ms"]["evoq"]) for p in bench.peers}
                )
                yield row


def own_forms(bench, prepare):
    """Our own times of a network's forms, each once in every round: what is compared was measured
    seconds apart."""
    bench.rooflines = False
    for net, of in form_files(bench).items():
        if not bench.only.search(net):
            continue
        etm = {
            form: (lambda path=path, form=form: bench.files.compiled(path, f"{net}_{form}"))
            for form, path in of.items()
        }
        if prepare:
            for make in etm.values():
                bench.ours(make, 1)
            continue
        for threads in bench.threads:
            rounds, errors = interleave(
                {form: bench.ours(make, threads) for form, make in etm.items()},
                bench.rounds,
                bench.seconds,
            )
            row = {"net": net, "threads": threads, "ms": medians(rounds, etm), "rounds": rounds}
            yield {**row, "errors": errors} if errors else row


def small_blocks(bench, prepare):
    """Small blocks, float32 and int8 in ours and in ONNX Runtime."""
    folder = bench.files.generated("blocks")
    for name in blocks.NAMES:
        forms_ = [
            f for f in blocks.FORMS if os.path.exists(os.path.join(folder, f"{name}_{f}.onnx"))
        ]
        if not bench.only.search(name):
            continue
        if prepare:
            for f in forms_:
                bench.ours(
                    lambda f=f: bench.files.compiled(
                        os.path.join(folder, f"{name}_{f}.onnx"), f"{name}_{f}"
                    ),
                    1,
                )
            continue
        for threads in bench.threads:
            runners = {}
            for f in forms_:
                path = os.path.join(folder, f"{name}_{f}.onnx")
                runners["evoq_" + f] = bench.ours(
                    lambda: bench.files.compiled(path, f"{name}_{f}"), threads
                )
                for peer in set(bench.peers) & {"ort"}:
                    runners[f"{peer}_{f}"] = create(bench.peers[peer], path, threads)
            rounds, errors = interleave(runners, bench.rounds, bench.seconds)
            row = {"block": name, "threads": threads, "ms": medians(rounds, runners)}
            for f in forms_[1:]:
                row[f"{f}_vs_own_fp32"] = paired(rounds, "evoq_fp32", "evoq_" + f)
                row[f"{f}_vs_ort"] = paired(rounds, "ort_" + f, "evoq_" + f)
            row["fp32_vs_ort"] = paired(rounds, "ort_fp32", "evoq_fp32")
            yield {**row, "errors": errors} if errors else row


class Dnnl:
    """oneDNN through bench/dnnl_gemm.cc, where Debian's libdnnl-dev is installed."""

    def __init__(self, program, threads, shape, kind):
        self.command = [program, None, *map(str, shape), kind]
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}

    def ms(self, seconds):
        self.command[1] = str(seconds)
        done = subprocess.run(
            self.command, capture_output=True, text=True, env=self.environment, check=True
        )
        return float(done.stdout.split(":")[1].strip(" }\n"))

    @staticmethod
    def build(folder):
        """The program's path, or why there is none."""
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dnnl_gemm.cc")
        program = os.path.join(folder, "dnnl_gemm")
        if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
            compiler = os.environ.get("CXX", "c++")
            try:
                done = subprocess.run(
                    [compiler, "-O2", "-std=c++17", source, "-ldnnl", "-o", program],
                    capture_output=True,
                    text=True,
                )
            except OSError as e:
                return None, one_line(e)
            if done.returncode != 0:
                return (
                    None,
                    "oneDNN is not installed (apt-get install libdnnl-dev)"
                    if "dnnl.hpp" in done.stderr
                    else one_line(done.stderr),
                )
        return program, None


def gemm(bench, prepare):
    """Matrix products: float32, uint8 x int8 to int32, and uint8 to uint8 through Q/DQ."""
    folder = bench.files.generated("gemm")
    program, why = Dnnl.build(bench.files.folder)
    if why:
        print(f"gemm without oneDNN: {why}", flush=True)
    for shape in products.SHAPES:
        name = "x".join(map(str, shape))
        if not bench.only.search(name):
            continue
        etm = {
            kind: (
                lambda kind=kind: bench.files.compiled(
                    os.path.join(folder, f"{name}_{kind}.onnx"), f"{name}_{kind}"
                )
            )
            for kind in products.KINDS
        }
        etm["bf16"] = lambda: bf16_product(bench, folder, name)
        if prepare:
            for make in etm.values():
                bench.ours(make, 1)
            continue
        for threads in bench.threads:
            for kind in etm:
                runners = {"evoq": bench.ours(etm[kind], threads)}
                if kind != "bf16":
                    runners.update(
                        {
                            p: create(
                                bench.peers[p], os.path.join(folder, f"{name}_{kind}.onnx"), threads
                            )
                            for p in set(bench.peers) & {"ort"}
                        }
                    )
                if program and kind != "u8s8u8":
                    runners["dnnl"] = Dnnl(program, threads, shape, kind), None
                yield gemm_figures(bench.row(runners, threads, shape=name, kind=kind), shape)


def bf16_product(bench, folder, name):
    path = bench.files.path(f"{name}_bf16.etm")
    if bench.files.stale(path, bench.evoq):
        bench.files.call(
            "quantize", os.path.join(folder, f"{name}_f32.onnx"), "--scheme", "bf16", "-o", path
        )
    return path


def l3_bytes():
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size") as f:
            return int(f.read().strip().rstrip("K")) * 1024
    except (OSError, ValueError):
        return 32 << 20


def gemm_figures(row, shape):
    (m, k, n), limits = shape, row["peak"]
    kind = row["kind"]
    peak = {"f32": limits["fp32_gflops"], "bf16": limits["bf16_gflops"]}.get(
        kind, limits["int8_gops"]
    )
    if not peak:  # products of bfloat16 are float32's
        peak = limits["fp32_gflops"]
    weight_bytes = k * n * {"f32": 4, "bf16": 2}.get(kind, 1)
    level = "l3_read_gbps" if weight_bytes <= l3_bytes() else "dram_read_gbps"
    row["of_peak"], row["of_bandwidth"] = {}, {}
    for name, ms in row["ms"].items():
        if ms:
            row["of_peak"][name] = 2e-6 * m * k * n / ms / peak
            row["of_bandwidth"][name] = 1e-6 * weight_bytes / ms / limits[level]
    row["bandwidth_level"] = level.split("_")[0]
    row.update({f"vs_{p}": ratio(row["ms"].get(p), row["ms"].get("evoq")) for p in ("ort", "dnnl")})
    return row


def system(bench, prepare):
    """Dispatch, load time, memory, a busy machine, and AVX2."""
    files = bench.files
    by_name = {m.name: m for m in MODELS}
    resnet50 = lambda: files.quantized(by_name["resnet50"])
    targets = [
        ("resnet50", resnet50),
        ("mobilenetv2", lambda: files.quantized(by_name["mobilenetv2"])),
    ]
    chains = files.generated("chains")
    if prepare:
        for make in [m for _, m in targets]:
            bench.ours(make, 1)
        return
    for name in sorted(os.listdir(chains)):
        if not name.endswith(".onnx") or not bench.only.search(name):
            continue
        path = os.path.join(chains, name)
        for threads in bench.threads:
            runners = {"evoq": bench.ours(lambda: files.compiled(path, name[:-5]), threads)}
            if "ort" in bench.peers:  # OpenVINO takes minutes to compile these
                runners["ort"] = create(bench.peers["ort"], path, threads)
            row = bench.row(runners, threads, what=name[:-5])
            row["ns_per_node"] = {n: ms * 1e3 for n, ms in row["ms"].items() if ms}
            yield row
    if bench.only.search("load"):
        yield load_and_memory(bench, resnet50(), files.quantized(by_name["resnet50"], target="ort"))
    if bench.only.search("busy"):
        yield busy_machine(bench, resnet50())
    for name, make in targets:
        if not bench.only.search("avx2"):
            continue
        for threads in bench.threads:
            environment = {"EVOQ_TARGET": "AVX2"}
            fp32 = lambda: files.compiled(files.source(by_name[name]), name + ".fp32")
            row = bench.row(
                {
                    "evoq_fp32": bench.ours(fp32, threads, environment=environment),
                    "evoq_int8": bench.ours(make, threads, environment=environment),
                },
                threads,
                what="avx2_" + name,
            )
            row["int8_vs_own_fp32"] = ratio(row["ms"]["evoq_fp32"], row["ms"]["evoq_int8"])
            yield row


def load_and_memory(bench, etm, qdq):
    """Medians over rounds of the load time and the largest peak memory of ResNet-50 int8, one
    thread.

    What is allowed: 1.5 times the weights and the two largest activations, for all of the process.
    """
    ours = Evoq(bench.evoq, etm, 1)
    load, memory = [], []
    for _ in range(max(5, bench.rounds)):
        ours.ms(0.1)
        load.append(ours.last["load_ms"])
        memory.append(ours.last["peak_rss_bytes"])
    weights = ours.last["weight_bytes"]
    activations = 112 * 112 * 64 + 56 * 56 * 256  # the two largest, uint8
    row = {
        "what": "load_resnet50_int8",
        "threads": 1,
        "ms": {"evoq": sorted(load)[len(load) // 2]},
        "peak_rss_bytes": max(memory),
        "weight_bytes": weights,
        "arena_bytes": ours.last["arena_bytes"],
        "allowed_bytes": 1.5 * (weights + activations),
    }
    for name, module in (("ort", "onnxruntime"), ("ov", "openvino")):
        if name in bench.peers:
            row["ms"][name], row[f"{name}_peak_rss_bytes"] = peer_load(name, qdq)
    return row


PEER_LOAD = """
import resource, sys, time
sys.path.insert(0, sys.argv[1])
from runners import OnnxRuntime, OpenVino
peer = {"ort": OnnxRuntime, "ov": OpenVino}[sys.argv[2]]
__import__({"ort": "onnxruntime", "ov": "openvino"}[sys.argv[2]])
start = time.perf_counter()
runner = peer(sys.argv[3], 1)
ms = (time.perf_counter() - start) * 1e3
runner.ms(0.1)
print(ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peer_load(name, path):
    """(milliseconds to a session with one run behind it, peak bytes with Python's own) in a process
    of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PEER_LOAD, os.path.dirname(os.path.abspath(__file__)), name, path],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return None, None
    ms, rss = done.stdout.split()
    return float(ms), int(rss)


def busy_machine(bench, etm):
    """Mean time of a 2-thread run alone, beside a process that computes on one core, and beside a
    second such run."""
    ours = Evoq(bench.evoq, etm, 2)
    other = Evoq(bench.evoq, etm, 2)
    other.out += ".other"
    spin = [sys.executable, "-c", "while True: pass"]
    second = other.command + ["--duration-s", "60", "--json", other.out]

    def mean(beside):
        process = (
            subprocess.Popen(beside, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if beside
            else None
        )
        try:
            time.sleep(0.3 if beside else 0)
            ours.ms(max(0.5, bench.seconds))
            return ours.last["mean_ms"]
        finally:
            if process:
                process.send_signal(signal.SIGKILL)
                process.wait()

    times = {"alone": [], "beside_one_core": [], "beside_second_run": []}
    for _ in range(bench.rounds):
        for name, command in (
            ("alone", None),
            ("beside_one_core", spin),
            ("beside_second_run", second),
        ):
            times[name].append(mean(command))
    ms = {n: sorted(t)[len(t) // 2] for n, t in times.items()}
    return {
        "what": "busy_machine",
        "threads": 2,
        "ms": ms,
        "slower_beside_one_core": ms["beside_one_core"] / ms["alone"],
        "slower_beside_second_run": ms["beside_second_run"] / ms["alone"],
    }


PARTS = {
    "models": (models, ("model", "batch", "threads")),
    "own_forms": (own_forms, ("net", "threads")),
    "forms": (forms, ("net", "form", "threads")),
    "blocks": (small_blocks, ("block", "threads")),
    "gemm": (gemm, ("shape", "kind", "threads")),
    "system": (system, ("what", "threads")),
}
