"""The native capsule (spec 7.3) as ctypes sees it: the frozen structs, producers and a consumer made
by hand, and a tensor of every kind there is.

The layout here is written down a second time on purpose.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
from dlpack_abi import capsule_pointer, new_capsule, rename_capsule

import hurray

NAME = "hurray_tensor"
USED = "used_hurray_tensor"
LIST_MAGIC = b"HRRYBUFS"
CONTEXT_MAGIC = b"HRRYCTXT"
ABI_VERSION = 4
READ_ONLY, STAGED = 1, 2

VECTORS = Path(__file__).parents[1] / "vectors"

# An address that belongs to nobody, so that touching it would end the process.
ELSEWHERE = 0x7F00_0000_0000

RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Record(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("byte_size", ctypes.c_uint64),
        ("alignment", ctypes.c_uint32),
        ("device_tag", ctypes.c_uint8),
        ("sync_mode", ctypes.c_uint8),
        ("memory_class", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("device_id", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    ]


class ListHead(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_char * 8),
        ("abi_version", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("length", ctypes.c_uint64),
        ("records", ctypes.POINTER(Record)),
        ("release", ctypes.c_void_p),
    ]


class ContextHead(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_char * 8),
        ("abi_version", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("descriptor", ctypes.c_void_p),
        ("descriptor_length", ctypes.c_uint64),
        ("release", ctypes.c_void_p),
    ]


def _python_function(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


get_context = _python_function("PyCapsule_GetContext", ctypes.c_void_p, ctypes.py_object)
set_context = _python_function(
    "PyCapsule_SetContext", ctypes.c_int, ctypes.py_object, ctypes.c_void_p
)


# ---- a consumer ----


class Reading:
    """What a capsule says; it is not consumed, and kept alive."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule
        self.list = ListHead.from_address(capsule_pointer(capsule))
        self.context = ContextHead.from_address(get_context(capsule))
        self.records = [
            Record.from_buffer_copy(self.list.records[i]) for i in range(self.list.length)
        ]

    @property
    def descriptor(self) -> bytes:
        return ctypes.string_at(self.context.descriptor, self.context.descriptor_length)

    @property
    def addresses(self) -> list[int | None]:
        return [record.data for record in self.records]


def addresses(tensor: Any) -> list[int | None]:
    """Where the buffers of anything with __hurray__ are."""
    return Reading(tensor.__hurray__()).addresses


def take(capsule: Any) -> tuple[int, int]:
    """Consumes a capsule as a C consumer does: list and context, which the caller must release."""
    pointers = capsule_pointer(capsule), get_context(capsule)
    rename_capsule(capsule, USED)
    return pointers


def release(pointers: tuple[int, int]) -> None:
    RELEASE(ListHead.from_address(pointers[0]).release)(pointers[0])
    RELEASE(ContextHead.from_address(pointers[1]).release)(pointers[1])


# ---- producers ----

# Structs that producers made, by address, with their producer. They stay for the whole run, so that
# a release called twice is counted and not a crash.
_exports: dict[int, tuple[Any, ...]] = {}


@RELEASE
def _count_release(address: int, exports: dict[int, tuple[Any, ...]] = _exports) -> None:
    exports[address][0].released += 1


# Capsules may outlive this module and its names, and a collector at the end of the interpreter would
# take the function from those that are left.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_count_release))


class Producer:
    """Hands out exactly the structs it is told to, valid or not, and counts their releases.

    `records` are (address, byte_size, alignment, device_tag, sync_mode, memory_class, flags,
    device_id). `list_fields` and `context_fields` override what the heads say.
    """

    def __init__(
        self,
        descriptor: bytes,
        records: list[tuple[Any, ...]],
        *,
        list_fields: dict[str, Any] | None = None,
        context_fields: dict[str, Any] | None = None,
        name: str = NAME,
    ) -> None:
        self.descriptor = descriptor
        self.records = records
        self.list_fields = list_fields or {}
        self.context_fields = context_fields or {}
        self.name = name
        self.released = 0
        self.capsules: list[Any] = []

    def __hurray__(self, stream: Any = None) -> Any:
        records = (Record * max(len(self.records), 1))(*self.records)
        data = ctypes.create_string_buffer(self.descriptor, max(len(self.descriptor), 1))
        release = ctypes.cast(_count_release, ctypes.c_void_p).value
        own_list = ListHead(
            LIST_MAGIC,
            ABI_VERSION,
            ctypes.sizeof(ListHead),
            len(self.records),
            ctypes.cast(records, ctypes.POINTER(Record)),
            release,
        )
        own_context = ContextHead(
            CONTEXT_MAGIC,
            ABI_VERSION,
            ctypes.sizeof(ContextHead),
            ctypes.addressof(data),
            len(self.descriptor),
            release,
        )
        for struct, fields in ((own_list, self.list_fields), (own_context, self.context_fields)):
            for field, value in fields.items():
                setattr(struct, field, value)
            _exports[ctypes.addressof(struct)] = (self, struct, records, data)
        capsule = new_capsule(ctypes.addressof(own_list), self.name)
        set_context(capsule, ctypes.addressof(own_context))
        self.capsules.append(capsule)
        return capsule


# ---- every kind of tensor ----


def memory(byte_size: int, alignment: int, seed: int = 0) -> np.ndarray:
    """`byte_size` bytes, all different from others, at an address with that alignment."""
    raw = np.random.default_rng(seed).integers(0, 256, byte_size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + byte_size]


class Kind:
    """A valid descriptor of the test vectors and buffers to go with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.encoded = (VECTORS / name).read_bytes()
        self.expected = hurray.Descriptor.decode(self.encoded, permissive=True)
        self.handles = self.expected.buffer_handles
        self.on_cpu = all(handle.device.kind == "cpu" for handle in self.handles)
        self.is_synced = all(handle.sync_mode == "producer_synced" for handle in self.handles)

    @property
    def is_readable(self) -> bool:
        return self.on_cpu and self.is_synced

    def producer(self, flags: int = 0) -> Producer:
        arrays = []
        records = []
        for number, handle in enumerate(self.handles):
            address = ELSEWHERE + number * 0x1_0000_0000
            if handle.byte_size == 0:
                address = None
            elif self.on_cpu or flags & STAGED:
                alignment = max(handle.alignment, 64)
                arrays.append(memory(handle.byte_size, alignment, number))
                address = arrays[-1].ctypes.data
            records.append(
                (
                    address,
                    handle.byte_size,
                    handle.alignment,
                    handle.device.tag,
                    ("producer_synced", "event", "consumer_stream").index(handle.sync_mode),
                    handle.device.memory_class_tag,
                    flags,
                    0 if self.on_cpu else 3,
                    0,
                )
            )
        producer = Producer(self.encoded, records)
        producer.arrays = arrays
        return producer

    def tensor(self, flags: int = 0) -> Any:
        return hurray.from_hurray(self.producer(flags))


def _is_tensor(name: str) -> bool:
    """Whether a vector is a valid descriptor that has buffers, which one computer can hold."""
    try:
        descriptor = hurray.Descriptor.decode((VECTORS / name).read_bytes(), permissive=True)
    except (ValueError, NotImplementedError):
        return False
    sizes = [handle.byte_size for handle in descriptor.buffer_handles]
    return bool(sizes) and sum(sizes) < 1 << 28


def _kinds() -> list[str]:
    """Valid vectors, and those that permissive readers accept: private and unknown layouts."""
    manifest = json.loads((VECTORS / "manifest.json").read_text())
    files = [entry["file"] for group in ("valid", "invalid") for entry in manifest[group]]
    return [name for name in files if _is_tensor(name)]


KINDS = {name: Kind(name) for name in _kinds()}
