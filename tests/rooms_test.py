#!/usr/bin/env python3
"""Holds the sources to src/rooms.txt: a room includes what its row names and what those rows imply.
And to one meaning for each name: no two files may define a type of one name in one named namespace,
because the linker takes one of them for both without a word. And to one parser of JSON, which
bounds its nesting: what others parse could overflow the stack."""

import re
import sys

from agree import ROOT

# What a definition of types is read by: names of namespaces, heads of types, braces; comments and
# literals are skipped.
TOKENS = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"
          |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|\#(?:[^\n\\]|\\.)*)
      |(?P<namespace>\bnamespace\b\s*(?P<path>[\w:]*)\s*\{)
      |\b(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+(?:alignas\([^)]*\)\s*)?
          (?P<type>\w+)\s*(?:final\s*)?(?::(?!:)[^;{}()]*)?(?P<body>\{)
      |(?P<open>\{)|(?P<close>\})""",
    re.VERBOSE | re.DOTALL,
)


def types_of(text):
    """The types that a file defines in named namespaces: "evoq::Name"."""
    # Of open braces: a namespace's path ("" without a name), or None for others.
    stack, types = [], []
    for match in TOKENS.finditer(text):
        if match["namespace"]:
            stack.append(match["path"])
        elif match["body"]:
            if all(stack):  # inside named namespaces alone
                types.append("::".join([*stack, match["type"]]))
            stack.append(None)
        elif match["open"]:
            stack.append(None)
        elif match["close"] and stack:
            stack.pop()
    return types


def repeated_types(files):
    """What `files` (name, text) define twice."""
    first, errors = {}, []
    for name, text in files:
        for kind in types_of(text):
            if first.setdefault(kind, name) != name:
                errors.append(f"{name}: {kind} is also defined in {first[kind]}")
    return errors


def check_reader():
    """Two files that differ in a type are told apart from two that do not."""
    a = "namespace evoq {\nstruct Share {\n  int count; };\nenum class Kind : int { kA };\n}"
    same = [
        "namespace evoq { class Share final : public Base { }; }",
        "namespace evoq {\nnamespace {\nint f() { return 0; }\n}\nstruct Share { }; }",
        "namespace evoq::inner {} namespace evoq { enum class Kind { kB }; }",
    ]
    other = [
        "namespace evoq { struct Share; }",
        "namespace evoq { namespace { struct Share { }; } }",
        "namespace evoq::inner { struct Share { }; }",
        "namespace evoq { // struct Share {\n"
        'struct B { struct Share { }; }; const char* k = "struct Share {"; }',
    ]
    for text in same:
        assert repeated_types([("a", a), ("b", text)]), text
    for text in other:
        assert not repeated_types([("a", a), ("b", text)]), text
    parses = "const nlohmann::json root = nlohmann::json::parse(text);"
    assert parsers_of_json(
        [
            ("src/a.cc", parses),
            ("src/b.cc", "Json::parse(text, nullptr)"),
            ("src/a_test.cc", parses),
            (JSON_PARSER, parses),
        ]
    ) == [
        f"src/{name}: {call}(...: expected ParseJson of base/json_file.h"
        for name, call in (("a.cc", "json::parse"), ("b.cc", "Json::parse"))
    ]


JSON_PARSER = "src/base/json_file.cc"

# Folders of one room that do not include each other.
APART = ("foreign/profiles", "foreign/forecasts")


def parsers_of_json(files):
    """Calls of the JSON library's parser outside of ParseJson's file and of tests, whose texts are
    their own."""
    call = re.compile(r"\b[Jj]son::(?:parse|sax_parse|from_\w+)\(|\b[Jj]son::accept\(|\"_json\b")
    return [
        f"{name}: {found.group()}...: expected ParseJson of base/json_file.h"
        for name, text in files
        if name != JSON_PARSER and not name.endswith("_test.cc")
        for found in call.finditer(text)
    ]


def read_rooms():
    direct = {}
    for line in (ROOT / "src/rooms.txt").read_text().splitlines():
        if match := re.match(r"^([a-z]+): *(.*)$", line):
            room, below = match.group(1), match.group(2).split()
            for other in below:
                if other not in direct:
                    sys.exit(f"src/rooms.txt: {room} names {other}, which does not stand above it")
            direct[room] = below
    allowed = {}
    for room, below in direct.items():  # in order: every room stands after those it names
        allowed[room] = {room}.union(*(allowed[other] for other in below))
    return allowed


def main():
    check_reader()
    allowed = read_rooms()
    errors, includes, files = [], 0, []
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in {".h", ".cc", ".inc"}:
            continue
        room = path.relative_to(ROOT / "src").parts[0]
        if room not in allowed:
            errors.append(f"{path}: the folder is no room of src/rooms.txt")
            continue
        text = path.read_text()
        files.append((str(path.relative_to(ROOT)), text))
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r'\s*#\s*include "([a-z]+)/', line)
            if not match or match.group(1) not in allowed:
                continue
            includes += 1
            if match.group(1) not in allowed[room]:
                errors.append(
                    f"{path.relative_to(ROOT)}:{number}: room {room} may not include "
                    f"{match.group(1)}"
                )
            inside = f"{path.relative_to(ROOT / 'src').parent}/"
            others = [f for f in APART if f'"{f}/' in line and not inside.startswith(f + "/")]
            if others and inside.startswith(APART):
                errors.append(
                    f"{path.relative_to(ROOT)}:{number}: {inside} may not include {others[0]}"
                )
    repeated = repeated_types(files)
    errors += parsers_of_json(files)
    for error in errors + repeated:
        print(error)
    types = sum(len(types_of(text)) for _, text in files)
    print(
        f"{includes} includes between {len(allowed)} rooms, {len(errors)} not allowed; {types} "
        f"types, {len(repeated)} defined twice"
    )
    return 1 if errors or repeated or includes < 100 or types < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
