#!/usr/bin/env python3
"""Gears in `evoq serve`: the sizes that an .etm declares are prepared when it is loaded, other
batches run in a larger gear, bit for bit, and what has none is a miss; /metrics, the status page's
data and the results say so. Standard library only."""

import json
import pathlib
import re
import sys
import tempfile

import agree
from serve_models import Model, binary_outputs, binary_request
from serving import Serving, check, failures

NAMES = ("evoq_gears", "evoq_gears_ready", "evoq_gear_hits", "evoq_gear_padded")
NAMES += ("evoq_gear_misses", "evoq_gear_miss_us")


def counts(server, model):
    _, _, page = server.ask("GET", "/metrics")
    found = {}
    for name in NAMES:
        line = re.search(rf'^{name}{{model="{model}",version="1"}} (\S+)', page.decode(), re.M)
        found[name] = float(line[1])
    return found


def infer(server, model, name, samples):
    """The output of a request of these samples."""
    values = [v for sample in samples for v in model.samples[sample]]
    shape = [len(samples), *model.shape[1:]]
    body, headers = binary_request(model.input, shape, values)
    status, got, text = server.ask("POST", f"/v2/models/{name}/infer", body, headers)
    assert status == 200, text
    return binary_outputs(got, text)[model.output]


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        model = Model(work, samples=8)
        (model.repository / "geared" / "1").mkdir(parents=True)
        agree.evoq(
            *("compile", model.onnx, "--gears", f"{model.input}=1,4"),
            *("-o", model.repository / "geared" / "1" / "model.etm"),
        )
        # Each request is a run.
        for name in ("geared", "float"):
            (model.repository / name / "config.json").write_text('{"max_batch_size": 0}')
        with Serving(model.repository, "--no-request-log") as server:
            now = counts(server, "geared")
            check(
                "the gears are prepared when it is ready, and nothing is counted",
                [now[name] for name in NAMES] == [2, 2, 0, 0, 0, 0],
                now,
            )
            wanted = model.wanted["float"]
            for samples in ([0], [1, 2, 3, 4]):
                got = infer(server, model, "geared", samples)
                check(f"{len(samples)}: the bits", got == b"".join(wanted[s] for s in samples))
            now = counts(server, "geared")
            hits = now["evoq_gear_hits"], now["evoq_gear_padded"], now["evoq_gear_misses"]
            check("gears are hits", hits == (2, 0, 0), now)
            got = infer(server, model, "geared", [5, 6, 7])
            check("3: the bits", got == b"".join(wanted[s] for s in (5, 6, 7)))
            now = counts(server, "geared")
            hits = now["evoq_gear_hits"], now["evoq_gear_padded"], now["evoq_gear_misses"]
            check("3 ran in the gear of 4, or as itself", hits in ((2, 1, 0), (2, 0, 1)), now)
            before = counts(server, "float")
            check("a file without gears", before["evoq_gears"] == 0, before)
            for _ in range(2):
                infer(server, model, "float", [0, 1])
            now = counts(server, "float")
            more = {name: now[name] - before[name] for name in NAMES}
            check(
                "its new sizes are a miss, once",
                (more["evoq_gear_misses"], more["evoq_gear_hits"]) == (1, 1)
                and more["evoq_gear_miss_us"] > 0,
                now,
            )
            status = server.json("GET", "/status.json")
            told = {m["name"]: m["gears"] for m in status["models"]}
            check(
                "the status page has them",
                told["geared"]["declared"] == told["geared"]["ready"] == 2
                and told["float"]["misses"] == 1
                and told["float"]["worst_miss_ms"] > 0,
                json.dumps(told),
            )
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
