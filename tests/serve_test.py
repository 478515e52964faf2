#!/usr/bin/env python3
"""`evoq serve` over real sockets: results that are the bits of `evoq run`, the inference protocol
with JSON and binary tensors, loading and unloading under load, and what clients do wrong: malformed
and endless requests, slow and half-closed connections, overload. SIGTERM answers what is under way.
tritonclient is tried where it is installed. Needs nothing else but Python."""

import concurrent.futures
import contextlib
import http.client
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

import agree
from serve_models import Model, certificate_for
from serving import Serving, ask, check, failures, read_all


def check_protocol(server, model):
    check("live", server.ask("GET", "/v2/health/live")[0] == 200)
    check("ready", server.ask("GET", "/v2/health/ready")[0] == 200)
    about = server.json("GET", "/v2")
    check(
        "server metadata", about["name"] == "evoq" and "binary_tensor_data" in about["extensions"]
    )
    meta = server.json("GET", "/v2/models/float")
    check(
        "model metadata",
        meta["versions"] == ["1"] and meta["inputs"][0]["datatype"] == "FP32",
        meta,
    )
    check("model ready", server.json("GET", "/v2/models/int8/versions/1/ready")["ready"])
    config = server.json("GET", "/v2/models/int8/config")
    check("model config", config["name"] == "int8" and config["max_batch_size"] >= 0, config)
    for path, status in (
        ("/v2/models/none", 404),
        ("/v2/models/float/versions/2", 404),
        ("/v2/models/float/versions/x/ready", 404),
        ("/nowhere", 404),
        ("/v2/models/%zz", 400),
        ("/v2/models/float/infer", 405),
    ):
        got, headers, body = server.ask("GET", path)
        right = got == status and set(json.loads(body)) == {"error"}
        check(f"GET {path}: {status}", right, f"{got} {body}")


def check_bits(server, model):
    """Binary and JSON answers are the bits of `evoq run`."""
    with contextlib.closing(server.connect()) as connection:
        for name, wanted in model.wanted.items():
            same = [model.infer(connection, name, i) for i in range(len(wanted))]
            check(
                f"{name}: binary results are those of evoq run",
                all(got == (200, bits) for got, bits in zip(same, wanted)),
                [got[0] for got in same],
            )
            nested = {"name": model.input, "shape": model.shape, "datatype": "FP32"}
            nested["data"] = model.samples[0]
            body = json.dumps({"id": "a1", "inputs": [nested]})
            status, headers, text = ask(connection, "POST", f"/v2/models/{name}/infer", body)
            answer = json.loads(text)
            data = answer["outputs"][0]["data"]
            packed = struct.pack(f"<{len(data)}f", *data)
            check(f"{name}: JSON results too", packed == wanted[0] and answer["id"] == "a1", status)


def check_trace(server):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"traceparent": trace, "X-Request-Id": "my-request"}
    _, got, _ = server.ask("GET", "/v2/health/live", headers=headers)
    same = got["Traceparent"].split("-")[1] == trace.split("-")[1]
    check("the trace goes on", same and got["Traceparent"] != trace, got)
    check("the request's id comes back", got["X-Request-Id"] == "my-request", got)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not any("my-request" in l for l in server.lines):
        time.sleep(0.01)
    line = next((json.loads(l) for l in server.lines if "my-request" in l), {})
    check(
        "the log tells of it",
        line.get("parent_span_id") == "b7ad6b7169203331" and line.get("status") == 200,
        line,
    )


def check_malformed(server, model):
    """Each gets an error; the server goes on."""
    infer = b"POST /v2/models/float/infer HTTP/1.1\r\nHost: h\r\n"
    cases = {
        "no HTTP": (b"nonsense\r\n\r\n", 400),
        "bytes": (bytes(range(256)) * 4 + b"\r\n\r\n", 400),
        "no JSON": (infer + b"Content-Length: 1\r\nConnection: close\r\n\r\n{", 400),
        "deep JSON": (
            infer + b"Content-Length: 100000\r\nConnection: close\r\n\r\n" + b"[" * 100000,
            400,
        ),
        "a body of 1 GB": (infer + b"Content-Length: 1073741824\r\n\r\n" + b"x" * 100000, 413),
        "more than 2^64 bytes": (infer + b"Content-Length: 99999999999999999999\r\n\r\n", 400),
        "a negative length": (infer + b"Content-Length: -1\r\n\r\n", 400),
        "a chunk of 2^60 bytes": (
            infer + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
            413,
        ),
        "a header of 1 MB": (infer + b"X: " + b"y" * 1000000 + b"\r\n\r\n", 431),
        "a JSON length beyond the body": (
            infer
            + b"Inference-Header-Content-Length: 5\r\nContent-Length: 2\r\nConnection: close\r\n"
            + b"\r\n{}",
            400,
        ),
        "a JSON length that is none": (
            infer
            + b"Inference-Header-Content-Length: 1x\r\nContent-Length: 2\r\nConnection: close\r\n"
            + b"\r\n{}",
            400,
        ),
        "compressed data": (
            infer + b"Content-Encoding: gzip\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
            415,
        ),
    }
    for what, (data, status) in cases.items():
        answer = server.raw(data)
        check(
            f"{what}: {status}",
            answer.startswith(b"HTTP/1.1 %d " % status) and b'{"error":' in answer,
            answer[:200],
        )
    for what, inputs, message in (
        ("a shape that is not the model's", {"shape": [1, 2], "data": [1, 2]}, "shape [1, 2]"),
        ("too little data", {"shape": model.shape, "data": [1]}, "1 elements of data"),
        ("another type", {"shape": [1], "datatype": "INT64", "data": [1]}, "expected FP32"),
        ("a shape beyond memory", {"shape": [2**62, 2**62], "data": []}, "larger than the request"),
    ):
        tensor = {"name": model.input, "datatype": "FP32", **inputs}
        got = server.json("POST", "/v2/models/float/infer", json.dumps({"inputs": [tensor]}), 400)
        check(f"{what}: 400", message in got["error"], got)


def check_connections(server, model):
    body, headers = model.request(0)
    head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    post = (
        f"POST /v2/models/int8/infer HTTP/1.1\r\nHost: h\r\n{head}Content-Length: {len(body)}\r\n"
    )
    request = post.encode() + b"\r\n" + body
    answer = server.raw(request, half_close=True)
    check(
        "a half-closed connection gets its answer",
        answer.endswith(model.wanted["int8"][0]),
        answer[:99],
    )
    answer = server.raw(request + request, half_close=True)
    check(
        "two requests at once get two answers", answer.count(b"HTTP/1.1 200 OK") == 2, answer[:99]
    )
    answer = server.raw(request[:-1], half_close=True)
    check("half a request gets none", answer == b"", answer[:99])
    with contextlib.closing(server.connect()) as connection:
        expect = {**headers, "Expect": "100-continue"}
        status, _, _ = ask(connection, "POST", "/v2/models/int8/infer", body, expect)
        check("Expect: 100-continue is answered", status == 200, status)
        status, got, text = ask(connection, "HEAD", "/v2/health/live")
        check("HEAD has no body", status == 200 and text == b"", text)
        chunks = (body[i : i + 1000] for i in range(0, len(body), 1000))
        connection.request(
            "POST",
            "/v2/models/int8/infer",
            chunks,
            {**headers, "Transfer-Encoding": "chunked"},
            encode_chunked=True,
        )
        response = connection.getresponse()
        text = response.read()
        check("a body in chunks", text.endswith(model.wanted["int8"][0]), text[:99])


def check_slow(repository, model):
    """Slow clients are left after their time, and hold up nobody meanwhile."""
    options = ["--header-s", "0.5", "--body-s", "0.5", "--idle-s", "1", "--max-connections", "60"]
    with Serving(repository, *options) as server:
        slow = []
        for begin in (
            b"",
            b"P",
            b"POST /v2/models/int8/infer HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
        ):
            for _ in range(10):
                slow.append(socket.create_connection(("127.0.0.1", server.port), timeout=30))
                slow[-1].sendall(begin)
        begun = time.monotonic()
        with contextlib.closing(server.connect()) as connection:
            got = [model.infer(connection, "int8", 0) for _ in range(20)]
        right = all(g == (200, model.wanted["int8"][0]) for g in got)
        check("30 slow clients hold up nobody", right and time.monotonic() - begun < 10)
        check("slow clients are left", all(read_all(s) == b"" for s in slow))
        check("after their time", time.monotonic() - begun < 20, time.monotonic() - begun)
        for s in slow:
            s.close()
    with Serving(repository, "--max-connections", "60") as server:
        many = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(60)]
        status, headers, _ = server.ask("GET", "/v2/health/live")
        check(
            "connections beyond the most get 503", status == 503 and headers["Retry-After"], status
        )
        for s in many:
            s.close()
        deadline = time.monotonic() + 10
        while server.ask("GET", "/v2/health/live")[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        check("and are served when others went", server.ask("GET", "/v2/health/live")[0] == 200)


def check_repository(server, model):
    index = server.json("POST", "/v2/repository/index", "{}")
    states = {(e["name"], e["version"], e["state"]) for e in index}
    check("index", states == {("float", "1", "READY"), ("int8", "1", "READY")}, index)
    server.json("POST", "/v2/repository/models/float/unload", "{}")
    got = server.json("POST", "/v2/models/float/infer", "{}", status=503)
    check("an unloaded model is unavailable", "not loaded" in got["error"], got)
    ready = server.json("POST", "/v2/repository/index", '{"ready": true}')
    check("index of those that are ready", [e["name"] for e in ready] == ["int8"], ready)
    server.json("POST", "/v2/repository/models/float/load")
    check("loaded again", server.json("GET", "/v2/models/float/ready")["ready"])
    for name in ("none", "..%2Fmodels", "%2e%2e"):
        server.json("POST", f"/v2/repository/models/{name}/load", status=404)


def check_reload(server, model):
    """Loaded anew under load: no request is lost, and a broken file changes nothing."""
    path = model.repository / "int8/1/model.etm"
    stop, lost, answered = threading.Event(), [], []

    def load(sample):
        with contextlib.closing(server.connect()) as connection:
            while not stop.is_set():
                got = model.infer(connection, "int8", sample)
                (answered if got == (200, model.wanted["int8"][sample]) else lost).append(got)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, i % len(model.samples)) for i in range(4)]
        for _ in range(10):
            server.json("POST", "/v2/repository/models/int8/load", "{}")
        good = path.read_bytes()
        broken = path.with_name("broken")
        broken.write_bytes(good[: len(good) // 2])
        os.replace(broken, path)
        got = server.json("POST", "/v2/repository/models/int8/load", "{}", status=400)
        check("a broken file is an error", "model.etm" in got["error"], got)
        broken.write_bytes(good)
        os.replace(broken, path)
        server.json("POST", "/v2/repository/models/int8/load", "{}")
        time.sleep(0.2)
        stop.set()
        for one in loads:
            one.result()
    check("no request is lost while a model is loaded anew", answered and not lost, lost[:2])


def check_load(server, model, requests, connections=64):
    """Requests on many connections: each gets its own answer, once."""

    def send(worker):
        right = 0
        with contextlib.closing(server.connect()) as connection:
            for i in range(requests // connections):
                sample = (worker + i) % len(model.samples)
                body, headers = model.request(sample, id=f"{worker}-{i}")
                status, got, text = ask(connection, "POST", "/v2/models/int8/infer", body, headers)
                size = int(got["Inference-Header-Content-Length"] or 0)
                right += (
                    status == 200
                    and json.loads(text[:size])["id"] == f"{worker}-{i}"
                    and text[size:] == model.wanted["int8"][sample]
                )
        return right

    def resident_mb():
        text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) / 1000

    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        warm = list(pool.map(lambda i: model.infer_alone(server, "int8", i), range(connections)))
    check("each connection's first request", all(got[0] == 200 for got in warm), warm[0])
    before, first_mb = statistics(server, "int8"), resident_mb()
    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        right = sum(pool.map(send, range(connections)))
    more_mb = resident_mb() - first_mb
    if not agree.SANITIZED:
        check(f"memory is flat: {first_mb:.1f} MB, then {more_mb:+.1f} MB", more_mb < 16, more_mb)
    sent = requests // connections * connections
    check(f"{sent} requests on {connections} connections: {right} right answers", right == sent)
    after = statistics(server, "int8")
    count = after["success"] - before["success"]
    runs = after["runs"] - before["runs"]
    check(f"counted once each, in {runs} runs", count == sent and runs <= sent, count)


def statistics(server, name):
    stats = server.json("GET", f"/v2/models/{name}/stats")["model_stats"][0]
    return {
        "success": stats["inference_stats"]["success"]["count"],
        "fail": stats["inference_stats"]["fail"]["count"],
        "runs": stats["execution_count"],
    }


def metric(text, name, model):
    found = re.search(rf'^{name}\{{model="{model}",version="1"[^}}]*\}} (\S+)', text, re.MULTILINE)
    return float(found[1]) if found else None


def check_metrics(server):
    stats = statistics(server, "int8")
    _, headers, body = server.ask("GET", "/metrics")
    text = body.decode()
    check(
        "metrics are Prometheus's text", headers["Content-Type"].startswith("text/plain"), headers
    )
    check(
        "metrics count as the statistics",
        metric(text, "nv_inference_request_success", "int8") == stats["success"]
        and metric(text, "nv_inference_exec_count", "int8") == stats["runs"]
        and metric(text, "nv_inference_pending_request_count", "int8") == 0,
        text[:500],
    )
    total = metric(text, "nv_inference_request_duration_us", "int8")
    parts = sum(
        metric(text, f"nv_inference_{part}_duration_us", "int8")
        for part in ("queue", "compute_input", "compute_infer", "compute_output")
    )
    check("durations add up", abs(total - parts) <= 1e-6 * total, (total, parts))


def check_shadow(model):
    """One request of four is also run by the float model; clients get what they got before."""
    config = model.repository / "int8" / "config.json"
    config.write_text(json.dumps({"shadow": {"model": "float", "one_in": 4}}))
    try:
        with (
            Serving(model.repository) as server,
            contextlib.closing(server.connect()) as connection,
        ):
            asked = [i % len(model.samples) for i in range(40)]
            for i in asked:
                got = model.infer(connection, "int8", i)
                if got != (200, model.wanted["int8"][i]):
                    check("a model with a shadow answers as without", False, got)
                time.sleep(0.005)  # the shadow has room
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                text = server.ask("GET", "/metrics")[2].decode()
                ran, skipped = (
                    metric(text, f"payoff_{n}", "int8") for n in ("requests", "skipped")
                )
                if ran + skipped == 10:
                    break
                time.sleep(0.05)
            check("the shadow runs one of four", ran + skipped == 10 and ran > 0, (ran, skipped))
            floats = statistics(server, "float")
            check("they count as its own too", floats["success"] == ran, (floats, ran))

            def place(name, i):
                values = struct.unpack(
                    f"<{len(model.wanted[name][i]) // 4}f", model.wanted[name][i]
                )
                return values.index(max(values))

            agreed = [place("int8", i) == place("float", i) for i in asked[::4]]
            share = metric(text, "payoff_agreement", "int8")
            if skipped == 0:
                check("payoff_agreement", share == sum(agreed) / len(agreed), (share, agreed))
            check("payoff_speedup", metric(text, "payoff_speedup", "int8") > 0, text)
            check("of no other model", metric(text, "payoff_requests", "float") is None)
            server.json("POST", "/v2/repository/models/float/unload", "{}")
            status, _ = model.infer(connection, "int8", 0)
            check("without its shadow the model goes on", status == 200, status)
    finally:
        config.unlink()


def check_overload(model):
    """A queue that is full refuses at once, with a time to come again."""
    with Serving(model.slow, "--max-queue", "2", "--max-batch", "0", "--threads", "1") as server:

        def send(_):
            statuses = []
            with contextlib.closing(server.connect()) as connection:
                for _ in range(10):
                    status, got, _ = ask(
                        connection, "POST", "/v2/models/slow/infer", *model.slow_request
                    )
                    refused = status == 503 and int(got["Retry-After"]) >= 1
                    statuses.append("refused" if refused else status)
            return statuses

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            statuses = [s for some in pool.map(send, range(16)) for s in some]
        counts = {s: statuses.count(s) for s in set(statuses)}
        check(f"overload: {counts}", set(counts) == {200, "refused"}, counts)
        answered = [json.loads(line) for line in server.lines if '"infer_ms"' in line]
        queue_ms, infer_ms = (
            sorted(line[name] for line in answered if line["status"] == 200)
            for name in ("queue_ms", "infer_ms")
        )
        # Behind the one that runs stand two at most, of the 16 that ask.
        at = int(0.99 * len(queue_ms))
        check(
            f"p99 of waiting is {queue_ms[at]:.1f} ms where runs take up to {infer_ms[-1]:.1f} ms",
            queue_ms[at] < 3.5 * infer_ms[-1] + 50,
            queue_ms,
        )
        stats = statistics(server, "slow")
        check("and is counted", stats["fail"] == counts.get("refused"), stats)


def check_timeout(server, model):
    """A request whose time is over is not computed."""
    with contextlib.closing(server.connect()) as connection:
        results = [
            model.infer(connection, "float", 0, parameters={"timeout": 1})[0] for _ in range(50)
        ]
    check(
        "requests of 1 us: 504 or computed", set(results) <= {200, 504} and 504 in results, results
    )


def check_drain(model):
    """SIGTERM: what is under way is answered, then the program ends with status 0."""
    server = Serving(model.slow, "--max-batch", "0", "--threads", "1")
    with server:
        head = "".join(f"{k}: {v}\r\n" for k, v in model.slow_request[1].items())
        size = len(model.slow_request[0])
        post = f"POST /v2/models/slow/infer HTTP/1.1\r\n{head}Content-Length: {size}\r\n\r\n"
        asking = [
            socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(8)
        ]
        idle = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        for s in asking:
            s.sendall(post.encode() + model.slow_request[0])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            text = server.ask("GET", "/metrics")[2].decode()
            under_way = float(re.search(r"^evoq_requests_under_way (\S+)", text, re.MULTILINE)[1])
            if under_way - 1 + metric(text, "nv_inference_request_success", "slow") == 8:
                break  # all have come; one of those under way is this one
        server.process.send_signal(signal.SIGTERM)
        answers = [read_all(s) for s in asking]
        right = [a.startswith(b"HTTP/1.1 200 ") and b"Connection: close" in a for a in answers]
        # Those that were answered before the signal are closed as idle ones.
        whole = [a.startswith(b"HTTP/1.1 200 ") for a in answers]
        check("SIGTERM: what is under way is answered", all(whole) and any(right), answers[0][:99])
        check("idle connections are closed", read_all(idle) == b"")
        status = server.process.wait(30)
        check("the program ends with 0", status == 0, status)
    events = [json.loads(line)["event"] for line in server.lines if line.startswith("{")]
    check("the log says so", "draining" in events and events[-1] == "ended", events[-3:])


def check_token(work, repository):
    tokens = work / "tokens"
    tokens.write_text("one\ntwo\n")
    with Serving(repository, "--token-file", str(tokens), "--no-model-control") as server:
        for given, status in (
            (None, 401),
            ("Bearer three", 401),
            ("Bearer on", 401),
            ("two", 401),
            ("Bearer two", 200),
        ):
            headers = {"Authorization": given} if given else {}
            got, answer, _ = server.ask("GET", "/v2", headers=headers)
            check(f"Authorization {given}: {status}", got == status, got)
        check("health needs no token", server.ask("GET", "/v2/health/ready")[0] == 200)
        headers = {"Authorization": "Bearer one"}
        got = server.ask("POST", "/v2/repository/models/float/unload", "{}", headers)
        check("--no-model-control", got[0] == 400, got)


def check_tls(work, repository):
    made = certificate_for(work)
    if made is None:
        print("skipped: TLS (no openssl to make a certificate)")
        return
    certificate, key = made
    options = ["--certificate", str(certificate), "--key", str(key), "--header-s", "1"]
    with Serving(repository, *options) as server:
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context)
        with contextlib.closing(connection):
            check("TLS", ask(connection, "GET", "/v2/health/ready")[0] == 200)
            check("TLS, kept alive", ask(connection, "GET", "/v2")[0] == 200)
        check("no TLS, no answer", not server.raw(b"GET /v2 HTTP/1.1\r\n\r\n").startswith(b"HTTP"))
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as silent:
            check("who does not shake hands is left", read_all(silent) == b"")
    certificate.write_text("none")
    done = subprocess.run(
        [agree.EVOQ, "serve", "--model-repository", str(repository), *options],
        capture_output=True,
        text=True,
        timeout=60,
    )
    check(
        "a certificate that is none",
        done.returncode == 3 and "certificate.pem" in done.stderr,
        done.stderr,
    )


def check_start(work, repository):
    """What stops it before it begins."""
    broken = work / "broken"
    (broken / "m/1").mkdir(parents=True)
    (broken / "m/1/model.etm").write_text("no model")
    shutil.copytree(repository / "int8", broken / "int8")
    taken = socket.create_server(("127.0.0.1", 0))
    port = str(taken.getsockname()[1])
    for what, arguments, status, message in (
        ("a folder that is missing", [work / "none"], 3, "none: no such folder"),
        ("a broken model", [broken], 3, "m/1/model.etm"),
        ("a port that is taken", [repository, "--http-port", port], 3, f"127.0.0.1:{port}"),
        ("an address that is none", [repository, "--http-address", "x"], 2, "x: "),
        ("a key without certificate", [repository, "--key", "k"], 2, "TLS needs both"),
        ("a token file that is missing", [repository, "--token-file", work / "no"], 3, "no"),
    ):
        command = [agree.EVOQ, "serve", "--model-repository", *arguments]
        if "--http-port" not in arguments:
            command += ["--http-port", "0"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60)
        last = done.stderr.strip().splitlines()[-1]
        check(
            f"{what}: status {status}",
            done.returncode == status and message in last,
            f"{done.returncode} {done.stderr}",
        )
    taken.close()
    with Serving(broken, "--keep-going") as server:
        index = server.json("POST", "/v2/repository/index")
        entry = next(e for e in index if e["name"] == "m")
        check(
            "--keep-going serves the others", server.json("GET", "/v2/models/int8/ready")["ready"]
        )
        check("and says what is wrong", "model.etm" in entry["reason"], entry)


def check_poll(work, model):
    folder = work / "polled"
    folder.mkdir()
    with Serving(folder, "--poll-s", "0.1") as server:
        shutil.copy(model.etm, folder / "late.tmp")
        os.rename(folder / "late.tmp", folder / "late.etm")
        deadline = time.monotonic() + 20
        while server.ask("GET", "/v2/models/late/ready")[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        check("--poll-s loads what comes", server.ask("GET", "/v2/models/late/ready")[0] == 200)


def check_tritonclient(server, model):
    if not importlib.util.find_spec("tritonclient"):
        print("skipped: tritonclient is not installed")
        return
    import numpy as np
    import tritonclient.http as triton

    client = triton.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=4)
    check("tritonclient: live and ready", client.is_server_live() and client.is_server_ready())
    check("tritonclient: model ready", client.is_model_ready("int8", "1"))
    check("tritonclient: metadata", client.get_model_metadata("int8")["name"] == "int8")
    check("tritonclient: config", client.get_model_config("int8")["backend"] == "evoq")
    for binary in (True, False):
        x = np.array(model.samples[1], np.float32).reshape(model.shape)
        tensor = triton.InferInput(model.input, list(x.shape), "FP32")
        tensor.set_data_from_numpy(x, binary_data=binary)
        wanted = triton.InferRequestedOutput(model.output, binary_data=binary)
        result = client.infer("int8", [tensor], outputs=[wanted], request_id="7", timeout=10**7)
        right = result.as_numpy(model.output).tobytes() == model.wanted["int8"][1]
        check(f"tritonclient: infer, binary {binary}", right and result.get_response()["id"] == "7")
    pending = client.async_infer("int8", [tensor])
    got = pending.get_result().as_numpy(model.output)
    check("tritonclient: async_infer", got.tobytes() == model.wanted["int8"][1])
    client.unload_model("int8")
    check("tritonclient: unload", not client.is_model_ready("int8"))
    client.load_model("int8")
    check("tritonclient: load", client.is_model_ready("int8"))
    stats = client.get_inference_statistics("int8")["model_stats"][0]
    check("tritonclient: statistics", stats["inference_stats"]["success"]["count"] > 2, stats)
    check("tritonclient: index", len(client.get_model_repository_index()) == 2)
    try:
        client.infer("none", [tensor])
        check("tritonclient: errors", False)
    except triton.InferenceServerException as error:
        check("tritonclient: errors", "no model none" in str(error), error)
    client.close()


def check_origins(work, repository):
    """Pages of allowed origins may read answers, also refusals; a preflight needs no token."""
    tokens = work / "page_tokens"
    tokens.write_text("secret\n")
    page, other = "https://page.example:8443", "https://other.example"
    wanted = {"Access-Control-Request-Method": "POST"}
    wanted["Access-Control-Request-Headers"] = "authorization,content-type"
    path, allow = "/v2/models/float/infer", "Access-Control-Allow-Origin"
    with Serving(
        repository, "--cors-origin", page, "--cors-origin", "null", "--token-file", str(tokens)
    ) as server:
        status, headers, body = server.ask("OPTIONS", path, headers={"Origin": page, **wanted})
        check("preflight", status == 204 and body == b"" and headers[allow] == page, headers)
        check("methods", headers["Access-Control-Allow-Methods"] == "GET, POST", headers)
        check(
            "headers",
            headers["Access-Control-Allow-Headers"] == wanted["Access-Control-Request-Headers"],
            headers,
        )
        check("answers depend on the origin", headers["Vary"] == "Origin", headers)
        status, headers, _ = server.ask("GET", "/v2/models/float", headers={"Origin": page})
        check("a refusal can be read", status == 401 and headers[allow] == page, headers)
        bearer = {"Origin": page, "Authorization": "Bearer secret"}
        status, headers, _ = server.ask("GET", "/v2/models/float", headers=bearer)
        check("an answer can be read", status == 200 and headers[allow] == page, headers)
        status, headers, _ = server.ask("OPTIONS", path, headers={"Origin": other, **wanted})
        check("another page", status == 405 and allow not in headers, headers)
        status, headers, _ = server.ask("GET", "/v2/health/live")
        check("no page", status == 200 and allow not in headers, headers)
        with contextlib.closing(server.connect()) as connection:
            ask(connection, "GET", "/v2/health/live", headers={"Origin": page})
            _, headers, _ = ask(connection, "GET", "/v2/health/live")
            check("the next request of a connection is no page's", allow not in headers, headers)
    with Serving(repository, "--cors-origin", "*") as server:
        _, headers, _ = server.ask("GET", "/v2/health/live", headers={"Origin": other})
        check("all pages", headers[allow] == "*" and "Vary" not in headers, headers)
    with Serving(repository) as server:
        status, headers, _ = server.ask("OPTIONS", path, headers={"Origin": page, **wanted})
        check("pages are not asked for", status == 405 and allow not in headers, headers)


def main():
    if agree.SANITIZED:
        requests = 640
    else:
        requests = 100000 if os.environ.get("EVOQ_LONG") else 3200
    with tempfile.TemporaryDirectory(prefix="evoq_serve_") as name:
        work = pathlib.Path(name)
        model = Model(work, 8)
        with Serving(model.repository) as server:
            check_protocol(server, model)
            check_bits(server, model)
            check_trace(server)
            check_malformed(server, model)
            check_connections(server, model)
            check_repository(server, model)
            check_reload(server, model)
            check_load(server, model, requests)
            check_metrics(server)
            check_timeout(server, model)
            check_tritonclient(server, model)
        check("the program ends with 0", server.status == 0, server.lines[-3:])
        check_shadow(model)
        check_slow(model.repository, model)
        check_overload(model)
        check_drain(model)
        check_token(work, model.repository)
        check_origins(work, model.repository)
        check_tls(work, model.repository)
        check_start(work, model.repository)
        check_poll(work, model)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
