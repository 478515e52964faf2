#!/usr/bin/env python3
"""Values share memory: a run of ResNet-50 and of MobileNetV2, float32 and int8, needs less than 40%
of what its values would take apart; without reuse, all of it."""

import json
import pathlib
import tempfile

from agree import SANITIZED, evoq

LIMIT = 0.4


def measured(folder, model):
    out = folder / "bench.json"
    evoq("bench", model, "--threads", "1", "--duration-s", "0.05", "--json", out)
    return json.loads(out.read_text())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for zoo in ("mobilenetv2",) if SANITIZED else ("resnet50", "mobilenetv2"):
            onnx = folder / f"{zoo}.onnx"
            evoq("zoo", zoo, "-o", onnx)
            models = {"float32": folder / "f.etm", "int8": folder / "q.etm"}
            evoq("compile", onnx, "-o", models["float32"])
            evoq("quantize", onnx, "--calib-random", "1", "-o", models["int8"])
            for form, model in models.items():
                bench = measured(folder, model)
                arena, values = bench["arena_bytes"], bench["value_bytes"]
                print(f"{zoo} {form}: {arena} bytes for {values} of values, {arena / values:.0%}")
                assert bench["live_bytes"] <= arena < LIMIT * values, bench
        (folder / "apart.json").write_text('{"graph_optimization": {"enable_memory_reuse": false}}')
        evoq("optimize", onnx, "--config", folder / "apart.json", "-o", folder / "a.onnx")
        evoq("compile", folder / "a.onnx", "-o", folder / "a.etm")
        bench = measured(folder, folder / "a.etm")
        assert bench["arena_bytes"] >= bench["value_bytes"] > 0, bench


if __name__ == "__main__":
    main()
