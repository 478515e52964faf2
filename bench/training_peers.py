#!/usr/bin/env python3
"""Trains one of evoq's built-in networks in PyTorch, on the same samples, in the same batches and
with the same optimizer, and prints a line of JSON: seconds of each epoch's steps and its loss.
bench/training.py --peers runs it beside `evoq train`.

    bench/training_peers.py lenet|resnet20|tiny-gpt DATA [--limit N] [--batch N] [--epochs N]
                            [--threads N] [--context N] [--seed N]
                            [--test FILE] [--shift PIXELS] [--flip] [--cosine]

Samples lie in memory as float32, as evoq has them; there is no augmentation but for --shift and
--flip. With --cosine the learning rate grows in a line over the first epoch and falls as half a
cosine, as `evoq train --warm-up 1 --schedule cosine` has it. With --test the line has the accuracy
on FILE too, after the last epoch. Attention is PyTorch's own fused function."""

import argparse
import gzip
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def opened(path):
    return gzip.open(path) if path.endswith(".gz") else open(path, "rb")


def mnist(path, limit):
    with opened(path) as file:
        x = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)[:limit]
    with opened(path.replace("images-idx3", "labels-idx1")) as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)[:limit]
    return (x.astype(np.float32) / 255 - 0.1307) / 0.3081, y.astype(np.int64)


def cifar(path, limit):
    rows = np.fromfile(path, np.uint8).reshape(-1, 3073)[:limit]
    mean = np.array([0.4914, 0.4822, 0.4465], np.float32).reshape(3, 1, 1)
    std = np.array([0.247, 0.2435, 0.2616], np.float32).reshape(3, 1, 1)
    x = (rows[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255 - mean) / std
    return x, rows[:, 0].astype(np.int64)


def windows(path, limit, context):
    text = np.frombuffer(pathlib.Path(path).read_bytes(), np.uint8).astype(np.int64)
    count = min((len(text) - 1) // context, limit or len(text))
    used = count * context
    return text[:used].reshape(count, context), text[1 : used + 1].reshape(count, context)


def lenet():
    def half(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 5, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *half(1, 16),
        nn.MaxPool2d(2),
        *half(16, 32),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()

        def conv(a, b, size, stride):
            return [nn.Conv2d(a, b, size, stride, size // 2, bias=False), nn.BatchNorm2d(b)]

        self.inner = nn.Sequential(
            *conv(inputs, outputs, 3, stride), nn.ReLU(), *conv(outputs, outputs, 3, 1)
        )
        same = inputs == outputs
        self.around = nn.Identity() if same else nn.Sequential(*conv(inputs, outputs, 1, stride))

    def forward(self, x):
        return F.relu(self.around(x) + self.inner(x))


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for stage in range(3):
        for i in range(3):
            layers.append(Block(inputs, 16 << stage, 2 if i == 0 and stage > 0 else 1))
            inputs = 16 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        parts = self.qkv(x).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.inner = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.inner(x)


class TinyGpt(nn.Module):
    def __init__(self, pieces=256, width=128, heads=4, blocks=4, length=256):
        super().__init__()
        self.tokens, self.places = nn.Embedding(pieces, width), nn.Embedding(length, width)
        layers = []
        for _ in range(blocks):
            wide = [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
            layers += [
                Residual(nn.LayerNorm(width), Attention(width, heads)),
                Residual(nn.LayerNorm(width), *wide),
            ]
        last = nn.Linear(width, pieces, bias=False)
        self.blocks = nn.Sequential(*layers, nn.LayerNorm(width), last)

    def forward(self, x):
        return self.blocks(self.tokens(x) + self.places.weight[: x.shape[1]])


def optimizer_of(name, model):
    """As the network's recipe has it."""
    decays = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]

    def groups(decay):
        return [{"params": decays, "weight_decay": decay}, {"params": others, "weight_decay": 0}]

    if name == "resnet20":
        return torch.optim.SGD(groups(0.0005), lr=0.1, momentum=0.9, nesterov=True)
    if name == "lenet":
        return torch.optim.AdamW(groups(0.01), lr=0.003)
    return torch.optim.AdamW(groups(0.1), lr=0.002, betas=(0.9, 0.99))


def varied(images, shift, flip):
    """Each image moved by up to `shift` pixels along both axes, filled with the nearest pixel, and
    half of them turned around."""
    if shift:
        n, _, rows, columns = images.shape
        wide = F.pad(images, (shift,) * 4, mode="replicate")
        down, right = torch.randint(0, 2 * shift + 1, (2, n, 1))
        r = (down + torch.arange(rows))[:, None, :, None]
        c = (right + torch.arange(columns))[:, None, None, :]
        of = torch.arange(n)[:, None, None, None]
        images = wide[of, torch.arange(images.shape[1])[None, :, None, None], r, c]
    if flip:
        turned = torch.rand(len(images), 1, 1, 1) < 0.5
        images = torch.where(turned, images.flip(3), images)
    return images


def cosine(optimizer, steps, epochs):
    """The rate of step t, of all: linear over the first epoch, then half a cosine to 0."""
    last = max(1, steps * epochs - steps)

    def share(t):
        if t < steps:
            return (t + 1) / steps
        return 0.5 * (1 + math.cos(math.pi * (t - steps) / last))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, share)


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        right = sum(
            (model(x[i : i + 250]).argmax(1) == y[i : i + 250]).sum().item()
            for i in range(0, len(x), 250)
        )
    return right / len(x)


def epoch(model, optimizer, schedule, x, y, batch, clip, shift, flip):
    model.train()
    order = torch.randperm(len(x))
    total, steps = 0.0, len(x) // batch
    start = time.monotonic()
    for i in range(steps):
        taken = order[i * batch : (i + 1) * batch]
        scores = model(varied(x[taken], shift, flip))
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), y[taken].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if schedule:
            schedule.step()
        total += loss.item()
    return time.monotonic() - start, total / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("network", choices=["lenet", "resnet20", "tiny-gpt"])
    parser.add_argument("data")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test")
    parser.add_argument("--shift", type=int, default=0)
    parser.add_argument("--flip", action="store_true")
    parser.add_argument("--cosine", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    if args.network == "lenet":
        model, (x, y) = lenet(), mnist(args.data, args.limit)
    elif args.network == "resnet20":
        model, (x, y) = resnet20(), cifar(args.data, args.limit)
    else:
        model, (x, y) = TinyGpt(), windows(args.data, args.limit, args.context)
    x, y = torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(np.ascontiguousarray(y))
    optimizer = optimizer_of(args.network, model)
    clip = 1.0 if args.network == "tiny-gpt" else 0
    schedule = cosine(optimizer, len(x) // args.batch, args.epochs) if args.cosine else None
    vary = (args.shift, args.flip)
    done = [
        epoch(model, optimizer, schedule, x, y, args.batch, clip, *vary) for _ in range(args.epochs)
    ]
    told = {"seconds": [s for s, _ in done], "loss": [loss for _, loss in done]}
    if args.test:
        read = mnist if args.network == "lenet" else cifar
        told["test_accuracy"] = accuracy(model, *map(torch.from_numpy, read(args.test, None)))
    print(
        json.dumps(
            {
                **told,
                "torch": torch.__version__,
                "parameters": sum(p.numel() for p in model.parameters()),
            }
        )
    )


if __name__ == "__main__":
    main()
