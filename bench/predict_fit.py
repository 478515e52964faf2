"""Fits the constants of src/predict/efficiency.inc: for each family, kind of cores and
instruction set, how many times the nanoseconds of each term (src/predict/cost.h) pass in earnest.
From steps that `evoq predict --check` measured on the networks of predict_nets.py."""

import collections
import itertools
import os
import re
from dataclasses import dataclass

import numpy as np

TERMS = (
    "call",
    "arithmetic",
    "feed",
    "rows",
    "outputs",
    "curve",
    "tiles",
    "edges",
    "copies",
    "stream",
    "weights",
)
# Where the data say nothing: what a decent kernel does, or what the same kernels do on other
# cores.
PRIOR = np.array([0.05, 1.1, 0.3, 0.5, 1.0, 4.0, 0.5, 0.2, 0.5, 0.5, 0.8])
PRIOR_WEIGHT = 0.003
OTHERS_WEIGHT = 0.02
# share of its limits that the machine had while a scheme was measured; others are left out
UNDISTURBED = 0.93
# Families of which the networks have too few steps take the constants of another, with a wide
# spread.
LIKE = {
    "direct_int8": "product_int8",
    "transposed_int8": "product_int8",
    "transposed_bf16": "product_bf16",
    "transposed_f32": "product_f32",
    "softmax_bf16": "softmax",
    "normalize_bf16": "normalize",
    "compare": "reference",
    "pool_bf16": "pool_f32",
    "pool_int8": "pool_f32",
}
FEW = 6
SHARED = (1.0, 7.0, 1.0)  # shared, fork and remote to begin with
SHARED_MOST = np.array([1.0, 30.0, 8.0])
# steps that threads share, up to which a family's constants are pulled towards those of all
# families
SHARED_FEW = 10
WOKEN_MS = 0.045  # steps before which threads had nothing to do for longer say nothing of fork
FOREIGN_SPREAD = 0.4
ISAS = {
    "AMX": "Isa::kAmx",
    "AVX512_BF16": "Isa::kAvx512",  # its constants serve both
    "AVX512": "Isa::kAvx512",
    "AVX2_VNNI": "Isa::kAvx2Vnni",
    "AVX2_VNNI_EVEX": "Isa::kAvx2VnniEvex",
    "AVX2": "Isa::kAvx2",
    "SCALAR": "Isa::kScalar",
}
HEADER = """// Written by `bench/predict.py fit`; predict/cost.h says what the constants are.
// EVOQ_EFFICIENCY(core, isa, family, shared, fork, remote, spread, call, arithmetic, feed, rows,
//     outputs, curve, tiles, edges, copies, stream, weights)
"""


@dataclass
class Step:
    net: str
    scheme: str
    on: tuple  # the cores, as `evoq limits` names them, and the instruction set
    threads: int
    fork_ns: float
    family: str
    kernel: str
    terms: np.ndarray  # ns
    ns: float  # measured
    share: float  # of its run
    largest: float  # share of the work, on the thread that has the most
    loops: int  # that threads share


def steps_of(net, forecast):
    """The steps of one `evoq predict --check --json`."""
    for scheme in forecast["schemes"]:
        if "unavailable" in scheme or scheme["machine_share"] < UNDISTURBED:
            continue
        total = max(sum(s["measured_ms"] for s in scheme["steps"]), 1e-9)
        idle_ms = 0.0
        for s in scheme["steps"]:
            woken, idle_ms = (
                s["loops"] > 0 and idle_ms > WOKEN_MS,
                0.0 if s["loops"] > 0 else idle_ms + s["measured_ms"],
            )
            if woken:
                continue
            yield Step(
                net,
                scheme["scheme"],
                (forecast["limits"]["core"], ISAS[forecast["isa"]]),
                forecast["threads"],
                forecast["limits"]["fork_ns"],
                s["family"],
                s["kernel"],
                np.array([s["terms_ns"].get(t, 0.0) for t in TERMS]),
                max(s["measured_ms"] * 1e6, 1.0),
                s["measured_ms"] / total,
                s["share"],
                s["loops"],
            )


# no kernel is further from the limits than that
MOST = np.array([10, 10, 20, 100, 20, 60, 60, 20, 60, 10, 10])


def bounded(a, b, start):
    """argmin |a x - b| for 0 <= x <= MOST, by coordinate descent."""
    gram, target, x = a.T @ a, a.T @ b, start.copy()
    for _ in range(400):
        before = x.copy()
        for i in range(len(x)):
            if gram[i, i] > 0:
                x[i] = np.clip(x[i] + (target[i] - gram[i] @ x) / gram[i, i], 0, MOST[i])
        if np.abs(x - before).max() < 1e-9:
            break
    return x


def fit_times(steps, prior, prior_weight):
    """Least squares of relative errors, those above a third counted linearly; steps that matter in
    their run count more."""
    terms, ns = np.array([s.terms for s in steps]), np.array([s.ns for s in steps])
    weight = np.sqrt(np.array([s.share for s in steps]) + 0.002)
    a, b = terms / ns[:, None], np.ones(len(ns))
    # the prior pulls all terms alike, whatever their size
    scale = np.maximum((a * weight[:, None]).max(axis=0), 1e-9)
    x = prior.copy()
    for _ in range(12):
        error = np.abs(a @ x - b)
        robust = weight * np.sqrt(np.minimum(1, 0.33 / np.maximum(error, 1e-9)))
        pull = np.sqrt(prior_weight * (robust**2).sum()) * scale / (weight.max() or 1)
        rows = np.vstack([a * robust[:, None], np.diag(pull)])
        x = bounded(rows, np.concatenate([b * robust, pull * prior]), x)
    return x


def shared_columns(steps, serial):
    """What shared, fork and remote are multiplied with (src/predict/cost.h)."""
    return np.array(
        [
            [
                -ns * (1 - s.largest),
                s.loops * s.fork_ns,
                s.terms[TERMS.index("stream")] * (1 - 1 / s.threads) / s.threads,
            ]
            for s, ns in zip(steps, serial)
        ]
    )


def fit_shared(steps, serial, start):
    """(shared, fork, remote) from steps that threads share, given what one thread takes; `start`
    counts as SHARED_FEW steps."""
    at = [i for i, s in enumerate(steps) if s.loops > 0]
    if len(at) < 3:
        return start
    steps, serial = [steps[i] for i in at], np.array(serial)[at]
    ns = np.array([s.ns for s in steps])
    a = shared_columns(steps, serial) / ns[:, None]
    b = 1 - serial / ns
    weight = np.sqrt(np.array([s.share for s in steps]) + 0.002)
    x = np.array(start)
    for _ in range(30):
        robust = weight * np.sqrt(np.minimum(1, 0.2 / np.maximum(np.abs(a @ x - b), 1e-9)))
        gram, right = (
            (a * robust[:, None]).T @ (a * robust[:, None]),
            (a * robust[:, None]).T @ (b * robust),
        )
        pull = SHARED_FEW / len(steps) * np.diag(gram) + 1e-12
        gram, right = gram + np.diag(pull), right + pull * np.array(start)
        for _ in range(300):
            for i in range(len(x)):
                x[i] = np.clip(x[i] + (right[i] - gram[i] @ x) / gram[i, i], 0, SHARED_MOST[i])
    return tuple(float(v) for v in x)


def predict_ns(step, times, shared):
    ns = float(step.terms @ times)
    return ns + (float(shared_columns([step], [ns])[0] @ shared) if step.loops > 0 else 0)


def of_other_cores(on, family, before):
    """The family's constants on the nearest other cores with the instruction set, or None."""
    rows = [(o, row) for (o, f), row in before.items() if o[1] == on[1] and o != on and f == family]
    return max(rows, key=lambda r: shared_words(r[0][0], on[0]))[1] if rows else None


def shared_words(a, b):
    """How many words two kinds of cores begin with alike: SharedWords of base/core_kind.h."""
    pairs = zip(a.split(), b.split())
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def prior_of(on, family, before):
    """The times to begin with, and how much they count."""
    other = of_other_cores(on, family, before)
    return (PRIOR, PRIOR_WEIGHT) if other is None else (other[0], OTHERS_WEIGHT)


def fit(steps, before):
    """{(on, family): (times, (shared, fork, remote), spread)}; before: the constants so far."""
    groups = collections.defaultdict(list)
    for s in steps:
        groups[s.on, s.family].append(s)
        # what no family takes is like the average step that is no product
        if s.family not in ("reference", "recurrent", "compare"):
            if not s.family.startswith(
                ("product", "winograd", "depthwise", "direct", "transposed")
            ):
                groups[s.on, "other"].append(s)
    times = {
        key: fit_times([s for s in group if s.threads == 1], *prior_of(*key, before))
        for key, group in sorted(groups.items())
        if sum(s.threads == 1 for s in group) >= FEW
    }
    known = [s for s in steps if (s.on, s.family) in times]
    overall = {}
    for on in {on for on, _ in times}:
        mine = [s for s in known if s.on == on]
        overall[on] = fit_shared(mine, [s.terms @ times[on, s.family] for s in mine], SHARED)
    out = {}
    for key in times:
        group = groups[key]
        shared = fit_shared(group, [s.terms @ times[key] for s in group], overall[key[0]])
        sums = collections.defaultdict(lambda: [0.0, 0.0, 0.0])
        for s in group:
            run = sums[s.net, s.scheme, s.threads]
            run[0] += predict_ns(s, times[key], shared)
            run[1] += s.ns
            run[2] += s.share
        logs = [(np.log(p / m), share) for p, m, share in sums.values() if share > 0.02]
        # The mean error, as the deviation of a normal one: single disturbed runs count little.
        spread = (
            1.25 * sum(share * abs(l) for l, share in logs) / sum(share for _, share in logs)
            if logs
            else 0.5
        )
        out[key] = (times[key], shared, max(float(spread), 0.03))
    for on in {on for on, _ in out}:
        for family in set(families()) - {family for o, family in out if o == on}:
            like, shared, _ = of_other_cores(on, family, before) or out.get(
                (on, LIKE.get(family)), out[on, "other"]
            )
            out[on, family] = (like, shared, FOREIGN_SPREAD)
    return out


def families():
    """Names of src/predict/families/."""
    folder = os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "src", "predict", "families"
    )
    for f in sorted(os.listdir(folder)):
        with open(os.path.join(folder, f)) as file:
            yield from re.findall(r'CostFamily kFamily\w+ = {\s*\.name = "(\w+)"', file.read())


ROW = re.compile(r'EVOQ_EFFICIENCY\("(.*)", (.*), "(.*)",\s+([^)]*)\)\n')


def read(path):
    """Constants as fit gives them."""
    constants = {}
    with open(path) as f:
        for core, isa, family, numbers in ROW.findall(f.read()):
            shared, fork, remote, spread, *times = map(float, numbers.split(","))
            constants[(core, isa), family] = (np.array(times), (shared, fork, remote), spread)
    return constants


def write(constants, path):
    rows = {}
    for ((core, isa), family), (times, shared, spread) in constants.items():
        numbers = ", ".join(f"{x:.4g}" for x in times)
        rows[core, isa, family] = (
            f'EVOQ_EFFICIENCY("{core}", {isa}, "{family}",\n    '
            f"{', '.join(f'{x:.3g}' for x in shared)}, {spread:.3f},\n    {numbers})\n"
        )
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w") as f:
        f.writelines([HEADER] + [row for _, row in sorted(rows.items())])
    os.replace(temporary, path)
