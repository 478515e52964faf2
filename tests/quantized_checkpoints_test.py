#!/usr/bin/env python3
"""Language models whose weights another tool quantized (docs/llm.md): folders as GPTQ, AWQ,
compressed-tensors and fp8 checkpoints have them (tests/checkpoint_packings.py); the logits of
`evoq run` beside a plain evaluation in float64 (tests/tiny_lms.py) of the very values that they
stand for, and what is refused. With compressed-tensors from PyPI its packing is compared with the
one here. Skips (exit status 77) where numpy is missing."""

import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile

import agree

agree.need("numpy")
import numpy as np
import tiny_lms as lms
from checkpoint_packings import (
    COMPRESSED,
    F8,
    RANDOM,
    awq,
    bitnet,
    bitsandbytes,
    blocks,
    by_output,
    compressed,
    compressed_bytes,
    float4,
    float8,
    fp8,
    gptq,
    hqq,
    llm_int8,
    mlx,
    mlx_real,
    modelopt,
    mxfp8,
    quanto,
    quanto_packed,
    single,
    torchao,
    torchao_int4,
    words,
)
from language_models_test import check

CONFIG = {**lms.BASE, "model_type": "llama", "intermediate_size": 64, "tie_word_embeddings": False}
NAMES = {
    "uint8": "U8",
    "uint32": "U32",
    "int8": "I8",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
}


def renamed(form, settings):
    return settings, form[1]


def write(folder, config, parts, shards=1):
    """tensors of any type, in so many files."""
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    where = {}
    for i in range(shards):
        header, data = {}, b""
        for name in sorted(parts)[i::shards]:
            x = np.asarray(parts[name]) if np.isscalar(parts[name]) else parts[name]
            kind = "F8_E4M3" if isinstance(x, F8) else NAMES[x.dtype.name]
            span = [len(data), len(data) + x.nbytes]
            header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": span}
            data += x.tobytes()
            where[name] = f"model-{i}.safetensors" if shards > 1 else "model.safetensors"
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path = f"model-{i}.safetensors" if shards > 1 else "model.safetensors"
        with open(os.path.join(folder, path), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
    if shards > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
            json.dump({"metadata": {}, "weight_map": where}, file)


def quantized(config, pack, head, table=False):
    """The tensors of a folder, and what they stand for; with the head and the embedding."""
    parts, values = {}, {}
    for name, x in lms.tensors_of(config).items():
        chosen = "_proj." in name or (head and name.startswith("lm_head"))
        chosen |= table and "embed_tokens" in name
        if not chosen:
            parts[name], values[name] = x.astype(np.float32), x
            continue
        packed, matrix = pack(*x.shape)  # [inputs, outputs]
        stem = name.removesuffix(".weight")
        parts |= {f"{stem}.{part}": tensor for part, tensor in packed.items()}
        values[name] = matrix.T
    return parts, values


FORMATS = {
    "GPTQ": gptq(),
    "GPTQ, without g_idx": gptq(with_index=False),
    "GPTQ, desc_act": gptq(shuffled=True),
    "GPTQ, one group": gptq(group=-1),
    "GPTQ, 8 bits": gptq(bits=8),
    "GPTQ, 2 bits, version 2": gptq(bits=2, version="gptq_v2"),
    "AWQ": awq(),
    "AWQ, groups of 32": awq(32),
    "compressed, 4 bits": compressed(),
    "compressed, zero points": compressed(points=True),
    "compressed, by output": compressed(group=-1),
    "compressed, 8 bits in words": compressed(bits=8),
    "compressed, by activation order": compressed(points=True, shuffled=True),
    "compressed, int8": compressed_bytes(False),
    "compressed, int8, zero points": compressed_bytes(True),
    "compressed, float8": fp8(
        by_output, {**COMPRESSED, "format": "float-quantized"}, "weight_scale"
    ),
    "compressed, float8 in groups": fp8(blocks(1, 16), COMPRESSED, "weight_scale"),
    "compressed, float8 in blocks": fp8(
        blocks(24, 24),
        {**COMPRESSED, "config_groups": {"a": {"weights": {"block_structure": [24, 24]}}}},
        "weight_scale",
    ),
    "NVFP4": float4(False),
    "MXFP4": float4(True),
    "fp8 in blocks": fp8(
        blocks(24, 24), {"quant_method": "fp8", "weight_block_size": [24, 24]}, "weight_scale_inv"
    ),
    "fp8 by output, of FBGEMM": fp8(by_output, {"quant_method": "fbgemm_fp8"}, "weight_scale"),
    "mxfp8": mxfp8(),
    "fp8 of ModelOpt": fp8(single, {"quant_method": "modelopt"}, "weight_scale"),
    "NVFP4 of ModelOpt": modelopt(),
    "bitsandbytes, nf4": bitsandbytes(),
    "bitsandbytes, fp4, nested": bitsandbytes("fp4", nested=16),
    "bitsandbytes, blocks across rows": bitsandbytes(block=96, nested=8),
    "bitsandbytes, int8": llm_int8(),
    "HQQ, 8 bits": hqq(8),
    "HQQ, 4 bits": hqq(4, 64),
    "HQQ, 4 bits, axis 0": hqq(4, axis=0),
    "HQQ, 3 bits": hqq(3),
    "HQQ, 2 bits": hqq(2),
    "HQQ, 1 bit": hqq(1, 16),
    "MLX, 4 bits": mlx(4),
    "MLX, 8 bits": mlx(8, 16),
    "MLX, mxfp4": mlx_real("mxfp4"),
    "MLX, nvfp4": mlx_real("nvfp4"),
    "MLX, mxfp8": mlx_real("mxfp8"),
    "MLX, 3 bits": mlx(3),
    "MLX, 5 bits": mlx(5),
    "MLX, 6 bits": mlx(6),
    "metal, 2 bits": mlx(2, 16, "metal", "qbiases"),
    "torchao, int8": torchao(),
    "torchao, int4 in bytes": torchao(4, 16),
    "torchao, int4": torchao_int4(),
    "torchao, without zero points": torchao(8, 32, points=False),
    "torchao, float8": fp8(by_output, {"quant_method": "torchao"}, "_weight_scale"),
    "quanto, int8": quanto(compressed_bytes(False)),
    "quanto, 4 bits": quanto_packed(4),
    "quanto, 2 bits": quanto_packed(2),
    "quanto, float8": quanto(fp8(by_output, None, "weight_scale")),
    "BitNet": bitnet(False),
    "BitNet, autobitlinear": bitnet(True),
    "AutoRound, GPTQ": renamed(
        gptq(),
        {
            "quant_method": "auto-round",
            "packing_format": "auto_round:auto_gptq",
            "bits": 4,
            "group_size": 16,
        },
    ),
    "AutoRound, AWQ": renamed(
        awq(),
        {
            "quant_method": "auto-round",
            "packing_format": "auto_round:auto_awq",
            "bits": 4,
            "group_size": 16,
        },
    ),
    "fp8, one scale": fp8(single, {"quant_method": "fp8"}, "weight_scale"),
}


def check_formats(work):
    good = True
    ids = [int(i) for i in np.random.default_rng(2).integers(0, 48, 12)]
    for number, (name, (settings, pack)) in enumerate(FORMATS.items()):
        config = {**CONFIG, "quantization_config": settings}
        table = name.startswith("MLX")  # whose tools quantize it too
        parts, values = quantized(config, pack, table or number % 2 == 1, table)
        for cache in ("k_scale", "v_scale"):  # of caches: not used
            parts[f"model.layers.0.self_attn.{cache}"] = np.ones(1, np.float32)
        folder = f"{work}/{number}"
        write(folder, config, parts, shards=1 + number % 3)
        wanted = lms.logits(config, values, ids)
        good &= check(name, wanted, folder + ".run", folder, config, ids)
        if name in ("GPTQ", "AWQ", "compressed, zero points", "NVFP4"):
            good &= check_rounding(name, values, folder, config, ids)
    return good


class Rounding(np.ndarray):
    """A matrix whose data is rounded to int8 by blocks of its rows (docs/low-bit-products.md)."""

    block = 128

    def __rmatmul__(self, x):
        x = np.asarray(x)
        depth = x.shape[-1]
        rows = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -depth % self.block)])
        parts = rows.reshape(*x.shape[:-1], -1, self.block)
        most = np.abs(parts).max(-1, keepdims=True)
        steps = np.where(most == 0, 1, most / 127)
        rounded = (np.rint(parts / steps) * steps).reshape(rows.shape)[..., :depth]
        return rounded @ np.asarray(self)


def check_rounding(name, values, folder, config, ids):
    """--scheme int4-dynamic keeps the weights and rounds their data."""
    etm, told = folder + ".etm", folder + ".json"
    options = ["--scheme", "int4-dynamic", "--exclude", "output", "--exclude", "token_embd"]
    agree.evoq("quantize", folder, *options, "-o", etm, "--json", told)
    rounding = {key: x.view(Rounding) if "_proj." in key else x for key, x in values.items()}
    wanted = np.asarray(lms.logits(config, rounding, ids))
    good = check(f"{name}, int4-dynamic", wanted, folder + ".etm.run", etm, config, ids, near=2e-3)
    with open(told, encoding="utf-8") as f:
        reasons = json.load(f)["float_reasons"]
    projections = [node for node in reasons if "attn_" in node or "ffn_" in node]
    print(
        f"{'FAIL' if projections else 'ok  '}   all of its products multiply integers", projections
    )
    return good and not projections


def check_refusals(work):
    """Damaged and unknown folders, each a sentence."""
    good = True
    stem = "model.layers.1.mlp.up_proj"

    def changed(form, change, settings=None):
        config, pack = FORMATS[form]
        config = {**CONFIG, "quantization_config": {**(config or {}), **(settings or {})}}
        parts, _ = quantized(config, pack, head=False)
        change(parts)
        folder = f"{work}/refused{len(os.listdir(work))}"
        write(folder, config, parts)
        done = subprocess.run(
            [agree.EVOQ, "compile", folder, "-o", f"{work}/x.etm"], capture_output=True, text=True
        )
        return done.returncode, done.stderr

    def lacks(part):
        return lambda parts: parts.pop(f"{stem}.{part}")

    def becomes(part, make):
        def change(parts):
            parts[f"{stem}.{part}"] = make(parts[f"{stem}.{part}"])

        return change

    def spoiled(x):
        x = x.copy()
        x.flat[0] = np.inf
        return x

    def far(x):
        x = x.copy()
        x[3] = 99
        return x

    def uneven(x):
        x = x.copy()
        x[0] = x[-1]
        return x

    def nothing(parts):
        pass

    cases = [
        ("GPTQ", lacks("scales"), None, f"tensor {stem}.scales is missing"),
        ("GPTQ", becomes("qzeros", lambda x: x[:1]), None, "qzeros is int32[1, 8], expected"),
        ("GPTQ", becomes("scales", lambda x: x[:, 1:]), None, "scales is float16[2, 63], expected"),
        ("GPTQ", becomes("qweight", lambda x: x.astype(np.int8)), None, "expected int32 of two"),
        ("GPTQ", becomes("scales", spoiled), None, "output 0, group 0: the scale is inf"),
        ("GPTQ", becomes("g_idx", far), None, "input 3 is in group 99 of 2"),
        ("GPTQ", becomes("g_idx", uneven), None, "group 0 has 15 inputs, expected 16"),
        ("GPTQ", nothing, {"bits": 3}, "3 bits, expected 2, 4 or 8"),
        ("GPTQ", nothing, {"group_size": 7}, "group_size 7 for 64 inputs"),
        ("GPTQ", nothing, {"checkpoint_format": "marlin"}, "checkpoint_format 'marlin'"),
        ("AWQ", nothing, {"version": "gemv"}, "version 'gemv', expected gemm"),
        ("AWQ", nothing, {"quant_method": "aqlm"}, "quant_method 'aqlm', expected one of"),
        (
            "AutoRound, GPTQ",
            nothing,
            {"packing_format": "auto_round"},
            "packing_format 'auto_round'",
        ),
        ("BitNet", nothing, {"use_rms_norm": True}, "use_rms_norm"),
        ("MLX, 4 bits", nothing, {"bits": 7}, "7 bits, expected 2, 3, 4, 5, 6 or 8"),
        ("MLX, 4 bits", nothing, {"bits": 3}, "expected uint32 of rows of numbers of 3 bits"),
        ("MLX, 4 bits", nothing, {"mode": "fp5"}, "mode 'fp5', expected affine, mxfp4, nvfp4 or"),
        ("MLX, mxfp4", nothing, {"mode": "affine"}, "scales is uint8"),
        ("MLX, 4 bits", nothing, {"mode": "mxfp4"}, "expected uint8"),
        ("MLX, 4 bits", becomes("scales", lambda x: x[1:]), None, "biases float16[64, 1] for"),
        ("MLX, 4 bits", becomes("biases", spoiled), None, "output 0, input 0: the weight is inf"),
        ("MLX, 4 bits", becomes("weight", lambda x: x.view(np.int32)), None, "expected uint32 of"),
        (
            "HQQ, 4 bits",
            becomes("nbits", lambda x: x + 1),
            None,
            "5 bits, expected 1, 2, 3, 4 or 8",
        ),
        ("HQQ, 4 bits", becomes("W_q", lambda x: x[1:]), None, "W_q is uint8[15, 64], expected"),
        ("HQQ, 4 bits", becomes("shape", lambda x: x * 1000000), None, "W_q is uint8[16, 64]"),
        ("HQQ, 4 bits", becomes("shape", lambda x: -x), None, "-64 x -32 numbers in groups of 64"),
        ("HQQ, 4 bits", becomes("scale", lambda x: x[1:]), None, "float16[31, 1] for 32 groups"),
        (
            "HQQ, 4 bits",
            becomes("quant_zero", lambda x: x + 1),
            None,
            "quant_zero is 1, expected 0",
        ),
        ("HQQ, 4 bits", lacks("axis"), None, f"tensor {stem}.axis is missing"),
        ("bitsandbytes, nf4", lacks("weight.quant_map"), None, "weight.quant_map is missing"),
        ("bitsandbytes, nf4", becomes("weight", lambda x: x[1:]), None, "expected 64 x 32 numbers"),
        (
            "bitsandbytes, nf4",
            becomes("weight.absmax", lambda x: x[1:]),
            None,
            "weight.absmax is float32[31], expected",
        ),
        (
            "bitsandbytes, nf4",
            becomes("weight.quant_state.bitsandbytes__nf4", lambda x: x[1:]),
            None,
            f"{stem}.weight.quant_state: ",
        ),
        (
            "bitsandbytes, fp4, nested",
            becomes("weight.nested_absmax", lambda x: x[1:]),
            None,
            "nested_absmax is float32[1], expected float32[2]",
        ),
        (
            "bitsandbytes, int8",
            becomes("SCB", lambda x: x[1:]),
            None,
            "SCB is float32[63], expected",
        ),
        (
            "bitsandbytes, int8",
            becomes("weight_format", lambda x: x + 1),
            None,
            "expected rows (0)",
        ),
        (
            "torchao, int4",
            becomes("_weight_scale", lambda x: x[1:]),
            None,
            "scales float16[1, 64] and zero points float16[2, 64] for 64 outputs and 32 inputs",
        ),
        (
            "torchao, int4",
            becomes("_weight_qdata", lambda x: x.view(np.int32)),
            None,
            "expected int8 or float8: int4 in the order of a kernel",
        ),
        (
            "quanto, 4 bits",
            becomes("weight._data._data", lambda x: x[1:]),
            None,
            "weight._data._data is uint8[63, 16] with scales float16[128, 1]",
        ),
        (
            "quanto, 4 bits",
            becomes("weight._data._data", lambda x: x[:, 1:]),
            None,
            "128 groups of 15 numbers, expected 64 x 32",
        ),
        ("NVFP4 of ModelOpt", lacks("weight_scale_2"), None, "weight_scale_2 is missing"),
        ("compressed, 4 bits", lacks("weight_shape"), None, "weight_shape is missing"),
        (
            "compressed, 4 bits",
            becomes("weight_shape", lambda x: x * 1000000000),
            None,
            "weight_shape holds",
        ),
        ("compressed, 4 bits", becomes("weight_shape", lambda x: x * 2), None, "weight_packed is"),
        (
            "compressed, int8",
            becomes("weight_scale", lambda x: x[1:]),
            None,
            "weight_scale is float32[63, 1] for 64 outputs",
        ),
        ("fp8, one scale", becomes("weight_scale", spoiled), None, "input 0: the weight is "),
        (
            "fp8 in blocks",
            becomes("weight_scale_inv", lambda x: x[:, :1]),
            None,
            "with scales float32[3, 1]",
        ),
        ("NVFP4", lacks("weight_scale"), None, "weight_scale is missing"),
    ]
    for form, change, settings, sentence in cases:
        status, said = changed(form, change, settings)
        holds = status == 3 and sentence in said and said.count("\n") == 1
        good &= holds
        print(f"{'ok  ' if holds else 'FAIL'} refused: {sentence}", "" if holds else (status, said))
    return good


def check_their_packing():
    """Numbers in words, as compressed-tensors puts them."""
    if not all(importlib.util.find_spec(m) for m in ("torch", "compressed_tensors")):
        print("skipped: compressed-tensors is not installed")
        return True
    import torch
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    good = True
    for bits in (4, 8):
        for axis in (0, 1):
            q = RANDOM.integers(-(1 << bits - 1), 1 << bits - 1, (24, 40))
            theirs = pack_to_int32(torch.tensor(q, dtype=torch.int8), bits, axis).numpy()
            same = np.array_equal(theirs, words(q + (1 << bits - 1), bits, axis))
            good &= same
            print(f"{'ok  ' if same else 'FAIL'} compressed-tensors packs {bits} bits, axis {axis}")
    return good


def main():
    with tempfile.TemporaryDirectory() as work:
        good = check_formats(work)
        good &= check_refusals(work)
        good &= check_their_packing()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
