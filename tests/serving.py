"""What the tests of `evoq serve` share: the program over real sockets."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import threading

import agree

failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else str(detail)[:500])
    if not holds:
        failures.append(what)


class Serving:
    """The program with a folder of models, until the end of the block."""

    def __init__(self, repository, *options):
        self.command = [agree.EVOQ, "serve", "--model-repository", str(repository)]
        self.command += ["--http-port", "0", *options]
        self.lines = []

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        reader = threading.Thread(target=self.read_log, daemon=True)
        reader.start()
        first = self.process.stdout.readline()
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", first)
        if not found:
            self.process.wait(10)
            reader.join(10)
            raise RuntimeError(f"evoq serve: {first} {self.lines[-3:]}")
        self.port = int(found[1])
        self.grpc_port = None
        if "--grpc-port" in self.command:
            second = self.process.stdout.readline()
            self.grpc_port = int(re.fullmatch(r"gRPC on 127\.0\.0\.1:(\d+)\n", second)[1])
        return self

    def read_log(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.terminate()
            self.status = self.process.wait(60)
        return False

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body) of a request on a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            return ask(connection, method, path, body, headers)

    def json(self, method, path, body=None, status=200):
        got, _, text = self.ask(method, path, body)
        if got != status:
            check(f"{method} {path} gives {status}", False, f"{got}: {text[:200]}")
        return json.loads(text) if text else None

    def raw(self, data, half_close=False, timeout=30):
        """All that comes back for these bytes until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
            return read_all(s)


def read_all(s):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := s.recv(65536):
            data += piece
    return data


def ask(connection, method, path, body=None, headers=None):
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def nginx_program():
    """The path of nginx, also where tools/test.sh unpacked it; None without."""
    unpacked = agree.ROOT / "build/nginx/usr/sbin"
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:{unpacked}")
