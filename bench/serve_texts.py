#!/usr/bin/env python3
"""Texts of a language model over HTTP: `evoq serve` with one client and with several.

    bench/serve_texts.py MODEL.etm [--evoq build/release/bin/evoq ...] [--threads N]
                         [--clients 1,4,8] [--prompt N] [--tokens N] [--rounds N] [--shared N]

Each client asks for one completion: a prompt of N random tokens, of which the first --shared are
those of all, and so many more tokens whatever they are. Printed for each number of clients, as the
fastest round and, in brackets, the median: tokens of text per second of all clients together, from
the first request to the last answer, and, of a model with a tokenizer, the milliseconds until the
first piece of text, of the slowest client. Programs named after one another are measured in turn.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def serving(program, models, threads):
    command = [program, "serve", "--model-repository", models, "--http-port", "0"]
    command += ["--threads", threads]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            found = re.match(r"listening on 127\.0\.0\.1:(\d+)", process.stdout.readline())
            if not found:
                raise SystemExit(f"serve_texts.py: {program} serve did not begin")
            yield int(found[1])
        finally:
            process.terminate()


def ask(port, prompt, tokens):
    """Seconds until the first piece of text, where there is one before the end, and in all."""
    body = {"model": "lm", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    body |= {"ignore_eos": True, "stream": True}
    begun = time.monotonic()
    first = None
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("POST", "/v1/completions", json.dumps(body))
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(f"serve_texts.py: {answer.status} {answer.read()}")
        while line := answer.readline():
            if first is None and b'"finish_reason":null' in line:
                first = time.monotonic() - begun
    return first, time.monotonic() - begun


def measure(program, models, options, clients, draw):
    common = [draw.randrange(3, 250) for _ in range(options.shared)]
    prompts = [
        common + [draw.randrange(3, 250) for _ in range(options.prompt - options.shared)]
        for _ in range(clients + 1)
    ]
    with serving(program, models, options.threads) as port:
        ask(port, prompts.pop(), 4)  # what is prepared once
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            times = list(pool.map(lambda p: ask(port, p, options.tokens), prompts))
        all_s = time.monotonic() - begun
    return clients * options.tokens / all_s, 1e3 * max(first or 0 for first, _ in times)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--evoq", nargs="+", default=[ROOT / "build/release/bin/evoq"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clients", default="1,4,8")
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--shared", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    draw = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="evoq_serve_texts_") as work:
        for clients in map(int, options.clients.split(",")):
            models = pathlib.Path(work) / str(clients)
            (models / "lm/1").mkdir(parents=True)
            (models / "lm/config.json").write_text(json.dumps({"sequences": clients}))
            (models / "lm/1/model.etm").symlink_to(options.model.resolve())
            figures = {str(program): [] for program in options.evoq}
            for _ in range(options.rounds):
                for program, rounds in figures.items():
                    rounds.append(measure(program, models, options, clients, draw))
            shutil.rmtree(models)
            for program, rounds in figures.items():
                rates, firsts = zip(*rounds)
                line = f"{clients} clients: {max(rates):.1f} [{statistics.median(rates):.1f}]"
                line += " tokens per second"
                if max(firsts) > 0:
                    line += f", first piece after {min(firsts):.0f}"
                    line += f" [{statistics.median(firsts):.0f}] ms"
                print(line + (f"  {program}" if len(figures) > 1 else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
