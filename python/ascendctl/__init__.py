"""The module of Ascend's guides, on evoq: `import ascendctl as acl` (docs/ascend.md)."""

from evoq.acl import Future, finalize, init, mdl, rt, util

__all__ = ["Future", "finalize", "init", "mdl", "rt", "util"]
