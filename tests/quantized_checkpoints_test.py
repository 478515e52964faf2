#!/usr/bin/env python3
"""Language models whose weights another tool quantized (docs/llm.md): folders as GPTQ, AWQ,
compressed-tensors and fp8 checkpoints have them, packed here from their descriptions; the logits of
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
from language_models_test import check

CONFIG = {**lms.BASE, "model_type": "llama", "intermediate_size": 64, "tie_word_embeddings": False}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
RANDOM = np.random.default_rng(11)
NAMES = {
    "uint8": "U8",
    "uint32": "U32",
    "int8": "I8",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
}


def words(numbers, bits, axis, order=None):
    """Numbers that follow each other along an axis, several to an int32."""
    numbers = np.moveaxis(numbers.astype(np.uint32), axis, -1)
    per = 32 // bits
    pad = -numbers.shape[-1] % per
    numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, pad)])
    numbers = numbers.reshape(*numbers.shape[:-1], -1, per)
    if order is not None:
        numbers = numbers[..., order]
    packed = np.zeros(numbers.shape[:-1], np.uint32)
    for i in range(per):
        packed |= numbers[..., i] << np.uint32(bits * i)
    return np.moveaxis(packed, -1, axis).view(np.int32).copy()


def by_group(outputs, inputs, group, bits, signed=False):
    """Random numbers [inputs, outputs], scales and zero points [groups, outputs]."""
    groups = inputs // group
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    q = RANDOM.integers(low, high, (inputs, outputs))
    scales = RANDOM.uniform(0.3, 1, (groups, outputs)) * 0.5 / (1 << bits)
    zeros = RANDOM.integers(low + (bits > 2), high, (groups, outputs))
    return q, scales.astype(np.float16), zeros


def values_of(q, scales, zeros, index):
    return (q - zeros[index]) * scales.astype(np.float64)[index]


def order_of(inputs, group, shuffled):
    index = np.arange(inputs) // group
    return RANDOM.permutation(index) if shuffled else index


def gptq(bits=4, group=16, shuffled=False, version="gptq", with_index=True):
    def pack(outputs, inputs):
        size = inputs if group < 0 else group
        q, scales, zeros = by_group(outputs, inputs, size, bits)
        index = order_of(inputs, size, shuffled)
        less = 1 if version == "gptq" else 0
        parts = {
            "qweight": words(q, bits, 0),
            "qzeros": words((zeros - less) & ((1 << bits) - 1), bits, 1),
            "scales": scales,
        }
        if with_index:
            parts["g_idx"] = index.astype(np.int32)
        return parts, values_of(q, scales, zeros, index)

    settings = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": shuffled}
    return {**settings, "checkpoint_format": version}, pack


def awq(group=16):
    def pack(outputs, inputs):
        q, scales, zeros = by_group(outputs, inputs, group, 4)
        parts = {
            "qweight": words(q, 4, 1, AWQ_ORDER),
            "qzeros": words(zeros, 4, 1, AWQ_ORDER),
            "scales": scales,
        }
        return parts, values_of(q, scales, zeros, order_of(inputs, group, False))

    settings = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True}
    return {**settings, "version": "gemm"}, pack


COMPRESSED = {"quant_method": "compressed-tensors", "ignore": []}


def compressed(bits=4, group=16, points=False, shuffled=False):
    def pack(outputs, inputs):
        size = inputs if group < 0 else group
        q, scales, zeros = by_group(outputs, inputs, size, bits, signed=True)
        index, middle = order_of(inputs, size, shuffled), 1 << bits - 1
        if not points:
            zeros = np.zeros_like(zeros)
        parts = {
            "weight_packed": words(q.T + middle, bits, 1),
            "weight_scale": scales.T.copy(),
            "weight_shape": np.array([outputs, inputs], np.int64),
        }
        if points:
            parts["weight_zero_point"] = words(zeros.T + middle, bits, 0)
        if shuffled:
            parts["weight_g_idx"] = index.astype(np.int32)
        return parts, values_of(q, scales, zeros, index)

    return {**COMPRESSED, "format": "pack-quantized"}, pack


def compressed_bytes(points):
    def pack(outputs, inputs):
        q, scales, zeros = by_group(outputs, inputs, inputs, 8, signed=True)
        parts = {
            "weight": q.T.astype(np.int8).copy(),
            "weight_scale": scales.T.astype(np.float32).copy(),
            "input_scale": np.ones(1, np.float32),
        }
        if points:
            parts["weight_zero_point"] = zeros.T.astype(np.int8).copy()
        else:
            zeros = np.zeros_like(zeros)
        return parts, values_of(q, scales.astype(np.float32), zeros, np.zeros(inputs, int))

    return {**COMPRESSED, "format": "int-quantized"}, pack


def e4m3(bits):
    sign = np.where(bits & 0x80, -1.0, 1.0)
    exponent, mantissa = (bits >> 3 & 15).astype(int), (bits & 7).astype(float)
    magnitude = np.where(exponent == 0, mantissa / 8 * 2.0**-6, 0)
    return sign * np.where(
        exponent == 0, magnitude, (1 + mantissa / 8) * 2.0 ** (exponent.astype(float) - 7)
    )


def float8(shape):
    """Random bits of float8e4m3fn below 32."""
    return RANDOM.integers(0, 0x60, shape).astype(np.uint8) | (
        RANDOM.integers(0, 2, shape) << 7
    ).astype(np.uint8)


class F8(np.ndarray):
    """Bytes that are float8e4m3fn."""


def fp8(scales_of, settings, scale_name):
    def pack(outputs, inputs):
        bits, (scales, spread) = float8((outputs, inputs)), scales_of(outputs, inputs)
        scales = scales.astype(np.float32)
        name = "_weight_qdata" if scale_name.startswith("_") else "weight"
        parts = {name: bits.view(F8), scale_name: scales}
        return parts, (e4m3(bits) * spread(scales).astype(np.float64)).T

    return settings, pack


def blocks(rows, columns):
    def scales_of(outputs, inputs):
        shape = (-(-outputs // rows), -(-inputs // columns))

        def spread(scales):
            whole = np.repeat(np.repeat(scales, rows, 0), columns, 1)
            return whole[:outputs, :inputs]

        return RANDOM.uniform(0.005, 0.02, shape), spread

    return scales_of


def by_output(outputs, inputs):
    return RANDOM.uniform(0.005, 0.02, (outputs, 1)), lambda s: s


def single(outputs, inputs):
    return np.array([0.01]), lambda s: s


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def float4(powers):
    def pack(outputs, inputs):
        size = 32 if powers else 16
        q = RANDOM.integers(0, 16, (outputs, inputs)).astype(np.uint8)
        packed = q[:, ::2] | q[:, 1::2] << 4
        shape = (outputs, inputs // size)
        parts = {"weight_packed": packed}
        if powers:
            parts["weight_scale"] = RANDOM.integers(120, 124, shape).astype(np.uint8)
            scales = 2.0 ** (parts["weight_scale"].astype(float) - 127)
        else:
            bits = RANDOM.integers(0x40, 0x60, shape).astype(np.uint8)
            parts["weight_scale"] = bits.view(F8)
            parts["weight_global_scale"] = np.array([160], np.float32)
            scales = (e4m3(bits).astype(np.float32) / np.float32(160)).astype(float)
        return parts, (FP4[q] * np.repeat(scales, size, 1)).T

    name = "mxfp4-pack-quantized" if powers else "nvfp4-pack-quantized"
    return {**COMPRESSED, "format": name}, pack


def bytes_of(text):
    return np.frombuffer(text.encode(), np.uint8).copy()


def bitsandbytes(kind="nf4", block=64, nested=0):
    """Codes of any values, as the file has the table; blocks may go on in the next row."""

    def pack(outputs, inputs):
        elements = outputs * inputs
        q = RANDOM.integers(0, 16, elements)
        table = np.sort(RANDOM.uniform(-0.2, 0.2, 16)).astype(np.float32)
        blocks = -(-elements // block)
        state = {"quant_type": kind, "blocksize": block, "shape": [outputs, inputs]}
        parts = {
            "weight": (q[::2] << 4 | q[1::2]).astype(np.uint8)[:, None],
            "weight.quant_map": table,
        }
        if nested:
            codes = RANDOM.integers(0, 256, blocks).astype(np.uint8)
            outer = RANDOM.uniform(0.5, 1, -(-blocks // nested)).astype(np.float32)
            levels = np.linspace(-0.5, 0.5, 256).astype(np.float32)
            state |= {"nested_blocksize": nested, "nested_offset": 0.75}
            parts |= {
                "weight.absmax": codes,
                "weight.nested_absmax": outer,
                "weight.nested_quant_map": levels,
            }
            scales = levels[codes].astype(float) * np.repeat(outer, nested)[:blocks] + 0.75
        else:
            parts["weight.absmax"] = RANDOM.uniform(0.3, 1, blocks).astype(np.float32)
            scales = parts["weight.absmax"].astype(float)
        parts[f"weight.quant_state.bitsandbytes__{kind}"] = bytes_of(json.dumps(state))
        values = table[q].astype(float) * np.repeat(scales, block)[:elements]
        return parts, values.reshape(outputs, inputs).T

    return {"quant_method": "bitsandbytes", "load_in_4bit": True}, pack


def llm_int8():
    def pack(outputs, inputs):
        q = RANDOM.integers(-127, 128, (outputs, inputs)).astype(np.int8)
        largest = RANDOM.uniform(0.1, 0.3, outputs).astype(np.float32)
        parts = {"weight": q, "SCB": largest, "weight_format": np.uint8(0).reshape(())}
        return parts, (q * (largest.astype(float) / 127)[:, None]).T

    return {"quant_method": "bitsandbytes", "load_in_8bit": True}, pack


def hqq(bits, group=32, axis=1):
    def pack(outputs, inputs):
        count = outputs * inputs // group
        rows, columns = (count, group) if axis == 1 else (group, count)
        q = RANDOM.integers(0, 1 << bits, (rows, columns))
        shape = (count, 1) if axis == 1 else (1, count)
        scales = (RANDOM.uniform(0.3, 1, shape) * 0.5 / (1 << bits)).astype(np.float16)
        zeros = RANDOM.uniform(0, 1 << bits, shape).astype(np.float16)
        per = 10 if bits == 3 else 8 // bits
        whole = np.zeros((-(-rows // per) * per, columns), np.int64)
        whole[:rows] = q
        packed = np.zeros((len(whole) // per, columns), np.int64)
        for i, run in enumerate(np.split(whole, per)):
            packed |= run << bits * (per - 1 - i)
        number = np.array
        parts = {
            "W_q": packed.astype(np.int32 if bits == 3 else np.uint8),
            "scale": scales,
            "zero": zeros,
            "nbits": number(bits, np.int32),
            "group_size": number(group, np.int32),
            "axis": number(axis, np.int32),
            "shape": number([outputs, inputs], np.int64),
            "packing": bytes_of(f"{bits}bit"),
            "view_as_float": number(0, np.uint8),
            "quant_zero": number(0, np.uint8),
        }
        return parts, ((q - zeros.astype(float)) * scales.astype(float)).reshape(outputs, -1).T

    return {"quant_method": "hqq"}, pack


def bit_rows(numbers, bits):
    """The numbers of a row one behind the other, the first in the lowest bits of uint32."""
    rows = numbers.shape[0]
    ones = numbers[..., None].astype(np.uint8) >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(ones.reshape(rows, -1), 1, bitorder="little").view(np.uint32)


def check_mlx(weight, scales, biases, bits, group, numbers):
    """That mlx from PyPI, where it is installed, reads those numbers."""
    if group < 32 or importlib.util.find_spec("mlx") is None:
        return
    import mlx.core as mx

    arrays = (mx.array(x) for x in (weight, np.ones_like(scales), np.zeros_like(biases)))
    got = np.array(mx.dequantize(*arrays, group_size=group, bits=bits))
    if not np.array_equal(got.astype(np.int64), numbers):
        raise RuntimeError(f"mlx reads {bits} bits in another way")


def mlx(bits, group=32, method=None, bias="biases"):
    def pack(outputs, inputs):
        q = RANDOM.integers(0, 1 << bits, (outputs, inputs))
        shape = (outputs, inputs // group)
        scales = (RANDOM.uniform(0.3, 1, shape) * 0.5 / (1 << bits)).astype(np.float16)
        biases = RANDOM.uniform(-0.3, 0, shape).astype(np.float16)
        parts = {"weight": bit_rows(q, bits), "scales": scales, bias: biases}
        check_mlx(parts["weight"], scales, biases, bits, group, q)
        scales, biases = (np.repeat(x.astype(float), group, 1) for x in (scales, biases))
        return parts, (q * scales + biases).T

    return {"bits": bits, "group_size": group} | ({"quant_method": method} if method else {}), pack


def mlx_real(mode):
    def pack(outputs, inputs):
        source = mxfp8() if mode == "mxfp8" else float4(mode == "mxfp4")
        parts, values = source[1](outputs, inputs)
        weight = parts.get("weight_packed", parts.get("weight"))
        scales = parts.get("weight_scale", parts.get("weight_scale_inv"))
        if mode == "nvfp4":  # without a scale for all
            values = values * 160
        scales = np.frombuffer(scales.tobytes(), np.uint8).reshape(scales.shape)
        weight = np.frombuffer(weight.tobytes(), np.uint32).reshape(outputs, -1)
        parts = {"weight": weight, "scales": scales}
        check_mlx_real(mode, parts, values)
        return parts, values

    size = 16 if mode == "nvfp4" else 32
    return {"bits": 8 if mode == "mxfp8" else 4, "group_size": size, "mode": mode}, pack


def check_mlx_real(mode, parts, values):
    """That mlx from PyPI, where it is installed, reads those values."""
    if importlib.util.find_spec("mlx") is None:
        return
    import mlx.core as mx

    arrays = (mx.array(parts[name]) for name in ("weight", "scales"))
    got = mx.dequantize(*arrays, mode=mode).astype(mx.float32)
    if not np.allclose(np.array(got).T, values, rtol=5e-3):  # it gives bfloat16
        raise RuntimeError(f"mlx reads {mode} in another way")


def torchao(bits=8, group=None, points=True):
    def pack(outputs, inputs):
        size = group or inputs
        q, scales, zeros = by_group(outputs, inputs, size, bits, signed=True)
        parts = {"_weight_qdata": q.T.astype(np.int8), "_weight_scale": scales.T.copy()}
        if points:
            parts["_weight_zero_point"] = zeros.T.astype(np.int8)
        else:
            zeros = np.zeros_like(zeros)
        return parts, values_of(q, scales, zeros, order_of(inputs, size, False))

    return {"quant_method": "torchao"}, pack


def torchao_int4(group=16):
    """Int4Tensor: two signed numbers to a byte, real zero points, scales by group."""

    def pack(outputs, inputs):
        q = RANDOM.integers(-8, 8, (outputs, inputs))
        shape = (inputs // group, outputs)
        scales = (RANDOM.uniform(0.3, 1, shape) / 32).astype(np.float16)
        zeros = RANDOM.uniform(-0.2, 0.2, shape).astype(np.float16)
        bits = (q & 15).astype(np.uint8)
        parts = {"_weight_qdata": (bits[:, ::2] | bits[:, 1::2] << 4).view(np.int8)}
        parts |= {"_weight_scale": scales, "_weight_zero_point": zeros}
        scales, zeros = (np.repeat(x.astype(float), group, 0) for x in (scales, zeros))
        return parts, q.T * scales + zeros

    return {"quant_method": "torchao"}, pack


def quanto(scaled):
    """As another format's parts, under quanto's names; without a quantization_config."""

    def pack(outputs, inputs):
        parts, values = scaled[1](outputs, inputs)
        names = {"weight": "weight._data", "weight_scale": "weight._scale"}
        return {names[k]: x for k, x in parts.items() if k in names} | {
            "input_scale": np.ones((), np.float32)
        }, values

    return None, pack


def quanto_packed(bits, group=16):
    """Numbers of groups in the bytes of as many rows as hold them all."""

    def pack(outputs, inputs):
        count, per = outputs * inputs // group, 8 // bits
        q = RANDOM.integers(0, 1 << bits, (count, group)).astype(np.uint8)
        rows = -(-count // per)
        spread = np.pad(q, ((0, rows * per - count), (0, 0))).reshape(per, rows, group)
        shifts = np.arange(per, dtype=np.uint8)[:, None, None] * bits
        packed = np.bitwise_or.reduce(spread << shifts, 0)
        scale = (RANDOM.uniform(0.3, 1, (count, 1)) * 0.5 / (1 << bits)).astype(np.float16)
        shift = RANDOM.uniform(0, 0.3, (count, 1)).astype(np.float16)
        check_quanto(packed, q, bits)
        parts = {"weight._data._data": packed, "weight._scale": scale, "weight._shift": shift}
        return parts, (q * scale.astype(float) - shift).reshape(outputs, inputs).T

    return None, pack


def check_quanto(packed, numbers, bits):
    """That optimum-quanto from PyPI, where it is installed, packs them so."""
    if importlib.util.find_spec("optimum") is None:
        return
    import torch
    from optimum.quanto.tensor.packed import pack_weights

    if not np.array_equal(pack_weights(torch.tensor(numbers), bits).numpy(), packed):
        raise RuntimeError(f"quanto packs {bits} bits in another way")


def modelopt():
    def pack(outputs, inputs):
        parts, values = float4(False)[1](outputs, inputs)
        bits = parts.pop("weight_scale")
        q = parts.pop("weight_packed")
        parts = {"weight": q, "weight_scale": bits, "weight_scale_2": np.float32(1 / 128)}
        return parts, values * 160 / 128

    return {"quant_method": "modelopt", "quant_algo": "NVFP4"}, pack


def mxfp8():
    def pack(outputs, inputs):
        bits = float8((outputs, inputs))
        powers = RANDOM.integers(118, 122, (outputs, inputs // 32)).astype(np.uint8)
        scales = np.repeat(2.0 ** (powers.astype(float) - 127), 32, 1)
        return {"weight": bits.view(F8), "weight_scale_inv": powers}, (e4m3(bits) * scales).T

    return {"quant_method": "mxfp8"}, pack


def bitnet(multiplied):
    def pack(outputs, inputs):
        q = RANDOM.integers(0, 3, (outputs, inputs))
        packed = sum(run << 2 * i for i, run in enumerate(np.split(q, 4))).astype(np.uint8)
        scale = np.array([0.125 if multiplied else 8], np.float32)
        return {"weight": packed, "weight_scale": scale}, (q - 1.0).T * 0.125

    linear = "autobitlinear" if multiplied else "bitlinear"
    return {"quant_method": "bitnet", "linear_class": linear}, pack


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
