"""multiprocessing: large tensors between processes of one program, through shared memory.

Tensors pickle as they are, and so pass every queue and pipe; but on its way the pickle is copied
half a dozen times, as it is for NumPy's arrays. Importing this module registers tensors with
multiprocessing: the sender then copies large ones once, into a segment of shared memory, which
becomes the receiver's own. Only what is sent after the import is: processes that are spawned need it
too, at the top of their main module.

A segment goes to one receiver. What nobody receives is freed when the program ends. Processes that
have no ancestor with this import in common need plain pickles, and so does another machine. On
systems without /dev/shm, and where it is full, tensors are pickled as always.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import secrets
from collections.abc import Sequence
from multiprocessing import reduction, resource_tracker
from typing import Any

from ._core import PAGE_ALIGNMENT, Tensor

__all__ = ["MIN_SHARED_SIZE"]

# Bytes below which pickles are faster than new mappings.
MIN_SHARED_SIZE = 1 << 20

_DIRECTORY = "/dev/shm"


def _reduce(tensor: Tensor) -> tuple[Any, ...] | str:
    """For pickles of multiprocessing what Tensor.__reduce_ex__ is for others."""
    if sum(handle.byte_size for handle in tensor.buffer_handles) >= MIN_SHARED_SIZE:
        views: list[memoryview] = []
        pickled = pickle.dumps(tensor, 5, buffer_callback=lambda b: views.append(memoryview(b)))
        with contextlib.suppress(OSError):  # full, or not there
            return _receive, (_new_segment(views), [_shape_of(view) for view in views], pickled)
    return tensor.__reduce_ex__(pickle.DEFAULT_PROTOCOL)


def _shape_of(view: memoryview) -> tuple[int, bool]:
    """What a view in the segment has to be like."""
    return view.nbytes, view.readonly


def _offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where each buffer begins, page after page; and the size of all."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // PAGE_ALIGNMENT) * PAGE_ALIGNMENT
    return offsets, end


def _new_segment(views: Sequence[memoryview]) -> str:
    """Its name; OSError, and nothing left behind, where there is no room."""
    name = f"hurray-{os.getpid()}-{secrets.token_hex(8)}"
    path = f"{_DIRECTORY}/{name}"
    offsets, size = _offsets([view.nbytes for view in views])
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.ftruncate(descriptor, size)
        for view, offset in zip(views, offsets, strict=True):
            _write(descriptor, view, offset)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)
    resource_tracker.register(f"/{name}", "shared_memory")
    return name


def _write(descriptor: int, view: memoryview, offset: int) -> None:
    """Written, not mapped: then a lack of room is an error, and no signal."""
    done = 0
    while done < view.nbytes:
        done += os.pwrite(descriptor, view[done:], offset + done)


def _receive(name: str, shapes: Sequence[tuple[int, bool]], pickled: bytes) -> Any:
    """The tensor over the segment, which has no name from now on and ends with its last user."""
    path = f"{_DIRECTORY}/{name}"
    offsets, size = _offsets([nbytes for nbytes, _ in shapes])
    descriptor = os.open(path, os.O_RDWR)
    try:
        memory = memoryview(mmap.mmap(descriptor, size))
    finally:
        os.close(descriptor)
    os.unlink(path)
    resource_tracker.unregister(f"/{name}", "shared_memory")
    buffers = []
    for offset, (nbytes, read_only) in zip(offsets, shapes, strict=True):
        view = memory[offset : offset + nbytes]
        buffers.append(view.toreadonly() if read_only else view)
    return pickle.loads(pickled, buffers=buffers)


if os.path.isdir(_DIRECTORY):
    # Processes to come have to share the tracker, which frees what nobody receives.
    resource_tracker.ensure_running()
    reduction.ForkingPickler.register(Tensor, _reduce)
