"""Comparing two runners by rounds in which each ran once: a clock that changes in between changes
both."""

import math
import statistics


def ratios(rounds, a, b):
    """a's time over b's, of each round; [] where one of them has none."""
    return [x / y for x, y in zip(rounds.get(a, []), rounds.get(b, []))]


def paired(rounds, a, b):
    """The median over rounds of a's time over b's, or None."""
    found = ratios(rounds, a, b)
    return statistics.median(found) if found else None


def paired_interval(rounds, a, b):
    """A 95% interval of that median, by the ranks that a fair coin keeps it between; (None, None)
    below six rounds."""
    found = sorted(ratios(rounds, a, b))
    # outside: ranks on each side that the interval leaves out
    n, below, outside = len(found), 0.0, 0
    while n and below + math.comb(n, outside) / 2**n <= 0.025:
        below += math.comb(n, outside) / 2**n
        outside += 1
    return (found[outside - 1], found[n - outside]) if outside > 0 else (None, None)
