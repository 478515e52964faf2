#!/usr/bin/env python3
"""Opens the HTML report in headless Chromium and looks at what the page made of it.

usage: report_test.py [EVOQ] [SCREENSHOT.png]
Skips (exit status 77) where there is no Chromium.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

EVOQ = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ["EVOQ_BUILD"], "bin/evoq"))
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if BROWSER is None:
    print("skipped: no Chromium")
    sys.exit(77)


def evoq(*words):
    subprocess.run([EVOQ, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def browse(page, folder, *options):
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile",
               # Nothing may be fetched: every name resolves to nowhere.
               "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1200,2400", *options, "file://" + page]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def check(condition, message):
    if not condition:
        sys.exit("FAILED: " + message)


with tempfile.TemporaryDirectory() as folder:
    onnx, etm = os.path.join(folder, "a<b id=planted>.onnx"), os.path.join(folder, "net.etm")
    page, profile, eval_file = (os.path.join(folder, name) for name in ("report.html", "explain.json", "eval.json"))
    evoq("zoo", "lenet", "-o", onnx)
    evoq("quantize", onnx, "--calib-random", "4", "-o", etm)
    with open(eval_file, "w") as f:
        json.dump({"model": "net", "samples": 400, "top1": 0.75}, f)
    evoq("explain", etm, "--baseline", onnx, "--threads", "1", "--duration-s", "0.4", "--report", page, "--eval", eval_file, "--json", profile)
    with open(profile) as f:
        explained = json.load(f)
    with open(page) as f:
        text = f.read()
    check(not re.search(r"<(script|link|img)[^>]+(src|href)=", text), "the page refers to another file")
    dom = browse(page, folder, "--dump-dom")
    check('data-ready="yes"' in dom, "the page's script did not run to its end")
    check("id=\"planted\"" not in dom, "a file's name became markup")
    check(dom.count("<canvas") == 5, f"{dom.count('<canvas')} charts, expected 5: two ledgers, roofline, memory of two models")
    steps = explained["profile"]["steps"]
    for step in steps:
        check(f">{step['name']}</td>" in dom, f"step {step['name']} is missing")
    for cause in explained["time"]["causes"] + explained["bytes"]["causes"]:
        check(f">{cause['code']}</td>" in dom, f"cause {cause['code']} is missing")
    check("which is known to ± " in dom and ">± ms<" in dom, "the ledger's interval is missing")
    check("75.00%" in dom and "70.53 to 78.99%" in dom, "accuracy with its Wilson interval is missing")
    check(re.search(r"95% interval [0-9.]+ to [0-9.]+", dom), "the speed's interval is missing")
    picture = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else os.path.join(folder, "page.png")
    browse(page, folder, f"--screenshot={picture}")
    check(os.path.getsize(picture) > 40000, f"the picture has {os.path.getsize(picture)} bytes: the page looks empty")
    side = os.path.join(folder, "compare.html")
    evoq("compare", onnx, etm, "--threads", "1", "--duration-s", "0.1", "--rounds", "3", "--report", side)
    check('data-ready="yes"' in browse(side, folder, "--dump-dom"), "the page of compare did not run to its end")
print(f"report: {len(steps)} steps, 5 charts, opens offline")
