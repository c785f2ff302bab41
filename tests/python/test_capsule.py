"""The native protocol (spec 7.3, 8.11) for dense tensors: __hurray__ and from_hurray."""

from __future__ import annotations

import builtins
import copy
import ctypes
import gc
import pathlib
import pickle
import struct
import subprocess
import sys
import threading

import capsule_abi
import leaks
import numpy as np
import pytest
from capsule_abi import NAME, USED, ContextHead, ListHead, Record, get_context, set_context
from dlpack_abi import Producer as DLPackProducer
from dlpack_abi import aligned, capsule_name, capsule_pointer, new_capsule, rename_capsule

import hurray
from hurray import ColMajorLayout, Descriptor, StridedLayout, Tensor, float32

DATA = bytes(range(48))
VECTORS = pathlib.Path(__file__).parent.parent / "vectors" / "valid"


def heads(capsule) -> tuple[ListHead, ContextHead]:
    """What a consumer that links nothing sees."""
    return (
        ListHead.from_address(capsule_pointer(capsule)),
        ContextHead.from_address(get_context(capsule)),
    )


def descriptor_bytes(context) -> bytes:
    return ctypes.string_at(context.descriptor, context.descriptor_length)


def address(t) -> int:
    return t.__array_interface__["data"][0]


# Everything a foreign producer made stays for the whole run, so that what is released twice is
# counted, and not a crash.
_made: dict[int, Foreign] = {}


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _released(head: int) -> None:
    _made[head].released.append(head)


class Foreign:
    """A producer that does not link libhurray; `changes` spoil what it hands out."""

    def __init__(self, descriptor: bytes, data: int, byte_size: int, **changes):
        def change(struct, prefix):
            for name, value in changes.items():
                if name.startswith(prefix):
                    setattr(struct, name.removeprefix(prefix), value)

        self.released: list[int] = []
        self.descriptor = ctypes.create_string_buffer(descriptor, len(descriptor))
        release = ctypes.cast(_released, ctypes.c_void_p).value
        self.record = Record(data=data, byte_size=byte_size, alignment=64)
        change(self.record, "record_")
        self.list = ListHead(b"HRRYBUFS", 4, ctypes.sizeof(ListHead), 1, None, release)
        self.list.records = ctypes.pointer(self.record)
        change(self.list, "list_")
        self.context = ContextHead(b"HRRYCTXT", 4, ctypes.sizeof(ContextHead), None, 0, release)
        self.context.descriptor = ctypes.addressof(self.descriptor)
        self.context.descriptor_length = len(descriptor)
        change(self.context, "context_")
        self.capsules: list = []
        _made[ctypes.addressof(self.list)] = self
        _made[ctypes.addressof(self.context)] = self

    def __hurray__(self, stream=None):
        self.capsules.append(new_capsule(ctypes.addressof(self.list), NAME))
        set_context(self.capsules[-1], ctypes.addressof(self.context))
        return self.capsules[-1]


class Gives:
    def __init__(self, thing):
        self.thing = thing

    def __hurray__(self, stream=None):
        return self.thing


MEMORY = np.zeros(4096, np.uint8)
ALIGNED = MEMORY[-MEMORY.ctypes.data % 64 :]


def foreign(**changes) -> Foreign:
    """float32 [3, 4] in memory of ours."""
    descriptor = Tensor(DATA, float32, (3, 4)).descriptor.encode()
    return Foreign(descriptor, ALIGNED.ctypes.data, 48, **changes)


def with_handle(descriptor: bytes, *, device: int, sync: int) -> bytes:
    """The one buffer of a descriptor that ends with its table, elsewhere and with a sync mode."""
    return descriptor[:-4] + bytes([device, sync, 0, 0])


def unsynced(mode: str, dtype=float32) -> Tensor:
    """A tensor on CUDA whose memory is not ready; nothing of it may be touched."""
    sync = ["producer_synced", "event", "consumer_stream"].index(mode)
    descriptor = with_handle(Tensor(DATA, dtype, (3, 4)).descriptor.encode(), device=1, sync=sync)
    data = 0x7F00_0000_0000
    producer = Foreign(descriptor, data, 48, record_device_tag=1, record_sync_mode=sync)
    return hurray.from_hurray(producer)


# ---- producer ----

TENSORS = {
    "row-major": lambda: Tensor(DATA, float32, (3, 4)),
    "column-major": lambda: Tensor(DATA, float32, (3, 4), layout=ColMajorLayout()),
    "strided": lambda: Tensor(DATA, float32, (2, 2), layout=StridedLayout((-3, 2)), byte_offset=12),
    "scalar": lambda: Tensor(DATA, hurray.complex128, ()),
    "empty": lambda: Tensor(b"", float32, (0, 4)),
    "dynamic": lambda: Tensor(DATA, float32, (None, 4)),
    "bool": lambda: Tensor(DATA, hurray.bool, (3, 5)),
    "bfloat16": lambda: Tensor(DATA, hurray.bfloat16, (3, 4)),
    "int4": lambda: Tensor(DATA, hurray.dtype.int4, (3, 4)),
    "float128": lambda: Tensor(DATA, hurray.dtype.float128, (3,)),
    "a view": lambda: Tensor(DATA, float32, (3, 4)).T,
    "cuda": lambda: hurray.from_dlpack(DLPackProducer(0x7F00_0000_0000, (4, 8), device=(2, 3))),
    "managed": lambda: hurray.from_dlpack(DLPackProducer(0x7F00_0000_0000, (4, 8), device=(13, 0))),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_there_and_back(kind):
    t = TENSORS[kind]()
    u = hurray.from_hurray(t)
    assert u is not t
    assert u.descriptor == t.descriptor
    assert (u.device, u.readonly) == (t.device, t.readonly)
    assert u.buffer_handles == t.buffer_handles
    if t.device.kind == "cpu":
        assert address(u.buffer(0)) == address(t.buffer(0))
    before = bytes(t.buffer(0)) if t.device.kind == "cpu" else None
    del t
    gc.collect()
    if before is not None:
        assert bytes(u.buffer(0)) == before


@pytest.mark.parametrize("kind", TENSORS)
def test_the_capsule_can_be_read_without_linking(kind):
    t = TENSORS[kind]()
    capsule = t.__hurray__()
    assert capsule_name(capsule) == NAME
    list_, context = heads(capsule)
    assert (list_.magic, list_.abi_version) == (b"HRRYBUFS", 4)
    assert (context.magic, context.abi_version) == (b"HRRYCTXT", 4)
    assert list_.struct_size >= ctypes.sizeof(ListHead)
    assert context.struct_size >= ctypes.sizeof(ContextHead)
    assert descriptor_bytes(context) == t.descriptor.encode()
    assert list_.length == t.buffer_count
    record, (handle,) = list_.records[0], t.buffer_handles
    assert (record.byte_size, record.alignment) == (handle.byte_size, handle.alignment)
    assert (record.device_tag, record.memory_class) == (t.device.tag, t.device.memory_class_tag)
    assert record.device_id == t.device.device_id
    assert (record.sync_mode, record.reserved) == (0, 0)


def test_each_call_makes_a_capsule_and_any_stream_will_do():
    t = TENSORS["row-major"]()
    capsules = [t.__hurray__(), t.__hurray__(None), t.__hurray__(7), t.__hurray__(stream=1)]
    assert len({capsule_pointer(c) for c in capsules}) == 4
    with pytest.raises(TypeError):
        t.__hurray__(1, 2)


def test_a_read_only_tensor_stays_one():
    view = memoryview(ALIGNED)[:64].toreadonly()
    t = hurray.asarray(view, copy=False)
    assert hurray.from_hurray(t).readonly


def test_a_declared_placement_is_not_handed_over():
    with pytest.raises(hurray.UnsupportedError, match="declares device cuda"):
        Tensor(DATA, float32, (3, 4), hurray.device.cuda).__hurray__()


def test_a_capsule_that_nobody_consumes_frees_itself():
    def make():
        Tensor(bytes(1 << 16), hurray.uint8, (1 << 16,)).__hurray__()

    leaks.check(make, [], repetitions=20_000)


def test_exchanges_leak_nothing():
    t = TENSORS["strided"]()
    leaks.check(lambda: hurray.from_hurray(t), [t, t.device], repetitions=100_000)


def test_capsules_at_the_end_of_the_interpreter():
    code = (
        "import sys, hurray\n"
        "t = hurray.zeros(10)\n"
        "kept = [t.__hurray__() for _ in range(3)]\n"
        "sys.kept = [hurray.from_hurray(t), t.__hurray__()]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_one_capsule_is_consumed_by_one_of_8_threads():
    t = TENSORS["row-major"]()
    for _ in range(50):
        capsule = t.__hurray__()
        results = []
        start = threading.Barrier(8)

        def consume(start=start, results=results, once=Gives(capsule)):  # noqa: B008
            start.wait()
            try:
                results.append(hurray.from_hurray(once))
            except hurray.BufferError:
                results.append(None)

        threads = [threading.Thread(target=consume) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(result is not None for result in results) == 1


# ---- consumer ----


def test_a_producer_that_links_nothing():
    producer = foreign()
    ALIGNED[:48] = np.arange(48)
    t = hurray.from_hurray(producer)
    assert capsule_name(producer.capsules[0]) == USED
    assert (t.shape, t.dtype) == ((3, 4), float32)
    assert address(t) == ALIGNED.ctypes.data
    view = t.T
    del t
    gc.collect()
    assert producer.released == []
    assert bytes(view.buffer(0)) == bytes(range(48))
    del view
    gc.collect()
    assert sorted(producer.released) == sorted(
        [ctypes.addressof(producer.list), ctypes.addressof(producer.context)]
    )


@pytest.mark.parametrize(
    ("changes", "exception", "named"),
    [
        ({"list_magic": b"OTHERLIB"}, hurray.BufferError, "another implementation"),
        ({"context_magic": b"OTHERLIB"}, hurray.BufferError, "another implementation"),
        ({"list_abi_version": 3}, hurray.UnsupportedError, "ABI version 3"),
        ({"context_abi_version": 5}, hurray.UnsupportedError, "ABI version 5"),
        ({"list_length": 0}, hurray.InvalidDescriptorError, "0 buffers"),
        ({"list_length": 2}, hurray.InvalidDescriptorError, "2 buffers"),
        ({"record_byte_size": 47}, hurray.InvalidDescriptorError, "47 bytes"),
        ({"record_data": None}, hurray.BufferError, "data"),
        ({"list_release": None}, hurray.BufferError, "release"),
        ({"context_descriptor_length": 60}, hurray.InvalidDescriptorError, "60"),
        ({"context_descriptor_length": 0}, hurray.InvalidDescriptorError, "bytes"),
    ],
    ids=repr,
)
def test_what_cannot_be_taken_in(changes, exception, named):
    producer = foreign(**changes)
    with pytest.raises(exception, match=named):
        hurray.from_hurray(producer)
    assert producer.released == []
    assert capsule_name(producer.capsules[0]) == NAME  # whoever made it still owns it


def test_buffer_handles_and_descriptors_hold_no_memory():
    producer = foreign()
    t = hurray.from_hurray(producer)
    handles, descriptor = t.buffer_handles, t.descriptor
    del t
    gc.collect()
    assert len(producer.released) == 2
    assert handles[0].byte_size == 48
    assert descriptor.buffer_handles == handles


def test_descriptors_of_bad_capsules():
    good = Tensor(DATA, float32, (3, 4)).descriptor.encode()
    for bad in (b"NOPE" + good[4:], good[:4] + b"\2" + good[5:]):  # its magic, its version
        with pytest.raises(hurray.InvalidDescriptorError):
            hurray.from_hurray(Foreign(bad, ALIGNED.ctypes.data, 48))


def test_a_consumed_capsule():
    capsule = TENSORS["row-major"]().__hurray__()
    hurray.from_hurray(Gives(capsule))
    with pytest.raises(hurray.BufferError, match="consumed"):
        hurray.from_hurray(Gives(capsule))


@pytest.mark.parametrize("name", ["dltensor", None, "hurray"])
def test_a_capsule_of_another_name(name):
    capsule = TENSORS["row-major"]().__hurray__()
    rename_capsule(capsule, name)
    with pytest.raises(hurray.BufferError, match=NAME):
        hurray.from_hurray(Gives(capsule))
    rename_capsule(capsule, NAME)


def test_a_capsule_without_a_context():
    producer = foreign()
    capsule = new_capsule(ctypes.addressof(producer.list), NAME)
    with pytest.raises(hurray.BufferError, match="context"):
        hurray.from_hurray(Gives(capsule))


@pytest.mark.parametrize("thing", [None, 3, b"hurray_tensor"], ids=repr)
def test_what_is_no_capsule(thing):
    with pytest.raises(hurray.BufferError, match="expected a capsule"):
        hurray.from_hurray(Gives(thing))


@pytest.mark.parametrize("thing", [None, 3, np.zeros(3), "text"], ids=repr)
def test_what_has_no_such_method(thing):
    with pytest.raises(TypeError, match="__hurray__"):
        hurray.from_hurray(thing)


def test_a_producers_own_exception_comes_through():
    class Broken:
        def __hurray__(self):
            raise ZeroDivisionError("of its own")

    with pytest.raises(ZeroDivisionError, match="of its own"):
        hurray.from_hurray(Broken())


# ---- asarray ----


def test_asarray_takes_the_native_protocol():
    t = TENSORS["int4"]()
    assert hurray.asarray(Gives(t.__hurray__())).descriptor == t.descriptor
    shared = hurray.asarray(Gives(t.__hurray__()), copy=False)
    assert address(shared.buffer(0)) == address(t.buffer(0))
    copied = hurray.asarray(Gives(t.__hurray__()), copy=True)
    assert address(copied.buffer(0)) != address(t.buffer(0))
    t = TENSORS["row-major"]()
    assert hurray.asarray(Gives(t.__hurray__()), dtype=hurray.float64).dtype is hurray.float64


def test_asarray_takes_it_first_and_others_where_it_is_foreign():
    class Both(Gives):
        def __dlpack__(self, **keywords):
            return hurray.ones(2).__dlpack__(**keywords)

        def __dlpack_device__(self):
            return (1, 0)

    t = TENSORS["bool"]()
    assert hurray.asarray(Both(t.__hurray__())).dtype is hurray.bool
    for changes in ({"list_magic": b"OTHERLIB"}, {"list_abi_version": 3}):
        capsule = foreign(**changes).__hurray__()
        assert np.asarray(hurray.asarray(Both(capsule))).tolist() == [1, 1]
        with pytest.raises((hurray.BufferError, hurray.UnsupportedError)):
            hurray.asarray(Gives(capsule))


# ---- memory that is not ready ----

BYTES = {
    "__array__": lambda t: t.__array__(),
    "to_numpy": lambda t: t.to_numpy(),
    "memoryview": memoryview,
    "numpy.asarray": np.asarray,
    "asarray copy": lambda t: hurray.asarray(t, copy=True),
    "asarray cast": lambda t: hurray.asarray(t, dtype=hurray.float64),
    "the constructor": lambda t: Tensor(t, hurray.uint8, (48,)),
    "bytes": bytes,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "pickle in band": lambda t: pickle.dumps(t, 2),
    "to_layout": lambda t: t.to_layout(hurray.StridedLayout((1,) * t.ndim)),
    "compute": hurray.Statistics.compute,
    "from_numpy of it": lambda t: hurray.from_numpy(np.asarray(t)),
    "from_dlpack": hurray.from_dlpack,
    "numpy.from_dlpack": np.from_dlpack,
}


@pytest.mark.parametrize("handover", BYTES)
@pytest.mark.parametrize("mode", ["event", "consumer_stream"])
def test_every_path_to_its_bytes_names_the_mode(mode, handover):
    t = unsynced(mode)
    for view in (t, t.T, t.buffer(0)):
        with pytest.raises(hurray.UnsupportedError, match=mode):
            BYTES[handover](view)
        assert not hasattr(view, "__array_interface__")


@pytest.mark.parametrize("mode", ["event", "consumer_stream"])
@pytest.mark.parametrize("file", ["csr", "csf", "q_per_block", "morton"])
def test_no_layout_is_a_way_around_that(mode, file):
    """All buffers are elsewhere, at addresses where nothing is, and not ready."""
    sync = ["producer_synced", "event", "consumer_stream"].index(mode)
    encoded = bytearray((VECTORS / f"{file}.bin").read_bytes())
    records = []
    for handle in Descriptor.decode(encoded).buffer_handles:
        table = struct.pack("<QI4B", handle.byte_size, handle.alignment, 0, 0, 0, 0)
        at = encoded.index(table)
        encoded[at : at + 16] = table[:12] + bytes([1, sync, 0, 0])
        records.append((0x7F00_0000_0000, handle.byte_size, handle.alignment, 1, sync, 0, 0, 0))
    t = hurray.from_hurray(capsule_abi.Producer(bytes(encoded), records))
    for handover in (
        *(copy.deepcopy, pickle.dumps, hurray.Statistics.compute),
        lambda t: t.verify(),
        lambda t: t.to_layout(hurray.RowMajorLayout()),
        lambda t: bytes(t.buffer(t.buffer_count - 1)),
        lambda t: np.asarray(t.buffer(0)),
    ):
        with pytest.raises(hurray.UnsupportedError, match=mode):
            handover(t)
    assert mode in repr(t.buffer_handles)
    assert repr(t)
    assert hurray.from_hurray(t).descriptor == t.descriptor


@pytest.mark.parametrize("mode", ["event", "consumer_stream"])
@pytest.mark.parametrize("keywords", [{}, {"max_version": (1, 0)}, {"copy": True}], ids=repr)
def test_dlpack_refuses_what_is_not_ready(mode, keywords):
    with pytest.raises(hurray.UnsupportedError, match=mode) as caught:
        unsynced(mode).__dlpack__(**keywords)
    assert isinstance(caught.value, builtins.BufferError)


@pytest.mark.parametrize("mode", ["event", "consumer_stream"])
def test_what_is_not_ready_is_described_and_handed_on(mode):
    t = unsynced(mode)
    assert t.buffer_handles[0].sync_mode == mode
    assert t.device == hurray.device.cuda
    assert (t.shape, t.nbytes, t.strides) == ((3, 4), 48, (4, 1))
    assert "shape=(3, 4)" in repr(t)
    assert Descriptor.decode(t.descriptor.encode()) == t.descriptor
    again = hurray.from_hurray(t)
    assert again.descriptor == t.descriptor
    capsule = t.__hurray__()
    assert heads(capsule)[0].records[0].data == 0x7F00_0000_0000


# ---- what has no classes here ----


@pytest.mark.parametrize(
    "file", ["tiled", "morton", "hilbert_2d", "ext_nibble", "q_per_tensor", "stats_all", "shard"]
)
def test_tensors_that_python_cannot_make_are_carried(file):
    data = (VECTORS / f"{file}.bin").read_bytes()
    (handle,) = Descriptor.decode(data).buffer_handles
    memory = aligned(handle.byte_size, np.uint8)
    assert memory.ctypes.data % handle.alignment == 0
    producer = Foreign(
        data, memory.ctypes.data, handle.byte_size, record_alignment=handle.alignment
    )
    t = hurray.from_hurray(producer)
    assert t.descriptor.encode() == data
    assert repr(t).startswith("hurray.Tensor(")
    assert t.buffer(0).shape == (handle.byte_size,)
    assert hurray.from_hurray(t).descriptor == t.descriptor
    for name in ("quantization", "statistics", "shard", "extension_type"):
        try:
            expected = getattr(t.descriptor, name)
        except hurray.UnsupportedError:
            with pytest.raises(hurray.UnsupportedError, match=name.split("_")[0]):
                getattr(t, name)
        else:
            assert getattr(t, name) == expected
