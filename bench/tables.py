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
    """The stored rows of each part."""
    results = {}
    for part in TABLES:
        path = os.path.join(folder, part + ".json")
        if os.path.exists(path):
            with open(path) as f:
                results[part] = json.load(f)["rows"]
    return results


def in_history(commit):
    folder = os.path.dirname(os.path.abspath(__file__))
    return (
        subprocess.run(
            ["git", "-C", folder, "cat-file", "-e", f"{commit}^{{commit}}"],
            stderr=subprocess.DEVNULL,
        ).returncode
        == 0
    )


def machines(rows):
    """Which machines and commits the rows come from, and how many cannot be measured again."""
    found = sorted({(r["cpu"], r["commit"]) for r in rows if r.get("cpu") and r.get("commit")})
    known = {commit for _, commit in found if in_history(commit)}
    lost = sum(r.get("commit") not in known for r in rows)
    sentences = (
        [
            "Measured on "
            + "; ".join(f"{cpu} (commit {commit})" for cpu, commit in found if commit in known)
            + "."
        ]
        if known
        else []
    )
    if lost:
        rows_ = f"{lost} of {len(rows)} rows" if known else "These rows"
        sentences.append(
            f"{rows_} are of an earlier machine and of sources that are not in this history: they "
            "are not reproducible from it."
        )
    text = " ".join(sentences)
    return "\n\n" + textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def write(document, folder):
    """Replaces what lies between <!-- bench:PART --> and <!-- end --> by the part's table, and
    bench:bars by the missed bars."""
    with open(document) as f:
        text = f.read()
    results = load(folder)
    parts = {part: TABLES[part](rows) + machines(rows) for part, rows in results.items()}
    found = bars(results)
    missed = [b for b in found if not b.met]
    parts["bars"] = f"{len(found) - len(missed)} of {len(found)} bars are met." + (
        " Missed:\n\n```\n" + "\n".join(b.text() for b in missed) + "\n```" if missed else ""
    )
    for part, content in parts.items():
        pattern = re.compile(rf"(<!-- bench:{part} -->\n).*?(<!-- end -->)", re.S)
        text = pattern.sub(lambda m: m.group(1) + content + "\n" + m.group(2), text)
    with open(document, "w") as f:
        f.write(text)
