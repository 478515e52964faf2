"""examples/python runs as it is and does what it says."""

import os
import subprocess
import sys

import evoq
import pytest
from models import DIGITS, ROOT

pytest.importorskip("matplotlib")


def run(*arguments, folder):
    environment = {
        **os.environ,
        "PYTHONPATH": os.path.dirname(os.path.dirname(evoq.__file__)),
        "TMPDIR": str(folder),
    }
    script = os.path.join(ROOT, "examples/python/ledger.py")
    output = ["--output", str(folder / "ledger.png"), "--duration-s", "0.2"]
    done = subprocess.run(
        [sys.executable, script, *arguments, *output],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "ledger.png").read_bytes().startswith(b"\x89PNG")
    return done.stdout


def test_ledger(tmp_path):
    text = run(DIGITS, folder=tmp_path)
    assert "steps are int8" in text and "ideal" in text and "wrote" in text
