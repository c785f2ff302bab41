"""Memory of other devices (spec 8.3, 8.6): pointers pass through, and are never dereferenced.

The addresses belong to nobody, so that touching one would end the process.
"""

from __future__ import annotations

import builtins
import copy
import gc

import numpy as np
import pytest
from dlpack_abi import (
    BFLOAT,
    BOOL,
    FLOAT,
    READ_ONLY,
    Producer,
    aligned,
    capsule_name,
    managed,
)

import hurray

# DLDeviceType -> kind, memory class: the table of spec 8.6, read from the right.
FROM_DLPACK = {
    1: ("cpu", "standard"),
    2: ("cuda", "standard"),
    3: ("cuda", "host_pinned"),
    13: ("cuda", "unified"),
    10: ("rocm", "standard"),
    11: ("rocm", "host_pinned"),
    8: ("metal", "standard"),
    7: ("vulkan", "standard"),
    15: ("webgpu", "standard"),
    16: ("hexagon", "standard"),
    14: ("level_zero", "standard"),
    4: ("opencl", "standard"),
}
ELSEWHERE = [number for number in FROM_DLPACK if number != 1]

# … and from the left: every valid pair of spec 1.6 -> DLDeviceType, None where there is none.
TO_DLPACK = {
    ("cpu", "standard"): 1,
    ("cpu", "host_pinned"): 1,
    ("cpu", "unified"): 1,
    ("cuda", "standard"): 2,
    ("cuda", "host_pinned"): 3,
    ("cuda", "unified"): 13,
    ("cuda", "peer"): None,
    ("rocm", "standard"): 10,
    ("rocm", "host_pinned"): 11,
    ("rocm", "unified"): None,
    ("rocm", "peer"): None,
    ("metal", "standard"): 8,
    ("metal", "host_pinned"): 8,
    ("metal", "unified"): 8,
    ("vulkan", "standard"): 7,
    ("vulkan", "host_pinned"): 7,
    ("vulkan", "unified"): 7,
    ("vulkan", "peer"): None,
    ("webgpu", "standard"): 15,
    ("hexagon", "standard"): 16,
    ("hexagon", "host_pinned"): 16,
    ("hexagon", "unified"): 16,
    ("level_zero", "standard"): 14,
    ("level_zero", "host_pinned"): 14,
    ("level_zero", "unified"): 14,
    ("level_zero", "peer"): None,
    ("opencl", "standard"): 4,
    ("opencl", "host_pinned"): 4,
    ("opencl", "unified"): 4,
    (0xF0, "standard"): None,
    (0xF3, 0xF1): None,
}

# Devices whose `data` is a handle of an API rather than an address.
HANDLES = {4, 7, 8, 15}

ADDRESS = 0x7F00_0000_0000


class FakeCuPy:
    """An array of a device framework: __dlpack__(stream, …) and __dlpack_device__, like CuPy's."""

    def __init__(self, device, data=ADDRESS, shape=(4, 8), **struct):
        self.producer = Producer(data, shape, device=device, **struct)
        self.streams = []
        self.requests = []

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.streams.append(stream)
        self.requests.append({"max_version": max_version, "dl_device": dl_device, "copy": copy})
        if max_version is None or max_version[0] < 1:
            self.producer.version, self.producer.name = None, "dltensor"
        return self.producer.capsule()

    def __dlpack_device__(self):
        return self.producer.device


class OldFakeCuPy:
    """The same from before DLPack 1: stream is the only argument."""

    def __init__(self, device, data=ADDRESS, shape=(4, 8), **struct):
        self.producer = Producer(data, shape, device=device, version=None, **struct)
        self.streams = []

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.producer.capsule()

    def __dlpack_device__(self):
        return self.producer.device


class Consumer:
    """What a device framework's from_dlpack finds out about an object."""

    def __init__(self, source, *, stream=None, max_version=(1, 0)):
        self.device = source.__dlpack_device__()
        self.capsule = source.__dlpack__(stream=stream, max_version=max_version)
        tensor = managed(self.capsule).dl_tensor
        self.struct_device = (tensor.device.device_type, tensor.device.device_id)
        self.data = tensor.data
        self.byte_offset = tensor.byte_offset
        self.element_0 = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
        self.strides = tuple(tensor.strides[k] for k in range(tensor.ndim))
        self.dtype = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
        self.flags = managed(self.capsule).flags if max_version else 0


# ---- in and out ----


@pytest.mark.parametrize("make", [FakeCuPy, OldFakeCuPy])
@pytest.mark.parametrize("device_id", [0, 1, 7])
@pytest.mark.parametrize("number", ELSEWHERE)
def test_the_same_pointer_in_and_out(number, device_id, make):
    source = make((number, device_id))
    t = hurray.from_dlpack(source)
    kind, memory_class = FROM_DLPACK[number]
    assert t.device == hurray.Device(kind, device_id, memory_class)
    assert (t.device.kind, t.device.memory_class) == (kind, memory_class)
    assert t.device.device_id == device_id
    assert (t.shape, t.dtype, t.layout) == ((4, 8), hurray.float32, hurray.RowMajorLayout())
    assert t.buffer_handles[0].byte_size == 128
    assert t.buffer_handles[0].device is t.device
    assert source.producer.deleted == 0

    for max_version in (None, (1, 0)):
        seen = Consumer(t, max_version=max_version)
        assert seen.device == seen.struct_device == (number, device_id)
        assert (seen.data, seen.byte_offset) == (ADDRESS, 0)
        assert (seen.shape, seen.strides) == ((4, 8), (8, 1))
        assert seen.dtype == (FLOAT, 32, 1)
        assert seen.flags == 0
    del seen, t
    gc.collect()
    assert source.producer.deleted == 1


@pytest.mark.parametrize("off_by", [1, 4, 31, 63, 64, 100, 4095])
@pytest.mark.parametrize("number", ELSEWHERE)
def test_unaligned_addresses(number, off_by):
    """No copy could be made: the address goes out as it came, and the descriptor stays valid."""
    source = FakeCuPy((number, 0), ADDRESS + off_by)
    t = hurray.from_dlpack(source, copy=False)
    assert Consumer(t).element_0 == ADDRESS + off_by
    assert t.buffer_handles[0].alignment >= 64
    if number in HANDLES:
        assert Consumer(t).data == ADDRESS + off_by
        assert t.byte_offset == 0
    else:
        assert t.byte_offset == off_by % 64
        assert t.buffer_handles[0].byte_size == off_by % 64 + 128
    t.descriptor.encode()


@pytest.mark.parametrize("byte_offset", [0, 4, 64, 1 << 20])
@pytest.mark.parametrize("number", ELSEWHERE)
def test_byte_offset(number, byte_offset):
    t = hurray.from_dlpack(FakeCuPy((number, 0), byte_offset=byte_offset))
    seen = Consumer(t)
    assert seen.element_0 == ADDRESS + byte_offset
    if number in HANDLES:
        # Nothing may be added to a handle.
        assert (seen.data, seen.byte_offset) == (ADDRESS, byte_offset)
        assert t.byte_offset == byte_offset


@pytest.mark.parametrize("number", ELSEWHERE)
def test_handles_that_are_no_addresses(number):
    """Small numbers are fine as handles; an address is taken as it is, too."""
    assert Consumer(hurray.from_dlpack(FakeCuPy((number, 0), 128))).data == 128


@pytest.mark.parametrize(
    ("strides", "first"), [((1, 4), 0), ((0, 1), 0), ((0, 0), 0), ((16, 2), 0), ((-8, 1), 96)]
)
@pytest.mark.parametrize("number", ELSEWHERE)
def test_strides(number, strides, first):
    if first and number in HANDLES:
        source = FakeCuPy((number, 0), byte_offset=first, strides=strides)
    else:
        source = FakeCuPy((number, 0), ADDRESS + first, strides=strides)
    t = hurray.from_dlpack(source)
    assert t.layout == hurray.StridedLayout(strides)
    seen = Consumer(t)
    assert (seen.strides, seen.element_0) == (strides, ADDRESS + first)


@pytest.mark.parametrize("number", sorted(HANDLES))
def test_memory_before_a_handle(number):
    """A handle's memory begins at byte 0: what lies before that is nowhere."""
    with pytest.raises(hurray.BufferError, match="byte_offset"):
        hurray.from_dlpack(FakeCuPy((number, 0), strides=(-8, 1)))


@pytest.mark.parametrize("number", ELSEWHERE)
def test_no_elements(number):
    t = hurray.from_dlpack(FakeCuPy((number, 2), None, shape=(0, 3)))
    assert t.shape == (0, 3)
    assert t.device.device_id == 2
    seen = Consumer(t)
    assert (seen.data, seen.shape, seen.device) == (None, (0, 3), (number, 2))


@pytest.mark.parametrize("number", ELSEWHERE)
def test_null_data_with_elements(number):
    source = FakeCuPy((number, 0), None)
    with pytest.raises(hurray.BufferError, match="data is NULL"):
        hurray.from_dlpack(source)
    assert source.producer.deleted == 0
    source.producer.data = ADDRESS
    assert Consumer(hurray.from_dlpack(source)).data == ADDRESS


@pytest.mark.parametrize("number", ELSEWHERE)
def test_read_only(number):
    t = hurray.from_dlpack(FakeCuPy((number, 0), flags=READ_ONLY))
    assert t.readonly
    assert Consumer(t).flags == READ_ONLY
    with pytest.raises(hurray.UnsupportedError, match="read-only"):
        t.__dlpack__()


@pytest.mark.parametrize("number", ELSEWHERE)
def test_a_transpose_on_a_device(number):
    t = hurray.from_dlpack(FakeCuPy((number, 0)))
    seen = Consumer(t.T)
    assert (seen.shape, seen.strides, seen.data) == ((8, 4), (1, 8), ADDRESS)
    assert t.T.device == t.device


@pytest.mark.parametrize("number", ELSEWHERE)
def test_bfloat16(number):
    t = hurray.from_dlpack(FakeCuPy((number, 0), dtype=(BFLOAT, 16, 1)))
    assert t.dtype is hurray.bfloat16
    assert Consumer(t).dtype == (BFLOAT, 16, 1)


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("number", ELSEWHERE)
def test_bool_is_not_packed_there(number, copy):
    source = FakeCuPy((number, 0), dtype=(BOOL, 8, 1))
    expected = hurray.CopyRequiredError if copy is False else hurray.UnsupportedError
    with pytest.raises(expected, match="bool"):
        hurray.from_dlpack(source, copy=copy)
    assert source.producer.deleted == 0


# ---- what the producer is asked ----


@pytest.mark.parametrize("number", ELSEWHERE)
def test_the_stream_that_a_producer_receives(number):
    """None: the default stream, so that the tensor is ready for every stream that waits for it."""
    for make in (FakeCuPy, OldFakeCuPy):
        source = make((number, 0))
        hurray.from_dlpack(source)
        assert source.streams == [None]


class StreamRequired:
    """A producer that insists on being told a stream."""

    def __init__(self):
        self.producer = Producer(ADDRESS, (4,), device=(2, 0))

    def __dlpack__(self, *, stream, **request):
        assert stream is None
        return self.producer.capsule()

    def __dlpack_device__(self):
        return (2, 0)


def test_a_producer_that_insists_on_a_stream():
    assert Consumer(hurray.from_dlpack(StreamRequired())).data == ADDRESS


@pytest.mark.parametrize("number", ELSEWHERE)
def test_copy_true_asks_the_producer(number):
    source = FakeCuPy((number, 0))
    t = hurray.from_dlpack(source, copy=True)
    assert source.requests == [{"max_version": (1, 3), "dl_device": None, "copy": True}]
    assert Consumer(t).data == ADDRESS


@pytest.mark.parametrize("number", ELSEWHERE)
def test_copy_true_of_a_producer_that_cannot(number):
    """To leave the argument out would share, which is not what was asked for."""
    source = OldFakeCuPy((number, 0))
    with pytest.raises(hurray.UnsupportedError, match=r"OldFakeCuPy.*copy"):
        hurray.from_dlpack(source, copy=True)
    assert source.streams == []


@pytest.mark.parametrize("number", ELSEWHERE)
def test_copy_true_of_a_bare_capsule(number):
    producer = Producer(ADDRESS, (4,), device=(number, 0))
    capsule = producer.capsule()
    with pytest.raises(hurray.UnsupportedError, match=FROM_DLPACK[number][0]):
        hurray.from_dlpack(capsule, copy=True)
    assert capsule_name(capsule) == "dltensor_versioned"
    assert producer.deleted == 0
    assert Consumer(hurray.from_dlpack(capsule)).data == ADDRESS


def test_to_another_device_the_producer_moves():
    source = FakeCuPy((2, 1))
    with pytest.raises(hurray.BufferError, match=r"\(2, 1\)"):
        # This one ignores the request; nothing may pretend that the memory is elsewhere.
        hurray.from_dlpack(source, device=hurray.Device("cuda", 0))
    assert source.requests[0]["dl_device"] == (2, 0)
    assert source.producer.deleted == 0


def test_device_where_it_is():
    source = FakeCuPy((2, 1))
    t = hurray.from_dlpack(source, device=hurray.Device("cuda", 1))
    assert source.requests[0]["dl_device"] is None
    assert Consumer(t).data == ADDRESS


# ---- what cannot be done with memory that is elsewhere ----

READS = {
    "__array__": lambda t: t.__array__(),
    "__array__ copy": lambda t: t.__array__(copy=True),
    "to_numpy": lambda t: t.to_numpy(),
    "numpy.asarray": np.asarray,
    "deepcopy": copy.deepcopy,
    "dlpack copy": lambda t: t.__dlpack__(copy=True),
}


@pytest.mark.parametrize("read", READS, ids=str)
@pytest.mark.parametrize("number", ELSEWHERE)
def test_bytes_elsewhere_are_never_read(number, read):
    t = hurray.from_dlpack(FakeCuPy((number, 0)))
    with pytest.raises(hurray.UnsupportedError, match=FROM_DLPACK[number][0]):
        READS[read](t)
    with pytest.raises(hurray.UnsupportedError, match=FROM_DLPACK[number][0]):
        READS[read](t.buffer(0))
    assert Consumer(t).data == ADDRESS


@pytest.mark.parametrize("number", ELSEWHERE)
def test_the_buffer_protocol_elsewhere(number):
    t = hurray.from_dlpack(FakeCuPy((number, 0)))
    for taker in (memoryview, bytes, bytearray):
        with pytest.raises((builtins.BufferError, hurray.UnsupportedError, TypeError)):
            taker(t)
    assert not hasattr(t, "__array_interface__")


@pytest.mark.parametrize("number", [n for n in ELSEWHERE if FROM_DLPACK[n][1] == "standard"])
def test_numpy_from_dlpack_elsewhere(number):
    """NumPy knows that the memory is not its own. (Pinned and managed memory it would read.)"""
    with pytest.raises((RuntimeError, builtins.BufferError, ValueError)):
        np.from_dlpack(hurray.from_dlpack(FakeCuPy((number, 0))))


@pytest.mark.parametrize("number", ELSEWHERE)
def test_repr_shows_no_elements(number):
    t = hurray.from_dlpack(FakeCuPy((number, 0)))
    assert "shape=(4, 8)" in repr(t)
    assert FROM_DLPACK[number][0] in repr(t)
    assert "\n" not in repr(t)
    assert "shape=(4, 8)" in str(t)


# ---- the table ----


@pytest.mark.parametrize("pair", TO_DLPACK, ids=str)
def test_dlpack_device_of_every_device_and_memory_class(pair):
    kind, memory_class = pair
    device = hurray.Device(kind, 3, memory_class)
    t = hurray.Tensor(bytes(16), hurray.float32, [4], device)
    number = TO_DLPACK[pair]
    if number is not None:
        assert t.__dlpack_device__() == (number, 3)
    else:
        with pytest.raises(hurray.UnsupportedError) as caught:
            t.__dlpack_device__()
        assert isinstance(caught.value, builtins.BufferError)
        assert "DLPack" in str(caught.value)


def test_the_tables_agree():
    for number, pair in FROM_DLPACK.items():
        assert TO_DLPACK[pair] == number
    assert set(TO_DLPACK.values()) - {None} == set(FROM_DLPACK)


# ---- declared placements: host bytes that stand in for a device's ----

DECLARED = [pair for pair in TO_DLPACK if pair[0] != "cpu"]
VALUES = np.arange(6, dtype=np.float32)


def staged(pair) -> hurray.Tensor:
    kind, memory_class = pair
    return hurray.Tensor(
        VALUES.tobytes(), hurray.float32, [2, 3], hurray.Device(kind, 0, memory_class)
    )


HANDOVERS = {
    "__dlpack__": lambda t: t.__dlpack__(max_version=(1, 0)),
    "legacy": lambda t: t.__dlpack__(),
    "from_dlpack": hurray.from_dlpack,
    "numpy.asarray": np.asarray,
    **READS,
}
del HANDOVERS["deepcopy"]  # hands out nothing


@pytest.mark.parametrize("handover", HANDOVERS, ids=str)
@pytest.mark.parametrize("pair", DECLARED, ids=str)
def test_a_declared_placement_hands_out_no_pointer(pair, handover):
    t = staged(pair)
    reason = "host memory|DLPack has no device type"
    with pytest.raises(hurray.UnsupportedError, match=reason):
        HANDOVERS[handover](t)
    assert t.shape == (2, 3)


@pytest.mark.parametrize("pair", [pair for pair in DECLARED if TO_DLPACK[pair]], ids=str)
def test_a_declared_placement_says_why(pair):
    with pytest.raises(hurray.UnsupportedError) as caught:
        staged(pair).__dlpack__()
    assert isinstance(caught.value, builtins.BufferError)
    assert pair[0] in str(caught.value)
    assert "host memory" in str(caught.value)


@pytest.mark.parametrize("pair", DECLARED, ids=str)
def test_a_declared_placement_has_no_buffer(pair):
    t = staged(pair)
    for whole in (t, t.buffer(0), t.T):
        with pytest.raises((builtins.BufferError, hurray.UnsupportedError)):
            memoryview(whole)
        assert not hasattr(whole, "__array_interface__")
        with pytest.raises(hurray.UnsupportedError):
            np.asarray(whole)
        with pytest.raises(hurray.UnsupportedError):
            whole.__dlpack__()


@pytest.mark.parametrize("pair", DECLARED, ids=str)
def test_a_declared_placement_can_be_described(pair):
    t = staged(pair)
    kind, memory_class = pair
    assert t.device == hurray.Device(kind, 0, memory_class)
    assert t.buffer_handles[0].device is t.device
    assert t.nbytes == 24
    assert hurray.Descriptor.decode(t.descriptor.encode()) == t.descriptor
    assert "shape=(2, 3)" in repr(t)
    assert t.buffer(0).device == t.device


@pytest.mark.parametrize("pair", [("cpu", "host_pinned"), ("cpu", "unified")], ids=str)
def test_every_memory_class_of_the_cpu_is_host_memory(pair):
    t = staged(pair)
    assert np.from_dlpack(t).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.asarray(t).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert t.__dlpack_device__() == (1, 0)


# ---- the CPU ----


def test_a_cpu_with_a_number():
    """(1, 5) is odd, and kept."""
    array = aligned((4,))
    t = hurray.from_dlpack(Producer(array, device=(1, 5)))
    assert t.device == hurray.Device("cpu", 5)
    assert t.__dlpack_device__() == (1, 5)
    assert Consumer(t).struct_device == (1, 5)


def test_device_ids_from_producers_are_kept():
    for device_id in (0, 1, 2**31 - 1):
        t = hurray.from_dlpack(FakeCuPy((2, device_id)))
        assert t.device.device_id == device_id
