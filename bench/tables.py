"""Rows as lines, and as the tables of docs/performance.md between their markers."""

import json
import os
import re
import subprocess
import textwrap

from bars import BEST_FORMS, BLOCK_FORMS, bars, geometric_mean
from pairs import paired, paired_interval

KEYS = ("model", "net", "form", "block", "shape", "kind", "what", "threads", "batch")


def number(value):
    """Four significant digits."""
    return "-" if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def times(value):
    return "-" if value is None else f"{value:.2f}x"


def percent(value):
    return "-" if value is None else f"{100 * value:.0f}%"


def line(part, row):
    """One row of a running benchmark."""
    key = " ".join(
        f"{k} {row[k]}" if k in ("threads", "batch") else str(row[k]) for k in KEYS if k in row
    )
    ms = "  ".join(f"{n} {number(v)}" for n, v in row["ms"].items())
    derived = "  ".join(
        f"{k} {v:.2f}" for k, v in row.items() if isinstance(v, float) and k not in KEYS
    )
    errors = "".join(f"\n    {n}: {e}" for n, e in row.get("errors", {}).items())
    return f"{key}: {ms}  {derived}{errors}"


def table(header, rows):
    return "\n".join(
        ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        + ["| " + " | ".join(r) + " |" for r in rows]
    )


def model_table(rows):
    cells = []
    for r in (r for r in rows if r["ms"]):
        m = r["ms"]
        cells.append(
            [
                r["model"],
                str(r["threads"]),
                str(r["batch"]),
                *(number(m.get(f"{w}_fp32")) for w in ("evoq", "ort", "ov")),
                times(r["fp32_vs_faster"]),
                *(number(m.get(f"{w}_int8")) for w in ("evoq", "ort", "ov")),
                times(r["int8_vs_faster"]),
                times(r["int8_vs_own_fp32"]),
                percent(r["int8_of_peak"]),
                percent(r["fp32_of_peak"]),
            ]
        )
    means = [
        times(geometric_mean(r[k] for r in rows if r["ms"]))
        for k in ("fp32_vs_faster", "int8_vs_faster", "int8_vs_own_fp32")
    ]
    cells.append(
        ["geometric mean", "", "", "", "", "", means[0], "", "", "", means[1], means[2], "", ""]
    )
    text = table(
        [
            "model",
            "threads",
            "batch",
            "float32: evoq ms",
            "ONNX Runtime",
            "OpenVINO",
            "vs the faster",
            "int8: evoq ms",
            "ONNX Runtime",
            "OpenVINO",
            "vs the faster",
            "int8 vs own float32",
            "int8 of peak",
            "float32 of peak",
        ],
        cells,
    )
    for r in rows:
        if not r["ms"]:
            text += f"\n\n{r['model']} batch {r['batch']}: {r['errors']['all']}."
    return text


def form_table(rows):
    return table(
        ["network", "form", "threads", "evoq ms", "ONNX Runtime", "OpenVINO"],
        [
            [r["net"], r["form"], str(r["threads"])]
            + [number(r["ms"].get(n)) for n in ("evoq", "ort", "ov")]
            for r in rows
        ],
    )


def own_form_table(rows):
    cells = []
    for r in rows:
        rounds, ms = r["rounds"], r["ms"]
        best = min((f for f in BEST_FORMS if ms.get(f)), key=ms.get, default=None)
        for form in ms:
            low, high = paired_interval(rounds, form, "fp32")
            cells.append(
                [
                    r["net"],
                    form,
                    str(r["threads"]),
                    number(ms[form]),
                    times(paired(rounds, form, "fp32")),
                    "-" if low is None or form == "fp32" else f"{low:.3f} to {high:.3f}",
                    times(paired(rounds, form, best) if form in BEST_FORMS else None),
                ]
            )
    return table(
        ["network", "form", "threads", "ms", "of our float32", "95% interval", "of our best form"],
        cells,
    )


def block_table(rows):
    cells = []
    for r in rows:
        m = r["ms"]
        cells.append(
            [r["block"], str(r["threads"]), number(m["evoq_fp32"]), number(m.get("ort_fp32"))]
            + [
                c
                for f in BLOCK_FORMS
                for c in (number(m.get("evoq_" + f)), number(m.get("ort_" + f)))
            ]
            + [times(r["qdq_u8s8_vs_own_fp32"])]
        )
    return table(
        ["block", "threads", "float32: evoq ms", "ONNX Runtime"]
        + [t for f in ("u8s8", "s8s8", "dynamic") for t in (f + ": evoq ms", "ONNX Runtime")]
        + ["u8s8 vs own float32"],
        cells,
    )


def gemm_table(rows):
    return table(
        [
            "M x K x N",
            "types",
            "threads",
            "evoq ms",
            "ONNX Runtime",
            "oneDNN",
            "evoq of peak",
            "of the bandwidth of",
        ],
        [
            [r["shape"], r["kind"], str(r["threads"])]
            + [number(r["ms"].get(n)) for n in ("evoq", "ort", "dnnl")]
            + [
                percent(r["of_peak"].get("evoq")),
                f"{r['bandwidth_level'].upper()} {percent(r['of_bandwidth'].get('evoq'))}",
            ]
            for r in rows
        ],
    )


def system_table(rows):
    megabytes = lambda row, key: f"{row[key] / 1e6:.1f}" if key in row else ""
    return table(
        ["what", "threads", "ms", "peak memory, MB", "allowed, MB"],
        [
            [
                r["what"],
                str(r["threads"]),
                ", ".join(f"{n} {number(v)}" for n, v in r["ms"].items()),
                megabytes(r, "peak_rss_bytes"),
                megabytes(r, "allowed_bytes"),
            ]
            for r in rows
        ],
    )


TABLES = {
    "models": model_table,
    "own_forms": own_form_table,
    "forms": form_table,
    "blocks": block_table,
    "gemm": gemm_table,
    "system": system_table,
}


def load(folder):
    """The stored rows of each part, of all processors."""
    results = {}
    for part in TABLES:
        path = os.path.join(folder, part + ".json")
        if os.path.exists(path):
            with open(path) as f:
                results[part] = json.load(f)["rows"]
    return results


def by_processor(results):
    """The rows of each part, by the processor and instruction set that they were measured with."""
    split = {}
    for part, rows in results.items():
        for row in rows:
            split.setdefault(row.get("cpu") or "a processor that was not noted", {}).setdefault(
                part, []
            ).append(row)
    return dict(sorted(split.items()))


def in_history(commit):
    folder = os.path.dirname(os.path.abspath(__file__))
    return (
        subprocess.run(
            ["git", "-C", folder, "cat-file", "-e", f"{commit}^{{commit}}"],
            stderr=subprocess.DEVNULL,
        ).returncode
        == 0
    )


def sources(rows):
    """Which commits the rows of one processor come from, and how many cannot be measured again."""
    found = sorted({r["commit"] for r in rows if r.get("commit")})
    known = [commit for commit in found if in_history(commit)]
    lost = sum(r.get("commit") not in known for r in rows)
    sentences = [f"Commit{'s' if len(known) > 1 else ''} {', '.join(known)}."] if known else []
    if lost:
        rows_ = f"{lost} of {len(rows)} rows" if known else "These rows"
        sentences.append(
            f"{rows_} are of sources that are not in this history: they are not reproducible from "
            "it."
        )
    return textwrap.fill(" ".join(sentences), 100, break_long_words=False, break_on_hyphens=False)


def missed_text(results):
    """Of one processor."""
    found = bars(results)
    missed = [b for b in found if not b.met]
    return f"{len(found) - len(missed)} of {len(found)} bars are met." + (
        " Missed:\n\n```\n" + "\n".join(b.text() for b in missed) + "\n```" if missed else ""
    )


def contents(results):
    """What stands between the markers of each part, and of the bars: of each processor."""
    parts = {}
    for cpu, measured in by_processor(results).items():
        of = {part: f"{TABLES[part](rows)}\n\n{sources(rows)}" for part, rows in measured.items()}
        of["bars"] = missed_text(measured)
        for part, text in of.items():
            parts.setdefault(part, []).append(f"**{cpu}**\n\n{text}")
    return {part: "\n\n".join(texts) for part, texts in parts.items()}


def write(document, folder):
    """Replaces what lies between <!-- bench:PART --> and <!-- end --> by the part's tables, and
    bench:bars by the missed bars."""
    with open(document) as f:
        text = f.read()
    for part, content in contents(load(folder)).items():
        pattern = re.compile(rf"(<!-- bench:{part} -->\n).*?(<!-- end -->)", re.S)
        text = pattern.sub(lambda m: m.group(1) + content + "\n" + m.group(2), text)
    with open(document, "w") as f:
        f.write(text)
