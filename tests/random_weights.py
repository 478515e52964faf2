"""Numbers for weights that every machine and every version of numpy makes alike."""

import zlib

import numpy as np


def uniform(name, count):
    """`count` numbers of [-1, 1) that follow from the name: splitmix64 (Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(zlib.crc32(name.encode())) << np.uint64(32)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1


def weight(name, shape, around=0.0):
    """float32: vectors spread around a number, matrices of variance 1 / inputs."""
    x = uniform(name, int(np.prod(shape))).reshape(shape)
    scale = 0.5 if len(shape) == 1 else (3.0 / shape[-1]) ** 0.5
    return (around + x * scale).astype(np.float32)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6] + [-0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def e2m1(name, count, outputs, inputs):
    """`count` matrices in MXFP4: numbers [count, outputs, inputs], scales' exponents for each 32
    inputs, and what they stand for, as [count, inputs, outputs]."""
    codes = ((uniform(name, count * outputs * inputs) + 1) * 8).astype(np.uint8)
    codes = codes.reshape(count, outputs, inputs)
    shape = (count, outputs, inputs // 32)
    exponents = (uniform(name + ".scales", int(np.prod(shape))) * 1.49 - 4).astype(np.int64)
    exponents = exponents.reshape(shape)
    values = E2M1[codes] * np.exp2(np.repeat(exponents, 32, -1)).astype(np.float32)
    return codes, (exponents + 127).astype(np.uint8), values.swapaxes(1, 2).copy()


def stacked_e2m1(name, shape):
    """Of a stack of experts [count, inputs, outputs]."""
    return e2m1(name, shape[0], shape[2], shape[1])


def tokens(name, count, least, most):
    """Tokens from `least` to below `most`."""
    return (least + (uniform(name, count) + 1) / 2 * (most - least)).astype(np.int64)
