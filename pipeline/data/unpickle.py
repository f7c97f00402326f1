"""A pickle reader that can build numbers, text, bytes, lists, dicts and plain numpy arrays, and call nothing.

The classes here stand in for the few globals that a pickled array mentions. They are classes with a `__setstate__`
and empty `__slots__`, so that no instruction of a pickle can change them, and numpy's own constructors, which trust
their input, are never reached.
"""

import io
import pickle
from typing import Any, NoReturn

import numpy as np

_DTYPES = {"u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f4", "f8"}


class _Dtype:
    """numpy.dtype of a plain number."""

    __slots__ = ("code", "order")

    def __init__(self, code: object, *_: object) -> None:
        if isinstance(code, bytes):
            code = code.decode("ascii")
        if not isinstance(code, str) or code.lstrip("<>=|") not in _DTYPES:
            raise pickle.UnpicklingError(f"an array of the type {code!r}")
        self.code = code.lstrip("<>=|")
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "=", "|"):
            raise pickle.UnpicklingError("an array of unknown byte order")
        self.order = order

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class _Array:
    """numpy.ndarray, and the function that numpy's pickles start an array with.

    Its state is (version, shape, dtype, whether in Fortran order, bytes).
    """

    __slots__ = ("value",)

    def __init__(self, *_: object) -> None:
        self.value: np.ndarray[Any, Any] = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, content = state
        self.value = _make_array(content, kind, shape, "F" if fortran else "C")


class _FromBuffer(_Array):
    """numpy's `_frombuffer`, which protocol 5 writes."""

    __slots__ = ()

    def __init__(self, content: object, kind: object, shape: object, order: object, *_: object) -> None:
        self.value = _make_array(content, kind, shape, "F" if order == "F" else "C")


class _Latin1:
    """_codecs.encode(text, "latin1"), by which Python 3 writes bytes for Python 2."""

    __slots__ = ()

    def __new__(cls, text: str, encoding: str) -> Any:
        if encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
        return text.encode("latin1")

    def __setstate__(self, state: object) -> NoReturn:
        raise pickle.UnpicklingError("a changed encoder")


def _make_array(content: object, kind: object, shape: object, order: Any) -> np.ndarray[Any, Any]:
    if not isinstance(kind, _Dtype) or not isinstance(content, bytes | bytearray) or not isinstance(shape, tuple):
        raise pickle.UnpicklingError("an array that is not plain numbers")
    return np.frombuffer(content, kind.dtype).reshape(shape, order=order)


_ADMITTED: dict[tuple[str, str], type] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _FromBuffer,
    ("numpy._core.numeric", "_frombuffer"): _FromBuffer,
    ("_codecs", "encode"): _Latin1,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"a call of {module}.{name}")
        return _ADMITTED[module, name]


def unpickle(content: bytes) -> dict[str, Any]:
    """The dict in a pickle, keys as text, arrays as numpy's; raises pickle.UnpicklingError on anything else.

    Python 2's byte strings stay bytes.
    """
    try:
        value = _Reader(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(value, dict):
            raise pickle.UnpicklingError(f"a {type(value).__name__} where a dict belongs")
        return {_text(key): item.value if isinstance(item, _Array) else item for key, item in value.items()}
    except pickle.UnpicklingError:
        raise
    except (MemoryError, Exception) as error:  # damaged pickles raise nearly anything
        raise pickle.UnpicklingError(f"damaged content ({type(error).__name__})") from None


def _text(key: object) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
