"""The faults that tools/mutate.py plants: one row of RULES each, found on the tokens of a C++ or
Python file.

A rule is a function (tokens, i) -> [(first, last, text)]: at token i it may replace the characters
from tokens[first].start to tokens[last].end by text. Tokens are those of stock clang-format's
style, which tells `a < b` from `vector<int>` and `a && b` from `T&& t` by their blanks. What does
not compile is found out by compiling, so a rule may guess.

Nothing is planted in comments, preprocessor lines, include lists, assertions (EVOQ_CHECK,
EVOQ_DCHECK, static_assert: what they test never fails in a correct program), in calls that change
speed only (SPEED_ONLY), nor in the text of messages.
"""

import bisect
import re
from typing import NamedTuple


class Token(NamedTuple):
    kind: str  # name, number, string, op
    text: str
    start: int
    end: int
    spaced: bool  # a blank on both sides


class Mutant(NamedTuple):
    """One fault: the characters [start, end) of a file become `text`."""

    rule: str
    start: int
    end: int
    text: str


TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<raw>R"(?P<delimiter>[^()\s]*)\(.*?\)(?P=delimiter)")
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
  | (?P<number>0[xX][0-9a-fA-F']+[uUlL]*|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>->|<=>|<<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^=|::|\.\.\.
         |[-+*/%<>=!&|^~?:;,.(){}\[\]\#@\\])
""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)

PYTHON_TOKEN = re.compile(
    TOKEN.pattern.replace(r"//[^\n]*|/\*.*?\*/", r"\#[^\n]*|\"\"\".*?\"\"\"").replace(
        r"^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*", r"^(?:import|from)\b[^\n]*"
    ),
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)

ASSERTIONS = {"EVOQ_CHECK", "EVOQ_DCHECK", "static_assert", "assert"}
# Calls that change when something is done, not what: no test depends on time, benchmarks do.
SPEED_ONLY = {"reserve", "shrink_to_fit", "_mm_prefetch", "__builtin_prefetch", "Grain"}


def tokenize(source, python=False):
    tokens = []
    for match in (PYTHON_TOKEN if python else TOKEN).finditer(source):
        kind = match.lastgroup if match.lastgroup != "delimiter" else "raw"
        if match.group("raw"):
            kind = "string"
        if kind in ("comment", "directive"):
            continue
        start, end = match.span()
        spaced = source[start - 1 : start].isspace() and source[end : end + 1].isspace()
        tokens.append(Token(kind, match.group(), start, end, spaced))
    return tokens


OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


def closing(tokens, i):
    """The index of the token that closes the bracket at i, or None."""
    depth = 0
    for j in range(i, len(tokens)):
        depth += (tokens[j].text in OPEN) - (tokens[j].text in CLOSE)
        if depth == 0:
            return j
    return None


def clause_end(tokens, i, step):
    """From operator i, the far end of the clause beside it (step 1: right, -1: left)."""
    depth, j = 0, i + step
    while 0 <= j < len(tokens):
        text = tokens[j].text
        opens = text in (OPEN if step == 1 else CLOSE)
        closes = text in (CLOSE if step == 1 else OPEN)
        if depth == 0 and (closes or text in ("&&", "||", ";", "?", ":", ",", "=", "return")):
            return j - step
        depth += opens - closes
        j += step
    return None


def statement_start(tokens, i):
    """Whether a statement may begin at i: not in the head of a `for`, nor after a label's or a base
    list's colon."""
    if i == 0 or tokens[i - 1].text in ("{", "}", "else"):
        return True
    if tokens[i - 1].text == ")":
        return tokens[i].kind == "name"
    if tokens[i - 1].text != ";":
        return False
    depth = 0
    for j in range(i - 1, -1, -1):
        depth += (tokens[j].text in CLOSE) - (tokens[j].text in OPEN)
        if depth < 0:
            return tokens[j].text == "{"
    return True


def statement_end(tokens, i):
    """The semicolon that ends the statement which begins at i."""
    depth = 0
    for j in range(i, len(tokens)):
        depth += (tokens[j].text in OPEN) - (tokens[j].text in CLOSE)
        if depth < 0:
            return None
        if depth == 0 and tokens[j].text == ";":
            return j
    return None


COMPARISONS = {
    "<": ["<=", ">"],
    "<=": ["<"],
    ">": [">=", "<"],
    ">=": [">"],
    "==": ["!="],
    "!=": ["=="],
}


def comparison(tokens, i):
    token = tokens[i]
    return (
        [(i, i, to) for to in COMPARISONS.get(token.text, [])]
        if token.kind == "op" and token.spaced
        else []
    )


def logic(tokens, i):
    swap = {"&&": "||", "||": "&&", "and": "or", "or": "and"}
    return [(i, i, swap[tokens[i].text])] if tokens[i].text in swap and tokens[i].spaced else []


def dropped_clause(tokens, i):
    if tokens[i].text not in ("&&", "||", "and", "or") or not tokens[i].spaced:
        return []
    right, left = clause_end(tokens, i, 1), clause_end(tokens, i, -1)
    return [
        m
        for m in ((i, right, "") if right else None, (left, i, "") if left is not None else None)
        if m
    ]


def negation(tokens, i):
    token = tokens[i]
    return [(i, i, "")] if (token.text == "!" and token.kind == "op") or token.text == "not" else []


def constant(tokens, i):
    token = tokens[i]
    if token.kind != "number" or (i > 0 and tokens[i - 1].text in ("#", "alignas")):
        return []
    text = token.text.replace("'", "")
    if re.fullmatch(r"\d+[uUlL]*", text):
        digits = re.match(r"\d+", text).group()
        suffix = text[len(digits) :]
        others = [int(digits) + 1] + ([int(digits) - 1] if int(digits) > 0 else [])
        return [(i, i, f"{other}{suffix}") for other in others]
    if re.fullmatch(r"0[xX][0-9a-fA-F]+[uUlL]*", text):
        return [(i, i, f"({token.text} ^ 1)")]
    if re.search(r"[.eE]", text):
        if float(text.rstrip("fF")) == 0:
            return [(i, i, "1.0f" if text[-1] in "fF" else "1.0")]
        return [(i, i, f"(1.25f * {token.text})" if text[-1] in "fF" else f"(1.25 * {token.text})")]
    return []


def arithmetic(tokens, i):
    swap = {
        "+": "-",
        "-": "+",
        "*": "+",
        "/": "*",
        "%": "/",
        "+=": "-=",
        "-=": "+=",
        "*=": "+=",
        "<<": ">>",
        ">>": "<<",
        "|=": "&=",
        "&=": "|=",
    }
    token = tokens[i]
    if (
        token.kind != "op"
        or token.text not in swap
        or not token.spaced
        or tokens[i - 1].text in ("operator", "auto", "const")
    ):
        return []
    return [(i, i, swap[token.text])]


def sign(tokens, i):
    token = tokens[i]
    if token.text != "-" or token.spaced or i == 0 or i + 1 == len(tokens):
        return []
    before = tokens[i - 1]
    unary = before.text in "( , = return ? : [ { < > == + * / && || <= >= !=".split()
    return [(i, i, "")] if unary else []


SWAPPED_NAMES = [
    ("min", "max"),
    ("Min", "Max"),
    ("min_element", "max_element"),
    ("front", "back"),
    ("rows", "cols"),
    ("rows", "columns"),
    ("height", "width"),
    ("low", "high"),
    ("lower", "upper"),
    ("first", "second"),
    ("floor", "ceil"),
    ("begin", "end"),
    ("true", "false"),
    ("True", "False"),
    ("lround", "lrint"),
]
PARTNER = {}
for _a, _b in SWAPPED_NAMES:
    PARTNER.setdefault(_a, []).append(_b)
    PARTNER.setdefault(_b, []).append(_a)


def partner(tokens, i):
    if tokens[i].kind != "name":
        return []
    found = [(i, i, to) for to in PARTNER.get(tokens[i].text, [])]
    for a, b in (("_min_", "_max_"), ("_max_", "_min_")):
        if tokens[i].text.startswith("_mm") and a in tokens[i].text:
            found.append((i, i, tokens[i].text.replace(a, b)))
    return found


SATURATING = [
    ("_adds_", "_add_"),
    ("_subs_", "_sub_"),
    ("_packus_", "_packs_"),
    ("_packs_", "_packus_"),
    ("dpbusds", "dpbusd"),
    ("cvtsepi", "cvtepi"),
    ("cvtusepi", "cvtepi"),
    ("_cvtps_", "_cvttps_"),
    ("SaturatedAdd", "Add"),
    ("SaturatedSub", "Sub"),
    ("NearestInt", "ConvertTo"),
    ("DemoteTo", "TruncateTo"),
    ("nearbyint", "trunc"),
    ("nearbyintf", "truncf"),
    ("RoundHalfEven", "std::round"),
]


def saturation(tokens, i):
    if tokens[i].kind != "name":
        return []
    return [(i, i, tokens[i].text.replace(a, b)) for a, b in SATURATING if a in tokens[i].text]


def axis(tokens, i):
    """A use of something named axis, dim or rank becomes its neighbour."""
    token = tokens[i]
    if (
        token.kind != "name"
        or not re.fullmatch(r"(\w*_)?(axis|dim|rank)_?", token.text)
        or i + 1 == len(tokens)
    ):
        return []
    before, behind = tokens[i - 1].text, tokens[i + 1].text
    use = before in "( [ , + < == return".split() and behind in ") ] , ; + -".split()
    return [(i, i, f"({token.text} + 1)"), (i, i, f"({token.text} - 1)")] if use else []


def arguments(tokens, i):
    """The (first, last) token of each argument of the call whose bracket is at i, or []."""
    end = closing(tokens, i)
    if end is None or end == i + 1:
        return []
    found, first, depth = [], i + 1, 0
    for j in range(i + 1, end):
        depth += (tokens[j].text in OPEN) - (tokens[j].text in CLOSE)
        if depth == 0 and tokens[j].text == ",":
            found.append((first, j - 1))
            first = j + 1
    return found + [(first, end - 1)]


# Words before a bracket that is no call, whose arguments are a message, or may stand in any order.
NOT_SWAPPED = {
    *("if", "for", "while", "switch", "return", "sizeof"),
    *("Fail", "InvalidInput", "Unsupported", "min", "max", "Min", "Max"),
}


def swapped_arguments(tokens, i, source):
    """Adjacent arguments of a call change places; the compiler refuses those of types that do not
    convert."""
    if tokens[i].text != "(" or i == 0 or tokens[i - 1].kind != "name":
        return []
    if tokens[i - 1].text in NOT_SWAPPED:
        return []
    parts = arguments(tokens, i)
    swaps = []
    for (a0, a1), (b0, b1) in zip(parts, parts[1:]):
        if (
            a0 > a1
            or b0 > b1
            or any(tokens[j].kind == "string" for j in range(a0, b1 + 1))
            or b1 - a0 > 24
        ):
            continue
        a, b = source[tokens[a0].start : tokens[a1].end], source[tokens[b0].start : tokens[b1].end]
        # `int a`: parameters
        declaration = any(tokens[j].kind == tokens[j + 1].kind == "name" for j in range(a0, a1))
        if a != b and not declaration:
            swaps.append((a0, b1, f"{b}, {a}"))
    return swaps


def dropped_exit(tokens, i):
    """`if (...) return ...;`, continue, break and throwless checks of a Status go."""
    text = tokens[i].text
    if text == "if" and i + 1 < len(tokens) and tokens[i + 1].text == "(":
        end = closing(tokens, i + 1)
        if (
            end is not None
            and end + 1 < len(tokens)
            and tokens[end + 1].text in ("return", "continue", "break")
        ):
            last = statement_end(tokens, end + 1)
            follows = tokens[last + 1].text if last is not None and last + 1 < len(tokens) else ""
            return [(i, last, ";")] if last is not None and follows != "else" else []
    if text == "EVOQ_TRY":
        return [(i, i, "")]  # (f()): called, its error is not passed on
    return []


def dropped_statement(tokens, i):
    """An assignment to something that is there already, or a call for its effect, goes."""
    if (
        tokens[i].kind != "name"
        or not statement_start(tokens, i)
        or tokens[i].text in ("return", "EVOQ_TRY", "EVOQ_ASSIGN", "using", "case", "else")
    ):
        return []
    end = statement_end(tokens, i)
    if end is not None and any(t.text in SPEED_ONLY for t in tokens[i:end]):
        return []
    if end is None or end - i > 40 or tokens[i + 1].kind == "name" or tokens[i].text in ASSERTIONS:
        return []
    body = tokens[i:end]
    depth = 0
    for j, token in enumerate(body):
        depth += (token.text in OPEN) - (token.text in CLOSE)
        if depth == 0 and token.text in ("=", "+=", "-=", "*=", "|=", "&=", "/="):
            plain = all(t.text not in ("<", ">", "&", "*") or t.spaced for t in body[:j])
            names = any(a.kind == b.kind == "name" for a, b in zip(body[:j], body[1:j]))
            return [(i, end, ";")] if plain and not names else []
    call = len(body) > 2 and body[-1].text == ")" and any(t.text in (".", "->") for t in body)
    return (
        [(i, end, ";")]
        if call and not any(a.kind == b.kind == "name" for a, b in zip(body, body[1:]))
        else []
    )


# name, what it stands for, the function. Adding a rule is one row.
RULES = [
    ("comparison", "a boundary moved or a comparison turned", comparison),
    ("logic", "and for or", logic),
    ("clause", "a condition's clause dropped", dropped_clause),
    ("negation", "a negation dropped", negation),
    ("constant", "a constant off by one, or a quarter more", constant),
    ("arithmetic", "another operator", arithmetic),
    ("sign", "a sign dropped", sign),
    ("partner", "min for max, height for width, first for second", partner),
    ("saturation", "saturating against wrapping, rounding against truncating", saturation),
    ("axis", "the neighbouring axis", axis),
    ("arguments", "two arguments swapped", swapped_arguments),
    ("exit", "an early return or a passed-on error dropped", dropped_exit),
    ("statement", "an assignment or a call dropped", dropped_statement),
]


def excluded(tokens):
    """Indices of tokens inside assertions and calls for speed only, and of string literals."""
    out = set()
    for i, token in enumerate(tokens):
        inside = token.text in ASSERTIONS or token.text in SPEED_ONLY
        if inside and i + 1 < len(tokens) and tokens[i + 1].text == "(":
            end = closing(tokens, i + 1)
            out.update(range(i, (end or i) + 1))
        if token.kind == "string":
            out.add(i)
    return out


def mutants(source, python=False, lines=None):
    """All faults of a file, those that begin on one of `lines` (numbers from 1) if given."""
    tokens = tokenize(source, python)
    skip = excluded(tokens)
    found = []
    ends = [i for i, c in enumerate(source) if c == "\n"]
    line_of = lambda position: bisect.bisect_left(ends, position) + 1
    for i in range(len(tokens)):
        if i in skip or (lines is not None and line_of(tokens[i].start) not in lines):
            continue
        for name, _, function in RULES:
            planted = (
                function(tokens, i, source)
                if function is swapped_arguments
                else function(tokens, i)
            )
            for first, last, text in planted:
                start, end = tokens[first].start, tokens[last].end
                if source[start:end] != text:
                    found.append(Mutant(name, start, end, text))
    return list(dict.fromkeys(found))
