#!/usr/bin/env python3
"""Language models and their int4 products beside other runtimes, in turn in one run.

    bench/language_peers.py products|models|logits [--evoq build/release/bin/evoq] [--threads N]
                            [--rounds N] [--folder DIR] [--only NAME]

products: 1, 8 and 128 rows by 4096 x 4096 in int4 blocks of 32, one MatMulNBits of accuracy level
        4, in evoq and in ONNX Runtime; of one matrix, which stays in the L3 cache.
models: the shapes of qwen2-0.5b and tinyllama-1.1b with random weights in int4 blocks of 32 (head
        and embedding too): a prompt of 512 tokens and 32 tokens behind 512 in evoq (int4-dynamic)
        and llama.cpp (Q4_0).
logits: stories260K as a GGUF file of Q4_0 in both, llama.cpp with a float32 cache. It rounds data
        to int8 beside Q4_0, which evoq does not do with a file's own weights: further lines have
        llama.cpp read the very values of Q4_0 as float32.

Each round measures every runtime once; printed are the fastest round and, in brackets, the median,
and the ratio of the fastest. Needs from PyPI: numpy, onnx and onnxruntime, or gguf and
llama-cpp-python.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORIES = ROOT.parent / "shared" / "data" / "llm" / "stories260K.bin"
MODELS = ("qwen2-0.5b", "tinyllama-1.1b")
PROMPT, WRITTEN = 512, 32


def evoq(*arguments):
    done = subprocess.run([options.evoq, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"language_peers.py: evoq {arguments[0]}: {done.stderr.strip()}")


def bench(model, *arguments):
    report = options.folder / "bench.json"
    evoq("bench", model, "--threads", options.threads, "--json", report, *arguments)
    return json.loads(report.read_text())


def print_row(name, figures, unit, higher_is_better):
    """figures: of each runtime, those of the rounds; evoq's first."""
    best = {k: max(v) if higher_is_better else min(v) for k, v in figures.items()}
    own = best["evoq"]
    parts = [f"{k} {best[k]:.4g} [{statistics.median(v):.4g}]" for k, v in figures.items()]
    ratios = [
        f"{own / b if higher_is_better else b / own:.2f} x {k}"
        for k, b in best.items()
        if k != "evoq"
    ]
    print(f"{name:34} {unit}: {', '.join(parts)}; evoq {', '.join(ratios)}", flush=True)


def write_product(path, rows, depth, columns):
    import onnx
    from onnx import TensorProto, helper

    rng = np.random.default_rng(1)
    blocks = depth // 32
    weights = rng.integers(0, 256, (columns, blocks, 16), np.uint8)
    scales = rng.uniform(0.005, 0.01, columns * blocks).astype(np.float16).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits",
        ["x", "w", "s"],
        ["y"],
        domain="com.microsoft",
        K=depth,
        N=columns,
        bits=4,
        block_size=32,
        accuracy_level=4,
    )
    tensors = [
        onnx.numpy_helper.from_array(weights, "w"),
        onnx.numpy_helper.from_array(scales, "s"),
    ]
    value = lambda name, size: helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size])
    graph = helper.make_graph(
        [node], "product", [value("x", depth)], [value("y", columns)], tensors
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def products():
    import onnxruntime

    for rows in (1, 8, 128):
        path = options.folder / f"product_{rows}.onnx"
        write_product(path, rows, 4096, 4096)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        session = onnxruntime.InferenceSession(str(path), settings, ["CPUExecutionProvider"])
        x = np.random.default_rng(2).uniform(-1, 1, (rows, 4096)).astype(np.float32)
        peers = {"evoq": [], "ONNX Runtime": []}
        for _ in range(options.rounds):
            peers["evoq"].append(bench(path, "--duration-s", 0.5)["min_ms"])
            times, end = [], time.perf_counter() + 0.5
            while time.perf_counter() < end:
                start = time.perf_counter()
                session.run(None, {"x": x})
                times.append(time.perf_counter() - start)
            peers["ONNX Runtime"].append(1e3 * min(times))
        print_row(f"int4 {rows} x 4096 x 4096", peers, "ms", False)


class LlamaCpp:
    """A model in llama.cpp, through the C interface of llama-cpp-python."""

    def __init__(self, path, context, float_cache=False):
        import llama_cpp as c

        self.c = c
        self.silent = c.llama_log_callback(lambda *_: None)
        c.llama_log_set(self.silent, ctypes.c_void_p())
        c.llama_backend_init()
        self.model = c.llama_model_load_from_file(
            str(path).encode(), c.llama_model_default_params()
        )
        if not self.model:
            raise SystemExit(f"language_peers.py: llama.cpp does not load {path}")
        settings = c.llama_context_default_params()
        settings.n_ctx = context
        settings.n_batch = settings.n_ubatch = PROMPT
        settings.n_threads = settings.n_threads_batch = options.threads
        if float_cache:
            settings.type_k = settings.type_v = c.GGML_TYPE_F32
            settings.flash_attn_type = 0  # it would round to float16
        self.context = c.llama_init_from_model(self.model, settings)

    def clear(self):
        self.c.llama_memory_clear(self.c.llama_get_memory(self.context), True)

    def run(self, tokens):
        """Logits of the last token."""
        ids = (self.c.llama_token * len(tokens))(*tokens)
        batch = self.c.llama_batch_get_one(ids, len(tokens))
        if self.c.llama_decode(self.context, batch) != 0:
            raise SystemExit("language_peers.py: llama_decode failed")
        size = self.c.llama_vocab_n_tokens(self.c.llama_model_get_vocab(self.model))
        return np.ctypeslib.as_array(self.c.llama_get_logits_ith(self.context, -1), (size,)).copy()


def prepared(name):
    """The .etm and the GGUF file of a model of the zoo, kept in the folder."""
    import gguf_models

    folder, etm = options.folder / name, options.folder / f"{name}.etm"
    file = options.folder / f"{name}.gguf"
    if not folder.exists():
        evoq("zoo", name, "-o", folder)
    if not etm.exists():
        evoq("quantize", folder, "--scheme", "int4-dynamic", "-o", etm)
    if not file.exists():
        gguf_models.write_from_folder(folder, file)
    return etm, file


def models():
    for name in MODELS:
        if options.only not in (None, name):
            continue
        etm, file = prepared(name)
        peer = LlamaCpp(file, PROMPT + WRITTEN + 32)
        tokens = np.random.default_rng(3).integers(3, 30000, PROMPT).tolist()
        prompt, decode = ({"evoq": [], "llama.cpp": []} for _ in range(2))
        for _ in range(options.rounds):
            phases = bench(
                etm, "-p", PROMPT, "-d", PROMPT, "-n", WRITTEN, "--sequences", 1, "--duration-s", 1
            )["phases"]
            for phase, figures in zip(("prompt", "decode"), (prompt, decode)):
                row = next(p for p in phases if p["phase"] == phase)
                figures["evoq"].append(row["tokens_per_s"])
            peer.clear()
            start = time.perf_counter()
            peer.run(tokens)
            prompt["llama.cpp"].append(PROMPT / (time.perf_counter() - start))
            start = time.perf_counter()
            for token in tokens[:WRITTEN]:
                peer.run([token])
            decode["llama.cpp"].append(WRITTEN / (time.perf_counter() - start))
        print_row(f"{name}, prompt of {PROMPT}", prompt, "tokens/s", True)
        print_row(f"{name}, decode behind {PROMPT}", decode, "tokens/s", True)


def evoq_logits(model, tokens, facts):
    """Of the last token."""
    context = len(tokens)
    inputs = {
        "input_ids": np.array([tokens], np.int64),
        "position": np.zeros(1, np.int64),
        "logits_at": np.array([[context - 1]], np.int64),
    }
    size = facts["width"] // facts["heads"]
    for layer in range(facts["layers"]):
        for kind in ("key", "value"):
            shape = (1, facts["key_heads"], context, size)
            inputs[f"past_{kind}.{layer}"] = np.zeros(shape, np.float32)
    arguments = []
    for key, values in inputs.items():
        np.save(options.folder / f"{key}.npy", values)
        arguments += ["--input", f"{key}={options.folder / f'{key}.npy'}"]
    evoq("run", model, *arguments, "--output-dir", options.folder)
    return np.load(options.folder / "logits.npy").reshape(-1)


def logits():
    import gguf_models

    file, etm = options.folder / "stories260K.gguf", options.folder / "stories260K.etm"
    values = options.folder / "stories260K-values.gguf"
    facts = gguf_models.write_from_checkpoint(STORIES, file)
    gguf_models.write_from_checkpoint(STORIES, values, as_float=True)
    evoq("compile", file, "-o", etm)
    tokens = [1, *np.random.default_rng(4).integers(3, facts["vocabulary"], 31).tolist()]
    for name, path in (("Q4_0", file), ("its values as float32", values)):
        peer = LlamaCpp(path, 64, float_cache=True)
        for count in (1, 8, 32):
            peer.clear()
            theirs, own = peer.run(tokens[:count]), evoq_logits(etm, tokens[:count], facts)
            print(
                f"{name}, logits of token {count}: largest difference "
                f"{np.abs(theirs - own).max():.3g} of magnitudes up to {np.abs(theirs).max():.3g}"
            )


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("part", choices=("products", "models", "logits"))
parser.add_argument("--evoq", default=str(ROOT / "build" / "release" / "bin" / "evoq"))
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--folder", type=pathlib.Path, help="keeps models there (GBs)")
parser.add_argument("--only", choices=MODELS)
options = parser.parse_args()

if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "bench"))
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or pathlib.Path(temporary)
        options.folder.mkdir(parents=True, exist_ok=True)
        {"products": products, "models": models, "logits": logits}[options.part]()
