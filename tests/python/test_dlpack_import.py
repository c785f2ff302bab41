"""hurray.from_dlpack (spec 8.6): what becomes of a well-behaved producer's memory."""

from __future__ import annotations

import builtins
import gc
import sys
import weakref

import numpy as np
import pytest
from dlpack_abi import (
    BFLOAT,
    BOOL,
    DTYPE_CODES,
    FLOAT,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT8_E8M0FNU,
    LEGACY,
    READ_ONLY,
    UINT,
    VERSIONED,
    Producer,
    aligned,
    capsule_name,
    data_pointer,
)

import hurray

BOTH = pytest.mark.parametrize("version", [None, (1, 0), (1, 3), (1, 99)], ids=str)


def counted(shape=(2, 3), dtype=np.float32, **kwargs) -> np.ndarray:
    """An aligned array with the values 0, 1, …"""
    array = aligned(shape, dtype, **kwargs)
    array[...] = np.arange(array.size).reshape(shape)
    return array


# ---- sharing ----


@BOTH
def test_aligned_memory_is_shared_and_freed_once(version):
    array = counted()
    producer = Producer(array, version=version)
    t = hurray.from_dlpack(producer)
    assert (t.shape, t.dtype, t.device) == ((2, 3), hurray.float32, hurray.device.cpu)
    assert t.layout == hurray.RowMajorLayout()
    assert t.byte_offset == 0
    assert data_pointer(t) == array.ctypes.data
    array[0, 0] = 42
    assert np.from_dlpack(t)[0, 0] == 42
    np.from_dlpack(t)[1, 2] = 43
    assert array[1, 2] == 43
    (capsule,) = producer.capsules
    assert capsule_name(capsule) == "used_" + (LEGACY if version is None else VERSIONED)
    assert producer.deleted == 0
    del t
    assert producer.deleted == 1


@BOTH
def test_a_capsule_itself_is_accepted(version):
    producer = Producer(counted(), version=version)
    t = hurray.from_dlpack(producer.capsule())
    assert np.from_dlpack(t).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert producer.deleted == 0
    del t
    assert producer.deleted == 1


@BOTH
@pytest.mark.parametrize("off_by", [1, 4, 16, 32])
def test_misaligned_memory_is_copied_and_freed_at_once(version, off_by):
    array = counted(off_by=off_by)
    producer = Producer(array, version=version)
    t = hurray.from_dlpack(producer)
    assert producer.deleted == 1
    assert data_pointer(t) % 64 == 0
    assert np.from_dlpack(t).tolist() == array.tolist()
    assert not t.readonly
    array[0, 0] = 42
    assert np.from_dlpack(t)[0, 0] == 0
    del t
    assert producer.deleted == 1


@pytest.mark.parametrize("off_by", [1, 4, 32])
def test_copy_false_names_the_measured_alignment(off_by):
    producer = Producer(counted(off_by=off_by))
    with pytest.raises(hurray.CopyRequiredError, match=f"{off_by}-byte aligned.*64"):
        hurray.from_dlpack(producer, copy=False)
    assert producer.deleted == 0
    assert capsule_name(producer.capsules[0]) == VERSIONED


@BOTH
def test_copy_true_always_copies(version):
    array = counted()
    producer = Producer(array, version=version)
    t = hurray.from_dlpack(producer, copy=True)
    assert producer.deleted == 1
    assert data_pointer(t) != array.ctypes.data
    assert np.from_dlpack(t).tolist() == array.tolist()


def test_copy_is_a_truth_value():
    array = counted()
    assert data_pointer(hurray.from_dlpack(array, copy=0)) == array.ctypes.data
    assert data_pointer(hurray.from_dlpack(array, copy=1)) != array.ctypes.data
    assert data_pointer(hurray.from_dlpack(array, copy=None)) == array.ctypes.data


@pytest.mark.parametrize(
    ("address_of_two", "alignment"),
    [(64, 64), (128, 128), (64 * 3, 64), (4096, 4096), (8192, 4096)],
)
def test_the_declared_alignment_is_what_the_address_has(address_of_two, alignment):
    raw = np.zeros(4 * 8192, np.uint8)
    start = -raw.ctypes.data % 8192 + (address_of_two % 8192 or 8192)
    t = hurray.from_dlpack(Producer(raw.ctypes.data + start, [4]))
    assert t.buffer_handles[0].alignment == alignment
    assert t.buffer_handles[0].byte_size == 16


# ---- strides ----


@pytest.mark.parametrize(
    ("shape", "strides", "layout", "values"),
    [
        ((2, 3), (3, 1), hurray.RowMajorLayout(), [[0, 1, 2], [3, 4, 5]]),
        ((2, 3), None, hurray.RowMajorLayout(), [[0, 1, 2], [3, 4, 5]]),
        ((2, 3), (4, 1), hurray.StridedLayout((4, 1)), [[0, 1, 2], [4, 5, 6]]),
        ((2, 3), (1, 2), hurray.StridedLayout((1, 2)), [[0, 2, 4], [1, 3, 5]]),
        ((2, 3), (0, 1), hurray.StridedLayout((0, 1)), [[0, 1, 2], [0, 1, 2]]),
        ((3,), (0,), hurray.StridedLayout((0,)), [0, 0, 0]),
        ((), (), hurray.RowMajorLayout(), 0),
        ((1, 3), (999, 1), hurray.RowMajorLayout(), [[0, 1, 2]]),
        ((1, 3), (-7, 1), hurray.RowMajorLayout(), [[0, 1, 2]]),
        ((3, 1), (1, 0), hurray.RowMajorLayout(), [[0], [1], [2]]),
        ((1, 1), (-(2**63), 2**63 - 1), hurray.RowMajorLayout(), [[0]]),
        ((2, 1, 2), (2, -5, 1), hurray.RowMajorLayout(), [[[0, 1]], [[2, 3]]]),
    ],
    ids=str,
)
@BOTH
def test_strides(shape, strides, layout, values, version):
    array = counted((24,))
    producer = Producer(array, shape, strides, version=version)
    t = hurray.from_dlpack(producer, copy=False)
    assert t.shape == shape
    assert t.layout == layout
    assert np.from_dlpack(t).tolist() == values
    assert data_pointer(t) == array.ctypes.data


def test_strides_of_a_strided_tensor_with_size_1_dimensions():
    """The arbitrary stride of such a dimension survives or becomes another: the elements count."""
    producer = Producer(counted((24,)), (2, 1, 2), (4, -(2**40), 1))
    t = hurray.from_dlpack(producer, copy=False)
    assert np.from_dlpack(t).tolist() == [[[0, 1]], [[4, 5]]]


@BOTH
def test_negative_strides_are_shared(version):
    """The lowest address counts for the alignment, and byte_offset leads to element [0, 0]."""
    array = counted((16,))
    producer = Producer(array.ctypes.data + 15 * 4, (4, 4), (-4, -1), version=version)
    t = hurray.from_dlpack(producer, copy=False)
    assert t.layout == hurray.StridedLayout((-4, -1))
    assert t.byte_offset == 60
    assert t.buffer_handles[0].byte_size == 64
    assert data_pointer(t) == array.ctypes.data + 60
    assert np.from_dlpack(t).tolist() == array[::-1].reshape(4, 4).tolist()
    assert producer.deleted == 0
    del t
    assert producer.deleted == 1


def test_negative_strides_with_the_lowest_address_misaligned():
    array = counted((16,))
    producer = Producer(array.ctypes.data + 64 - 4, (15,), (-1,))
    with pytest.raises(hurray.CopyRequiredError, match="4-byte aligned"):
        hurray.from_dlpack(producer, copy=False)
    t = hurray.from_dlpack(producer)
    assert np.from_dlpack(t).tolist() == list(range(15, 0, -1))
    assert t.layout == hurray.RowMajorLayout()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64, np.complex128])
def test_strided_copies_are_row_major(dtype):
    base = counted((6, 8), dtype)
    for view in (base[::-1, ::2], base[1:, 1:], base.T, base[2:3].repeat(3, 0), base[:, ::-3]):
        t = hurray.from_dlpack(view, copy=True)
        assert t.layout == hurray.RowMajorLayout()
        assert np.from_dlpack(t).tolist() == view.tolist()


def test_byte_offset_of_the_producer():
    array = counted((40,))
    shared = hurray.from_dlpack(Producer(array, (4,), byte_offset=64), copy=False)
    assert data_pointer(shared) == array.ctypes.data + 64
    assert np.from_dlpack(shared).tolist() == [16, 17, 18, 19]
    copied = hurray.from_dlpack(Producer(array, (4,), byte_offset=4))
    assert np.from_dlpack(copied).tolist() == [1, 2, 3, 4]
    # What counts is where the elements are, not what the pointer was before the offset.
    recovered = hurray.from_dlpack(
        Producer(array.ctypes.data + 4, (4,), byte_offset=60), copy=False
    )
    assert np.from_dlpack(recovered).tolist() == [16, 17, 18, 19]


@pytest.mark.parametrize("rank", [0, 1, 63, 64])
def test_ranks(rank):
    shape = (1,) * rank
    t = hurray.from_dlpack(Producer(counted((1,)), shape, (5,) * rank), copy=False)
    assert t.shape == shape
    assert t.strides == (1,) * rank


# ---- no elements ----


@BOTH
@pytest.mark.parametrize("data", [0, 1, 0x1234567])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5)])
@pytest.mark.parametrize("copy", [None, False, True])
def test_no_elements_need_no_pointer_and_no_copy(data, shape, copy, version):
    producer = Producer(data or None, shape, version=version)
    t = hurray.from_dlpack(producer, copy=copy)
    assert t.shape == shape
    assert t.nbytes == 0
    assert np.from_dlpack(t).shape == shape
    if copy is not True:
        assert t.buffer_handles[0].alignment == 1
        assert t.buffer_handles[0].is_empty
    del t
    assert producer.deleted == 1


def test_no_elements_with_any_strides():
    t = hurray.from_dlpack(Producer(None, (0, 2), (2**62, -(2**62))))
    assert t.shape == (0, 2)


# ---- types ----


@pytest.mark.parametrize("name", DTYPE_CODES)
@BOTH
def test_every_standard_dtype(name, version):
    array = aligned((64,), np.uint8)
    array[:] = np.arange(64)
    producer = Producer(array, (4,), dtype=(*DTYPE_CODES[name], 1), version=version)
    t = hurray.from_dlpack(producer, copy=False)
    assert t.dtype is getattr(hurray, name)
    assert data_pointer(t) == array.ctypes.data
    assert t.buffer_handles[0].byte_size == 4 * t.dtype.bit_width // 8


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (FLOAT8_E4M3FN, "float8_e4m3"),
        (FLOAT8_E5M2, "float8_e5m2"),
        (FLOAT8_E8M0FNU, "float8_e8m0"),
    ],
)
def test_float8_is_taken_in(code, name):
    array = aligned((4,), np.uint8)
    t = hurray.from_dlpack(Producer(array, dtype=(code, 8, 1)), copy=False)
    assert t.dtype is getattr(hurray.dtype, name)


@BOTH
def test_bool_is_packed_with_a_copy(version):
    array = aligned((11,), np.bool_)
    array[[0, 3, 8, 10]] = True
    producer = Producer(array, dtype=(BOOL, 8, 1), version=version)
    t = hurray.from_dlpack(producer)
    assert t.dtype is hurray.bool
    assert bytes(memoryview(t.buffer(0)))[:2] == bytes([0b0000_1001, 0b0000_0101])
    assert t.nbytes == 2
    assert producer.deleted == 1
    assert np.asarray(t).tolist() == array.tolist()


def test_bool_of_any_strides():
    array = aligned((4, 6), np.bool_)
    array[:] = np.random.default_rng(1).random((4, 6)) > 0.5
    for view in (array, array.T, array[::-1, ::2], array[:, 1:4]):
        t = hurray.from_dlpack(view)
        assert t.layout == hurray.RowMajorLayout()
        assert np.asarray(t).tolist() == view.tolist()


def test_bool_bytes_other_than_0_and_1_are_true():
    array = aligned((4,), np.uint8)
    array[:] = [0, 1, 2, 255]
    t = hurray.from_dlpack(Producer(array, dtype=(BOOL, 8, 1)))
    assert np.asarray(t).tolist() == [False, True, True, True]


def test_bool_is_never_shared():
    producer = Producer(aligned((4,), np.bool_), dtype=(BOOL, 8, 1))
    with pytest.raises(hurray.CopyRequiredError, match=r"bool.*one per byte"):
        hurray.from_dlpack(producer, copy=False)
    assert producer.deleted == 0


# ---- read-only ----


@pytest.mark.parametrize("off_by", [0, 4])
def test_read_only_memory(off_by):
    producer = Producer(counted(off_by=off_by), flags=READ_ONLY)
    t = hurray.from_dlpack(producer)
    # Copied memory is ours, and writable.
    assert t.readonly == (off_by == 0)
    assert not hurray.from_dlpack(producer, copy=True).readonly


def test_a_legacy_capsule_is_writable():
    assert not hurray.from_dlpack(Producer(counted(), version=None)).readonly


def test_read_only_survives_views():
    t = hurray.from_dlpack(Producer(counted(), flags=READ_ONLY))
    assert t.T.readonly
    assert t.buffer(0).readonly


# ---- what the producer is asked ----


def test_a_producer_on_the_cpu_is_told_the_version_only():
    producer = Producer(counted())
    hurray.from_dlpack(producer)
    assert producer.requests == [{"max_version": (1, 3)}]


def test_copy_false_is_passed_on():
    producer = Producer(counted())
    hurray.from_dlpack(producer, copy=False)
    assert producer.requests == [{"max_version": (1, 3), "copy": False}]


def test_copies_on_the_cpu_are_made_here():
    """One copy, into aligned memory, rather than the producer's and then ours."""
    producer = Producer(counted())
    hurray.from_dlpack(producer, copy=True)
    assert producer.requests == [{"max_version": (1, 3)}]


class Old:
    """A producer from before DLPack 1: stream and nothing else."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.inner = Producer(array, version=None, device=device)
        self.streams: list[object] = []

    def __dlpack__(self, stream: object = None) -> object:
        self.streams.append(stream)
        return self.inner.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.device


@pytest.mark.parametrize("copy", [None, False, True])
def test_a_producer_with_the_old_signature(copy):
    producer = Old(counted())
    t = hurray.from_dlpack(producer, copy=copy)
    assert producer.streams == [None]
    assert np.from_dlpack(t).tolist() == [[0, 1, 2], [3, 4, 5]]
    del t
    assert producer.inner.deleted == 1


def test_a_producer_without_any_argument():
    class Oldest:
        inner = Producer(counted(), version=None)

        def __dlpack__(self):
            return self.inner.capsule()

    t = hurray.from_dlpack(Oldest())
    assert np.from_dlpack(t).tolist() == [[0, 1, 2], [3, 4, 5]]


# ---- device= ----


def test_device_where_the_memory_is():
    producer = Producer(counted())
    t = hurray.from_dlpack(producer, device=hurray.device.cpu)
    assert t.device == hurray.device.cpu
    assert "dl_device" not in producer.requests[0]


def test_device_asks_the_producer_to_move():
    class OnCuda(Producer):
        """Moves to the CPU when asked to."""

        def __dlpack_device__(self):
            return (2, 3)

    producer = OnCuda(counted())
    t = hurray.from_dlpack(producer, device=hurray.device.cpu)
    assert producer.requests[0]["dl_device"] == (1, 0)
    assert t.device == hurray.device.cpu
    assert np.from_dlpack(t).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "device", [hurray.device.cuda, hurray.Device("cuda", 1), hurray.Device("rocm")], ids=repr
)
def test_numpy_refuses_to_move_in_its_own_words(device):
    with pytest.raises((builtins.BufferError, ValueError), match="device"):
        hurray.from_dlpack(counted(), device=device)


def test_a_tensor_refuses_to_move():
    t = hurray.zeros([4])
    with pytest.raises(hurray.UnsupportedError, match=r"not moved to dl_device \(2, 0\)"):
        hurray.from_dlpack(t, device=hurray.device.cuda)


def test_an_old_producer_cannot_move():
    with pytest.raises(hurray.UnsupportedError, match=r"Old.*cuda"):
        hurray.from_dlpack(Old(counted()), device=hurray.device.cuda)


def test_a_producer_that_moves_elsewhere_than_asked():
    """What the struct says is where the memory is; a promise not kept is an error."""
    producer = Producer(0x7F00_0000_0000, (2,), device=(2, 1))
    with pytest.raises(hurray.BufferError, match=r"\(2, 0\).*\(2, 1\)"):
        hurray.from_dlpack(producer, device=hurray.Device("cuda", 0))
    assert producer.deleted == 0


@pytest.mark.parametrize("device", ["cpu", 1, (1, 0), object()])
def test_device_of_another_type(device):
    with pytest.raises(TypeError, match=r"device must be a hurray\.Device"):
        hurray.from_dlpack(counted(), device=device)


def test_device_that_dlpack_cannot_name():
    with pytest.raises(hurray.UnsupportedError, match="peer"):
        hurray.from_dlpack(counted(), device=hurray.Device("cuda", 0, "peer"))


def test_device_beside_a_capsule():
    """A bare capsule cannot be asked to move, but may be where it should be."""
    producer = Producer(counted())
    t = hurray.from_dlpack(producer.capsule(), device=hurray.device.cpu)
    assert t.shape == (2, 3)
    with pytest.raises(hurray.BufferError):
        hurray.from_dlpack(producer.capsule(), device=hurray.device.cuda)


# ---- arguments ----


@pytest.mark.parametrize("thing", [None, 1, [1.0], b"bytes", object(), "text", int])
def test_an_object_without_dlpack(thing):
    with pytest.raises(TypeError, match="__dlpack__"):
        hurray.from_dlpack(thing)


def test_a_class_is_no_producer():
    with pytest.raises(TypeError):
        hurray.from_dlpack(Producer)


def test_arguments():
    with pytest.raises(TypeError):
        hurray.from_dlpack()
    with pytest.raises(TypeError):
        hurray.from_dlpack(counted(), None)
    with pytest.raises(TypeError):
        hurray.from_dlpack(counted(), streams=0)
    assert hurray.from_dlpack(counted(), device=None, copy=None).shape == (2, 3)


# ---- hurray, NumPy ----


def test_a_tensor_is_a_producer():
    t = hurray.from_numpy(counted())
    u = hurray.from_dlpack(t)
    assert u is not t
    assert data_pointer(u) == data_pointer(t)
    assert u.shape == t.shape
    assert u.dtype is t.dtype


def test_a_bool_tensor_is_refused_by_itself():
    with pytest.raises(hurray.UnsupportedError) as caught:
        hurray.from_dlpack(hurray.Tensor(b"\1", hurray.bool, [3]))
    assert isinstance(caught.value, builtins.BufferError)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
)
def test_numpy_arrays(dtype, order):
    base = counted((4, 5), dtype)
    array = base if order == "C" else base.T
    t = hurray.from_dlpack(array, copy=False)
    assert t.dtype.name == np.dtype(dtype).name
    assert data_pointer(t) == array.ctypes.data
    assert np.array_equal(np.from_dlpack(t), array)


def test_numpy_read_only_arrays():
    array = counted()
    array.flags.writeable = False
    assert hurray.from_dlpack(array).readonly


def test_a_numpy_array_lives_as_long_as_the_tensor():
    array = counted((100,))
    watch = weakref.ref(array)
    before = sys.getrefcount(array)
    t = hurray.from_dlpack(array)
    assert sys.getrefcount(array) == before + 1
    del array
    gc.collect()
    assert watch() is not None
    assert np.from_dlpack(t)[99] == 99
    del t
    assert watch() is None


def test_views_keep_the_producer_alive():
    producer = Producer(counted((4, 4)))
    t = hurray.from_dlpack(producer)
    view, raw = t.T, t.buffer(0)
    array = np.from_dlpack(view)
    del t, view
    gc.collect()
    assert producer.deleted == 0
    del raw
    assert producer.deleted == 0
    del array
    assert producer.deleted == 1


def test_a_deleter_may_be_missing():
    """NULL means that nothing needs to be freed."""
    for version in (None, (1, 0)):
        t = hurray.from_dlpack(Producer(counted(), version=version, deleter=False))
        assert np.from_dlpack(t).tolist() == [[0, 1, 2], [3, 4, 5]]
        del t


def test_unknown_flags_are_ignored():
    t = hurray.from_dlpack(Producer(counted(), flags=1 << 40))
    assert not t.readonly


@pytest.mark.parametrize("dtype", [(BFLOAT, 16, 1), (FLOAT, 16, 1), (UINT, 16, 1)])
def test_types_of_one_width_are_told_apart(dtype):
    names = {(BFLOAT, 16): "bfloat16", (FLOAT, 16): "float16", (UINT, 16): "uint16"}
    t = hurray.from_dlpack(Producer(aligned((4,), np.uint16), dtype=dtype))
    assert t.dtype.name == names[dtype[:2]]
