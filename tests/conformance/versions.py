#!/usr/bin/env python3
"""Prints versions.inc: the versions of every ONNX operator, from the onnx package."""

import collections

import onnx.defs


def main():
    versions = collections.defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions[schema.name].add(schema.since_version)
    print(
        f"// The versions of ONNX's operators, as the onnx package {onnx.__version__} has them; "
        "printed by versions.py."
    )
    for name, numbers in sorted(versions.items()):
        print(f'EVOQ_VERSIONS({name}, "{", ".join(map(str, sorted(numbers)))}")')


main()
