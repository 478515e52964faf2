#!/usr/bin/env python3
"""The figures of explain: what it prints, its JSON and its page say the same, and a ratio is that
of the two times beside it. The page is opened in headless Chromium.

usage: report_test.py [EVOQ] [SCREENSHOT.png]
Skips (exit status 77) where there is no Chromium, after what needs none.
"""

import html.parser
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import agree
from browser import BROWSER, open_page

EVOQ = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else agree.EVOQ


def evoq(*words):
    return subprocess.run(
        [EVOQ, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def browse(page, folder, *options):
    out, console = open_page("file://" + page, folder, *options)
    check(not console, f"{page}: the console says {console}")
    return out


def check(condition, message):
    if not condition:
        sys.exit("FAILED: " + message)


def shown(ms):
    """Milliseconds as text and page show them: four significant digits."""
    digits = 3 if ms == 0 or abs(ms) >= 1 else min(7, 3 - math.floor(math.log10(abs(ms))))
    return f"{ms:.{digits}f}"


def same(text, value):
    """Whether a figure of the text is this value, rounded to the digits that are shown."""
    digits = len(text.split(".")[1]) if "." in text else 0
    return abs(float(text) - value) <= 0.501 * 10**-digits


def is_ratio(text, above, below):
    """Whether a ratio is that of the two times that are shown, which are rounded as well."""
    value = float(above) / float(below)
    return abs(float(text) - value) <= 0.501 * 10 ** -len(text.split(".")[1]) + 2e-3 * value


def check_time(text, time):
    """The ledger's first line and its rows."""
    number = r"(-?[0-9.]+)"
    line = re.search(
        rf"time: float {number} ms -> ideal {number} ms -> attainable {number} ms -> "
        rf"measured {number} ms \({number}x of {number}x possible\)",
        text,
    )
    check(line, "no line of the time ledger")
    for figure, key in zip(line.groups(), ["float_ms", "ideal_ms", "attainable_ms", "actual_ms"]):
        check(
            figure == shown(time[key]), f"{key} is {time[key]} in the JSON and {figure} in the text"
        )
    check(
        is_ratio(line[5], line[1], line[4]) and is_ratio(line[6], line[1], line[2]),
        f"{line[0]}: not the ratios of these times",
    )
    check(
        float(line[5]) <= float(line[6]) + 0.005 and time["ideal_ms"] <= time["actual_ms"],
        f"{line[0]}: more than possible",
    )
    check(
        abs(
            time["actual_ms"]
            - time["ideal_ms"]
            - sum(c["ms"] for c in time["causes"])
            - time["unexplained_ms"]
        )
        < 1e-9,
        "the causes do not add up",
    )
    for cause in time["causes"]:
        row = re.search(
            rf"^ *([+-][0-9.]+) .* {re.escape(cause['code'])}(?: |$)", text, re.MULTILINE
        )
        check(
            row and same(row[1], cause["ms"]),
            f"cause {cause['code']} is {cause['ms']} ms in the JSON, in the text: {row and row[0]}",
        )


def check_bytes(text, ledger):
    file_bytes = ledger["actual_file"]
    check(f"({file_bytes} bytes)" in text, "the file's size is not in the text")
    check(
        ledger["unexplained_bytes"] == file_bytes - sum(c["bytes"] for c in ledger["causes"]),
        "the bytes do not add up",
    )
    for cause in ledger["causes"]:
        row = re.search(
            rf"^ *([0-9]+) +([0-9.]+)%  {re.escape(cause['code'])} ", text, re.MULTILINE
        )
        check(
            row
            and int(row[1]) == cause["bytes"]
            and same(row[2], 100 * cause["bytes"] / file_bytes),
            f"cause {cause['code']}: {row and row[0]}",
        )


def check_steps(text, profile):
    check(
        abs(profile["total_ms"] + profile["tax_ms"] - profile["steps_ms"] - profile["host_ms"])
        < 1e-9,
        "a run is not its steps and its host",
    )
    total, steps = shown(profile["total_ms"]), shown(profile["steps_ms"])
    check(f"total {total} ms per run, sum of steps {steps} ms" in text, "the sum of the steps")
    for step in profile["steps"]:
        row = re.search(
            rf"^{re.escape(step['name'])} .* ([0-9.]+) +([0-9.]+)% +([0-9]*) +([0-9]+)%[+]?$",
            text,
            re.MULTILINE,
        )
        check(row, f"step {step['name']} is not in the text")
        check(
            same(row[1], step["ms"])
            and same(row[2], 100 * step["share"])
            and same(row[4], 100 * step["roofline_share"]),
            f"step {step['name']}: {row[0]}",
        )
        check(
            same(row[3], step["gops"]) if step["macs"] else row[3] == "",
            f"GOPS of {step['name']}: {row[0]}",
        )
        check(
            abs(step["gops"] * step["ms"] * 1e6 - 2 * step["macs"]) <= 1e-6 * step["macs"],
            f"GOPS of {step['name']} are not its operations over its time",
        )
        check(
            0 < step["roofline_share"] <= 1,
            f"{step['name']} at {step['roofline_share']} of the roofline",
        )


class Tables(html.parser.HTMLParser):
    """The page's tables, each as a list of rows of texts, and the texts of its cards."""

    def __init__(self, dom):
        super().__init__()
        self.tables, self.cards, self.text, self.card = [], [], None, 0
        self.feed(dom)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.text = ""
        elif tag == "div":
            self.card = self.card + 1 if self.card else int(("class", "card") in attributes)
            if self.card == 1:
                self.cards.append([])

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self.text is not None:
            self.tables[-1][-1].append(self.text)
            self.text = None
        elif tag == "div" and self.card:
            self.card -= 1

    def handle_data(self, data):
        if self.text is not None:
            self.text += data
        elif self.card:
            self.cards[-1].append(data)

    def rows(self, first):
        """The rows of the table whose first column is called so."""
        return next(
            {row[0]: row for row in table[1:]} for table in self.tables if table[0][0] == first
        )

    def card_of(self, title):
        return next((card for card in self.cards if card[0] == title), None)


def check_heat_map(tables, dom, found):
    """A row for each layer in execution order, its figures, and colours by what it adds."""
    table = next(table for table in tables.tables if table[0][0] == "order")
    layers = sorted(found["layers"], key=lambda layer: layer["index"])
    check([row[1] for row in table[1:]] == [layer["name"] for layer in layers], "the layers")
    for row, layer in zip(table[1:], layers):
        for column, side in ((4, "alone"), (9, "spared")):
            db = layer[side]["sqnr_db"]
            check(
                row[column] == "exact" if db is None else same(row[column], db),
                f"{layer['name']} {side}: {row[column]} dB",
            )
        check([row[3], row[8]] == [str(layer["rank_alone"]), str(layer["rank_spared"])], row)
    heat = [float(value) for value in re.findall(r"rgba\(var\(--hot\), ([0-9.]+)\)", dom)]
    check(max(heat) == 0.75 and min(heat) == 0, f"colours from {min(heat)} to {max(heat)}")
    check(len(tables.rows("tensor")) == len(found["tensors"]), "the tensors")
    for layer in found["exclude"]["layers"]:
        check(f"--exclude {layer}" in dom, f"{layer} is not among the layers to exclude")


def check_page(tables, data):
    causes = tables.rows("cause")
    for cause in data["time"]["causes"]:
        row = causes[cause["code"]]
        check(
            row[1] == shown(cause["ms"]) and row[4] == str(len(cause["steps"])),
            f"cause {cause['code']} in the page: {row}",
        )
    for cause in data["bytes"]["causes"]:
        row = tables.rows("what")[cause["code"]]
        check(
            row[1] == str(cause["bytes"])
            and same(row[2].rstrip("%"), 100 * cause["bytes"] / data["bytes"]["actual_file"]),
            f"cause {cause['code']} in the page: {row}",
        )
    steps = tables.rows("step")
    for step in data["models"][0]["profile"]["steps"]:
        row = steps[step["name"]]
        check(
            row[5] == shown(step["ms"])
            and same(row[6].rstrip("%"), 100 * step["share"])
            and same(row[8].rstrip("%"), 100 * step["roofline_share"]),
            f"step in the page: {row}",
        )
    before, after = (
        sum(s["ms"] for s in m["profile"]["steps"] if s["op"] == "Conv")
        for m in (data["models"][1], data["models"][0])
    )
    row = tables.rows("operator")["Conv"]
    check(
        row[1] == shown(before)
        and row[2] == shown(after)
        and same(row[3].rstrip("x"), before / after),
        f"side by side: {row}",
    )


def check_speed(card, compare):
    """The headline: a ratio, its interval and the two times that it is the ratio of."""
    check(card, "no card of the speed")
    note = re.match(
        r"95% interval ([0-9.]+) to ([0-9.]+): (\w+); ([0-9.]+) to ([0-9.]+) ms$", card[2]
    )
    check(note, f"the speed's card says {card}")
    check(is_ratio(card[1].rstrip("x"), note[4], note[5]), f"{card}: not the ratio of these times")
    check(
        same(note[1], compare["speedup_low"])
        and same(note[2], compare["speedup_high"])
        and note[3] == compare["verdict"],
        f"{card} and {compare}",
    )
    check(compare["speedup_low"] <= compare["speedup"] <= compare["speedup_high"], f"{compare}")


with tempfile.TemporaryDirectory() as folder:
    onnx, etm = os.path.join(folder, "a<b id=planted>.onnx"), os.path.join(folder, "net.etm")
    page, profile, eval_file = (
        os.path.join(folder, name) for name in ("report.html", "explain.json", "eval.json")
    )
    evoq("zoo", "lenet", "-o", onnx)
    evoq("quantize", onnx, "--calib-random", "4", "-o", etm)
    with open(eval_file, "w") as f:
        json.dump({"model": "net", "samples": 400, "top1": 0.75}, f)
    printed = evoq(
        "explain",
        etm,
        "--baseline",
        onnx,
        "--threads",
        "1",
        "--duration-s",
        "0.4",
        "--report",
        page,
        "--eval",
        eval_file,
        "--json",
        profile,
    )
    with open(profile) as f:
        explained = json.load(f)
    with open(page) as f:
        text = f.read()
    check_steps(printed, explained["profile"])
    check_time(printed, explained["time"])
    check_bytes(printed, explained["bytes"])
    data = json.loads(
        re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)[1]
    )
    check(
        data["time"] == explained["time"] and data["bytes"] == explained["bytes"],
        "the page's ledgers are not the JSON's",
    )
    for step, there in zip(
        explained["profile"]["steps"], data["models"][0]["profile"]["steps"], strict=True
    ):
        check(step.items() <= there.items(), f"the page's step {there} is not the JSON's {step}")
    check(
        [m["p50_ms"] for m in data["models"]]
        == [explained["time"]["actual_ms"], explained["time"]["float_ms"]],
        "the page's times are of other rounds than the ledger's",
    )
    check(
        [data["compare"]["b_ms"], data["compare"]["a_ms"]] == [m["p50_ms"] for m in data["models"]],
        "the headline is of other rounds than the ledger",
    )
    check(
        abs(data["compare"]["speedup"] * data["compare"]["b_ms"] / data["compare"]["a_ms"] - 1)
        < 1e-9,
        "the headline is not the ratio of its times",
    )
    check(
        not re.search(r"<(script|link|img)[^>]+(src|href)=", text),
        "the page refers to another file",
    )
    if BROWSER is None:
        print("skipped: no Chromium")
        sys.exit(77)
    dom = browse(page, folder, "--dump-dom")
    check('data-ready="yes"' in dom, "the page's script did not run to its end")
    check('id="planted"' not in dom, "a file's name became markup")
    check(
        dom.count("<canvas") == 5,
        f"{dom.count('<canvas')} charts, expected 5: two ledgers, roofline, memory of two models",
    )
    steps = explained["profile"]["steps"]
    for step in steps:
        check(f">{step['name']}</td>" in dom, f"step {step['name']} is missing")
    for cause in explained["time"]["causes"] + explained["bytes"]["causes"]:
        check(f">{cause['code']}</td>" in dom, f"cause {cause['code']} is missing")
    check("which is known to ± " in dom and ">± ms<" in dom, "the ledger's interval is missing")
    tables = Tables(dom)
    check_page(tables, data)
    check_speed(tables.card_of("speed"), data["compare"])
    check(
        "75.00%" in dom and "70.53 to 78.99%" in dom, "accuracy with its Wilson interval is missing"
    )
    check(re.search(r"95% interval [0-9.]+ to [0-9.]+", dom), "the speed's interval is missing")
    picture = (
        os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else os.path.join(folder, "page.png")
    )
    browse(page, folder, f"--screenshot={picture}")
    check(
        os.path.getsize(picture) > 40000,
        f"the picture has {os.path.getsize(picture)} bytes: the page looks empty",
    )
    side = os.path.join(folder, "compare.html")
    evoq(
        "compare",
        onnx,
        etm,
        "--threads",
        "1",
        "--duration-s",
        "0.1",
        "--rounds",
        "3",
        "--report",
        side,
    )
    dom = browse(side, folder, "--dump-dom")
    check('data-ready="yes"' in dom, "the page of compare did not run to its end")
    with open(side) as f:
        compared = json.loads(
            re.search(
                r'<script id="data" type="application/json">(.*?)</script>', f.read(), re.DOTALL
            )[1]
        )
    check_speed(Tables(dom).card_of("speed"), compared["compare"])
    page = os.path.join(folder, "sensitivity.html")
    found = os.path.join(folder, "sensitivity.json")
    evoq(
        "sensitivity",
        onnx,
        "--random",
        "2",
        "--min-sqnr",
        "60",
        "--threads",
        "1",
        "--report",
        page,
        "--json",
        found,
    )
    dom = browse(page, folder, "--dump-dom")
    check('data-ready="yes"' in dom, "the page of sensitivity did not run to its end")
    check('id="planted"' not in dom, "a file's name became markup")
    with open(found) as f:
        check_heat_map(Tables(dom), dom, json.load(f))
    page, found, tuned = (
        os.path.join(folder, name) for name in ("tune.html", "tune.json", "tuned.etm")
    )
    measure = ["--threads", "1", "--duration-s", "0.3"]
    evoq("tune", onnx, "-o", tuned, *measure, "--report", page, "--json", found)
    dom = browse(page, folder, "--dump-dom")
    check('data-ready="yes"' in dom, "the page of tune did not run to its end")
    check('id="planted"' not in dom, "a file's name became markup")
    rows = Tables(dom).rows("stage")
    with open(found) as f:
        stages = json.load(f)["stages"]
    check(
        [[s["stage"], s["did"], s["speed"]] for s in stages] == list(rows.values()),
        f"the stages of the page: {rows}",
    )
    page = os.path.join(folder, "comparison.html")
    for model, saved in ((onnx, "baseline"), (tuned, "optimized")):
        evoq("benchmark", f"--model={model}", f"--output={folder}/{saved}", *measure)
    both = [f"--baseline={folder}/baseline", f"--optimized={folder}/optimized"]
    evoq("perf_compare", *both, f"--report={page}", "--json", found)
    dom = browse(page, folder, "--dump-dom")
    check('data-ready="yes"' in dom, "the page of perf_compare did not run to its end")
    check('id="planted"' not in dom, "a file's name became markup")
    with open(found) as f:
        check_speed(Tables(dom).card_of("speed"), json.load(f))
print(f"report: {len(steps)} steps, 5 charts, opens offline")
