#!/usr/bin/env python3
"""The wheel that `pip install .` builds: what is in it, and that it works in an environment of its
own, outside the tree.

Skips (exit status 77) where scikit-build-core, nanobind or numpy from PyPI is missing.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
if "san" in pathlib.Path(os.environ.get("EVOQ_BUILD", "")).name:
    print("skipped: a wheel is built without sanitizers, whatever build is tested")
    sys.exit(77)
try:
    import nanobind  # noqa: F401
    import numpy
    import scikit_build_core  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FILES = (
    r"evoq/((acl/)?\w+\.py|py\.typed|_evoq\.pyi|_evoq\.[\w.-]+\.so|share/set_env\.sh)"
    r"|ascendctl/__init__\.py"
    r"|evoq-[\w.]+\.dist-info/(METADATA|RECORD|WHEEL|entry_points\.txt|licenses/LICENSE)"
)
USE = """
import ascendctl, evoq, numpy as np, sys
assert len(ascendctl.mdl.execute(ascendctl.mdl.load_from_file(sys.argv[1]),
                                 [np.zeros((2, 1, 28, 28), np.float32)])) == 1
model = evoq.load(sys.argv[1])
assert model(np.zeros((2, 1, 28, 28), np.float32)).shape == (2, 10)
print(evoq.__version__, evoq.inspect(sys.argv[1])["nodes"])
"""


def dynamic_section(module):
    return subprocess.run(
        ["readelf", "-d", module], capture_output=True, text=True, check=True
    ).stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        # With the build packages that are here: what isolation would fetch again.
        build = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            str(ROOT),
        ]
        subprocess.run(build, check=True)
        (wheel,) = pathlib.Path(folder).glob("evoq-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {len(names)} files")
        odd = [name for name in names if not re.fullmatch(FILES, name)]
        assert not odd, f"not expected in the wheel: {odd}"
        assert {"evoq/__init__.py", "evoq/backend.py", "evoq/py.typed", "evoq/_evoq.pyi"} <= set(
            names
        ), names

        venv = pathlib.Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        (site,) = venv.glob("lib/python*/site-packages")
        install = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            venv / "bin/python",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-index",
            wheel,
        ]
        subprocess.run(install, check=True)
        (site / "numpy.pth").write_text(str(pathlib.Path(numpy.__file__).parent.parent))
        (module,) = site.glob("evoq/_evoq*.so")
        dynamic = dynamic_section(module)
        assert "RUNPATH" not in dynamic and "RPATH" not in dynamic, dynamic
        model = ROOT / "examples/digits/digits.onnx"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        used = subprocess.run(
            [venv / "bin/python", "-c", USE, model],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert used.returncode == 0, used.stderr
        command = subprocess.run(
            [venv / "bin/evoq", "inspect", model],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert command.returncode == 0 and "input  image" in command.stdout, command
        program = subprocess.run(
            [venv / "bin/atc", f"--model={model}", "--framework=5", "--output=digits"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert program.returncode == 0 and (pathlib.Path(folder) / "digits.om").exists(), program
        assert (site / "evoq/share/set_env.sh").exists()
        print(f"works outside the tree: {used.stdout.strip()}")


if __name__ == "__main__":
    main()
