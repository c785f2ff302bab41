"""DLPack 1.3 as ctypes sees it: the structs, what is in a capsule, and producers made by hand.

The layout here is written down a second time on purpose. Tests compare it with what NumPy and
PyTorch hand out, and with what hurray does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

LEGACY = "dltensor"
VERSIONED = "dltensor_versioned"
EXCHANGE_API = "dlpack_exchange_api"

READ_ONLY = 1
IS_COPIED = 2

CPU = 1
CUDA = 2

# DLDataTypeCode
INT, UINT, FLOAT, OPAQUE, BFLOAT, COMPLEX, BOOL = range(7)
FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT8_E8M0FNU = 10, 12, 14

# What hurray exports, by the name of its dtype: (code, bits).
DTYPE_CODES = {
    "int8": (INT, 8),
    "int16": (INT, 16),
    "int32": (INT, 32),
    "int64": (INT, 64),
    "uint8": (UINT, 8),
    "uint16": (UINT, 16),
    "uint32": (UINT, 32),
    "uint64": (UINT, 64),
    "float16": (FLOAT, 16),
    "float32": (FLOAT, 32),
    "float64": (FLOAT, 64),
    "bfloat16": (BFLOAT, 16),
    "complex64": (COMPLEX, 64),
    "complex128": (COMPLEX, 128),
}


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class DLPackVersion(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


class ExchangeAPIStruct(ctypes.Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("prev_api", ctypes.c_void_p),
        ("managed_tensor_allocator", ctypes.c_void_p),
        ("managed_tensor_from_py_object_no_sync", ctypes.c_void_p),
        ("managed_tensor_to_py_object_no_sync", ctypes.c_void_p),
        ("dltensor_from_py_object_no_sync", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    ]


# Releases the GIL around the call, as a consumer in C++ may.
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

# Hold the GIL, and raise the Python exception that the function set.
SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ALLOCATOR = ctypes.PYFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(DLTensor),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
    ctypes.c_void_p,
)
FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
TO_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
VIEW_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(DLTensor))
CURRENT_STREAM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


def _python_function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's own, with the GIL held; nobody else sees these types."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


# A capsule keeps the address of its name, not a copy: only names in this table are used.
_names: dict[str, ctypes.Array[ctypes.c_char]] = {}
_get_name = _python_function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_set_name = _python_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
_get_pointer = _python_function(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)
_new = _python_function(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
drop_reference = _python_function("Py_DecRef", None, ctypes.c_void_p)


def _lasting_name(name: str | None) -> int | None:
    if name is None:
        return None
    buffer = _names.setdefault(name, ctypes.create_string_buffer(name.encode()))
    return ctypes.addressof(buffer)


def new_capsule(pointer: int, name: str | None) -> Any:
    """A capsule without a destructor."""
    return _new(pointer, _lasting_name(name), None)


def capsule_name(capsule: Any) -> str | None:
    name = _get_name(capsule)
    return None if name is None else name.decode()


def rename_capsule(capsule: Any, name: str | None) -> None:
    _set_name(capsule, _lasting_name(name))


def capsule_pointer(capsule: Any) -> int:
    return _get_pointer(capsule, _get_name(capsule))


def managed(capsule: Any) -> DLManagedTensor | DLManagedTensorVersioned:
    """The struct in a capsule of either kind, consumed or not; it keeps the capsule alive."""
    name = capsule_name(capsule)
    assert name is not None
    struct = DLManagedTensorVersioned if name.endswith(VERSIONED) else DLManagedTensor
    result = struct.from_address(capsule_pointer(capsule))
    result.capsule = capsule
    return result


def take(capsule: Any) -> int:
    """Consumes a capsule as a C consumer does; the caller now owes the struct its deleter."""
    pointer = capsule_pointer(capsule)
    rename_capsule(capsule, "used_" + str(capsule_name(capsule)))
    return pointer


def deleter_of(pointer: int, *, versioned: bool) -> Any:
    struct = DLManagedTensorVersioned if versioned else DLManagedTensor
    return DELETER(struct.from_address(pointer).deleter)


def data_pointer(producer: Any) -> int:
    """Where the elements of any DLPack producer begin."""
    capsule = producer.__dlpack__(max_version=(1, 3))
    tensor = managed(capsule).dl_tensor
    return (tensor.data or 0) + tensor.byte_offset


def exchange_api(type_: type) -> ExchangeAPIStruct:
    capsule = type_.__dlpack_c_exchange_api__
    return ExchangeAPIStruct.from_address(_get_pointer(capsule, EXCHANGE_API.encode()))


def aligned(shape: Any, dtype: Any = np.float32, *, off_by: int = 0) -> np.ndarray:
    """A zeroed NumPy array whose address is a multiple of 128, plus `off_by` bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    itemsize = np.dtype(dtype).itemsize
    raw = np.zeros(count * itemsize + 128 + off_by, np.uint8)
    start = -raw.ctypes.data % 128 + off_by
    return raw[start : start + count * itemsize].view(dtype).reshape(shape)


# Structs that producers made, by address, with what belongs to them. They stay for the whole run,
# so that a deleter called twice is counted and not a crash.
_exports: dict[int, tuple[Any, ...]] = {}


@DELETER
def _count_deletion(address: int) -> None:
    _exports[address][0].deleted += 1


class Producer:
    """Hands out exactly the struct it is told to, valid or not, and counts its deletions.

    `version` None makes legacy structs. `data` is an address, or an array to take it from. The
    capsules stay in `capsules`: dropping one frees nothing, `deleted` counts what a consumer did.
    """

    def __init__(
        self,
        data: Any,
        shape: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        *,
        dtype: tuple[int, int, int] = (FLOAT, 32, 1),
        device: tuple[int, int] = (CPU, 0),
        byte_offset: int = 0,
        version: tuple[int, int] | None = (1, 3),
        flags: int = 0,
        ndim: int | None = None,
        name: str | None = "",
        deleter: bool = True,
    ) -> None:
        self.keep = data
        if isinstance(data, np.ndarray):
            shape = data.shape if shape is None else shape
            data = data.ctypes.data
        shape = () if shape is None else shape
        self.data, self.shape, self.strides = data, list(shape), strides
        self.dtype, self.device, self.byte_offset = dtype, device, byte_offset
        self.version, self.flags = version, flags
        self.ndim = len(self.shape) if ndim is None else ndim
        self.name = (LEGACY if version is None else VERSIONED) if name == "" else name
        self.has_deleter = deleter
        self.deleted = 0
        self.capsules: list[Any] = []
        self.requests: list[dict[str, Any]] = []

    def struct(self) -> DLManagedTensor | DLManagedTensorVersioned:
        """A new struct; it lives until the end of the run."""
        shape = (ctypes.c_int64 * max(len(self.shape), 1))(*self.shape)
        strides = None
        if self.strides is not None:
            strides = (ctypes.c_int64 * max(len(self.strides), 1))(*self.strides)
        result: DLManagedTensor | DLManagedTensorVersioned
        if self.version is None:
            result = DLManagedTensor()
        else:
            result = DLManagedTensorVersioned(
                version=DLPackVersion(*self.version), flags=self.flags
            )
        result.deleter = (
            ctypes.cast(_count_deletion, ctypes.c_void_p).value if self.has_deleter else None
        )
        result.dl_tensor = DLTensor(
            data=self.data,
            device=DLDevice(*self.device),
            ndim=self.ndim,
            dtype=DLDataType(*self.dtype),
            shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
            strides=ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)),
            byte_offset=self.byte_offset,
        )
        _exports[ctypes.addressof(result)] = (self, result, shape, strides)
        return result

    def capsule(self) -> Any:
        capsule = new_capsule(ctypes.addressof(self.struct()), self.name)
        self.capsules.append(capsule)
        return capsule

    def __dlpack__(self, **request: Any) -> Any:
        self.requests.append(request)
        return self.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device
