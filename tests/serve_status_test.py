#!/usr/bin/env python3
"""The status page of `evoq serve` in headless Chromium: it shows the figures of the statistics,
runs without an error, refers to no other file, opens without a server too, and tells nobody more
than his token allows.

usage: serve_status_test.py [SCREENSHOT.png]
Skips (exit status 77) where there is no Chromium, after what needs none."""

import contextlib
import json
import pathlib
import re
import sys
import tempfile
import time

from browser import BROWSER, open_page
from serve_models import Model
from serving import Serving, check, failures

HOSTILE = "a<b id=planted>"
DATA = re.compile(r'<script id="data" type="application/json">(.*?)</script>', re.DOTALL)


def data_of(page):
    return json.loads(DATA.search(page)[1])


def page_of(server, path="/", headers=None):
    status, got, body = server.ask("GET", path, headers=headers)
    check(f"GET {path} is a page", status == 200 and "text/html" in got["Content-Type"], status)
    return body.decode()


def without_clock(data):
    """The data but for what goes on by itself."""
    return [{k: v for k, v in m.items() if k != "history"} for m in data["models"]]


def check_data(server, model, requests):
    """What the page holds is what the statistics say."""
    page = page_of(server)
    data = data_of(page)
    check("no other file", not re.search(r"<(script|link|img)[^>]+(src|href)=", page))
    same = server.json("GET", "/status.json")
    check("the page's data is /status.json", without_clock(data) == without_clock(same))
    by_name = {m["name"]: m for m in data["models"]}
    int8 = by_name["int8"]
    stats = server.json("GET", "/v2/models/int8/stats")["model_stats"][0]
    counted = stats["inference_stats"]
    check("requests", int8["success"] == counted["success"]["count"] == requests, int8["success"])
    check("failures", int8["failures"] == {"bad_request": 1}, int8["failures"])
    mean = counted["success"]["ns"] / 1e6 / counted["success"]["count"]
    check("mean time", abs(int8["mean_ms"] - mean) < 1e-9 * mean, (int8["mean_ms"], mean))
    history = int8["history"]
    answered = sum(history["per_second"]) * history["slice_s"]
    check("the history has every request", answered == requests, answered)
    failed = sum(history["failures_per_second"]) * history["slice_s"]
    check("and every failure", failed == 1, failed)
    p50, p99 = (
        [value for value in history[name] if value is not None] for name in ("p50_ms", "p99_ms")
    )
    check(
        "percentiles of time, where there were requests",
        p50 and all(0 < a <= b for a, b in zip(p50, p99)),
        (p50, p99),
    )
    share = int8["latency"]["share"]
    check("shares rise to 1", share == sorted(share) and share[-1] == 1, share)
    size = model.etm.stat().st_size
    ledger = int8["ledger"]
    check(
        "the ledger adds up to the file",
        int8["file_bytes"] == ledger["actual_file"] == size
        and sum(c["bytes"] for c in ledger["causes"]) + ledger["unexplained_bytes"] == size,
        ledger,
    )
    check("an .onnx has none", by_name[HOSTILE]["ledger"] is None)
    return data


def cells(dom):
    """The texts of each row of a table."""
    rows = re.findall(r"<tr>(.*?)</tr>", dom, re.DOTALL)
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]


def check_dom(dom, console, data, where):
    check(f"{where}: no error", not console, console)
    check(f"{where}: the script runs to its end", 'data-ready="yes"' in dom)
    check(f"{where}: a model's name is no markup", 'id="planted"' not in dom)
    # Of times there is one where a request was answered.
    charts = sum(3 if model["success"] else 2 for model in data["models"])
    check(f"{where}: {charts} charts", dom.count("<svg") == charts, dom.count("<svg"))
    rows = cells(dom)
    for model in data["models"]:
        name = model["name"].replace("<", "&lt;").replace(">", "&gt;")
        row = next((r for r in rows if r[0] == name), [])
        check(
            f"{where}: {name} has its row",
            row[1:3] == [str(model["version"]), str(model["success"])]
            and row[-1] == str(model["file_bytes"]),
            row,
        )
        for cause in (model["ledger"] or {"causes": []})["causes"]:
            row = next((r for r in rows if r[0] == cause["code"]), [None])
            check(f"{where}: {cause['code']}", row[1:2] == [str(cause["bytes"])], row)
    lines = re.findall(r'class="a" d="([^"]*)"', dom)
    check(f"{where}: curves have points", any(line.count("L") > 10 for line in lines), lines)


def check_browser(server, work, data):
    address = f"http://127.0.0.1:{server.port}"
    dom, console = open_page(address + "/", work, "--dump-dom")
    check_dom(dom, console, data, "the page")
    # Time that passes at once: the page asks for new data.
    dom, console = open_page(address + "/status", work, "--dump-dom", "--virtual-time-budget=5000")
    check_dom(dom, console, data, "after 5 s")
    asked = [line for line in server.lines if '"target":"/status.json"' in line]
    check("it asks for news", len(asked) >= 2, asked)
    kept = work / "kept.html"
    kept.write_text(page_of(server))
    dom, console = open_page(f"file://{kept}", work, "--dump-dom")
    check_dom(dom, console, data, "kept as a file")
    picture = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else work / "page.png").resolve()
    open_page(address, work, f"--screenshot={picture}")
    size = picture.stat().st_size
    check("the picture is not empty", size > 40000, size)


def check_token(work, repository):
    tokens = work / "tokens"
    tokens.write_text("one\n")
    with Serving(repository, "--token-file", str(tokens)) as server:
        check("no data without a token", data_of(page_of(server)) is None)
        check("nor from elsewhere", server.ask("GET", "/status.json")[0] == 401)
        headers = {"Authorization": "Bearer one"}
        check("data with one", len(data_of(page_of(server, "/", headers))["models"]) == 2)
        if BROWSER is None:
            return
        dom, console = open_page(f"http://127.0.0.1:{server.port}/", work, "--dump-dom")
        check(
            "the page asks for a token",
            not console and re.search(r'<form id="ask">', dom) and "int8" not in dom,
            (console, dom[-1000:]),
        )


def main():
    with tempfile.TemporaryDirectory(prefix="evoq_status_") as name:
        work = pathlib.Path(name)
        model = Model(work, 4)
        (model.repository / "float").rename(model.repository / HOSTILE)
        with Serving(model.repository) as server:
            with contextlib.closing(server.connect()) as connection:
                for i in range(200):
                    model.infer(connection, "int8", i % 4)
            server.json("POST", "/v2/models/int8/infer", "{}", 400)
            time.sleep(2.1)  # the slice of time that these were in is over
            data = check_data(server, model, 200)
            if BROWSER is not None:
                check_browser(server, work, data)
        check_token(work, model.repository)
    print(f"{len(failures)} failed")
    if failures:
        return 1
    if BROWSER is None:
        print("skipped: no Chromium")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
