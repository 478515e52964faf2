"""Contexts and streams. evoq computes on the processor: there is one device, 0."""

from __future__ import annotations

from .._error import Error
from ._runtime import RUNTIME, Context, Stream

__all__ = [
    "create_context",
    "create_stream",
    "destroy_context",
    "destroy_stream",
    "get_device",
    "get_device_count",
    "reset_device",
    "set_device",
    "set_stream_priority",
    "synchronize_stream",
]


def get_device_count() -> int:
    return 1


def get_device() -> int:
    return 0


def set_device(device: int) -> int:
    if device != 0:
        raise Error(f"device {device}: there is one, 0")
    return 0


def reset_device(device: int) -> int:
    return set_device(device)


def create_context(device: int = 0) -> Context:
    set_device(device)
    return Context(device)


def destroy_context(context: Context) -> int:
    if not isinstance(context, Context):
        raise Error(f"{context!r} is no context of create_context")
    return 0


def create_stream() -> Stream:
    """Runs in one stream follow each other; those of several go on beside each other."""
    return RUNTIME.create_stream()


def set_stream_priority(stream: Stream, priority: int) -> int:
    """0 to 7, smaller numbers first (as in AscendCL); a stream begins with 0. It decides which
    waiting run begins next; what runs already goes on. Of equal ones the run that was asked for
    first begins first."""
    RUNTIME.set_priority(stream, priority)
    return 0


def synchronize_stream(stream: Stream) -> int:
    """Waits until the stream's runs are done."""
    RUNTIME.synchronize(stream)
    return 0


def destroy_stream(stream: Stream) -> int:
    """Waits for the stream's runs and gives it up."""
    RUNTIME.destroy_stream(stream)
    return 0
