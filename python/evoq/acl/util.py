"""Arrays as pointers."""

from __future__ import annotations

import numpy as np

from .._error import Error


class Pointer(int):
    """The address of an array's first element. It keeps the array, whose shape and type the
    address alone would not tell."""

    array: np.ndarray

    def __new__(cls, array: np.ndarray) -> Pointer:
        pointer = super().__new__(cls, array.ctypes.data)
        pointer.array = array
        return pointer


def numpy_to_ptr(array: np.ndarray) -> Pointer:
    """What execute and execute_async take as an input. The array must not change until they are
    done."""
    if not isinstance(array, np.ndarray):
        raise Error(f"numpy_to_ptr: {type(array).__name__} given, expected a numpy array")
    return Pointer(array)


def ptr_to_numpy(pointer: Pointer) -> np.ndarray:
    """The array of a pointer that numpy_to_ptr gave."""
    if not isinstance(pointer, Pointer):
        raise Error(f"{pointer!r} is no pointer of acl.util.numpy_to_ptr")
    return pointer.array
