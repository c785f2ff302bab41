"""The native protocol (spec 7.3, 8.11): tensors of every kind through capsules, both ways."""

from __future__ import annotations

import contextlib
import copy as copy_module
import ctypes
import gc
import pickle
import shutil
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path

import capsule_abi
import leaks
import numpy as np
import pytest
from capsule_abi import ELSEWHERE, KINDS, NAME, READ_ONLY, STAGED, USED, Producer, Reading
from dlpack_abi import CUDA, aligned, capsule_name, new_capsule
from dlpack_abi import Producer as DLPackProducer
from test_devices import FakeCuPy
from test_lifetime import (
    SUBINTERPRETERS,
    in_threads,
    needs_subinterpreters,
    run_script,
)

import hurray

COUNT = 1000
FLOATS = KINDS["valid/type_float32.bin"]


class Gives:
    """Hands out whatever it is told to."""

    def __init__(self, result):
        self.result = result

    def __hurray__(self, stream=None):
        return self.result


def numpy_array() -> np.ndarray:
    array = aligned((COUNT,))
    array[:] = np.arange(COUNT)
    return array


# ---- every kind of tensor ----


@pytest.mark.parametrize("name", KINDS)
def test_everything_arrives(name):
    kind = KINDS[name]
    producer = kind.producer()
    t = hurray.from_hurray(producer)
    assert t.descriptor == kind.expected
    assert t.buffer_count == len(kind.handles)
    assert not t.readonly
    reading = Reading(t.__hurray__())
    assert reading.addresses == [record[0] for record in producer.records]
    assert [record.device_id for record in reading.records] == [r[7] for r in producer.records]
    assert hurray.Descriptor.decode(reading.descriptor, permissive=True) == kind.expected


@pytest.mark.parametrize("name", KINDS)
def test_everything_is_handed_on(name):
    producer = KINDS[name].producer()
    t = hurray.from_hurray(producer)
    u = hurray.from_hurray(t)
    assert u is not t
    assert u.descriptor == t.descriptor
    assert u.device == t.device
    assert capsule_abi.addresses(u) == capsule_abi.addresses(t)
    del t
    gc.collect()
    assert producer.released == 0
    del u
    gc.collect()
    assert producer.released == 2


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.is_readable])
def test_bytes_are_the_producers(name):
    producer = KINDS[name].producer()
    u = hurray.from_hurray(hurray.from_hurray(producer))
    arrays = iter(producer.arrays)
    for i, handle in enumerate(u.buffer_handles):
        if handle.byte_size == 0:
            continue
        array, seen = next(arrays), np.asarray(u.buffer(i))
        assert seen.ctypes.data == array.ctypes.data
        array[-1] ^= 0xFF
        assert seen[-1] == array[-1]
        seen[0] ^= 0xFF
        assert seen[0] == array[0]


@pytest.mark.parametrize("name", KINDS)
def test_read_only_memory_stays_so(name):
    t = KINDS[name].tensor(READ_ONLY)
    assert t.readonly
    u = hurray.from_hurray(t)
    assert u.readonly
    assert all(record.flags == READ_ONLY for record in Reading(u.__hurray__()).records)


@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.uint16, np.complex64, np.bool_])
def test_tensors_over_numpy(dtype):
    array = aligned((4, 6), dtype)
    t = hurray.from_numpy(array)
    u = hurray.from_hurray(t)
    assert u.descriptor == t.descriptor
    assert capsule_abi.addresses(u) == capsule_abi.addresses(t)
    assert np.array_equal(np.asarray(u), array)


@pytest.mark.parametrize("view", [lambda t: t.T, lambda t: t.buffer(0)], ids=["T", "buffer"])
def test_views(view):
    v = view(hurray.from_numpy(aligned((4, 6))))
    assert hurray.from_hurray(v).descriptor == v.descriptor


@pytest.mark.parametrize("number", [2, 3, 13, 10, 11, 8, 7, 15, 16, 14, 4])
def test_device_tensors_from_dlpack(number):
    t = hurray.from_dlpack(FakeCuPy((number, 1)))
    u = hurray.from_hurray(t)
    assert u.device == t.device
    assert u.device.device_id == 1
    assert capsule_abi.addresses(u) == [ELSEWHERE]
    assert u.__dlpack_device__() == (number, 1)


def private_layout():
    layout = hurray.PrivateExtensionLayout(0xF1, 7, b"xy")
    return hurray.Tensor(bytes(16), hurray.float32, [4], layout=layout)


def private_type():
    dtype, described = hurray.Dtype.from_tag(0xF2), hurray.ExtensionType(bit_width=24)
    return hurray.Tensor(bytes(12), dtype, [4], extension_type=described)


def sparse():
    pointers = np.array([0, 1, 3], np.uint64).tobytes()
    columns = np.array([1, 0, 2], np.uint64).tobytes()
    return hurray.Tensor(
        bytes(12),
        hurray.float32,
        [2, 3],
        layout=hurray.CsrLayout(3),
        aux_buffers=[columns, pointers],
    )


@pytest.mark.parametrize("make", [private_layout, private_type, sparse])
def test_tensors_that_were_constructed(make):
    t = make()
    u = hurray.from_hurray(t)
    assert u.descriptor == t.descriptor
    assert u.layout == t.layout
    assert u.extension_type == t.extension_type
    assert capsule_abi.addresses(u) == capsule_abi.addresses(t)
    assert pickle.loads(pickle.dumps(t)).descriptor == t.descriptor
    assert copy_module.deepcopy(t).extension_type == t.extension_type


# ---- staged tensors: spec 8.3 ----


def test_a_declared_placement_hands_out_no_pointer():
    t = hurray.Tensor(bytes(16), hurray.float32, [4], hurray.Device("cuda", 1))
    with pytest.raises(hurray.UnsupportedError, match=r"cuda.*host memory"):
        t.__hurray__()
    with pytest.raises(hurray.UnsupportedError, match=r"cuda.*host memory"):
        hurray.from_hurray(t)


def test_a_declared_placement_of_a_producer_is_remembered():
    kind = KINDS["valid/rocm_peer.bin"]
    t = kind.tensor(STAGED)
    assert t.device == kind.handles[0].device.__class__("rocm", 3, "peer")
    with pytest.raises(hurray.UnsupportedError, match=r"rocm.*host memory"):
        t.__hurray__()


# ---- the method ----


def test_each_capsule_is_a_fresh_one():
    t = hurray.zeros([3])
    capsules = [t.__hurray__() for _ in range(3)]
    assert len({id(capsule) for capsule in capsules}) == 3
    assert [capsule_name(capsule) for capsule in capsules] == [NAME] * 3
    for capsule in capsules:
        assert hurray.from_hurray(Gives(capsule)).shape == (3,)


@pytest.mark.parametrize("stream", [None, 0, -1, 1, 2**63])
def test_streams(stream):
    t = hurray.zeros([3])
    assert capsule_name(t.__hurray__(stream)) == NAME
    assert capsule_name(t.__hurray__(stream=stream)) == NAME


@pytest.mark.parametrize("stream", ["main", 1.5, object()])
def test_what_is_no_stream(stream):
    with pytest.raises(TypeError, match="stream"):
        hurray.zeros([3]).__hurray__(stream)


def test_the_head_is_the_frozen_one():
    reading = Reading(hurray.zeros([3]).__hurray__())
    assert reading.list.magic == capsule_abi.LIST_MAGIC
    assert reading.context.magic == capsule_abi.CONTEXT_MAGIC
    assert reading.list.abi_version == reading.context.abi_version == 4
    assert reading.list.struct_size >= ctypes.sizeof(capsule_abi.ListHead)
    assert reading.context.struct_size >= ctypes.sizeof(capsule_abi.ContextHead)
    assert ctypes.sizeof(capsule_abi.Record) == 32


@pytest.mark.parametrize(
    "thing", [None, 3, "text", [1.0], np.zeros(3), new_capsule(1, NAME), hurray.Tensor]
)
def test_objects_without_the_method(thing):
    with pytest.raises(TypeError):
        hurray.from_hurray(thing)


def test_the_method_of_an_instance():
    from types import SimpleNamespace

    t = hurray.zeros([3])
    assert hurray.from_hurray(SimpleNamespace(__hurray__=t.__hurray__)).shape == (3,)
    assert hurray.from_hurray(obj=t).shape == (3,)


def test_exceptions_of_the_producer_pass_through():
    class Broken:
        def __hurray__(self, stream=None):
            raise KeyError("mine")

    class BrokenLookup:
        @property
        def __hurray__(self):
            raise OSError("mine")

    with pytest.raises(KeyError, match="mine"):
        hurray.from_hurray(Broken())
    with pytest.raises(OSError, match="mine"):
        hurray.from_hurray(BrokenLookup())


def test_composites_have_none():
    composite = getattr(hurray, "Composite", None)
    assert composite is None or not hasattr(composite, "__hurray__")


# ---- names ----


def test_a_capsule_is_renamed():
    producer = FLOATS.producer()
    hurray.from_hurray(producer)
    assert capsule_name(producer.capsules[0]) == USED
    assert producer.released == 2


def test_a_capsule_is_consumed_once():
    capsule = hurray.zeros([3]).__hurray__()
    t = hurray.from_hurray(Gives(capsule))
    with pytest.raises(hurray.BufferError, match="consumed already"):
        hurray.from_hurray(Gives(capsule))
    assert t.shape == (3,)
    del capsule, t
    gc.collect()


@pytest.mark.parametrize("name", ["dltensor", "hurray", "hurray_tensor2", "", None, USED])
def test_capsules_of_other_names(name):
    producer = FLOATS.producer()
    producer.name = name
    with pytest.raises(hurray.BufferError):
        hurray.from_hurray(producer)
    assert producer.released == 0
    assert capsule_name(producer.capsules[0]) == name


@pytest.mark.parametrize("result", [None, 3, "hurray_tensor", object()])
def test_what_is_no_capsule(result):
    with pytest.raises(hurray.BufferError, match="expected a capsule"):
        hurray.from_hurray(Gives(result))


# ---- what is in them ----


def refused(exception: type[Exception], match: str | None, producer: Producer) -> None:
    """The capsule stays the producer's, under the name that it had."""
    for _ in range(2):
        with pytest.raises(exception, match=match):
            hurray.from_hurray(producer)
        assert capsule_name(producer.capsules[-1]) == NAME
    assert producer.released == 0


def floats(**overrides) -> Producer:
    producer = FLOATS.producer()
    vars(producer).update(overrides)
    return producer


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"HRRY"])
@pytest.mark.parametrize("has_context", [False, True])
def test_foreign_structs_under_our_name(filler, has_context):
    """Nothing is read but the magic: what follows would lead into nowhere."""
    struct = ctypes.create_string_buffer(filler * (256 // len(filler)), 256)
    capsule = new_capsule(ctypes.addressof(struct), NAME)
    if has_context:
        capsule_abi.set_context(capsule, ctypes.addressof(struct))
    with pytest.raises(hurray.BufferError, match="another implementation"):
        hurray.from_hurray(Gives(capsule))
    assert capsule_name(capsule) == NAME
    assert struct.raw == filler * (256 // len(filler))


def test_no_more_than_the_magic_of_a_foreign_struct_is_read():
    """Eight bytes at the very end of a mapping."""
    import mmap

    mapped = mmap.mmap(-1, mmap.PAGESIZE)
    last = np.frombuffer(mapped, np.uint8)[-8:]
    capsule = new_capsule(last.ctypes.data, NAME)
    with pytest.raises(hurray.BufferError, match="another implementation"):
        hurray.from_hurray(Gives(capsule))


@pytest.mark.parametrize("head", ["list_fields", "context_fields"])
def test_a_wrong_magic(head):
    fields = {"magic": b"HRRYBUFX", "abi_version": 9, "struct_size": 0, "release": None}
    refused(hurray.BufferError, "another implementation", floats(**{head: fields}))


@pytest.mark.parametrize("version", [0, 1, 3, 5, 2**32 - 1])
@pytest.mark.parametrize("head", ["list_fields", "context_fields"])
def test_another_abi_version(head, version):
    """Whatever else is in there is not looked at."""
    fields = {"abi_version": version, "struct_size": 0, "release": None}
    refused(hurray.UnsupportedError, f"ABI version {version}", floats(**{head: fields}))


@pytest.mark.parametrize("head", ["list_fields", "context_fields"])
@pytest.mark.parametrize(
    ("fields", "match"),
    [({"struct_size": 16}, "struct_size 16"), ({"release": None}, "release")],
    ids=["struct_size", "release"],
)
def test_broken_heads(head, fields, match):
    refused(hurray.BufferError, match, floats(**{head: fields}))


@pytest.mark.parametrize("head", ["list_fields", "context_fields"])
def test_larger_structs_are_newer_ones(head):
    assert hurray.from_hurray(floats(**{head: {"struct_size": 4096}})).shape == (1, 4)


def test_no_context():
    producer = FLOATS.producer()
    capsule = producer.__hurray__()
    capsule_abi.set_context(capsule, None)
    with pytest.raises(hurray.BufferError, match="context"):
        hurray.from_hurray(Gives(capsule))
    assert capsule_name(capsule) == NAME


def test_no_records():
    refused(hurray.BufferError, "records", floats(list_fields={"records": None}))


@pytest.mark.parametrize("length", [0, 2, 255, 2**64 - 1])
def test_another_number_of_buffers(length):
    producer = floats(list_fields={"length": length})
    refused(hurray.InvalidDescriptorError, f"holds {length} buffers", producer)


@pytest.mark.parametrize(
    ("at", "value"),
    [(1, 12), (1, 20), (1, 2**64 - 1), (2, 128), (2, 32), (3, 1), (4, 1), (5, 1)],
)
def test_records_that_the_descriptor_does_not_describe(at, value):
    (record,) = FLOATS.producer().records
    record = (*record[:at], value, *record[at + 1 :])
    refused(hurray.InvalidDescriptorError, "not what the descriptor says", floats(records=[record]))


def test_an_address_that_breaks_its_promise():
    (record,) = FLOATS.producer().records
    producer = floats(records=[(record[0] + 4, *record[1:])])
    refused(hurray.InvalidDescriptorError, "align", producer)


def test_an_address_that_is_null():
    (record,) = FLOATS.producer().records
    refused(hurray.BufferError, "NULL", floats(records=[(None, *record[1:])]))


@pytest.mark.parametrize("cut", [0, 3, 14, 52])
def test_descriptors_cut_short(cut):
    refused(hurray.InvalidDescriptorError, None, floats(descriptor=FLOATS.encoded[:cut]))


def test_descriptors_of_other_magic_and_version():
    """These are faults of a descriptor, not of the capsule."""
    encoded = bytearray(FLOATS.encoded)
    encoded[0] ^= 1
    refused(hurray.InvalidDescriptorError, "magic", floats(descriptor=bytes(encoded)))
    encoded = bytearray(FLOATS.encoded)
    encoded[4] = 9
    refused(hurray.InvalidDescriptorError, "version", floats(descriptor=bytes(encoded)))


@pytest.mark.parametrize("bit", range(0, len(FLOATS.encoded) * 8, 3))
def test_descriptors_with_a_wrong_bit(bit):
    encoded = bytearray(FLOATS.encoded)
    encoded[bit // 8] ^= 1 << bit % 8
    producer = floats(descriptor=bytes(encoded))
    try:
        t = hurray.from_hurray(producer)
    except (hurray.InvalidDescriptorError, hurray.BufferError, hurray.UnsupportedError):
        assert capsule_name(producer.capsules[-1]) == NAME
        assert producer.released == 0
    else:
        assert t.buffer_handles[0].byte_size == 16
        del t
        assert producer.released == 2


@pytest.mark.parametrize("name", ["head_group", "head_overlay", "head_partition"])
def test_the_head_of_a_composite_is_no_tensor(name):
    encoded = (capsule_abi.VECTORS / "valid" / f"{name}.bin").read_bytes()
    refused(hurray.UnsupportedError, "no tensor", Producer(encoded, []))


# ---- asarray ----


def test_asarray_takes_the_protocol_first():
    class Everything(Gives):
        def __dlpack__(self, **kwargs):
            raise AssertionError("not called")

        def __array__(self, dtype=None, copy=None):
            raise AssertionError("not called")

    t = hurray.from_numpy(numpy_array())
    u = hurray.asarray(Everything(t.__hurray__()))
    assert capsule_abi.addresses(u) == capsule_abi.addresses(t)


@pytest.mark.parametrize("copy", [None, False, True])
def test_asarray_copies_as_told(copy):
    t = hurray.from_numpy(numpy_array())
    u = hurray.asarray(Gives(t.__hurray__()), copy=copy)
    shared = capsule_abi.addresses(u) == capsule_abi.addresses(t)
    assert shared == (copy is not True)
    assert np.array_equal(np.asarray(u), np.asarray(t))


@pytest.mark.parametrize("name", ["valid/csr.bin", "valid/q_per_block.bin", "valid/morton.bin"])
@pytest.mark.parametrize("copy", [None, True])
def test_asarray_of_every_layout(name, copy):
    kind = KINDS[name]
    producer = kind.producer()
    u = hurray.asarray(producer, copy=copy)
    assert u.descriptor == kind.expected
    assert producer.released == (2 if copy else 0)


def test_asarray_with_a_dtype_and_a_device():
    t = hurray.from_numpy(numpy_array())
    assert hurray.asarray(Gives(t.__hurray__()), dtype=hurray.int16).dtype is hurray.int16
    assert hurray.asarray(Gives(t.__hurray__()), device=hurray.device.cpu).shape == (COUNT,)
    elsewhere = hurray.from_dlpack(FakeCuPy((CUDA, 0)))
    with pytest.raises(hurray.UnsupportedError, match="moves nothing"):
        hurray.asarray(Gives(elsewhere.__hurray__()), device=hurray.device.cpu)


def test_asarray_goes_on_to_another_protocol():
    """What another implementation hands out under our name is not taken, its DLPack is."""

    class Peer(Gives):
        def __dlpack__(self, **kwargs):
            return array.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return (1, 0)

    array = numpy_array()
    struct = ctypes.create_string_buffer(256)
    foreign = new_capsule(ctypes.addressof(struct), NAME)
    assert hurray.asarray(Peer(foreign)).shape == (COUNT,)
    with pytest.raises(hurray.BufferError, match="another implementation"):
        hurray.asarray(Gives(foreign))
    with pytest.raises(hurray.UnsupportedError, match="ABI version 3"):
        hurray.asarray(floats(list_fields={"abi_version": 3}))


# ---- lifetimes ----


def test_the_memory_outlives_its_names():
    array = numpy_array()
    expected = array.copy()
    t = hurray.from_numpy(array, copy=False)
    u = hurray.from_hurray(t)
    seen = weakref.ref(array.base)
    del array, t
    gc.collect()
    noise = [np.full(COUNT, 7.0, np.float32) for _ in range(20)]
    assert np.array_equal(np.asarray(u), expected)
    assert seen() is not None
    del u, noise
    gc.collect()
    assert seen() is None


def test_an_unconsumed_capsule_frees_itself():
    producer = FLOATS.producer()
    t = hurray.from_hurray(producer)
    capsule = t.__hurray__()
    del t
    gc.collect()
    assert producer.released == 0
    del capsule
    gc.collect()
    assert producer.released == 2


@pytest.mark.parametrize("list_first", [True, False])
def test_list_and_context_are_released_in_any_order(list_first):
    producer = FLOATS.producer()
    pointers = capsule_abi.take(hurray.from_hurray(producer).__hurray__())
    heads = [capsule_abi.ListHead, capsule_abi.ContextHead]
    order = [0, 1] if list_first else [1, 0]
    for n, i in enumerate(order):
        assert producer.released == 0
        capsule_abi.RELEASE(heads[i].from_address(pointers[i]).release)(pointers[i])
        gc.collect()
        assert producer.released == 2 * n


def test_an_exception_under_way_survives_the_release():
    """A release that runs Python code inside the destructor of a capsule."""
    producer = FLOATS.producer()

    def fail():
        capsule = hurray.from_hurray(producer).__hurray__()
        assert capsule is not None
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    gc.collect()
    assert producer.released == 2


@pytest.mark.parametrize("name", ["valid/type_float32.bin", "valid/csf.bin"])
def test_repetitions_leak_nothing(name):
    producer = KINDS[name].producer()
    t = hurray.from_hurray(producer)

    def action():
        hurray.from_hurray(t)
        t.__hurray__()

    leaks.check(action, [t, producer, hurray.Tensor, NAME], repetitions=100_000)


def test_refusals_leak_nothing():
    used, foreign = new_capsule(1 << 20, USED), new_capsule(1 << 20, "dltensor")
    bad = floats(list_fields={"length": 7})
    capsule = bad.__hurray__()
    cases = [Gives(used), Gives(foreign), Gives(None), Gives(capsule), 3]

    def action():
        for case in cases:
            with contextlib.suppress(ValueError, TypeError):
                hurray.from_hurray(case)

    leaks.check(action, [*cases[:-1], used, foreign, capsule], repetitions=20_000)


# ---- threads ----


def test_consumption_in_another_thread():
    producer = FLOATS.producer()
    t = hurray.from_hurray(producer)
    capsule, got = t.__hurray__(), []
    del t
    thread = threading.Thread(target=lambda: got.append(hurray.from_hurray(Gives(capsule))))
    thread.start()
    thread.join()
    assert capsule_abi.addresses(got[0]) == [producer.records[0][0]]
    thread = threading.Thread(target=got.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert producer.released == 2


def test_one_tensor_in_8_threads():
    array = numpy_array()
    t = hurray.from_numpy(array, copy=False)
    before = sys.getrefcount(array)

    def body(index):
        for _ in range(1000):
            view = hurray.from_hurray(t)
            assert np.asarray(view)[index] == index
            t.__hurray__()

    in_threads(body)
    gc.collect()
    assert sys.getrefcount(array) == before


def test_one_capsule_is_consumed_by_one_of_8_threads():
    t = hurray.zeros([3])
    for _ in range(200):
        given, got = Gives(t.__hurray__()), []

        def body(index, given=given, got=got):
            with contextlib.suppress(hurray.BufferError):
                got.append(hurray.from_hurray(given))

        in_threads(body)
        assert len(got) == 1
        assert got[0].shape == (3,)


# ---- C that knows nothing of this library ----

RELEASE_ON_A_THREAD = """
#include <pthread.h>

typedef struct { char magic[8]; unsigned abi_version, struct_size; unsigned long long count;
                 void *bytes; void (*release)(void *); } List;
typedef struct { char magic[8]; unsigned abi_version, struct_size; void *bytes;
                 unsigned long long count; void (*release)(void *); } Context;

static void *release(void *argument) {
    void **pointers = argument;
    ((List *)pointers[0])->release(pointers[0]);
    ((Context *)pointers[1])->release(pointers[1]);
    return 0;
}

/* On a thread that Python has never seen. */
int release_on_a_thread(void *list, void *context);
int release_on_a_thread(void *list, void *context) {
    void *pointers[2] = {list, context};
    pthread_t thread;
    if (pthread_create(&thread, 0, release, pointers) != 0) return -1;
    return pthread_join(thread, 0);
}
"""


class CReading(ctypes.Structure):
    _fields_ = [
        ("type_tag", ctypes.c_uint8),
        ("layout_tag", ctypes.c_uint8),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.c_uint64 * 64),
        ("buffer_count", ctypes.c_uint64),
        ("byte_sizes", ctypes.c_uint64 * 4),
        ("sum", ctypes.c_double),
        ("read_only", ctypes.c_bool),
        ("device_id", ctypes.c_int32),
    ]


@pytest.fixture(scope="module")
def c_library(tmp_path_factory):
    """tests/abi/capsule_reader.c, a producer and a consumer with declarations of their own."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform == "win32":
        pytest.skip("no C compiler here")
    directory = tmp_path_factory.mktemp("capsule")
    extra = directory / "thread.c"
    extra.write_text(RELEASE_ON_A_THREAD)
    source = Path(__file__).parents[1] / "abi" / "capsule_reader.c"
    output = directory / "capsule_reader.so"
    subprocess.run(
        [compiler, "-std=c11", "-shared", "-fPIC", source, extra, "-o", output, "-lpthread"],
        check=True,
    )
    library = ctypes.CDLL(str(output))
    library.read_capsule.restype = ctypes.c_bool
    library.read_capsule.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(CReading)]
    library.make_capsule.restype = None
    library.make_capsule.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_int),
    ]
    library.release_on_a_thread.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return library


class CProducer:
    def __init__(self, library, array):
        self.library, self.array, self.released = library, array, ctypes.c_int(0)

    def __hurray__(self, stream=None):
        own_list, context = ctypes.c_void_p(), ctypes.c_void_p()
        self.library.make_capsule(
            self.array.ctypes.data,
            self.array.size,
            ctypes.byref(own_list),
            ctypes.byref(context),
            ctypes.byref(self.released),
        )
        capsule = new_capsule(own_list.value, NAME)
        capsule_abi.set_context(capsule, context.value)
        return capsule


def test_a_producer_in_c(c_library):
    array = numpy_array()
    producer = CProducer(c_library, array)
    t = hurray.from_hurray(producer)
    assert (t.dtype, t.shape, t.layout) == (hurray.float32, (COUNT,), hurray.RowMajorLayout())
    seen = np.asarray(t)
    assert seen.ctypes.data == array.ctypes.data
    seen[3] = 42
    assert array[3] == 42
    del t, seen
    gc.collect()
    assert producer.released.value == 2


def test_a_consumer_in_c(c_library):
    array = numpy_array()
    before = sys.getrefcount(array)
    capsule = hurray.from_numpy(array, copy=False).__hurray__()
    reading = CReading()
    assert c_library.read_capsule(*capsule_abi.take(capsule), ctypes.byref(reading))
    assert (reading.rank, reading.shape[0], reading.buffer_count) == (1, COUNT, 1)
    assert reading.byte_sizes[0] == array.nbytes
    assert reading.sum == array.sum(dtype=np.float64)
    del capsule
    gc.collect()
    assert sys.getrefcount(array) == before


def test_a_consumer_in_c_of_device_memory(c_library):
    capsule = hurray.from_dlpack(FakeCuPy((CUDA, 3))).__hurray__()
    reading = CReading()
    assert c_library.read_capsule(*capsule_abi.take(capsule), ctypes.byref(reading))
    assert reading.device_id == 3
    assert reading.sum == 0


def test_release_on_a_thread_without_python(c_library):
    """The memory is NumPy's, whose release needs the interpreter."""
    array = numpy_array()
    before = sys.getrefcount(array)
    for _ in range(50):
        capsule = hurray.from_numpy(array, copy=False).__hurray__()
        assert c_library.release_on_a_thread(*capsule_abi.take(capsule)) == 0
    gc.collect()
    assert sys.getrefcount(array) == before


def test_memory_of_c_is_released_on_a_thread_without_python(c_library):
    producer = CProducer(c_library, numpy_array())
    capsule = hurray.from_hurray(hurray.from_hurray(producer)).__hurray__()
    assert producer.released.value == 0
    assert c_library.release_on_a_thread(*capsule_abi.take(capsule)) == 0
    assert producer.released.value == 2


def test_dlpack_memory_through_a_native_capsule():
    producer = DLPackProducer(numpy_array())
    capsule = hurray.from_dlpack(producer, copy=False).__hurray__()
    gc.collect()
    assert producer.deleted == 0
    capsule_abi.release(capsule_abi.take(capsule))
    gc.collect()
    assert producer.deleted == 1


# ---- the end ----

HERE = str(Path(__file__).parent)

PRELUDE = f"""
import sys
sys.path.insert(0, {HERE!r})
import builtins, numpy, hurray
from capsule_abi import KINDS
array = numpy.zeros(100000)
t = hurray.asarray(array)
made_here = hurray.zeros([5])
foreign = KINDS["valid/csf.bin"].tensor()
"""

ENDINGS = {
    "module globals": "capsules = [x.__hurray__() for x in (t, made_here, foreign)]",
    "builtins": "builtins.kept = [x.__hurray__() for x in (t, made_here, foreign)]",
    "sys.modules": "sys.modules['kept'] = [x.__hurray__() for x in (t, made_here, foreign)]",
    "a cycle": """
        node = [x.__hurray__() for x in (t, made_here, foreign)]
        node.append(node)
        del t, node
    """,
    "a finalizer": """
        class Last:
            def __init__(self, tensor):
                self.tensor, self.capsule = tensor, tensor.__hurray__()
            def __del__(self):
                self.tensor.__hurray__()
        kept = [Last(x) for x in (t, made_here, foreign)]
        builtins.more = [Last(x) for x in (t, made_here, foreign)]
    """,
    "a leaked reference": """
        import ctypes
        capsule = t.__hurray__()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(capsule))
    """,
    "atexit": """
        import atexit
        capsule = t.__hurray__()
        atexit.register(lambda: hurray.from_hurray(type("P", (), {"__hurray__": lambda s: capsule})()))
    """,
    "a daemon thread": """
        import threading
        def forever():
            while True:
                hurray.from_hurray(t)
        threading.Thread(target=forever, daemon=True).start()
    """,
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_capsules_at_interpreter_shutdown(ending):
    run_script(PRELUDE + textwrap.dedent(ENDINGS[ending]))


IN_A_SUBINTERPRETER = """
import mmap
import hurray
mapped = mmap.mmap(-1, 4096)
t = hurray.asarray(mapped)
capsule = t.__hurray__()
class Gives:
    def __hurray__(self):
        return capsule
u = hurray.from_hurray(Gives())
try:
    hurray.from_hurray(Gives())
except hurray.BufferError:
    mapped[7] = 42
assert memoryview(u)[7] == 42
kept = t.__hurray__()
node = [kept, t, u]
node.append(node)
"""


@needs_subinterpreters
def test_subinterpreters():
    run_script(
        SUBINTERPRETERS
        + f"script = {IN_A_SUBINTERPRETER!r}\n"
        + textwrap.dedent(
            """
            import hurray
            t = hurray.zeros([3])
            ids = [interpreters.create() for _ in range(3)]
            for interpreter in ids:
                run_in(interpreter, script)
            for interpreter in ids[::-1]:
                run_in(interpreter, "assert memoryview(u)[7] == 42")
            for interpreter in ids:
                interpreters.destroy(interpreter)
            if hurray.from_hurray(t).shape == (3,):
                print("ok")
            """
        ),
        expected_output="ok\n",
    )


# ---- looking for the method ----


def producer(kind: str) -> object:
    class InMethod:
        def __hurray__(self, stream=None):
            raise AttributeError("inside")

    class Missing:
        pass

    class InProperty:
        @property
        def __hurray__(self):
            raise AttributeError("inside")

    class Broken:
        @property
        def __hurray__(self):
            raise ZeroDivisionError("inside")

    class OfInstance:
        def __init__(self):
            self.__hurray__ = hurray.arange(3).__hurray__

    kinds = (InMethod, Missing, InProperty, Broken, OfInstance)
    return {k.__name__: k for k in kinds}[kind]()


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("InMethod", AttributeError, r"^inside$"),
        ("Missing", TypeError, r"^from_hurray\(\) needs an object with __hurray__, not Missing$"),
        ("InProperty", TypeError, r"needs an object with __hurray__, not InProperty$"),
        ("Broken", ZeroDivisionError, r"^inside$"),
    ],
)
def test_an_error_of_the_method_is_told_from_its_absence(kind, error, message):
    with pytest.raises(error, match=message):
        hurray.from_hurray(producer(kind))


def test_a_method_of_the_instance_counts():
    assert list(hurray.from_hurray(producer("OfInstance")).to_numpy()) == [0, 1, 2]


def test_descriptors_of_any_length_cross():
    for rank in (1, 30, 55, 56, 57, 64):  # the usual buffer ends in between
        t = hurray.zeros((1,) * rank, dtype=hurray.float32)
        again = hurray.from_hurray(t)
        assert again.shape == t.shape
        assert again.descriptor == t.descriptor
        assert hurray.Descriptor.decode(t.descriptor.encode()) == t.descriptor
        assert len(t.descriptor.encode()) == t.descriptor.encoded_len
