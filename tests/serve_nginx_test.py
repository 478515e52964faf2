#!/usr/bin/env python3
"""Three `evoq serve` behind nginx, as people scale out: kill -9 of one under load loses the
requests that it had, and none where nginx may send them again. Skips (exit status 77) where there
is no nginx: tools/test.sh unpacks Debian's in build/nginx."""

import collections
import concurrent.futures
import contextlib
import http.client
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from serve_models import Model, binary_outputs
from serving import Serving, ask, check, failures, nginx_program

NGINX = nginx_program()
CLIENTS = 12

CONFIGURATION = """
daemon off;
worker_processes 1;
pid {work}/nginx.pid;
error_log {work}/nginx_errors.log;
events {{ worker_connections 256; }}
http {{
  log_format told "$msec $request_time $status $upstream_addr";
  access_log {work}/nginx.log told;
  client_body_temp_path {work}/body;
  proxy_temp_path {work}/proxy;
  fastcgi_temp_path {work}/fastcgi;
  uwsgi_temp_path {work}/uwsgi;
  scgi_temp_path {work}/scgi;
  client_max_body_size 64m;
  client_body_buffer_size 4m;
  upstream models {{ {servers} keepalive 16; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://models;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_next_upstream {again};
    }}
  }}
}}
"""


class Nginx:
    """In front of the servers; `again`: what it may send to another one."""

    def __init__(self, work, servers, again):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.log = work / "nginx.log"
        lines = " ".join(f"server 127.0.0.1:{s.port} fail_timeout=60s;" for s in servers)
        self.file = work / "nginx.conf"
        self.file.write_text(
            CONFIGURATION.format(work=work, servers=lines, port=self.port, again=again)
        )

    def __enter__(self):
        self.log.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [NGINX, "-p", str(self.file.parent), "-e", "stderr", "-c", str(self.file)]
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            time.sleep(0.05)
        raise RuntimeError("nginx does not listen")

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait(30)


def send(nginx, model, name, wanted, stop, outcomes):
    """Requests one after the other; "right", "wrong" or the status of each."""
    connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=60)
    with contextlib.closing(connection):
        while not stop.is_set():
            body, headers = model.slow_request
            status, got, text = ask(connection, "POST", "/v2/models/slow/infer", body, headers)
            if status != 200:
                outcomes.append(status)
            else:
                right = binary_outputs(got, text) == wanted
                outcomes.append("right" if right else "wrong")


def told_by(nginx):
    """(begin, status, the last server asked) of each request that nginx logged."""
    requests = []
    for line in nginx.log.read_text().splitlines():
        ended, took, status, servers = line.split(" ", 3)
        last = servers.split(",")[-1].strip().rsplit(":", 1)[-1]
        requests.append((float(ended) - float(took), int(status), last))
    return requests


def check_kill(work, model, again, loses):
    options = ["--max-batch", "0", "--threads", "1", "--max-queue", "64", "--no-request-log"]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Serving(model.slow, *options)) for _ in range(3)]
        body, headers = model.slow_request
        _, got, text = servers[0].ask("POST", "/v2/models/slow/infer", body, headers)
        wanted = binary_outputs(got, text)
        nginx = stack.enter_context(Nginx(work, servers, again))
        stop, outcomes = threading.Event(), []
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            load = [
                pool.submit(send, nginx, model, "slow", wanted, stop, outcomes)
                for _ in range(CLIENTS)
            ]
            time.sleep(2)
            before = len(outcomes)
            # Stopped first, so that for certain it has requests when it is killed.
            servers[1].process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            killed_at = time.time()
            servers[1].process.send_signal(signal.SIGKILL)
            time.sleep(2)
            stop.set()
            for one in load:
                one.result()
        counts = collections.Counter(outcomes)
        what = f"{again}: {dict(counts)}, {len(outcomes) - before} of them after kill -9"
        right = counts["right"] > 0 and set(counts) <= {"right", 502}
        check(what, right and len(outcomes) > before > 0, counts)
        lost = [r for r in told_by(nginx) if r[1] != 200]
        check("nginx counts as the clients do", len(lost) == counts[502], lost)
        if loses:
            # It had one request of each client at most.
            check(f"{len(lost)} are lost", 1 <= len(lost) <= CLIENTS, lost)
            dead = str(servers[1].port)
            check("all by the one that was killed", all(r[2] == dead for r in lost), lost)
            check("all under way then", all(r[0] <= killed_at + 0.1 for r in lost), lost)
        else:
            check("none is lost", not lost, lost)
        others = [s.process.poll() for s in (servers[0], servers[2])]
        check("the others go on", others == [None, None], others)


def main():
    if NGINX is None:
        print("skipped: no nginx")
        return 77
    with tempfile.TemporaryDirectory(prefix="evoq_nginx_") as name:
        work = pathlib.Path(name)
        model = Model(work, 1)
        # A request that was sent is not sent again unless that is said; one that found nobody is.
        check_kill(work, model, "error timeout", loses=True)
        check_kill(work, model, "error timeout non_idempotent", loses=False)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
