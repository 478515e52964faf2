"""AscendCL's calls on evoq (docs/ascend.md): `import ascendctl as acl`, or `from evoq import acl`.

    acl.init()
    model = acl.mdl.load_from_file("resnet50.om")
    stream = acl.rt.create_stream()
    future = acl.mdl.execute_async(model, [acl.util.numpy_to_ptr(images)], stream)
    (scores,) = future.get()
    acl.mdl.unload(model)
    acl.finalize()

Values come back as they are, without a return code beside them; what is wrong raises evoq.Error.
"""

from __future__ import annotations

from typing import Any

from . import mdl, rt, util
from ._runtime import RUNTIME, Future

__all__ = ["Future", "finalize", "init", "mdl", "rt", "util"]


def init(config: Any = None) -> int:
    """Begins; `config` is accepted and changes nothing. Returns 0. Nothing else needs it."""
    return 0


def finalize() -> int:
    """Waits for all streams, then gives up every stream, context and model. Returns 0."""
    RUNTIME.clear()
    return 0
