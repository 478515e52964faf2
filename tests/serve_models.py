"""Models that the tests of `evoq serve` serve, and what `evoq run` makes of their samples."""

import contextlib
import json
import math
import shutil
import struct
import subprocess

import agree
from serving import ask


def write_npy(path, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = struct.pack(f"<{len(values)}f", *values)
    path.write_bytes(
        b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data
    )


def read_npy(path):
    data = path.read_bytes()
    return data[10 + int.from_bytes(data[8:10], "little") :]


def values_of(seed, count):
    """Numbers in [-1, 1) that float32 has."""
    state, values = seed * 2654435761 % 2**32, []
    for _ in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        values.append((state >> 8) / 2**23 - 1)
    return values


def binary_request(name, shape, values, **more):
    """Body and headers of a request with binary data both ways."""
    data = struct.pack(f"<{len(values)}f", *values)
    tensor = {"name": name, "shape": shape, "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": len(data)}
    parameters = {"binary_data_output": True, **more.pop("parameters", {})}
    head = json.dumps({"inputs": [tensor], "parameters": parameters, **more}).encode()
    return head + data, {"Inference-Header-Content-Length": str(len(head))}


def binary_outputs(headers, body):
    """name -> bytes of a response with binary data."""
    at = int(headers["Inference-Header-Content-Length"])
    outputs, found = json.loads(body[:at])["outputs"], {}
    for output in outputs:
        size = output["parameters"]["binary_data_size"]
        found[output["name"]] = body[at : at + size]
        at += size
    return found


class Model:
    """A model of the zoo in a repository, with samples and what `evoq run` makes of each."""

    def __init__(self, work, samples):
        self.onnx = work / "lenet.onnx"
        agree.evoq("zoo", "lenet", "-o", self.onnx)
        self.etm = work / "lenet.etm"
        agree.evoq("quantize", self.onnx, "--calib-random", "4", "-o", self.etm)
        inspect = work / "inspect.json"
        agree.evoq("inspect", self.onnx, "--json", inspect)
        about = json.loads(inspect.read_text())
        self.input = about["inputs"][0]["name"]
        self.output = about["outputs"][0]["name"]
        self.shape = [s if isinstance(s, int) and s > 0 else 1 for s in about["inputs"][0]["shape"]]
        self.repository = work / "models"
        for name, path in (("float", self.onnx), ("int8", self.etm)):
            (self.repository / name / "1").mkdir(parents=True)
            shutil.copy(path, self.repository / name / "1" / ("model" + path.suffix))
        # One that takes milliseconds.
        self.slow = work / "slow"
        self.slow.mkdir()
        agree.evoq("zoo", "squeezenet1.1", "-o", self.slow / "slow.onnx")
        agree.evoq("inspect", self.slow / "slow.onnx", "--json", inspect)
        about = json.loads(inspect.read_text())["inputs"][0]
        shape = [s if isinstance(s, int) and s > 0 else 1 for s in about["shape"]]
        self.slow_input = about["name"], shape
        self.slow_request = binary_request(about["name"], shape, [0.5] * math.prod(shape))
        self.samples = [values_of(seed, math.prod(self.shape)) for seed in range(samples)]
        self.wanted = {"float": [], "int8": []}
        for name, path in (("float", self.onnx), ("int8", self.etm)):
            for values in self.samples:
                write_npy(work / "x.npy", tuple(self.shape), values)
                agree.evoq("run", path, "--input", work / "x.npy", "--output-dir", work / "out")
                self.wanted[name].append(read_npy(work / "out" / f"{self.output}.npy"))

    def request(self, sample, **more):
        return binary_request(self.input, self.shape, self.samples[sample], **more)

    def infer(self, connection, name, sample, **more):
        """(status, output's bytes or the error)"""
        body, headers = self.request(sample, **more)
        status, got, text = ask(connection, "POST", f"/v2/models/{name}/infer", body, headers)
        return status, binary_outputs(got, text)[self.output] if status == 200 else text

    def infer_alone(self, server, name, number):
        """As infer, on a connection of its own."""
        with contextlib.closing(server.connect()) as connection:
            return self.infer(connection, name, number % len(self.samples))


def certificate_for(work):
    """Files of a certificate for 127.0.0.1 and its key; None where there is no openssl."""
    if not shutil.which("openssl"):
        return None
    key, certificate = work / "key.pem", work / "certificate.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
