#!/usr/bin/env python3
"""A language model larger than the memory that the process may use is quantized and compiled to the
very file that comes out without a limit.

    EVOQ_BUILD=build/release tests/streaming_test.py
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVOQ = ROOT / os.environ.get("EVOQ_BUILD", "build/release") / "bin" / "evoq"
SKIPPED = 77
sys.path.insert(0, str(ROOT / "bench"))
import streaming  # noqa: E402

# 130 MB of weights, of which no matrix has more than 8.
SMALL = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "vocab_size": 4000,
    "num_attention_heads": 16,
    "max_position_embeddings": 256,
}
GIGABYTES = 0.13
# What a job keeps of its own: its code's data, threads, scales of all weights, one weight as it is
# made, in up to three forms.
LIMIT_MB = {
    ("quantize", "int4-dynamic"): 96,
    ("quantize", "int4-weights"): 96,
    ("quantize", "int8-weights"): 96,
    ("quantize", "int8-dynamic"): 96,
    ("quantize", "bf16"): 96,
    ("compile", None): 96,
}


def evoq(command, limit_mb):
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (limit_mb << 20, limit_mb << 20))

    return subprocess.run(
        list(map(str, command)), capture_output=True, preexec_fn=limit if limit_mb else None
    )


def main():
    if evoq([EVOQ, "list", "schemes"], min(LIMIT_MB.values())).returncode != 0:
        print(f"{EVOQ} does not begin under a limit: built with a sanitizer?")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "model"
        streaming.make_folder(folder, GIGABYTES, SMALL)
        for (verb, scheme), limit_mb in LIMIT_MB.items():
            files = []
            for limit in (0, limit_mb):
                files.append(pathlib.Path(work) / f"{limit}.etm")
                command = [EVOQ, verb, folder, "-o", files[-1], "--threads", 2]
                done = evoq(command + (["--scheme", scheme] if scheme else []), limit)
                if done.returncode != 0:
                    sys.exit(f"{verb} {scheme}, limit {limit} MiB: {done.stderr.decode().strip()}")
            if files[0].read_bytes() != files[1].read_bytes():
                sys.exit(f"{verb} {scheme}: the limit changes the file")
            left = [p.name for p in pathlib.Path(work).iterdir() if p.name.startswith(".evoq")]
            if left:
                sys.exit(f"{verb} {scheme}: left {left}")
            print(f"{verb} {scheme or ''}: the same {files[0].stat().st_size} bytes")


if __name__ == "__main__":
    main()
