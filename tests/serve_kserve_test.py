#!/usr/bin/env python3
"""The server with KServe's own client (package kserve, as it is) over HTTP and gRPC: health, one
request and many at a time, JSON and binary tensors, the bits of `evoq run`, and what errors are
there. Skips (exit status 77) where kserve is not installed (450 MB on disk, so tools/test.sh leaves
it out)."""

import asyncio
import importlib.util
import pathlib
import sys
import tempfile

if not importlib.util.find_spec("kserve"):
    print("skipped: no package kserve")
    sys.exit(77)

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from serve_models import Model
from serving import Serving, check, failures


def request_for(model, name, sample, binary):
    x = np.array(model.samples[sample], np.float32).reshape(model.shape)
    tensor = InferInput(name=model.input, shape=list(x.shape), datatype="FP32")
    tensor.set_data_from_numpy(x, binary_data=binary)
    return InferRequest(model_name=name, infer_inputs=[tensor], request_id=f"request {sample}")


def bits(response):
    (output,) = response.outputs
    return output.as_numpy().astype(np.float32).tobytes()


async def refused(what, kind, told, awaitable):
    try:
        await awaitable
        check(f"{what} is refused", False, "answered")
    except kind as error:
        check(f"{what} is refused", told in str(error), error)


async def check_http(server, model):
    url = f"http://127.0.0.1:{server.port}"
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    check("HTTP: live", await client.is_server_live(url))
    check("HTTP: ready", await client.is_server_ready(url))
    check("HTTP: model ready", await client.is_model_ready(url, "int8"))
    check("HTTP: none is not ready", not await client.is_model_ready(url, "none"))
    for name, wanted in model.wanted.items():
        for binary in (False, True):
            got = await client.infer(url, request_for(model, name, 0, binary), model_name=name)
            what = f"HTTP: {name}, {'binary' if binary else 'JSON'}"
            check(f"{what}: the bits of evoq run", bits(got) == wanted[0])
            check(f"{what}: id, name", (got.id, got.model_name) == ("request 0", name), got.id)
    many = [
        client.infer(url, request_for(model, "int8", i % len(model.samples), True), "int8")
        for i in range(64)
    ]
    got = [bits(answer) for answer in await asyncio.gather(*many)]
    wanted = [model.wanted["int8"][i % len(model.samples)] for i in range(64)]
    check("HTTP: 64 at a time", got == wanted)
    await refused(
        "HTTP: a model that is not there",
        httpx.HTTPStatusError,
        "404",
        client.infer(url, request_for(model, "none", 0, True), "none"),
    )
    other = InferRequest(
        model_name="int8", infer_inputs=[InferInput("other", [1], "FP32", data=[1.0])]
    )
    await refused(
        "HTTP: another input", httpx.HTTPStatusError, "400", client.infer(url, other, "int8")
    )
    await client.close()


async def check_grpc(server, model):
    async with InferenceGRPCClient(f"127.0.0.1:{server.grpc_port}", retries=2) as client:
        check("gRPC: live", await client.is_server_live())
        check("gRPC: ready", await client.is_server_ready())
        check("gRPC: model ready", await client.is_model_ready("int8"))
        for name, wanted in model.wanted.items():
            got = await client.infer(request_for(model, name, 1, True))
            check(f"gRPC: {name}: the bits of evoq run", bits(got) == wanted[1])
            check(f"gRPC: {name}: id, name", (got.id, got.model_name) == ("request 1", name))
        many = [
            client.infer(request_for(model, "int8", i % len(model.samples), True))
            for i in range(64)
        ]
        got = [bits(answer) for answer in await asyncio.gather(*many)]
        wanted = [model.wanted["int8"][i % len(model.samples)] for i in range(64)]
        check("gRPC: 64 at a time", got == wanted)
        await refused(
            "gRPC: a model that is not there",
            grpc.RpcError,
            "NOT_FOUND",
            client.infer(request_for(model, "none", 0, True)),
        )
        other = InferRequest(
            model_name="int8", infer_inputs=[InferInput("other", [1], "FP32", data=[1.0])]
        )
        await refused("gRPC: another input", grpc.RpcError, "INVALID_ARGUMENT", client.infer(other))


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = Model(pathlib.Path(folder), samples=4)
        with Serving(model.repository, "--grpc-port", "0", "--no-request-log") as server:
            asyncio.run(check_http(server, model))
            asyncio.run(check_grpc(server, model))
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
