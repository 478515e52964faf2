"""Weights as the tools that quantize them pack them into checkpoints: GPTQ, AWQ, fp8, HQQ, MLX,
compressed-tensors, bitsandbytes, torchao, quanto, ModelOpt and BitNet, from their descriptions.
Each packs random numbers: its tensors by name, and the values that they stand for. Where the
tool's own library is there, the packing is compared with it."""

import importlib.util
import json

import numpy as np

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
RANDOM = np.random.default_rng(11)


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
