"""Pickles and copies of tensors (spec 8.3): every layout and section survives, in band and out of
band, and nothing in a pickle is believed."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import multiprocessing
import pickle
import pickletools
import subprocess
import sys
import weakref
from multiprocessing import shared_memory
from pathlib import Path

import capsule_abi
import leaks
import numpy as np
import pytest
from capsule_abi import KINDS, READ_ONLY, STAGED
from dlpack_abi import aligned
from test_devices import FakeCuPy

import hurray
from hurray._core import _restore_tensor

READABLE = [name for name, kind in KINDS.items() if kind.is_readable]
ELSEWHERE = [name for name, kind in KINDS.items() if not kind.on_cpu]
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

# Tensors whose copy may be laid out anew: nothing but elements is in the buffer.
COMPACT = ("row_major", "col_major", "strided")


def out_of_band(tensor):
    buffers = []
    return pickle.dumps(tensor, 5, buffer_callback=buffers.append), buffers


def buffers_of(tensor):
    """The bytes of all buffers, wherever they say they are."""
    reading = capsule_abi.Reading(tensor.__hurray__())
    return [ctypes.string_at(record.data, record.byte_size) for record in reading.records]


def promising(descriptor, alignments):
    """The bytes of a descriptor with other alignments in its buffer table."""
    encoded = descriptor.encode()
    for handle, alignment in zip(descriptor.buffer_handles, alignments, strict=True):
        size = handle.byte_size.to_bytes(8, "little")
        old, new = (size + a.to_bytes(4, "little") for a in (handle.alignment, alignment))
        encoded = encoded.replace(old, new)
    return encoded


def check_same(got, tensor):
    """All is the same, but that memory shared at a 64-aligned address promises no more than that."""
    assert got is not tensor
    alignments = [handle.alignment for handle in got.buffer_handles]
    assert got.descriptor.encode() == promising(tensor.descriptor, alignments)
    for handle, before in zip(got.buffer_handles, tensor.buffer_handles, strict=True):
        assert min(before.alignment, 64) <= handle.alignment <= before.alignment
    assert buffers_of(got) == buffers_of(tensor)


def shared_addresses(a, b):
    pairs = zip(capsule_abi.addresses(a), capsule_abi.addresses(b), strict=True)
    return [one == other for one, other in pairs if one is not None]


# ---- every kind ----


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", READABLE)
def test_everything_survives_in_band(name, protocol):
    t = KINDS[name].tensor()
    got = pickle.loads(pickle.dumps(t, protocol))
    check_same(got, t)
    assert not got.readonly
    assert not any(shared_addresses(got, t))


@pytest.mark.parametrize("name", READABLE)
def test_everything_survives_out_of_band(name):
    t = KINDS[name].tensor()
    data, buffers = out_of_band(t)
    assert len(buffers) == t.buffer_count
    assert [buffer.raw().nbytes for buffer in buffers] == [h.byte_size for h in t.buffer_handles]
    assert len(data) < t.descriptor.encoded_len + 150
    got = pickle.loads(data, buffers=buffers)
    check_same(got, t)
    assert not got.readonly
    assert all(shared_addresses(got, t))


@pytest.mark.parametrize("name", READABLE)
def test_everything_is_deeply_copied(name):
    t = KINDS[name].tensor()
    got = copy.deepcopy(t)
    assert not any(shared_addresses(got, t))
    assert not got.readonly
    carried = name.startswith("invalid")  # its elements, or its scheme, are nobody's to know
    if not carried and t.layout.name in COMPACT and t.quantization is None:
        assert (got.shape, got.dtype) == (t.shape, t.dtype)
        if t.size is not None:
            assert got.layout == hurray.RowMajorLayout()
    else:
        check_same(got, t)


def test_a_deep_copy_has_the_elements():
    array = aligned((4, 6))
    array[:] = np.arange(24).reshape(4, 6)
    t = hurray.from_numpy(array, copy=False).T
    got = copy.deepcopy(t)
    assert np.array_equal(np.asarray(got), array.T)
    array[0, 0] = 99
    assert np.asarray(got)[0, 0] == 0


def test_a_shallow_copy_is_the_tensor():
    t = KINDS["valid/csr.bin"].tensor()
    assert copy.copy(t) is t


def test_deep_copies_keep_identity_within_one_object():
    t = hurray.zeros([3])
    a, b = copy.deepcopy([t, t])
    assert a is b is not t


@pytest.mark.parametrize("name", ["valid/type_float32.bin", "valid/csf.bin", "valid/q_nf4.bin"])
def test_deep_copies_of_read_only_tensors_may_be_written(name):
    assert not copy.deepcopy(KINDS[name].tensor(READ_ONLY)).readonly


# ---- read-only memory ----


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ["valid/type_float32.bin", "valid/csr.bin"])
def test_read_only_tensors_stay_so_in_band(name, protocol):
    t = KINDS[name].tensor(READ_ONLY)
    got = pickle.loads(pickle.dumps(t, protocol))
    check_same(got, t)
    assert got.readonly
    assert all(r.flags == READ_ONLY for r in capsule_abi.Reading(got.__hurray__()).records)


def test_read_only_tensors_stay_so_out_of_band():
    t = KINDS["valid/csr.bin"].tensor(READ_ONLY)
    data, buffers = out_of_band(t)
    assert all(buffer.raw().readonly for buffer in buffers)
    got = pickle.loads(data, buffers=buffers)
    assert got.readonly
    assert all(shared_addresses(got, t))


@pytest.mark.parametrize("alignment", [1, 8, 32, 64, 4096])
@pytest.mark.parametrize("read_only", [False, True])
def test_buffers_are_what_they_are_given_as(alignment, read_only):
    """Shared where the address is 64-aligned, read-only where the memory is."""
    data, buffers = out_of_band(hurray.from_numpy(aligned((100,))))
    given = capsule_abi.memory(400 + alignment, 4096)[alignment % 4096 :][:400]
    given[:] = np.frombuffer(buffers[0], np.uint8)
    given.flags.writeable = not read_only
    got = pickle.loads(data, buffers=[given])
    assert got.readonly == read_only
    shared = capsule_abi.addresses(got) == [given.ctypes.data]
    assert shared == (alignment >= 64)
    if alignment == 64:
        assert got.buffer_handles[0].alignment == 64


def test_bytes_are_never_written():
    """A tensor that may be written does not share the immutable bytes that it came in."""
    t = KINDS["valid/csr.bin"].tensor()
    restore, arguments = t.__reduce_ex__(4)
    given = [np.frombuffer(b, np.uint8) for b in arguments[1]]
    assert all(not array.flags.writeable for array in given)
    blocks = []
    for array in given:
        block = capsule_abi.memory(array.size, 64)
        block[:] = array
        block.flags.writeable = False
        blocks.append(block)
    got = restore(arguments[0], tuple(blocks), *arguments[2:])
    check_same(got, t)
    assert not got.readonly
    places = capsule_abi.addresses(got)
    assert not set(places) & {block.ctypes.data for block in blocks}


# ---- devices ----


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_device_memory_is_refused(name, protocol):
    t = KINDS[name].tensor()
    kind = "private" if t.device.is_private else t.device.kind
    mode = t.buffer_handles[0].sync_mode
    # The mode comes first: it would be in the way on the CPU, too.
    reason = f"{kind}.*CPU first" if mode == "producer_synced" else f"sync mode {mode}"
    with pytest.raises(hurray.UnsupportedError, match=reason):
        pickle.dumps(t, protocol)
    with pytest.raises(hurray.UnsupportedError, match=reason):
        copy.deepcopy(t)
    assert copy.copy(t) is t


def test_device_tensors_from_dlpack_are_refused():
    with pytest.raises(hurray.UnsupportedError, match="cuda"):
        pickle.dumps(hurray.from_dlpack(FakeCuPy((2, 0))))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_declared_placements_survive(protocol):
    """Their bytes are host memory, here and there."""
    device = hurray.Device("cuda", 5, "unified")
    t = hurray.Tensor(bytes(range(16)), hurray.float32, [4], device)
    got = pickle.loads(pickle.dumps(t, protocol))
    assert got.device == device
    assert got.descriptor == t.descriptor
    for one in (got, copy.deepcopy(t)):
        with pytest.raises(hurray.UnsupportedError, match="host memory"):
            one.__hurray__()
        assert one.device == device
        restored = _restore_tensor(*one.__reduce_ex__(4)[1])
        assert bytes(one.__reduce_ex__(4)[1][1][0]) == bytes(range(16))
        assert restored.device == device


def test_what_waits_for_an_event_is_refused():
    t = KINDS["valid/cuda_event.bin"].tensor(STAGED)
    with pytest.raises(hurray.UnsupportedError, match="event"):
        pickle.dumps(t)
    with pytest.raises(hurray.UnsupportedError, match="event"):
        copy.deepcopy(t)


# ---- what holds the memory ----


def test_the_memory_outlives_its_names():
    array = aligned((1000,))
    seen = weakref.ref(array.base)
    data, buffers = out_of_band(hurray.from_numpy(array, copy=False))
    del array
    gc.collect()
    assert seen() is not None
    got = pickle.loads(data, buffers=buffers)
    del buffers
    gc.collect()
    assert seen() is not None
    assert np.asarray(got).sum() == 0
    del got
    gc.collect()
    assert seen() is None


def test_a_bytearray_cannot_be_resized_while_shared():
    data, buffers = out_of_band(hurray.zeros([1000]))
    memory = bytearray(8000 + 64)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % 64
    got = pickle.loads(data, buffers=[memoryview(memory)[start : start + 8000]])
    with pytest.raises(BufferError):
        memory.extend(b"more")
    del got, buffers
    gc.collect()
    memory.extend(b"more")


def test_a_pickle_shares_its_memory_with_others_of_the_same_tensor():
    t = hurray.zeros([3])
    a, b = pickle.loads(pickle.dumps([t, t]))
    assert a is b


def test_it_says_what_it_calls():
    """Nothing but this name is in a pickle; it has to stay."""
    names = {
        argument
        for opcode, argument, _ in pickletools.genops(pickle.dumps(hurray.zeros([3]), 2))
        if opcode.name == "GLOBAL"
    }
    assert names == {"hurray._core _restore_tensor", "_codecs encode"}


def test_pickles_of_other_values():
    t = hurray.zeros([3, 4])
    values = [t.dtype, t.device, t.layout, t.descriptor, hurray.device.cuda, hurray.dtype.int4]
    for protocol in PROTOCOLS:
        assert pickle.loads(pickle.dumps(values, protocol)) == values
    assert pickle.loads(pickle.dumps(t.dtype)) is t.dtype


HANDLES = sorted({h for kind in KINDS.values() for h in kind.handles}, key=repr)
SYMMETRIC = hurray.PerBlockAffine.symmetric(0, 32, 1, hurray.float16)
VALUES = [
    *(hurray.Dtype.from_name(name) for name in ("bool", "float32", "complex128", "int4")),
    hurray.Dtype.from_tag(0xF2),
    *(hurray.Device(kind, 3, "unified") for kind in ("cuda", "metal", 0xF0)),
    hurray.Device("cpu", 0, "host_pinned"),
    hurray.RowMajorLayout(),
    hurray.ColMajorLayout(),
    hurray.StridedLayout((-3, 1)),
    hurray.TiledLayout((2, 2)),
    hurray.MortonLayout((1, 2)),
    hurray.HilbertLayout(1, 2),
    hurray.BlockPagedLayout(4, 5, 0, 2),
    hurray.CooLayout(2**40),
    hurray.CsrLayout(2),
    hurray.CscLayout(2),
    hurray.CsfLayout(2, (2, 0, 1)),
    hurray.CompositeLayout("overlay", 2, "add"),
    hurray.PrivateExtensionLayout(0xF3, 1, b"abc"),
    hurray.UnknownLayout(0x20, b"raw"),
    hurray.PerTensorAffine(0.5, 3),
    hurray.PerChannelAffine.symmetric(0, 1),
    hurray.PerChannelAffine.asymmetric(0, 1, 2),
    SYMMETRIC,
    hurray.PerBlockAffine.asymmetric(1, 32, 1, 2, hurray.bfloat16),
    hurray.NF4(0, 64, 1),
    hurray.MXFP(0, 32, 1),
    hurray.Statistics(),
    hurray.Statistics(nnz=3, value_min=-1.0, value_max=2.0, value_abs_max=2.0),
    hurray.Shard((8, 2), (5, 0)),
    hurray.ExtensionType(bit_width=24, is_signed=True),
    hurray.zeros(3).descriptor,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_value_survives(value):
    for protocol in PROTOCOLS:
        again = pickle.loads(pickle.dumps(value, protocol))
        assert type(again) is type(value)
        assert again == value
        assert repr(again) == repr(value)
    for again in (copy.copy(value), copy.deepcopy(value), copy.deepcopy([value])[0]):
        assert type(again) is type(value)
        assert again == value


def test_every_class_of_values_is_tried():
    """Tensors and Composites have tests of their own; a context manager is no value, nor is an open
    file, which equals only itself and refuses to be pickled."""
    tried = {type(value) for value in VALUES} | {hurray.BufferHandle}
    classes = {c for c in (getattr(hurray, n) for n in dir(hurray)) if isinstance(c, type)}
    values = {c for c in classes if c.__eq__ is not object.__eq__ or c is hurray.Dtype}
    assert tried >= values - {hurray.Composite, hurray.Layout, hurray.File}


@pytest.mark.parametrize("handle", HANDLES, ids=repr)
def test_buffer_handles_survive(handle):
    for protocol in PROTOCOLS:
        again = pickle.loads(pickle.dumps(handle, protocol))
        assert type(again) is hurray.BufferHandle
        assert again == handle and hash(again) == hash(handle)
        assert again.device == handle.device
    assert copy.copy(handle) == copy.deepcopy(handle) == handle


@pytest.mark.parametrize(
    ("arguments", "exception", "match"),
    [
        ((24, 48, "producer_synced", hurray.device.cpu), ValueError, "alignment 48"),
        ((24, 0, "producer_synced", hurray.device.cpu), ValueError, "alignment 0"),
        ((24, 2**33, "producer_synced", hurray.device.cpu), ValueError, "alignment"),
        ((24, 32, "producer_synced", hurray.device.cpu), ValueError, "alignment 32"),
        ((24, 64, "event", hurray.device.cpu), ValueError, "event"),
        ((24, 64, "whenever", hurray.device.cuda), ValueError, "sync mode"),
        ((24, 64, "", hurray.device.cuda), ValueError, "sync mode"),
        ((24, 64, "event", "cuda"), TypeError, "device"),
        ((-1, 64, "event", hurray.device.cuda), OverflowError, "byte_size"),
        ((24, -1, "event", hurray.device.cuda), OverflowError, "alignment"),
        ((24.0, 64, "event", hurray.device.cuda), TypeError, "byte_size"),
        ((24, 64, 1, hurray.device.cuda), TypeError, None),
        ((24, 64, "event"), TypeError, None),
    ],
)
def test_pickles_of_buffer_handles_are_not_believed(arguments, exception, match):
    with pytest.raises(exception, match=match):
        hurray.BufferHandle._restore(*arguments)


def test_repetitions_leak_nothing():
    t = KINDS["valid/csf.bin"].tensor()

    def action():
        pickle.loads(pickle.dumps(t, 5))
        data, buffers = out_of_band(t)
        pickle.loads(data, buffers=buffers)
        pickle.loads(pickle.dumps(t, 2))
        pickle.loads(pickle.dumps(t.buffer_handles))
        copy.deepcopy(t)

    leaks.check(action, [t, hurray.Tensor, _restore_tensor], repetitions=20_000)


# ---- hostile pickles ----

CSR = KINDS["valid/csr.bin"]


def parts():
    _, (descriptor, buffers, device_id, _writable) = CSR.tensor().__reduce_ex__(4)
    return descriptor, buffers, device_id


@pytest.mark.parametrize("count", [0, 1, 2, 4, 255, 256, 1000])
def test_wrong_numbers_of_buffers(count):
    descriptor, buffers, _ = parts()
    buffers = (buffers * 400)[:count]
    with pytest.raises(hurray.InvalidDescriptorError, match=f"holds {count} buffers"):
        _restore_tensor(descriptor, buffers)


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("missing", [1, 7, None])
def test_short_buffers(index, missing):
    descriptor, buffers, _ = parts()
    short = list(buffers)
    short[index] = short[index][:-missing] if missing else b""
    with pytest.raises(hurray.BufferError, match=f"buffer {index} of the pickle has"):
        _restore_tensor(descriptor, tuple(short))


def test_longer_buffers_are_cut():
    """Shared memory comes in whole pages."""
    descriptor, buffers, _ = parts()
    t = _restore_tensor(descriptor, tuple(buffer + bytes(100) for buffer in buffers))
    assert t.descriptor == CSR.expected
    assert buffers_of(t) == list(buffers)


def test_sizes_that_only_the_descriptor_claims():
    """Nothing is allocated for what is not there."""
    huge = hurray.Descriptor.decode(KINDS["valid/type_uint8.bin"].encoded)
    encoded = bytearray(huge.encode())
    at = encoded.rindex(huge.buffer_handles[0].byte_size.to_bytes(8, "little"))
    encoded[at : at + 8] = (2**62).to_bytes(8, "little")
    with pytest.raises(hurray.BufferError, match=str(2**62)):
        _restore_tensor(bytes(encoded), (bytes(64),))


def test_promises_that_only_the_descriptor_makes():
    """An alignment of 2 GiB is not kept, nor asked of any allocator."""
    encoded = bytearray(KINDS["valid/type_float32.bin"].encoded)
    at = encoded.rindex((16).to_bytes(8, "little")) + 8
    encoded[at : at + 4] = (1 << 31).to_bytes(4, "little")
    assert hurray.Descriptor.decode(bytes(encoded)).buffer_handles[0].alignment == 1 << 31
    for memory in (bytes(16), capsule_abi.memory(16, 64)):
        t = _restore_tensor(bytes(encoded), (memory,))
        assert 64 <= t.buffer_handles[0].alignment < 1 << 31


@pytest.mark.parametrize("byte", range(len(CSR.encoded)))
def test_descriptors_with_a_wrong_byte(byte):
    descriptor, buffers, _ = parts()
    for value in (0, 1, 0x7F, 0x80, 0xFF):
        damaged = bytearray(descriptor)
        damaged[byte] ^= value
        try:
            t = _restore_tensor(bytes(damaged), buffers)
        except (hurray.InvalidDescriptorError, hurray.BufferError, hurray.UnsupportedError):
            continue
        assert all(h.byte_size <= len(b) for h, b in zip(t.buffer_handles, buffers, strict=True))


@pytest.mark.parametrize("cut", [0, 1, 4, 20, -1])
def test_descriptors_cut_short(cut):
    descriptor, buffers, _ = parts()
    with pytest.raises(hurray.InvalidDescriptorError):
        _restore_tensor(descriptor[:cut], buffers)


@pytest.mark.parametrize("name", ["valid/cuda_event.bin"])
def test_a_pickle_brings_no_event(name):
    kind = KINDS[name]
    with pytest.raises(hurray.InvalidDescriptorError, match="event"):
        _restore_tensor(kind.encoded, tuple(bytes(h.byte_size) for h in kind.handles))


def test_a_pickle_brings_no_device_memory():
    kind = KINDS["valid/cuda_unified.bin"]
    t = _restore_tensor(kind.encoded, tuple(bytes(h.byte_size) for h in kind.handles))
    with pytest.raises(hurray.UnsupportedError, match="host memory"):
        t.__dlpack__()


@pytest.mark.parametrize("name", ["head_group", "head_overlay", "head_partition"])
def test_heads_of_composites(name):
    encoded = (capsule_abi.VECTORS / "valid" / f"{name}.bin").read_bytes()
    with pytest.raises(hurray.InvalidDescriptorError, match="0 buffers"):
        _restore_tensor(encoded, ())


@pytest.mark.parametrize(
    ("arguments", "exception"),
    [
        (("text", ()), TypeError),
        ((None, ()), TypeError),
        ((5, ()), TypeError),
        ((b"", None), TypeError),
        ((b"", [b""]), TypeError),
        ((b"", b""), TypeError),
        ((b"", ()), hurray.InvalidDescriptorError),
        ((), TypeError),
    ],
)
def test_wrong_arguments(arguments, exception):
    with pytest.raises(exception):
        _restore_tensor(*arguments)


@pytest.mark.parametrize("item", [None, 5, "text", [1], object()])
def test_buffers_that_are_none(item):
    descriptor, buffers, _ = parts()
    with pytest.raises(TypeError):
        _restore_tensor(descriptor, (*buffers[:2], item))


def test_buffers_that_are_not_contiguous():
    descriptor, buffers, _ = parts()
    gaps = np.zeros((1000, 2), np.uint8)[:, 0]
    with pytest.raises(hurray.BufferError, match="contiguous"):
        _restore_tensor(descriptor, (*buffers[:2], gaps))


@pytest.mark.parametrize("device_id", [-1, 2**31, 2**63, 2**64, -(2**70)])
def test_device_ids_that_are_none(device_id):
    descriptor, buffers, _ = parts()
    with pytest.raises(hurray.InvalidDescriptorError, match="device_id"):
        _restore_tensor(descriptor, buffers, device_id)


@pytest.mark.parametrize("writable", [b"", b"\1", b"\1" * 4, [1, 1, 1], "\1\1\1", 1])
def test_flags_that_are_none(writable):
    descriptor, buffers, _ = parts()
    with pytest.raises(hurray.InvalidDescriptorError, match="writable"):
        _restore_tensor(descriptor, buffers, 0, writable)


def test_released_buffers():
    data, buffers = out_of_band(hurray.zeros([3]))
    buffers[0].release()
    with pytest.raises(ValueError, match="released"):
        pickle.loads(data, buffers=buffers)


def test_too_few_buffers_out_of_band():
    data, _ = out_of_band(hurray.zeros([3]))
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(data, buffers=[])
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(data)


# ---- from process to process ----

# Sanitizers keep shadows of all memory, and machines that run them are small.
LARGE = 1 << 24 if leaks.is_sanitized() else 1 << 30

RECEIVER = """
import pickle, sys
from multiprocessing import resource_tracker, shared_memory
import hurray

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))

data = sys.stdin.buffer.read()
before = peak() if sys.platform == "linux" else 0
memory = shared_memory.SharedMemory(name=sys.argv[1])
resource_tracker.unregister(memory._name, "shared_memory")  # the sender unlinks it
t = pickle.loads(data, buffers=[memory.buf])
view = memoryview(t)
assert view.nbytes == int(sys.argv[2])
assert view[0] == 1 and view[-1] == 2
view[1] = 3
private = (peak() if sys.platform == "linux" else 0) - before
assert private < view.nbytes // 8, private
try:
    memory.close()
except BufferError:
    pass
else:
    raise SystemExit("the tensor does not hold the shared memory")
del view, t
memory.close()
print("ok")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="resource_tracker is for POSIX")
def test_a_large_tensor_through_shared_memory():
    """Not one copy is made between the sender's memory and the receiver's."""
    try:
        memory = shared_memory.SharedMemory(create=True, size=LARGE)
    except OSError as error:
        pytest.skip(f"no shared memory of {LARGE} bytes: {error}")
    try:
        array = np.frombuffer(memory.buf, np.float64)
        t = hurray.from_numpy(array, copy=False)
        array[0], array[-1] = 1, 2
        data, buffers = out_of_band(t)
        assert len(data) < 1000
        assert np.frombuffer(buffers[0], np.uint8).ctypes.data == array.ctypes.data
        result = subprocess.run(
            [sys.executable, "-c", RECEIVER, memory.name, str(LARGE)],
            input=data,
            capture_output=True,
        )
        assert (result.stdout, result.stderr, result.returncode) == (b"ok\n", b"", 0)
        assert array[1] == 3
        del array, t, buffers
        gc.collect()
    finally:
        memory.close()
        memory.unlink()


def doubled(t):
    """Runs in another process."""
    return hurray.asarray(np.asarray(t) * 2)


def test_multiprocessing():
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        (got,) = pool.map(doubled, [hurray.asarray([1.0, 2.0])])
    assert np.asarray(got).tolist() == [2, 4]


def test_a_file():
    tensors = {name: KINDS[name].tensor() for name in READABLE[:20]}
    file = io.BytesIO()
    pickle.dump(tensors, file)
    file.seek(0)
    for name, t in pickle.load(file).items():
        check_same(t, tensors[name])


def test_the_vectors_are_many():
    assert len(READABLE) > 90
    assert {Path(name).stem for name in READABLE} >= {"csf", "q_mxfp_int8", "all_sections"}
