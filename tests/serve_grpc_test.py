#!/usr/bin/env python3
"""`evoq serve --grpc-port` with the clients that people use: tritonclient.grpc as it is. Results
are the bits of `evoq run`; errors have gRPC's codes; limits, tokens, TLS, streams, a stop under
load, and bytes that are no messages. Skips (exit status 77) where tritonclient[grpc] is missing."""

import concurrent.futures
import contextlib
import importlib.util
import json
import os
import pathlib
import queue
import signal
import sys
import tempfile
import threading
import time

import agree
from serve_models import Model, certificate_for
from serving import Serving, check, failures

if not importlib.util.find_spec("tritonclient") or not importlib.util.find_spec("grpc"):
    print("skipped: tritonclient[grpc] is not installed")
    sys.exit(77)

import grpc
import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2

SERVICE = "/inference.GRPCInferenceService/"


def client_of(server, **options):
    return triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}", **options)


def inputs_of(model, sample, name=None, shape=None, datatype="FP32"):
    x = np.array(model.samples[sample], np.float32).reshape(model.shape)
    tensor = triton.InferInput(name or model.input, shape or list(x.shape), datatype)
    if datatype == "FP32" and shape is None:
        tensor.set_data_from_numpy(x)
    return [tensor]


def refused(what, code, message, call):
    try:
        call()
        check(f"{what}: {code.name}", False, "answered")
    except triton.InferenceServerException as error:
        right = error.status() == f"StatusCode.{code.name}" and message in error.message()
        check(f"{what}: {code.name}", right, f"{error.status()} {error.message()}")
    except grpc.RpcError as error:
        right = error.code() == code and message in error.details()
        check(f"{what}: {code.name}", right, f"{error.code()} {error.details()}")


def check_protocol(server, model):
    with client_of(server) as client:
        check("live and ready", client.is_server_live() and client.is_server_ready())
        check("model ready", client.is_model_ready("int8", "1"))
        check("a model that is not there is not ready", not client.is_model_ready("none"))
        about = client.get_server_metadata()
        same = server.json("GET", "/v2")
        check(
            "server metadata is that of HTTP",
            about.name == "evoq" and list(about.extensions) == same["extensions"],
            about,
        )
        meta = client.get_model_metadata("int8", as_json=True)
        same = server.json("GET", "/v2/models/int8")
        for port in meta["inputs"] + meta["outputs"]:
            port["shape"] = [int(size) for size in port["shape"]]
        check("model metadata is that of HTTP", meta == same, (meta, same))
        config = client.get_model_config("int8").config
        same = server.json("GET", "/v2/models/int8/config")
        check(
            "model config is that of HTTP",
            config.max_batch_size == same["max_batch_size"]
            and config.backend == "evoq"
            and list(config.input[0].dims) == same["input"][0]["dims"]
            and config.instance_group[0].count == 1
            and config.dynamic_batching.default_queue_policy.max_queue_size == 128,
            config,
        )
        refused(
            "metadata of a model that is not there",
            grpc.StatusCode.NOT_FOUND,
            "no model none",
            lambda: client.get_model_metadata("none"),
        )
        check("index", len(client.get_model_repository_index().models) == 2)
        client.unload_model("float")
        check("unloaded", not client.is_model_ready("float"))
        refused(
            "an unloaded model",
            grpc.StatusCode.UNAVAILABLE,
            "not loaded",
            lambda: client.infer("float", inputs_of(model, 0)),
        )
        client.load_model("float")
        check("loaded", client.is_model_ready("float"))
        refused(
            "a load with a configuration",
            grpc.StatusCode.INVALID_ARGUMENT,
            "parameters of a load",
            lambda: client.load_model("float", config="{}"),
        )
        refused(
            "shared memory",
            grpc.StatusCode.UNIMPLEMENTED,
            "no such method",
            lambda: client.get_system_shared_memory_status(),
        )


def check_bits(server, model):
    with client_of(server) as client:
        for name, wanted in model.wanted.items():
            got = [
                client.infer(name, inputs_of(model, i), request_id=f"r{i}", timeout=10**7)
                for i in range(len(wanted))
            ]
            right = [g.as_numpy(model.output).tobytes() for g in got] == wanted
            check(f"{name}: results are those of evoq run", right)
            check(f"{name}: with their ids", [g.get_response().id for g in got][1] == "r1")
        # Typed contents, which tritonclient does not write.
        request = service_pb2.ModelInferRequest(model_name="int8")
        tensor = request.inputs.add(name=model.input, datatype="FP32", shape=model.shape)
        tensor.contents.fp32_contents.extend(model.samples[0])
        with channel_of(server) as channel:
            answer = infer_call(channel)(request)
        check("typed contents", answer.raw_output_contents[0] == model.wanted["int8"][0])
        counted = client.get_inference_statistics("int8").model_stats[0]
        same = server.json("GET", "/v2/models/int8/stats")["model_stats"][0]
        check(
            "statistics are those of HTTP",
            counted.inference_stats.success.count == same["inference_stats"]["success"]["count"]
            and counted.inference_stats.compute_infer.ns
            == same["inference_stats"]["compute_infer"]["ns"]
            and counted.inference_count >= len(model.samples),
            counted,
        )
        both = client.get_inference_statistics().model_stats
        check("statistics of all", {m.name for m in both} == {"float", "int8"}, both)


def channel_of(server):
    """A connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options)


def infer_call(channel):
    return channel.unary_unary(
        SERVICE + "ModelInfer",
        service_pb2.ModelInferRequest.SerializeToString,
        service_pb2.ModelInferResponse.FromString,
    )


def check_refusals(server, model):
    def infer(**options):
        return lambda: client.infer("int8", inputs_of(model, 0, **options))

    invalid = grpc.StatusCode.INVALID_ARGUMENT
    with client_of(server) as client:
        refused(
            "no such model",
            grpc.StatusCode.NOT_FOUND,
            "no model none",
            lambda: client.infer("none", inputs_of(model, 0)),
        )
        refused("no such input", invalid, "no input of that name", infer(name="w"))
        refused("another type", invalid, "expected FP32", infer(datatype="INT64", shape=[1]))
        twice = inputs_of(model, 0) * 2
        refused("an input twice", invalid, "given twice", lambda: client.infer("int8", twice))
        wanted = [triton.InferRequestedOutput("q")]
        refused(
            "no such output",
            invalid,
            "no output of that name",
            lambda: client.infer("int8", inputs_of(model, 0), outputs=wanted),
        )
        refused(
            "a sequence",
            invalid,
            "sequence_id",
            lambda: client.infer("int8", inputs_of(model, 0), sequence_id=3),
        )
        refused(
            "compression",
            grpc.StatusCode.UNIMPLEMENTED,
            "",
            lambda: client.infer("int8", inputs_of(model, 0), compression_algorithm="gzip"),
        )
    request = service_pb2.ModelInferRequest(model_name="int8")
    tensor = request.inputs.add(name=model.input, datatype="FP32", shape=model.shape)
    with channel_of(server) as channel:
        call = infer_call(channel)
        refused("no data", invalid, "0 fp32_contents", lambda: call(request))
        tensor.shape[:] = [2**40, 2**40]
        refused("a shape beyond memory", invalid, "larger than the request", lambda: call(request))
        tensor.shape[:] = model.shape
        request.raw_input_contents.extend([b"1", b"2"])
        refused("more data than inputs", invalid, "2 raw_input_contents", lambda: call(request))
        del request.raw_input_contents[1]
        refused("too little data", invalid, "1 bytes of data", lambda: call(request))
        echo = channel.unary_unary(SERVICE + "ModelInfer")
        for what, data in (
            ("no message", b"\xff\xff\xff"),
            ("a message cut short", b"\x0a\x7fab"),
            ("a group", b"\x0b\x0c"),
        ):
            refused(what, invalid, "not a message ModelInferRequest", lambda: echo(data))
        refused(
            "a million inputs",
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "more than 65536 members",
            lambda: echo(b"\x2a\x00" * 10**6),
        )
        other = channel.unary_unary("/a.B/C")
        refused(
            "another service", grpc.StatusCode.UNIMPLEMENTED, "no such method", lambda: other(b"")
        )
        big = channel.unary_unary(SERVICE + "ModelInfer")
        refused("70 MB", grpc.StatusCode.RESOURCE_EXHAUSTED, "", lambda: big(bytes(70 << 20)))
        health = channel.unary_unary("/grpc.health.v1.Health/Check")
        check("grpc.health.v1", health(b"") == b"\x08\x01")


def check_trace(server, model):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    metadata = (("traceparent", trace), ("x-request-id", "over-grpc"))
    request = service_pb2.ModelReadyRequest(name="int8")
    with channel_of(server) as channel:
        call = channel.unary_unary(
            SERVICE + "ModelReady", service_pb2.ModelReadyRequest.SerializeToString
        )
        _, done = call.with_call(request, metadata=metadata)
        got = dict(done.initial_metadata())
    check("the trace goes on", got["traceparent"].split("-")[1] == trace.split("-")[1], got)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not any("over-grpc" in line for line in server.lines):
        time.sleep(0.01)
    line = next((json.loads(line) for line in server.lines if "over-grpc" in line), {})
    check("the log tells of it", line.get("target") == SERVICE + "ModelReady", line)


def check_stream(server, model):
    """Answers of a stream come in the order of its requests, errors among them."""
    answers = queue.Queue()
    with client_of(server) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for i in range(100):
            name = "none" if i == 50 else "int8"
            client.async_stream_infer(
                name, inputs_of(model, i % len(model.samples)), request_id=str(i)
            )
        got = [answers.get(timeout=60) for _ in range(100)]
        client.stop_stream()
    right = all(
        error is None
        and result.get_response().id == str(i)
        and result.as_numpy(model.output).tobytes() == model.wanted["int8"][i % len(model.samples)]
        for i, (result, error) in enumerate(got)
        if i != 50
    )
    check("a stream's answers are right and in order", right)
    check("and its errors too", got[50][0] is None and "no model none" in str(got[50][1]), got[50])


def check_load(server, model, requests, connections=16):
    def send(worker):
        right = 0
        with client_of(server) as client:
            for i in range(requests // connections):
                sample = (worker + i) % len(model.samples)
                got = client.infer("int8", inputs_of(model, sample), request_id=f"{worker}-{i}")
                right += (
                    got.get_response().id == f"{worker}-{i}"
                    and got.as_numpy(model.output).tobytes() == model.wanted["int8"][sample]
                )
        return right

    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        right = sum(pool.map(send, range(connections)))
    sent = requests // connections * connections
    check(f"{sent} requests on {connections} connections: {right} right answers", right == sent)


def slow_input(model):
    name, shape = model.slow_input
    tensor = triton.InferInput(name, shape, "FP32")
    tensor.set_data_from_numpy(np.full(shape, 0.5, np.float32))
    return [tensor]


def outcomes(server, model, calls, **options):
    """Of so many requests of the slow model at the same time: "OK" or the code's name."""
    inputs = slow_input(model)

    def send(_):
        try:
            client.infer("slow", inputs, **options)
            return "OK"
        except triton.InferenceServerException as error:
            return error.status().removeprefix("StatusCode.")

    with client_of(server) as client, concurrent.futures.ThreadPoolExecutor(calls) as pool:
        return list(pool.map(send, range(calls)))


def check_overload(model):
    options = ["--max-queue", "2", "--max-batch", "0", "--threads", "1"]
    with Serving(model.slow, *options, "--grpc-port", "0") as server:
        got = outcomes(server, model, 16)
        check("a full queue refuses", set(got) == {"OK", "UNAVAILABLE"}, got)
    with Serving(model.slow, *options[2:], "--grpc-port", "0") as server:
        got = outcomes(server, model, 16, client_timeout=0.02)
        check("a deadline ends in time", "DEADLINE_EXCEEDED" in got, got)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            stats = server.json("GET", "/v2/models/slow/stats")["model_stats"][0]
            done = stats["inference_stats"]
            if done["success"]["count"] + done["fail"]["count"] == 16:
                break
            time.sleep(0.05)
        check("and who is late is not computed", done["fail"]["count"] > 0, done)


def check_drain(model):
    """SIGTERM: calls under way are answered, a stream that waits is ended."""
    options = ["--max-batch", "0", "--threads", "1", "--grpc-port", "0"]
    with Serving(model.slow, *options) as server:
        ended = threading.Event()
        idle = client_of(server)
        idle.start_stream(callback=lambda result, error: ended.set())
        idle.async_stream_infer("slow", slow_input(model))
        check("a stream is answered", ended.wait(60))
        ended.clear()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            sent = pool.submit(outcomes, server, model, 8)
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                text = server.ask("GET", "/metrics")[2].decode()
                waiting = 'nv_inference_pending_request_count{model="slow",version="1"} '
                if float(text.split(waiting)[1].split("\n")[0]) >= 4:
                    break
            server.process.send_signal(signal.SIGTERM)
            got = sent.result()
        # One that came after the signal is refused, and may be sent elsewhere.
        check("SIGTERM: what is under way is answered", got.count("OK") >= 5, got)
        check("a stream that waits is ended", ended.wait(10))
        status = server.process.wait(30)
        check("the program ends with 0", status == 0, (status, server.lines[-2:]))
        with contextlib.suppress(triton.InferenceServerException):
            idle.close()


def check_slow(model):
    """A client that opens a call and sends nothing is left after its time."""
    options = ["--body-s", "0.2", "--max-body-mb", "1", "--max-connections", "8"]
    with Serving(model.repository, *options, "--grpc-port", "0") as server:
        # A connection has no more calls than all may have: its own ones wait in the client.
        with channel_of(server) as channel, channel_of(server) as another:
            release = threading.Event()

            def silent():
                release.wait(60)
                yield from ()

            call = channel.stream_unary(SERVICE + "ModelInfer")
            calls = [call.future(silent()) for _ in range(8)]
            live = another.unary_unary(SERVICE + "ServerLive")
            deadline, got = time.monotonic() + 10, None
            while got is None and time.monotonic() < deadline:  # until all of them have come
                with contextlib.suppress(grpc.FutureTimeoutError):
                    got = live.future(b"").exception(10)
            check(
                "calls beyond the most: UNAVAILABLE",
                got is not None
                and got.code() == grpc.StatusCode.UNAVAILABLE
                and "too many calls" in got.details(),
                got,
            )
            begun = time.monotonic()
            codes = {c.exception(60).code() for c in calls}
            took = time.monotonic() - begun
            check("silent calls are ended", codes == {grpc.StatusCode.CANCELLED}, codes)
            check("after their time: 0.2 s and 16 s for 1 MiB", took < 40, took)
            release.set()
            # A client may hear of a call's end before the server has given its place away.
            deadline, got = time.monotonic() + 10, None
            while got is None and time.monotonic() < deadline:
                with contextlib.suppress(grpc.RpcError):
                    got = live(b"", wait_for_ready=True)
            check("and others are served", got == b"\x08\x01", got)


def check_token(work, model):
    tokens = work / "tokens"
    tokens.write_text("one\ntwo\n")
    options = ["--token-file", str(tokens), "--no-model-control", "--grpc-port", "0"]
    with Serving(model.repository, *options) as server, client_of(server) as client:
        for given in (None, "Bearer three"):
            headers = {"authorization": given} if given else None
            for what, call in (
                ("infer", lambda: client.infer("int8", inputs_of(model, 0), headers=headers)),
                ("metadata", lambda: client.get_server_metadata(headers=headers)),
                ("ready", lambda: client.is_model_ready("int8", headers=headers)),
            ):
                refused(f"{what}, {given}", grpc.StatusCode.UNAUTHENTICATED, "expected", call)
        headers = {"authorization": "Bearer two"}
        got = client.infer("int8", inputs_of(model, 0), headers=headers)
        check("a token", got.as_numpy(model.output).tobytes() == model.wanted["int8"][0])
        check("health needs no token", client.is_server_ready())
        refused(
            "--no-model-control",
            grpc.StatusCode.INVALID_ARGUMENT,
            "by the server alone",
            lambda: client.unload_model("int8", headers=headers),
        )


def check_tls(work, model):
    made = certificate_for(work)
    if made is None:
        print("skipped: TLS (no openssl to make a certificate)")
        return
    certificate, key = made
    options = ["--certificate", str(certificate), "--key", str(key), "--grpc-port", "0"]
    with Serving(model.repository, *options) as server:
        with client_of(server, ssl=True, root_certificates=str(certificate)) as client:
            got = client.infer("int8", inputs_of(model, 0))
            check("TLS", got.as_numpy(model.output).tobytes() == model.wanted["int8"][0])


def check_port(model):
    """Two servers do not share a port."""
    with Serving(model.repository, "--grpc-port", "0") as server:
        taken = Serving(model.repository, "--grpc-port", str(server.grpc_port))
        try:
            with taken:
                check("a port that is taken", False, "listens")
        except RuntimeError as error:
            check("a port that is taken", "gRPC cannot listen" in str(error), error)


def main():
    if agree.SANITIZED:
        requests = 320
    else:
        requests = 100000 if os.environ.get("EVOQ_LONG") else 1600
    with tempfile.TemporaryDirectory(prefix="evoq_serve_grpc_") as name:
        work = pathlib.Path(name)
        model = Model(work, 8)
        with Serving(model.repository, "--grpc-port", "0") as server:
            check_protocol(server, model)
            check_bits(server, model)
            check_refusals(server, model)
            check_trace(server, model)
            check_stream(server, model)
            check_load(server, model, requests)
        check("the program ends with 0", server.status == 0, server.lines[-3:])
        check_overload(model)
        check_drain(model)
        check_slow(model)
        check_token(work, model)
        check_tls(work, model)
        check_port(model)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
