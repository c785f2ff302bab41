"""Tensor.__dlpack__ and __dlpack_device__ (spec 8.6): what a consumer finds in the capsule."""

from __future__ import annotations

import builtins
import ctypes
import enum
import gc

import numpy as np
import pytest
from dlpack_abi import (
    DTYPE_CODES,
    IS_COPIED,
    LEGACY,
    READ_ONLY,
    VERSIONED,
    DLManagedTensor,
    DLManagedTensorVersioned,
    aligned,
    capsule_name,
    data_pointer,
    deleter_of,
    managed,
    take,
)

import hurray

STANDARD = [getattr(hurray, name) for name in DTYPE_CODES]


def make(shape=(2, 3), dtype=hurray.float32, **kwargs) -> hurray.Tensor:
    count = int(np.prod(shape))
    return hurray.Tensor(bytes(range(1, 129)) * max(count, 1), dtype, shape, **kwargs)


def extents(tensor) -> tuple[list[int], list[int] | None]:
    """shape and strides of a DLTensor; strides None for a NULL pointer."""
    shape = [tensor.shape[k] for k in range(tensor.ndim)]
    strides = [tensor.strides[k] for k in range(tensor.ndim)] if tensor.strides else None
    return shape, strides


def refused(call) -> str:
    """Both exceptions at once, as spec 8.1 wants it; gives the message."""
    with pytest.raises(hurray.UnsupportedError) as caught:
        call()
    assert isinstance(caught.value, builtins.BufferError)
    assert isinstance(caught.value, NotImplementedError)
    assert not isinstance(caught.value, hurray.BufferError)
    return str(caught.value)


# ---- which capsule ----


@pytest.mark.parametrize(
    ("max_version", "name"),
    [
        (None, LEGACY),
        ((0, 0), LEGACY),
        ((0, 8), LEGACY),
        ((0, 99), LEGACY),
        ((1, 0), VERSIONED),
        ((1, 3), VERSIONED),
        ((1, 99), VERSIONED),
        ((2, 0), VERSIONED),
        ([1, 0], VERSIONED),
        ((np.int64(1), np.uint8(0)), VERSIONED),
    ],
)
def test_the_consumers_version_chooses_the_capsule(max_version, name):
    capsule = make().__dlpack__(max_version=max_version)
    assert capsule_name(capsule) == name
    if name == VERSIONED:
        assert isinstance(managed(capsule), DLManagedTensorVersioned)
        assert (managed(capsule).version.major, managed(capsule).version.minor) == (1, 3)


def test_a_silent_consumer_gets_the_legacy_capsule():
    assert capsule_name(make().__dlpack__()) == LEGACY


@pytest.mark.parametrize("max_version", [1, "10", (1,), (1, 0, 0), (1.0, 0), (None, 0), "1.0"])
def test_a_max_version_that_is_no_pair_of_integers(max_version):
    with pytest.raises(TypeError):
        make().__dlpack__(max_version=max_version)


def test_a_max_version_beyond_c_integers():
    with pytest.raises(OverflowError):
        make().__dlpack__(max_version=(10**30, 0))


# ---- stream ----


@pytest.mark.parametrize("stream", [None, -1, 0, 1, 2, 0x7F00_0000_1000, 2**64 - 1, -5, True])
def test_any_stream_is_accepted(stream):
    t = make()
    for max_version in (None, (1, 0)):
        capsule = t.__dlpack__(stream=stream, max_version=max_version)
        assert managed(capsule).dl_tensor.data == data_pointer(t)


def test_a_stream_with_an_index():
    assert make().__dlpack__(stream=np.int64(2)) is not None


@pytest.mark.parametrize("stream", ["1", 1.0, (), object()])
def test_a_stream_of_another_type(stream):
    with pytest.raises(TypeError, match="stream must be an integer or None"):
        make().__dlpack__(stream=stream)


# ---- arguments ----


def test_arguments_are_keyword_only_and_known():
    t = make()
    with pytest.raises(TypeError):
        t.__dlpack__(None)
    with pytest.raises(TypeError):
        t.__dlpack__(streams=1)
    with pytest.raises(TypeError):
        t.__dlpack_device__(1)
    # An explicit None is the default.
    capsule = t.__dlpack__(stream=None, max_version=None, dl_device=None, copy=None)
    assert capsule_name(capsule) == LEGACY


# ---- dl_device ----


class DLDeviceType(enum.IntEnum):
    kDLCPU = 1
    kDLCUDA = 2


@pytest.mark.parametrize("dl_device", [(1, 0), [1, 0], (DLDeviceType.kDLCPU, 0)])
def test_dl_device_that_is_the_tensors_own(dl_device):
    t = make()
    capsule = t.__dlpack__(dl_device=dl_device, max_version=(1, 0))
    assert managed(capsule).dl_tensor.data == data_pointer(t)


@pytest.mark.parametrize("dl_device", [(2, 0), (DLDeviceType.kDLCUDA, 0), (1, 1), (3, 0), (99, 0)])
def test_dl_device_elsewhere(dl_device):
    t = make()
    message = refused(lambda: t.__dlpack__(dl_device=dl_device))
    assert "(1, 0)" in message and f"({int(dl_device[0])}, {dl_device[1]})" in message
    # A copy would not be there either.
    refused(lambda: t.__dlpack__(dl_device=dl_device, copy=True))


@pytest.mark.parametrize("dl_device", [1, (1,), ("cpu", 0), "cpu"])
def test_dl_device_that_is_no_pair(dl_device):
    with pytest.raises(TypeError):
        make().__dlpack__(dl_device=dl_device)


# ---- copy, flags ----


@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("copy", [None, False])
def test_no_copy_unless_asked(copy, max_version):
    t = make()
    capsule = t.__dlpack__(copy=copy, max_version=max_version)
    assert managed(capsule).dl_tensor.data == data_pointer(t)
    if max_version:
        assert managed(capsule).flags == 0


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_copy(max_version):
    t = make()
    arr = np.from_dlpack(t)
    capsule = t.__dlpack__(copy=True, max_version=max_version)
    tensor = managed(capsule).dl_tensor
    assert tensor.data != data_pointer(t)
    assert tensor.data % 64 == 0
    if max_version:
        assert managed(capsule).flags == IS_COPIED
    copied = hurray.from_dlpack(capsule)
    assert np.from_dlpack(copied).tobytes() == arr.tobytes()
    np.from_dlpack(copied)[0, 0] = 42.0
    assert arr[0, 0] != 42.0


def test_copy_of_a_strided_tensor_is_row_major():
    base = aligned((4, 6))
    base[:] = np.arange(24).reshape(4, 6)
    t = hurray.from_dlpack(base[::-2, ::3])
    capsule = t.__dlpack__(copy=True, max_version=(1, 0))
    assert extents(managed(capsule).dl_tensor) == ([2, 2], [2, 1])
    assert np.from_dlpack(hurray.from_dlpack(capsule)).tolist() == base[::-2, ::3].tolist()


def read_only_tensor() -> hurray.Tensor:
    array = aligned((2, 3))
    array[:] = np.arange(6).reshape(2, 3)
    array.flags.writeable = False
    t = hurray.from_numpy(array, copy=False)
    assert t.readonly
    return t


def test_read_only_is_said_in_a_versioned_capsule():
    capsule = read_only_tensor().__dlpack__(max_version=(1, 0))
    assert managed(capsule).flags == READ_ONLY
    assert not np.from_dlpack(read_only_tensor()).flags.writeable


@pytest.mark.parametrize("kwargs", [{}, {"max_version": (0, 8)}, {"copy": False}])
def test_read_only_in_a_legacy_capsule_is_refused_with_the_way_out(kwargs):
    message = refused(lambda: read_only_tensor().__dlpack__(**kwargs))
    assert "read-only" in message
    assert "copy=True" in message


def test_a_copy_of_a_read_only_tensor_is_writable():
    t = read_only_tensor()
    legacy = t.__dlpack__(copy=True)
    assert capsule_name(legacy) == LEGACY
    versioned = t.__dlpack__(copy=True, max_version=(1, 0))
    assert managed(versioned).flags == IS_COPIED
    for capsule in (legacy, versioned):
        back = hurray.from_dlpack(capsule)
        assert not back.readonly
        assert np.from_dlpack(back).tolist() == [[0, 1, 2], [3, 4, 5]]


# ---- what is in it ----


@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("dtype", STANDARD, ids=str)
def test_every_standard_dtype(dtype, max_version):
    t = make((2, 3), dtype)
    capsule = t.__dlpack__(max_version=max_version)
    tensor = managed(capsule).dl_tensor
    assert (tensor.dtype.code, tensor.dtype.bits) == DTYPE_CODES[dtype.name]
    assert tensor.dtype.lanes == 1
    assert (tensor.device.device_type, tensor.device.device_id) == (1, 0)
    assert tensor.ndim == 2
    assert extents(tensor) == ([2, 3], [3, 1])
    assert tensor.byte_offset == 0
    assert tensor.data % 64 == 0


def test_every_fixed_width_standard_type_is_in_the_table():
    """The 12 fixed-width standard types but bool, and the two complex ones (spec 8.6)."""
    assert len(DTYPE_CODES) == 14
    assert all(hurray.Dtype.from_name(name).is_array_api for name in DTYPE_CODES)


def test_rank_0():
    for max_version in (None, (1, 0)):
        tensor = managed(make(()).__dlpack__(max_version=max_version)).dl_tensor
        assert tensor.ndim == 0
        assert tensor.data
    assert np.from_dlpack(make((), hurray.uint8))[()] == 1


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 5)])
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_no_elements_means_a_null_pointer(shape, max_version):
    tensor = managed(make(shape).__dlpack__(max_version=max_version)).dl_tensor
    assert tensor.data is None
    assert tensor.byte_offset == 0
    assert tensor.strides
    assert extents(tensor)[0] == list(shape)
    assert np.from_dlpack(make(shape)).shape == shape


def test_no_elements_with_an_offset():
    t = hurray.Tensor(bytes(64), hurray.float32, [0, 2], byte_offset=16)
    tensor = managed(t.__dlpack__()).dl_tensor
    assert (tensor.data, tensor.byte_offset) == (None, 0)


@pytest.mark.parametrize("rank", [1, 2, 8, 63, 64])
def test_strides_are_never_null(rank):
    t = make((1,) * rank)
    tensor = managed(t.__dlpack__()).dl_tensor
    assert tensor.ndim == rank
    assert extents(tensor) == ([1] * rank, [1] * rank)


def test_byte_offset_is_added_to_the_pointer():
    whole = hurray.Tensor(np.arange(8, dtype=np.float32).tobytes(), hurray.float32, [8])
    part = hurray.Tensor(
        np.arange(8, dtype=np.float32).tobytes(), hurray.float32, [2, 2], byte_offset=12
    )
    assert data_pointer(whole) % 64 == 0
    assert data_pointer(part) % 64 == 12
    assert np.from_dlpack(part).tolist() == [[3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("layout", "strides", "values"),
    [
        (hurray.ColMajorLayout(), [1, 2], [[0, 2, 4], [1, 3, 5]]),
        (hurray.StridedLayout((4, 1)), [4, 1], [[0, 1, 2], [4, 5, 6]]),
        (hurray.StridedLayout((0, 1)), [0, 1], [[0, 1, 2], [0, 1, 2]]),
        (hurray.StridedLayout((0, 0)), [0, 0], [[0, 0, 0], [0, 0, 0]]),
    ],
)
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_layouts_with_strides(layout, strides, values, max_version):
    data = np.arange(16, dtype=np.int32).tobytes()
    t = hurray.Tensor(data, hurray.int32, [2, 3], layout=layout)
    tensor = managed(t.__dlpack__(max_version=max_version)).dl_tensor
    assert extents(tensor) == ([2, 3], strides)
    assert np.from_dlpack(t).tolist() == values


def test_negative_strides():
    data = np.arange(6, dtype=np.int32).tobytes()
    t = hurray.Tensor(
        data, hurray.int32, [2, 3], layout=hurray.StridedLayout((-3, -1)), byte_offset=20
    )
    tensor = managed(t.__dlpack__(max_version=(1, 0))).dl_tensor
    assert extents(tensor) == ([2, 3], [-3, -1])
    assert tensor.data % 64 == 20
    assert np.from_dlpack(t).tolist() == [[5, 4, 3], [2, 1, 0]]


def test_a_transpose_shares_the_memory():
    t = make((2, 3))
    tensor = managed(t.T.__dlpack__()).dl_tensor
    assert extents(tensor) == ([3, 2], [1, 3])
    assert tensor.data == data_pointer(t)


def test_shape_and_strides_belong_to_the_capsule():
    """A consumer that writes to them changes no tensor."""
    t = make((2, 3))
    first = managed(t.__dlpack__()).dl_tensor
    capsule = t.__dlpack__()
    tensor = managed(capsule).dl_tensor
    tensor.shape[0] = 99
    tensor.strides[1] = 99
    assert t.shape == (2, 3)
    assert t.strides == (3, 1)
    assert first.shape is not tensor.shape
    assert extents(managed(t.__dlpack__()).dl_tensor) == ([2, 3], [3, 1])


# ---- refusals ----


def test_bool_is_refused_with_the_reason():
    message = refused(lambda: hurray.Tensor(b"\x05", hurray.bool, [3]).__dlpack__())
    assert "1 bit" in message and "1 byte" in message
    assert "__array__" in message and "__hurray__" in message


TIER_2 = [
    value
    for value in vars(hurray.dtype).values()
    if isinstance(value, hurray.Dtype) and value.tier == 2 and not value.is_complex
]


def test_there_are_tier_2_dtypes():
    assert {"int4", "float8_e4m3", "float8_e5m2"} <= {dtype.name for dtype in TIER_2}


@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("dtype", TIER_2, ids=str)
def test_tier_2_dtypes_are_refused_by_name(dtype, max_version):
    t = hurray.Tensor(bytes(64), dtype, [4])
    assert dtype.name in refused(lambda: t.__dlpack__(max_version=max_version))
    # A copy would have the same dtype.
    assert dtype.name in refused(lambda: t.__dlpack__(copy=True))


@pytest.mark.parametrize("copy", [None, True, False])
def test_dynamic_dimensions_are_refused(copy):
    t = hurray.Tensor(bytes(64), hurray.float32, [None, 2])
    assert "dynamic" in refused(lambda: t.__dlpack__(copy=copy))
    assert t.__dlpack_device__() == (1, 0)


def test_a_refusal_leaves_the_tensor_usable():
    t = make()
    refused(lambda: t.__dlpack__(dl_device=(2, 0)))
    assert np.from_dlpack(t).shape == (2, 3)


# ---- lifetime ----


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_capsule_holds_the_memory(max_version):
    array = aligned((1000,))
    array[:] = 7
    t = hurray.from_dlpack(array)
    capsule = t.__dlpack__(max_version=max_version)
    del t, array
    gc.collect()
    assert np.from_dlpack(hurray.from_dlpack(capsule)).tolist() == [7] * 1000


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_struct_lives_until_its_deleter(max_version):
    t = make((2, 3), hurray.uint8)
    capsule = t.__dlpack__(max_version=max_version)
    pointer = take(capsule)
    expected = np.from_dlpack(t).tobytes()
    del capsule, t
    gc.collect()
    struct = DLManagedTensor if max_version is None else DLManagedTensorVersioned
    tensor = struct.from_address(pointer).dl_tensor
    assert ctypes.string_at(tensor.data, 6) == expected
    deleter_of(pointer, versioned=max_version is not None)(pointer)


def test_capsules_are_independent():
    t = make()
    first, second = t.__dlpack__(), t.__dlpack__()
    assert first is not second
    hurray.from_dlpack(first)
    assert capsule_name(first) == "used_" + LEGACY
    assert capsule_name(second) == LEGACY


def test_dlpack_device():
    device = make().__dlpack_device__()
    assert device == (1, 0)
    assert type(device) is tuple
    assert all(type(part) is int for part in device)


# ---- against NumPy ----


@pytest.mark.parametrize("dtype", [d for d in STANDARD if d is not hurray.bfloat16], ids=str)
def test_numpy_reads_what_we_wrote(dtype):
    t = make((2, 3), dtype)
    array = np.from_dlpack(t)
    assert array.dtype == np.dtype(dtype.name)
    assert array.ctypes.data == data_pointer(t)
    assert array.tobytes() == bytes(range(1, 129))[: array.nbytes]
    assert array.flags.writeable


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_the_structs_are_the_ones_numpy_makes(max_version):
    """Our export of a NumPy array's memory says what NumPy's own export says."""
    base = aligned((5, 32), np.int16)  # a row is 64 bytes
    for array in (base, base[1:, ::2], base[::-1].T, base[:0], np.broadcast_to(base, (3, 5, 32))):
        if not array.flags.writeable and max_version is None:
            continue
        theirs = array.__dlpack__(max_version=max_version)
        ours = hurray.from_dlpack(array).__dlpack__(max_version=max_version)
        expected, tensor = managed(theirs).dl_tensor, managed(ours).dl_tensor
        assert capsule_name(ours) == capsule_name(theirs)
        assert tensor.ndim == expected.ndim
        assert [tensor.shape[k] for k in range(tensor.ndim)] == list(array.shape)
        assert bytes(tensor.dtype) == bytes(expected.dtype)
        assert bytes(tensor.device) == bytes(expected.device)
        if array.size:
            assert tensor.data + tensor.byte_offset == expected.data + expected.byte_offset
        if max_version:
            assert managed(ours).flags == managed(theirs).flags
            assert managed(ours).version.major == managed(theirs).version.major
