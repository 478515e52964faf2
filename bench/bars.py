"""What must hold, against the results: lists of (part, what, figure, comparison, bar, met)."""

import math
from dataclasses import dataclass

from pairs import paired, paired_interval

BLOCK_FORMS = ("qdq_u8s8", "qdq_s8s8", "dynamic_s8")
BEST_FORMS = (
    "qdq_u8s8",
    "qdq_u8s8_pt",
    "qdq_s8s8",
    "qdq_s8sym",
    "qdq_u8s8_keeprelu",
    "qdq_u8s8_relubefore",
    "qdq_u8s8_bnleft",
    "qdq_u8s8_scale1d",
    "silu_qdq_u8s8",
)


@dataclass
class Bar:
    part: str
    what: str
    figure: float  # None: not measured
    least: float = None
    most: float = None

    @property
    def met(self):
        if self.figure is None:
            return False
        return (self.least is None or self.figure >= self.least) and (
            self.most is None or self.figure <= self.most
        )

    def text(self):
        bound = f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"
        figure = "not available" if self.figure is None else f"{self.figure:.3g}"
        return (
            f"{self.part:7} {self.what:60} {figure:>13}  {bound:>8}  "
            f"{'met' if self.met else 'MISSED'}"
        )


def geometric_mean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


# On processors with AMX: how many times OpenVINO's speed.
AMX_INT8 = {"resnet50": 1.8, "bert-base": 1.8} | dict.fromkeys(
    ("resnet18", "squeezenet1.1", "tiny_darknet", "deeplabv3", "yolox_nano", "mobilenetv2"), 1.4
)
AMX_BF16 = {"resnet50": 1.4, "bert-base": 1.4}


def amx_bars(rows):
    for r in rows:
        for what, least in (("int8", AMX_INT8), ("bf16", AMX_BF16)):
            if r["model"] in least and r["batch"] == 1:
                at = f"{r['model']} threads {r['threads']} batch {r['batch']}"
                yield Bar(
                    "models",
                    f"{what} vs OpenVINO's, {at}",
                    r.get(f"{what}_vs_ov"),
                    least[r["model"]],
                )


def never_slower_bars(rows):
    """No narrower precision is slower than a wider one; 3% is what two runs of one file differ
    by."""
    for r in rows:
        at = f"{r['model']} threads {r['threads']} batch {r['batch']}"
        ms = r["ms"]
        for narrow, wide in (("int8", "fp32"), ("int8", "bf16"), ("bf16", "fp32")):
            if ms.get(f"evoq_{narrow}") and ms.get(f"evoq_{wide}"):
                yield Bar(
                    "models",
                    f"{narrow} vs own {wide}, {at}",
                    ms[f"evoq_{wide}"] / ms[f"evoq_{narrow}"],
                    least=0.97,
                )


def model_bars(rows):
    rows = [r for r in rows if r["ms"]]
    if any("AMX" in r.get("cpu", "") for r in rows):
        yield from amx_bars(rows)
    yield from never_slower_bars(rows)
    at = lambda r: f"{r['model']} threads {r['threads']} batch {r['batch']}"
    for precision, mean in (("int8", 1.2), ("fp32", 1.1)):
        for r in rows:
            yield Bar(
                "models",
                f"{precision} vs the faster peer, {at(r)}",
                r[f"{precision}_vs_faster"],
                least=1.0,
            )
        yield Bar(
            "models",
            f"{precision} vs the faster peer, geometric mean",
            geometric_mean(r[f"{precision}_vs_faster"] for r in rows),
            least=mean,
        )
    for batch, mean in ((1, 1.5), (8, 1.2)):
        rows_of_batch = [r["int8_vs_faster"] for r in rows if r["batch"] == batch]
        if rows_of_batch:
            yield Bar(
                "models",
                f"int8 vs the faster peer, batch {batch}, geometric mean",
                geometric_mean(rows_of_batch),
                least=mean,
            )
    yield Bar(
        "models",
        "int8 vs ONNX Runtime, geometric mean",
        geometric_mean(r["int8_vs_ort"] for r in rows),
        least=1.6,
    )
    for r in rows:
        single = r["threads"] == 1 and r["batch"] == 1
        for model, share in (("resnet50", 0.85), ("mobilenetv2", 0.5), ("bert-base", 0.8)):
            if r["model"] == model and single:
                yield Bar("models", f"int8 share of peak, {at(r)}", r["int8_of_peak"], least=share)
        for model, speedup in (("resnet50", 3.2), ("mobilenetv2", 2.5)):
            if r["model"] == model:
                yield Bar(
                    "models", f"int8 vs own float32, {at(r)}", r["int8_vs_own_fp32"], least=speedup
                )
        if r["model"] in ("resnet50", "bert-base"):
            yield Bar("models", f"bf16 vs own float32, {at(r)}", r["bf16_vs_own_fp32"], least=1.5)


def own_form_bars(rows):
    """Ratios of the same rounds. Weight-only int8 runs the steps of float32 on weights decoded at
    load: of two equal programs either is the slower one in half of all measurements, so its bar
    asks that the interval of the ratio reaches down to 1; an interval wider than 5% says nothing,
    and the median is asked instead."""
    for r in rows:
        rounds, ms, at = r["rounds"], r["ms"], f"threads {r['threads']}"
        best = min((f for f in BEST_FORMS if ms.get(f)), key=ms.get, default=None)
        for form in BEST_FORMS:
            if form in ms:
                yield Bar(
                    "forms",
                    f"{r['net']}_{form} vs our best form, {at}",
                    paired(rounds, form, best),
                    most=1.15,
                )
        for form in ("qdq_convonly", "qdq_convinout", "dynamic_s8", "dynamic_u8"):
            if form in ms:
                yield Bar(
                    "forms",
                    f"{r['net']}_{form} vs our float32, {at}",
                    paired(rounds, form, "fp32"),
                    most=0.8,
                )
        if "wonly8" in ms:
            low, high = paired_interval(rounds, "wonly8", "fp32")
            narrow = low is not None and high <= 1.05 * low
            what = f"{r['net']}_wonly8 vs our float32, {at}" + (
                ", 95% interval's low end" if narrow else ""
            )
            yield Bar("forms", what, low if narrow else paired(rounds, "wonly8", "fp32"), most=1.0)


def block_bars(rows):
    for r in rows:
        for form in BLOCK_FORMS:
            if f"{form}_vs_own_fp32" in r:
                what = f"{r['block']} {form}, threads {r['threads']}"
                yield Bar("blocks", f"{what}, vs own float32", r[f"{form}_vs_own_fp32"], least=1.0)
                yield Bar("blocks", f"{what}, vs ONNX Runtime's", r[f"{form}_vs_ort"], least=1.0)


# On processors with AMX: of the tiles' peak.
AMX_GEMM = {"1024x1024x1024": 0.6, "4096x4096x4096": 0.6, "128x4096x4096": 0.45, "49x4608x512": 0.4}


def gemm_bars(rows):
    if any("AMX" in r.get("cpu", "") for r in rows):
        for r in rows:
            if r["shape"] in AMX_GEMM and r["kind"] != "f32" and r["threads"] == 1:
                yield Bar(
                    "gemm",
                    f"{r['shape']} {r['kind']}, threads 1, share of peak",
                    r["of_peak"].get("evoq"),
                    least=AMX_GEMM[r["shape"]],
                )
        return
    least = {
        "1024x1024x1024": 0.92,
        "3136x576x64": 0.92,
        "4096x4096x4096": 0.88,
        "128x4096x4096": 0.88,
        "128x768x3072": 0.88,
    }
    for r in rows:
        what = f"{r['shape']} {r['kind']}, threads {r['threads']}"
        if r["shape"] in least and r["kind"] != "bf16":
            yield Bar(
                "gemm", f"{what}, share of peak", r["of_peak"].get("evoq"), least=least[r["shape"]]
            )
        if r["shape"] == "8x4096x4096" and r["kind"] not in ("f32", "bf16"):
            yield Bar("gemm", f"{what}, share of peak", r["of_peak"].get("evoq"), least=0.7)
        if r["shape"].startswith("1x") and r["kind"] not in ("f32", "bf16"):
            yield Bar(
                "gemm",
                f"{what}, share of {r['bandwidth_level'].upper()} bandwidth",
                r["of_bandwidth"].get("evoq"),
                least=0.85,
            )


def system_bars(rows):
    for r in rows:
        if r["what"].startswith("chain"):
            yield Bar(
                "system",
                f"{r['what']}, ns per node, threads {r['threads']}",
                r["ns_per_node"].get("evoq"),
                most=100,
            )
        if r["what"] == "load_resnet50_int8":
            yield Bar("system", "load of ResNet-50 int8, ms", r["ms"]["evoq"], most=10)
            yield Bar(
                "system",
                "peak memory of ResNet-50 int8 over what is allowed",
                r["peak_rss_bytes"] / r["allowed_bytes"],
                most=1,
            )
        if r["what"] == "busy_machine":
            # Three busy threads on two cores, a half each; then four: everyone is at half speed at
            # worst, and a tenth for switching.
            yield Bar(
                "system",
                "2 threads beside a busy core, times slower",
                r["slower_beside_one_core"],
                most=2.2,
            )
            yield Bar(
                "system",
                "2 threads beside a second run, times slower",
                r["slower_beside_second_run"],
                most=2.2,
            )
        if r["what"].startswith("avx2"):
            yield Bar(
                "system",
                f"{r['what']}, int8 vs own float32, threads {r['threads']}",
                r["int8_vs_own_fp32"],
                least=1.5,
            )


BARS = {
    "models": model_bars,
    "own_forms": own_form_bars,
    "blocks": block_bars,
    "gemm": gemm_bars,
    "system": system_bars,
}


def check_measured(rows):
    """Refuses rows of models that no measurement wrote: one writes the machine's peaks and the
    model's work beside the times."""
    typed = [
        f"{r['model']} threads {r['threads']} batch {r['batch']}"
        for r in rows
        if r["ms"] and not ("peak" in r and r.get("macs"))
    ]
    if typed:
        raise ValueError(
            "models.json: rows without peak and macs, which bench/peers.py did not write; measure "
            f"them: {', '.join(typed)}"
        )


def bars(results):
    """results: part -> rows. Raises ValueError for rows that were not measured."""
    check_measured(results.get("models", []))
    return [bar for part, rows in results.items() if part in BARS for bar in BARS[part](rows)]
