#!/usr/bin/env python3
"""What the server costs: requests per second over HTTP beside `evoq bench --streams` on the same
model, and the times that clients see.

    bench/serve.py MODEL [--evoq build/release/bin/evoq] [--connections 64] [--seconds 10]
                   [--instances 1] [--threads N] [--max-batch 8] [--max-queue 128] [--rounds 3]

Each round measures runs in the process, then the server, with binary tensors both ways, one sample
for each request; the clients run on the same machine and take their share of it. Prints medians of
the rounds: runs per second of `evoq bench`, answers per second over HTTP, their share, the 50th and
99th percentile of the times from sending a request to its answer, refusals (503), and the resident
memory of the server after its first second and at its end. Needs nothing but Python.
"""

import argparse
import http.client
import json
import pathlib
import re
import statistics
import struct
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def in_process(options):
    """Runs per second of the model alone."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [options.evoq, "bench", options.model, "--streams", str(options.instances)]
        command += ["--threads", str(max(1, options.threads // options.instances))]
        command += ["--duration-s", str(options.seconds / 2), "--json", out.name]
        subprocess.run(command, check=True, capture_output=True)
        return json.load(open(out.name))["per_second"]


def request_for(port):
    """Path, body and headers of a request of one sample."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/v2/repository/index")
    name = json.loads(connection.getresponse().read())[0]["name"]
    connection.request("GET", f"/v2/models/{name}")
    inputs, data = [], b""
    for about in json.loads(connection.getresponse().read())["inputs"]:
        shape, count = [max(1, size) for size in about["shape"]], 1
        for size in shape:
            count *= size
        size = {"8": 1, "L": 1, "6": 2, "2": 4, "4": 8}[about["datatype"][-1]]
        floats = about["datatype"] == "FP32"
        values = struct.pack("<f", 0.25) * count if floats else bytes(size * count)
        parameters = {"binary_data_size": len(values)}
        inputs.append({**about, "shape": shape, "parameters": parameters})
        data += values
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    return f"/v2/models/{name}/infer", head + data, headers


class Clients:
    """Connections that send one request after the other, until a time."""

    def __init__(self, port, count, seconds):
        self.path, self.body, self.headers = request_for(port)
        self.ms, self.refused, self.failed = [], 0, []
        self.lock = threading.Lock()
        self.begin, self.end = time.monotonic() + 1, time.monotonic() + 1 + seconds
        threads = [threading.Thread(target=self.send, args=(port,)) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.per_second = len(self.ms) / seconds

    def send(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        ms, refused = [], 0
        while (begun := time.monotonic()) < self.end:
            connection.request("POST", self.path, self.body, self.headers)
            response = connection.getresponse()
            response.read()
            ended = time.monotonic()
            if response.status == 503:
                refused += 1
            elif response.status != 200:
                self.failed.append(response.status)
            elif self.begin <= ended < self.end:
                ms.append(1000 * (ended - begun))
        with self.lock:
            self.ms += ms
            self.refused += refused


def resident_mb(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) / 1e3


def over_http(options):
    with tempfile.TemporaryDirectory(prefix="evoq_bench_serve_") as folder:
        model = pathlib.Path(options.model).resolve()
        (pathlib.Path(folder) / f"model{model.suffix}").symlink_to(model)
        command = [options.evoq, "serve", "--model-repository", folder, "--http-port", "0"]
        command += ["--no-request-log", "--threads", str(options.threads)]
        for name in ("instances", "max-batch", "max-queue"):
            command += [f"--{name}", str(getattr(options, name.replace("-", "_")))]
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            Clients(port, options.connections, 0.1)
            first_mb = resident_mb(server.pid)
            clients = Clients(port, options.connections, options.seconds)
            last_mb = resident_mb(server.pid)
        finally:
            server.terminate()
            server.wait()
        if clients.failed:
            raise SystemExit(f"serve.py: {len(clients.failed)} answers of {set(clients.failed)}")
        if not clients.ms:
            raise SystemExit(f"serve.py: no answer within {options.seconds} s")
        ms = sorted(clients.ms)
        at = lambda share: ms[min(len(ms) - 1, int(share * len(ms)))]
        return clients.per_second, at(0.5), at(0.99), clients.refused, first_mb, last_mb


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    option = parser.add_argument
    option("model")
    option("--evoq", default=str(ROOT / "build/release/bin/evoq"))
    option("--connections", type=int, default=64)
    option("--seconds", type=float, default=10)
    option("--instances", type=int, default=1)
    option("--threads", type=int, default=2)
    option("--max-batch", type=int, default=8)
    option("--max-queue", type=int, default=128)
    option("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds = [(in_process(options), *over_http(options)) for _ in range(options.rounds)]
    alone, http_per_s, p50, p99, refused, first_mb, last_mb = map(statistics.median, zip(*rounds))
    share = statistics.median(r[1] / r[0] for r in rounds)
    print(f"evoq bench, {options.instances} streams: {alone:.1f} per second")
    print(
        f"over HTTP, {options.connections} connections: {http_per_s:.1f} per second, "
        f"{100 * share:.0f}%; p50 {p50:.1f} ms, p99 {p99:.1f} ms; {refused:.0f} refused; "
        f"resident {first_mb:.0f} MB, at the end {last_mb:.0f} MB"
    )


if __name__ == "__main__":
    main()
