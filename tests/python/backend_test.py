#!/usr/bin/env python3
"""ONNX's official runner, onnx.backend.test.BackendTest, over evoq.backend: the cases of the
installed package onnx.

What does not pass is in tests/conformance/ignore.txt with its reason; a case that is listed and
passes fails the test. Skips (exit status 77) where the package was not built or onnx from PyPI is
missing. Arguments are patterns of cases to run: backend_test.py 'node/test_resize*'
"""

import collections
import fnmatch
import os
import re
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIST = os.path.join(ROOT, "tests/conformance/ignore.txt")
SUITES = {
    "NodeModel": "node",
    "SimpleModel": "simple",
    "PyTorchConvertedModel": "pytorch-converted",
    "PyTorchOperatorModel": "pytorch-operator",
    "RealModel": "light",
}
OTHER_DOMAINS = ("ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview")
LEAST_NODE_SHARE = 0.99

sys.path.insert(0, os.path.join(ROOT, os.environ.get("EVOQ_BUILD", "build/release"), "python"))
try:
    import ml_dtypes  # noqa: F401
    import onnx.backend.test

    import evoq.backend
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


class Line:
    """PATTERN [!EXCEPTION] MODES: REASON"""

    def __init__(self, number, text):
        where, self.reason = text.split(": ", 1)
        words = where.split()
        self.number, self.pattern, self.modes = number, words[0], words[-1]
        self.exceptions = [word[1:] for word in words[1:-1]]
        self.cases = 0

    def matches(self, case):
        return fnmatch.fnmatchcase(case, self.pattern) and not any(
            fnmatch.fnmatchcase(case, e) for e in self.exceptions
        )


def read_list():
    with open(LIST) as file:
        lines = [
            Line(number, text.strip())
            for number, text in enumerate(file, 1)
            if text.strip() and not text.startswith("#")
        ]
    return [line for line in lines if fnmatch.fnmatchcase("python", line.modes)]


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.why = {}  # the last line of what was raised

    def addFailure(self, test, error):
        self.why[test.id()] = error

    addError = addFailure

    def addSkip(self, test, reason):
        self.why[test.id()] = (unittest.SkipTest, unittest.SkipTest(reason), None)


def run(function, name):
    """None when the case passes, else the exception."""
    case = type("Case", (unittest.TestCase,), {name: function})(name)
    result = Result()
    case.run(result)
    return next((error[1] for error in result.why.values()), None)


def first_lines(error):
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:240]


def main():
    lines, patterns = read_list(), sys.argv[1:]
    with tempfile.TemporaryDirectory() as home:
        os.environ["ONNX_HOME"] = home
        runner = onnx.backend.test.BackendTest(evoq.backend, __name__)
        counts = collections.defaultdict(collections.Counter)
        problems = []
        for category, items in runner._test_items.items():
            for name, item in sorted(items.items()):
                if not name.endswith("_cpu"):
                    continue
                case = f"{SUITES[category]}/{name.removesuffix('_cpu')}"
                if patterns and not any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns):
                    continue
                error = run(item.func, name)
                listed = [line for line in lines if line.matches(case)]
                for line in listed:
                    line.cases += 1
                suite = SUITES[category]
                proto = item.proto[0]
                if (
                    category == "NodeModel"
                    and proto is not None
                    and any(o.domain.startswith(OTHER_DOMAINS) for o in proto.opset_import)
                ):
                    suite = "node, other domains"
                counts[suite]["passed" if error is None else "listed" if listed else "failed"] += 1
                if patterns:
                    print(f"{case}: {'passed' if error is None else first_lines(error)}")
                if error is not None and not listed:
                    problems.append(f"{case} fails: {first_lines(error)}")
                if error is None and listed:
                    problems.append(
                        f"{case} passes, but line {listed[0].number} of {os.path.basename(LIST)} "
                        "lists it"
                    )
    print(f"onnx {onnx.__version__} over evoq {evoq.__version__}")
    for suite, count in counts.items():
        total = sum(count.values())
        print(
            f"{suite:20} {count['passed']:5} of {total:5} pass ({count['passed'] / total:.2%}), "
            f"{count['listed']} listed, {count['failed']} failed"
        )
    if not patterns:
        problems += [
            f"line {line.number} of {os.path.basename(LIST)} names no case"
            for line in lines
            if line.modes == "python" and line.cases == 0
        ]
        node = counts["node"]
        if node["passed"] < LEAST_NODE_SHARE * sum(node.values()):
            problems.append(f"fewer than {LEAST_NODE_SHARE:.0%} of the node cases pass")
    for problem in problems:
        print(problem)
    return 1 if problems or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
