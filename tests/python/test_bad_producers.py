"""Producers that break DLPack's rules: the error that from_dlpack gives, and that all stays usable.

After each failure the capsule has its name back, nothing was freed, and the same producer works once
it says the truth.
"""

from __future__ import annotations

import builtins
import ctypes
import gc

import numpy as np
import pytest
from dlpack_abi import (
    BOOL,
    FLOAT,
    INT,
    LEGACY,
    OPAQUE,
    UINT,
    VERSIONED,
    Producer,
    aligned,
    capsule_name,
    managed,
    new_capsule,
    rename_capsule,
)

import hurray

BOTH = pytest.mark.parametrize("version", [None, (1, 3)], ids=["legacy", "versioned"])

VALUES = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def array_of_six() -> np.ndarray:
    array = aligned((2, 3))
    array[:] = VALUES
    return array


def check_usable(producer: Producer, **truth: object) -> None:
    """The producer, corrected, is taken in, and the deleter runs once, for that import."""
    for name, value in truth.items():
        setattr(producer, name, value)
    before = producer.deleted
    t = hurray.from_dlpack(producer)
    assert np.from_dlpack(t).tolist() == VALUES
    del t
    assert producer.deleted == before + 1


def check_refused(producer: Producer, exception: type, match: str, **kwargs: object) -> None:
    """Refused through the object and through a bare capsule, which stays as it was."""
    name = producer.name
    deleted = producer.deleted
    for attempt in (producer, producer.capsule()):
        for _ in range(2):
            with pytest.raises(exception, match=match) as caught:
                hurray.from_dlpack(attempt, **kwargs)
            assert "\n" not in str(caught.value)
    assert all(capsule_name(capsule) == name for capsule in producer.capsules)
    gc.collect()
    assert producer.deleted == deleted


# ---- capsules ----


@BOTH
def test_a_consumed_capsule(version):
    producer = Producer(array_of_six(), version=version)
    capsule = producer.capsule()
    t = hurray.from_dlpack(capsule)
    for _ in range(2):
        with pytest.raises(hurray.BufferError, match="consumed"):
            hurray.from_dlpack(capsule)
    assert producer.deleted == 0
    assert np.from_dlpack(t).tolist() == VALUES
    del t
    assert producer.deleted == 1
    with pytest.raises(hurray.BufferError, match="consumed"):
        hurray.from_dlpack(capsule)
    assert producer.deleted == 1


def test_a_capsule_that_numpy_consumed():
    capsule = hurray.zeros([3]).__dlpack__(max_version=(1, 0))

    class Carrier:
        def __dlpack__(self, **kwargs):
            return capsule

        def __dlpack_device__(self):
            return (1, 0)

    assert np.from_dlpack(Carrier()).tolist() == [0, 0, 0]
    with pytest.raises(hurray.BufferError, match="consumed"):
        hurray.from_dlpack(capsule)


@pytest.mark.parametrize(
    "name", [None, "", "dltensor2", "hurray_tensor", "DLTENSOR", "dltensor_versioned2"]
)
def test_a_capsule_of_another_name(name):
    producer = Producer(array_of_six())
    capsule = producer.capsule()
    rename_capsule(capsule, name)
    with pytest.raises(hurray.BufferError, match="dltensor_versioned"):
        hurray.from_dlpack(capsule)
    assert capsule_name(capsule) == name
    rename_capsule(capsule, VERSIONED)
    t = hurray.from_dlpack(capsule)
    assert np.from_dlpack(t).tolist() == VALUES


def test_a_capsule_name_that_is_not_text():
    name = ctypes.create_string_buffer(b"\xff%s\n\x80")
    set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    capsule = new_capsule(1, "x")
    set_name(("PyCapsule_SetName", ctypes.pythonapi))(capsule, ctypes.addressof(name))
    with pytest.raises(hurray.BufferError):
        hurray.from_dlpack(capsule)


@pytest.mark.parametrize("result", [None, 1, b"dltensor", [], object()])
def test_dlpack_that_returns_something_else(result):
    class Wrong(Producer):
        answer: object = result

        def __dlpack__(self, **request):
            return self.answer if self.answer is not self else super().__dlpack__(**request)

    producer = Wrong(array_of_six())
    for _ in range(2):
        with pytest.raises(hurray.BufferError, match="capsule"):
            hurray.from_dlpack(producer)
    check_usable(producer, answer=producer)


def test_dlpack_that_returns_itself():
    class Itself:
        def __dlpack__(self, **request):
            return self

    with pytest.raises(hurray.BufferError, match="Itself"):
        hurray.from_dlpack(Itself())


# ---- producers that raise ----


class Failing(Producer):
    failure: Exception | None = None
    device_failure: Exception | None = None

    def __dlpack__(self, **request):
        if self.failure is not None:
            raise self.failure
        return super().__dlpack__(**request)

    def __dlpack_device__(self):
        if self.device_failure is not None:
            raise self.device_failure
        return super().__dlpack_device__()


@pytest.mark.parametrize(
    "exception",
    [builtins.BufferError, ValueError, RuntimeError, TypeError, KeyboardInterrupt, MemoryError],
)
@pytest.mark.parametrize("where", ["failure", "device_failure"])
def test_a_producers_own_exception_comes_through(exception, where):
    producer = Failing(array_of_six())
    failure = exception("in its own words")
    setattr(producer, where, failure)
    with pytest.raises(exception) as caught:
        hurray.from_dlpack(producer)
    assert caught.value is failure
    assert producer.deleted == 0
    check_usable(producer, **{where: None})


def test_a_type_error_inside_a_modern_producer_is_not_hidden():
    """Asked again without the newer arguments, it fails again, and that is what is reported."""

    class Confused:
        calls = 0

        def __dlpack__(self, **request):
            self.calls += 1
            raise TypeError("unsupported operand")

    producer = Confused()
    with pytest.raises(TypeError, match="unsupported operand"):
        hurray.from_dlpack(producer)
    assert producer.calls == 2


def test_attribute_error_inside_dlpack_device():
    """Raised by the method, rather than for want of it."""
    producer = Failing(array_of_six())
    producer.device_failure = AttributeError("no driver")
    with pytest.raises(AttributeError, match="no driver"):
        hurray.from_dlpack(producer)


# ---- __dlpack_device__ ----


def test_no_dlpack_device():
    class Undeclared:
        inner = Producer(array_of_six())

        def __dlpack__(self, **request):
            return self.inner.capsule()

    assert np.from_dlpack(hurray.from_dlpack(Undeclared())).tolist() == VALUES


@pytest.mark.parametrize("device", [None, 1, "cpu", (1,), (1, 0, 0), ("cpu", 0), (1.0, 0)])
def test_dlpack_device_that_is_no_pair_of_integers(device):
    producer = Producer(array_of_six())
    producer.__class__ = type("Odd", (Producer,), {"__dlpack_device__": lambda self: device})
    with pytest.raises(TypeError):
        hurray.from_dlpack(producer)
    assert producer.requests == []


@pytest.mark.parametrize("claimed", [(2, 0), (1, 7), (99, -1)])
def test_dlpack_device_that_lies(claimed):
    """Only the struct says where the memory is; the claim decides what the producer is asked."""
    producer = Producer(array_of_six())
    producer.__class__ = type("Liar", (Producer,), {"__dlpack_device__": lambda self: claimed})
    t = hurray.from_dlpack(producer)
    assert t.device == hurray.device.cpu
    assert np.from_dlpack(t).tolist() == VALUES


# ---- structs ----


@pytest.mark.parametrize("version", [(0, 0), (0, 8), (2, 0), (3, 7), (2**32 - 1, 0)])
def test_another_major_version(version):
    """No more than the version is read of a struct whose layout is not known."""
    producer = Producer(array_of_six(), version=version, ndim=-(2**31))
    check_refused(producer, hurray.BufferError, rf"{version[0]}\.{version[1]}.*major 1")
    check_usable(producer, version=(1, 0), ndim=2)


def test_another_major_version_in_a_struct_that_ends_there():
    """Under a sanitizer, reading on would be seen."""
    short = (ctypes.c_uint32 * 2)(7, 0)
    capsule = new_capsule(ctypes.addressof(short), VERSIONED)
    with pytest.raises(hurray.BufferError, match=r"7\.0"):
        hurray.from_dlpack(capsule)


@BOTH
@pytest.mark.parametrize("lanes", [0, 2, 4, 65535])
def test_lanes(lanes, version):
    producer = Producer(array_of_six(), dtype=(FLOAT, 32, lanes), version=version)
    check_refused(producer, hurray.UnsupportedError, rf"{lanes} lanes")
    check_usable(producer, dtype=(FLOAT, 32, 1))


@BOTH
@pytest.mark.parametrize(
    ("code", "bits"),
    [
        (OPAQUE, 64),
        (INT, 4),
        (UINT, 1),
        (INT, 128),
        (FLOAT, 8),
        (FLOAT, 80),
        (FLOAT, 128),
        (FLOAT, 0),
        (BOOL, 1),
        (BOOL, 32),
        (7, 8),
        (17, 4),
        (200, 8),
        (255, 255),
    ],
)
def test_unknown_types(code, bits, version):
    producer = Producer(array_of_six(), dtype=(code, bits, 1), version=version)
    check_refused(producer, hurray.UnsupportedError, rf"code {code}\b.*\b{bits} bits")
    check_usable(producer, dtype=(FLOAT, 32, 1))


@BOTH
@pytest.mark.parametrize("device_type", [-1, 0, 5, 6, 9, 12, 17, 18, 99, 2**31 - 1, -(2**31)])
def test_unknown_devices(device_type, version):
    producer = Producer(array_of_six(), device=(device_type, 0), version=version)
    check_refused(producer, hurray.UnsupportedError, rf"device type {device_type}\b")
    check_usable(producer, device=(1, 0))


@BOTH
@pytest.mark.parametrize("ndim", [-1, 65, 2**31 - 1, -(2**31)])
def test_ndim(ndim, version):
    producer = Producer(array_of_six(), version=version, ndim=ndim)
    check_refused(producer, hurray.BufferError, rf"ndim {ndim}\b")
    check_usable(producer, ndim=2)


def test_65_dimensions_that_are_there():
    producer = Producer(array_of_six(), [1] * 65, [1] * 65)
    check_refused(producer, hurray.BufferError, "ndim 65")
    check_usable(producer, shape=[2, 3], strides=None, ndim=2)


@BOTH
@pytest.mark.parametrize("shape", [(-1, 3), (2, -3), (-2, -3), (-(2**63), 1), (0, -1)])
def test_negative_extents(shape, version):
    producer = Producer(array_of_six(), shape, version=version)
    check_refused(producer, hurray.BufferError, r"shape\[[01]\] is -")
    check_usable(producer, shape=[2, 3])


@BOTH
def test_null_shape(version):
    producer = Producer(array_of_six(), version=version)
    capsule = producer.capsule()
    managed(capsule).dl_tensor.shape = None
    with pytest.raises(hurray.BufferError, match="shape is NULL"):
        hurray.from_dlpack(capsule)
    assert producer.deleted == 0
    check_usable(producer)


@BOTH
def test_null_shape_of_a_scalar_is_fine(version):
    producer = Producer(aligned((1,)), (), version=version)
    capsule = producer.capsule()
    managed(capsule).dl_tensor.shape = None
    assert hurray.from_dlpack(capsule).shape == ()


@BOTH
def test_null_strides_mean_row_major(version):
    producer = Producer(array_of_six(), strides=None, version=version)
    capsule = producer.capsule()
    assert not managed(capsule).dl_tensor.strides
    t = hurray.from_dlpack(capsule, copy=False)
    assert t.layout == hurray.RowMajorLayout()
    assert np.from_dlpack(t).tolist() == VALUES
    misaligned = aligned((2, 3), off_by=4)
    misaligned[:] = VALUES
    t = hurray.from_dlpack(Producer(misaligned, strides=None, version=version))
    assert np.from_dlpack(t).tolist() == VALUES


@BOTH
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
@pytest.mark.parametrize("copy", [None, False, True])
def test_null_data_with_elements(shape, copy, version):
    producer = Producer(None, shape, version=version)
    check_refused(producer, hurray.BufferError, r"data is NULL for \d+ element", copy=copy)
    values = array_of_six()  # alive while it is read
    check_usable(producer, data=values.ctypes.data, shape=[2, 3], ndim=2)


def test_null_data_with_an_offset():
    producer = Producer(None, (2, 3), byte_offset=4096)
    check_refused(producer, hurray.BufferError, "data is NULL")


@BOTH
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize(
    "shape", [(2**62, 2**62), (2**63 - 1, 2**63 - 1), (2**32, 2**32), (2**31, 2**31, 2**31)]
)
def test_too_many_elements(shape, copy, version):
    producer = Producer(array_of_six(), shape, version=version)
    check_refused(producer, hurray.InvalidDescriptorError, r"2\^64 or more", copy=copy)
    check_usable(producer, shape=[2, 3], ndim=2)


@BOTH
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("shape", [(2**62,), (2**63 - 1,), (2**31, 2**31)])
def test_more_bytes_than_the_address_space(shape, copy, version):
    producer = Producer(array_of_six(), shape, version=version)
    check_refused(producer, hurray.BufferError, "address space", copy=copy)


@BOTH
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize(
    "strides",
    [
        (2**62, 1),
        (-(2**62), 1),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (1, -(2**61)),
        (3, 2**61),
    ],
)
def test_strides_beyond_the_address_space(strides, copy, version):
    producer = Producer(array_of_six(), strides=strides, version=version)
    check_refused(producer, hurray.BufferError, "strides reach", copy=copy)
    check_usable(producer, strides=None)


@BOTH
@pytest.mark.parametrize("byte_offset", [2**64 - 1, 2**64 - 64])
def test_byte_offset_beyond_the_address_space(byte_offset, version):
    producer = Producer(array_of_six(), byte_offset=byte_offset, version=version)
    check_refused(producer, hurray.BufferError, "address space")
    check_usable(producer, byte_offset=0)


def test_bytes_beyond_the_end_of_the_address_space():
    producer = Producer(2**64 - 64, (64,))
    check_refused(producer, hurray.BufferError, "address space")


@pytest.mark.parametrize("copy", [None, False, True])
def test_bool_extents_that_overflow_when_counted(copy):
    producer = Producer(aligned((8,), np.uint8), (2**40, 2**40), dtype=(BOOL, 8, 1))
    check_refused(producer, hurray.InvalidDescriptorError, r"2\^64 or more", copy=copy)


# ---- producers that change while they are asked ----


def test_a_producer_that_exports_to_someone_else_meanwhile():
    """A consumer inside __dlpack__ takes the capsule first."""

    class Greedy(Producer):
        def __dlpack__(self, **request):
            capsule = super().__dlpack__(**request)
            self.taken = hurray.from_dlpack(capsule)
            return capsule

    producer = Greedy(array_of_six())
    with pytest.raises(hurray.BufferError, match="consumed"):
        hurray.from_dlpack(producer)
    assert np.from_dlpack(producer.taken).tolist() == VALUES
    assert producer.deleted == 0
    del producer.taken
    assert producer.deleted == 1


def test_a_producer_that_deletes_its_method():
    class Vanishing:
        inner = Producer(array_of_six())

        def __dlpack_device__(self):
            del Vanishing.__dlpack__
            return (1, 0)

        def __dlpack__(self, **request):
            return self.inner.capsule()

    with pytest.raises(AttributeError):
        hurray.from_dlpack(Vanishing())


def test_a_producer_that_resizes_itself():
    """The export keeps what it was made from: a bytearray under a view refuses to be resized."""
    backing = bytearray(np.arange(64, dtype=np.float32).tobytes())

    class Resizing:
        def __init__(self):
            self.array = np.frombuffer(backing, np.float32)

        def __dlpack__(self, **request):
            capsule = self.array.__dlpack__(**request)
            with pytest.raises(builtins.BufferError):
                backing.extend(bytes(1 << 20))
            return capsule

        def __dlpack_device__(self):
            return (1, 0)

    t = hurray.from_dlpack(Resizing())
    assert np.from_dlpack(t).tolist() == list(range(64))


def test_a_producer_whose_shape_changes_after_the_export():
    """shape and strides are read once; what the struct says later changes nothing."""
    producer = Producer(array_of_six(), strides=(3, 1))
    t = hurray.from_dlpack(producer)
    tensor = managed(producer.capsules[0]).dl_tensor
    tensor.shape[0] = 10**9
    tensor.strides[0] = -(10**9)
    tensor.ndim = 99
    assert t.shape == (2, 3)
    assert t.strides == (3, 1)
    assert np.from_dlpack(t).tolist() == VALUES
    del t
    assert producer.deleted == 1


# ---- NumPy arrays that DLPack refuses, in NumPy's words ----


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, ">f4"),
        np.zeros(3, "M8[s]"),
        np.zeros(3, "S4"),
        np.zeros(3, object),
        np.zeros(3, [("a", "f4")]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_numpy_arrays_that_dlpack_cannot_carry(array):
    with pytest.raises(builtins.BufferError):
        hurray.from_dlpack(array)
    with pytest.raises(builtins.BufferError):
        np.from_dlpack(array)


def test_longdouble_has_no_counterpart():
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("longdouble is float64 on this platform")
    with pytest.raises((hurray.UnsupportedError, builtins.BufferError)):
        hurray.from_dlpack(aligned((4,), np.longdouble))


def test_memory_freed_by_another_owner():
    """The deleter is all that keeps the memory: it has not run while the tensor lives."""
    import weakref

    class Owner(np.ndarray):
        pass

    owner = aligned((1000,)).view(Owner)
    owner[:] = 3
    watch = weakref.ref(owner)
    t = hurray.from_dlpack(owner)
    del owner
    gc.collect()
    assert watch() is not None
    noise = [np.full(1000, 9.0, np.float32) for _ in range(100)]
    assert np.from_dlpack(t).tolist() == [3] * 1000
    del noise, t
    gc.collect()
    assert watch() is None


def test_the_names_of_the_capsules_are_the_ones_of_dlpack():
    assert (LEGACY, VERSIONED) == ("dltensor", "dltensor_versioned")
