"""hurray.Tensor itself (spec 8.3): the constructor and its checks, attributes, views, copies."""

from __future__ import annotations

import array
import builtins
import contextlib
import copy
import gc
import operator
import pickle
import struct
import sys
import weakref

import leaks
import numpy as np
import pytest
from dlpack_abi import Producer
from hypothesis import given
from hypothesis import strategies as st

import hurray
from hurray import (
    BufferHandle,
    ColMajorLayout,
    Descriptor,
    RowMajorLayout,
    StridedLayout,
    Tensor,
    float32,
)

DATA = struct.pack("6f", *range(6))
CPU, CUDA = hurray.device.cpu, hurray.device.cuda


def make(shape=(2, 3), **keywords) -> Tensor:
    return Tensor(DATA, float32, shape, **keywords)


def strided(shape=(2, 3), strides=(3, 1), *, data=DATA, **keywords) -> Tensor:
    return Tensor(data, float32, shape, layout=StridedLayout(strides), **keywords)


def address(tensor) -> int:
    return tensor.__array_interface__["data"][0]


# ---- the buffer ----

BYTES_LIKE = {
    "bytes": lambda: DATA,
    "bytearray": lambda: bytearray(DATA),
    "memoryview": lambda: memoryview(bytearray(b"x" + DATA))[1:],
    "array": lambda: array.array("f", range(6)),
    "numpy": lambda: np.arange(6, dtype=np.float32).reshape(2, 3),
    "tensor": lambda: make(),
}


@pytest.mark.parametrize("kind", BYTES_LIKE)
def test_the_bytes_are_copied_into_aligned_memory_of_its_own(kind):
    source = BYTES_LIKE[kind]()
    t = Tensor(source, float32, (2, 3))
    assert address(t) % 64 == 0
    assert address(t) != np.frombuffer(source, np.uint8).ctypes.data
    assert t.buffer_handles[0].alignment >= 64
    assert not t.readonly
    if not memoryview(source).readonly:
        memoryview(source).cast("B")[:] = bytes(24)
    assert bytes(t) == DATA
    memoryview(t)[1, 2] = 9
    assert memoryview(t)[1, 2] == 9
    assert kind != "bytes" or source == struct.pack("6f", *range(6))


def test_the_source_may_go():
    source = bytearray(DATA)
    t = Tensor(source, float32, (6,))
    source.extend(bytes(10_000))  # not held, so that it can move
    del source
    assert bytes(t) == DATA


def test_large_buffers_are_page_aligned():
    t = Tensor(bytes(1 << 20), float32, (1 << 18,))
    assert address(t) % hurray.PAGE_ALIGNMENT == 0
    assert t.buffer_handles[0].alignment == hurray.PAGE_ALIGNMENT


@pytest.mark.parametrize("extra", [1, 40, 5000])
def test_a_larger_buffer_is_fine_and_nothing_is_inferred_from_it(extra):
    t = Tensor(DATA + bytes(extra), float32, (2, 3))
    assert (t.shape, t.nbytes, t.size) == ((2, 3), 24, 6)
    assert t.buffer_handles[0].byte_size == 24 + extra
    assert t.buffer(0).shape == (24 + extra,)
    assert np.asarray(t).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("other", [None, "text", 3, [1, 2], object()], ids=repr)
def test_a_buffer_is_bytes_like(other):
    with pytest.raises(TypeError, match="bytes-like"):
        Tensor(other, float32, (2,))


def test_a_buffer_with_gaps_is_refused_by_its_exporter():
    with pytest.raises(builtins.BufferError, match="contiguous"):
        Tensor(memoryview(bytes(48))[::2], hurray.uint8, (24,))


# Everything a dense tensor reaches, and the bytes that takes (spec 1.3, 2.1, 2.2).
REACH = [
    ("float32", (2, 3), RowMajorLayout(), 0, 24),
    ("float32", (2, 3), ColMajorLayout(), 0, 24),
    ("float32", (2, 3), RowMajorLayout(), 4, 28),
    ("float32", (2, 3), RowMajorLayout(), 3, 27),
    ("float64", (), RowMajorLayout(), 0, 8),
    ("complex128", (3,), RowMajorLayout(), 16, 64),
    ("float32", (2, 3), StridedLayout((3, 1)), 0, 24),
    ("float32", (2, 3), StridedLayout((4, 1)), 0, 28),
    ("float32", (2, 3), StridedLayout((4, 2)), 0, 36),
    ("float32", (2, 3), StridedLayout((0, 0)), 0, 4),
    ("float32", (1, 3), StridedLayout((99, 1)), 0, 12),
    ("float32", (2, 3), StridedLayout((-3, 1)), 12, 24),
    ("float32", (2, 3), StridedLayout((-3, -1)), 20, 24),
    ("float32", (2, 3), StridedLayout((3, -1)), 8, 24),
    ("bool", (9,), RowMajorLayout(), 0, 2),
    ("bool", (8,), RowMajorLayout(), 1, 2),
    ("bool", (3, 3), StridedLayout((8, 1)), 0, 3),
    ("int4", (3,), RowMajorLayout(), 0, 2),
    ("int4", (2, 2), StridedLayout((3, 1)), 0, 3),
    ("uint2", (5,), ColMajorLayout(), 0, 2),
    ("float6_e2m3", (5,), RowMajorLayout(), 0, 6),
    ("float32", (0, 3), RowMajorLayout(), 0, 0),
    ("float32", (0, 2**63, 2**63), RowMajorLayout(), 0, 0),
    ("float32", (0,), RowMajorLayout(), 5, 5),
    ("float32", (0, 3), StridedLayout((-9, 5)), 0, 0),
    ("float32", (None, 3), RowMajorLayout(), 7, 7),
]


@pytest.mark.parametrize(("name", "shape", "layout", "byte_offset", "needed"), REACH, ids=repr)
def test_the_least_buffer_is_enough_and_a_byte_less_is_not(
    name, shape, layout, byte_offset, needed
):
    dtype = hurray.Dtype.from_name(name)
    t = Tensor(bytes(needed), dtype, shape, layout=layout, byte_offset=byte_offset)
    assert (t.dtype, t.shape, t.layout, t.byte_offset) == (dtype, shape, layout, byte_offset)
    assert t.buffer_handles[0].byte_size == needed
    if needed > 0:
        with pytest.raises(hurray.BufferError) as caught:
            Tensor(bytes(needed - 1), dtype, shape, layout=layout, byte_offset=byte_offset)
        message = str(caught.value)
        assert "data" in message  # the role of the buffer
        assert f"{needed - 1} bytes" in message
        assert f"need {needed}" in message


@pytest.mark.parametrize("layout", [StridedLayout((-3, 1)), StridedLayout((3, -1))], ids=repr)
def test_no_buffer_is_long_enough_for_what_lies_before_it(layout):
    for size in (24, 10_000):
        with pytest.raises(hurray.InvalidDescriptorError, match="before byte_offset 0"):
            Tensor(bytes(size), float32, (2, 3), layout=layout)


# ---- shape, dtype, device, layout ----


@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        ((2, 3), (2, 3)),
        ([2, 3], (2, 3)),
        (range(2, 4), (2, 3)),
        (6, (6,)),
        (np.int64(6), (6,)),
        ((np.uint8(2), True), (2, 1)),
        ([], ()),
        ((None, 3), (None, 3)),
        ((1,) * 64, (1,) * 64),
        ((0, 2**64 - 2), (0, 2**64 - 2)),
    ],
    ids=repr,
)
def test_shapes(shape, kept):
    t = make(shape)
    assert t.shape == kept
    assert t.ndim == len(kept)
    assert all(n is None or type(n) is int for n in t.shape)


@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ((2, -3), r"shape\[1\] is -3.*None"),
        ((2**64 - 1,), r"shape\[0\].*None"),
        ((1, 2**64), r"shape\[1\]"),
        ((1,) * 65, "65 dimensions"),
        ((2**40, 2**40), r"2\^64"),
        ((2**62,), r"2\^64"),
    ],
)
def test_shapes_that_cannot_be(shape, named):
    with pytest.raises(hurray.InvalidDescriptorError, match=named):
        make(shape)


@pytest.mark.parametrize("shape", [None, "23", b"23", 2.0, (2.0, 3), ("2", 3), {2: 3}], ids=repr)
def test_shapes_of_other_types(shape):
    with pytest.raises(TypeError, match="shape"):
        make(shape)


@pytest.mark.parametrize("dtype", [None, "float32", np.float32, np.dtype("f4"), float], ids=repr)
def test_a_dtype_is_a_dtype(dtype):
    with pytest.raises(TypeError, match=r"hurray\.Dtype"):
        Tensor(DATA, dtype, (2, 3))


def test_a_private_dtype_must_describe_itself():
    with pytest.raises(hurray.InvalidDescriptorError, match="must describe itself"):
        Tensor(DATA, hurray.Dtype.from_tag(0xF2), (2, 3))


@pytest.mark.parametrize("device", ["cpu", 0, (1, 0)], ids=repr)
def test_a_device_is_a_device(device):
    with pytest.raises(TypeError, match=r"hurray\.Device"):
        make(device=device)


@pytest.mark.parametrize(
    "device",
    [
        hurray.Device("cpu", 0, "peer"),
        hurray.Device("metal", 0, "peer"),
        hurray.Device("webgpu", 0, "unified"),
        hurray.Device("cpu", 0, 0xF1),
        hurray.Device(0xF0, 0, "unified"),
    ],
    ids=repr,
)
def test_a_memory_class_that_the_device_has_not(device):
    with pytest.raises(hurray.InvalidDescriptorError, match="memory class"):
        make(device=device)


@pytest.mark.parametrize("layout", ["row_major", 1, RowMajorLayout, (3, 1)], ids=repr)
def test_a_layout_is_a_layout(layout):
    with pytest.raises(TypeError, match=r"hurray\.Layout"):
        make(layout=layout)


@pytest.mark.parametrize(
    ("shape", "layout", "named"),
    [
        ((), ColMajorLayout(), "rank 0"),
        ((), StridedLayout(()), "rank 0"),
        ((2, 3), StridedLayout((1,)), "1 dimensions"),
        ((2, 3), StridedLayout((3, 1, 1)), "3 dimensions"),
        ((9, 9), StridedLayout((2**62, 2**62)), "strid"),
    ],
)
def test_a_shape_that_the_layout_does_not_take(shape, layout, named):
    with pytest.raises(hurray.InvalidDescriptorError, match=named):
        make(shape, layout=layout)


@pytest.mark.parametrize("byte_offset", [-1, 2**64, 2**64 - 1])
def test_a_byte_offset_that_cannot_be(byte_offset):
    expected = (hurray.InvalidDescriptorError, hurray.BufferError)
    with pytest.raises(expected, match=r"byte_offset|bytes"):
        make(byte_offset=byte_offset)


@pytest.mark.parametrize("byte_offset", [1.0, "1", (1,)], ids=repr)
def test_a_byte_offset_is_an_int(byte_offset):
    with pytest.raises(TypeError, match="byte_offset"):
        make(byte_offset=byte_offset)


@pytest.mark.parametrize("aux_buffers", [[b""], (DATA, DATA), [b"", b""]], ids=repr)
def test_dense_layouts_have_one_buffer(aux_buffers):
    with pytest.raises(hurray.InvalidDescriptorError, match=f"buffer count {len(aux_buffers) + 1}"):
        make(aux_buffers=aux_buffers)
    assert make(aux_buffers=[]).buffer_count == make(aux_buffers=()).buffer_count == 1


@pytest.mark.parametrize("aux_buffers", [3, "text", {b""}, object()], ids=repr)
def test_aux_buffers_are_a_sequence(aux_buffers):
    with pytest.raises(TypeError, match="aux_buffers"):
        make(aux_buffers=aux_buffers)


# ---- the order of the checks ----


def test_wrong_structure_comes_before_wrong_sizes():
    """Each call has two faults; the one that is named first is the one that is told."""
    with pytest.raises(hurray.InvalidDescriptorError, match="3 dimensions"):
        make(layout=StridedLayout((1, 1, 1)), aux_buffers=[b""])
    with pytest.raises(hurray.InvalidDescriptorError, match="rank 0"):
        Tensor(b"", float32, (), layout=ColMajorLayout())
    with pytest.raises(hurray.InvalidDescriptorError, match="buffer count 2"):
        Tensor(b"", float32, (2, 3), aux_buffers=[b""])
    with pytest.raises(hurray.InvalidDescriptorError, match=r"shape\[0\]"):
        Tensor(b"", float32, (-1,))
    with pytest.raises(hurray.InvalidDescriptorError, match="memory class"):
        Tensor(b"", float32, (2, 3), hurray.Device("metal", 0, "peer"))
    with pytest.raises(hurray.BufferError, match="0 bytes"):
        Tensor(b"", float32, (2, 3))


# ---- arguments ----


def test_none_means_the_default():
    keywords = (
        "aux_buffers",
        "layout",
        "quantization",
        "statistics",
        "shard",
        "extension_type",
        "member_role",
        "byte_offset",
    )
    t = Tensor(DATA, float32, (2, 3), None, **dict.fromkeys(keywords))
    assert t.descriptor == make().descriptor
    assert t.device == CPU


def test_arguments_by_name():
    t = Tensor(shape=(2, 3), dtype=float32, buffer=DATA, device=CPU)
    assert t.descriptor == make().descriptor


@pytest.mark.parametrize("name", ["sync_mode", "alignment", "strides", "readonly"])
def test_arguments_that_do_not_exist(name):
    with pytest.raises(TypeError, match=f"'{name}'"):
        make(**{name: 64})


def test_arguments_that_are_missing_or_too_many():
    with pytest.raises(TypeError, match="'buffer'"):
        Tensor()
    with pytest.raises(TypeError, match="'shape'"):
        Tensor(DATA, float32)
    with pytest.raises(TypeError, match="positional"):
        Tensor(DATA, float32, (2, 3), CPU, ())


# ---- attributes ----


def test_attributes_of_a_dense_tensor():
    t = strided((2, 2), (-3, 2), byte_offset=12)
    assert t.shape == (2, 2)
    assert t.ndim == 2
    assert t.size == 4
    assert t.nbytes == 16
    assert t.dtype is float32
    assert t.device == CPU
    assert t.layout == StridedLayout((-3, 2))
    assert t.strides == (-3, 2)
    assert t.byte_offset == 12
    assert t.buffer_count == 1
    assert t.readonly is False
    for section in ("quantization", "statistics", "shard", "extension_type", "member_role"):
        assert getattr(t, section) is None


@pytest.mark.parametrize(
    ("name", "shape", "nbytes"),
    [
        ("float64", (2, 3), 48),
        ("complex64", (), 8),
        ("bool", (9,), 2),
        ("int4", (3, 3), 5),
        ("float6_e3m2", (5,), 6),
        ("float32", (0, 7), 0),
    ],
)
def test_nbytes_counts_packed_elements(name, shape, nbytes):
    t = Tensor(bytes(64), hurray.Dtype.from_name(name), shape)
    assert t.nbytes == nbytes
    assert t.nbytes == hurray.buffer_size_bytes(t.dtype, t.size)


def test_what_a_dynamic_dimension_leaves_open():
    t = make((None, 3))
    assert (t.shape, t.ndim) == ((None, 3), 2)
    assert t.size is None
    assert t.nbytes is None
    assert t.buffer_handles[0].byte_size == 24
    assert Descriptor.decode(t.descriptor.encode()).shape == (None, 3)


@pytest.mark.parametrize(
    ("shape", "layout", "strides"),
    [
        ((), RowMajorLayout(), ()),
        ((4,), RowMajorLayout(), (1,)),
        ((2, 3), RowMajorLayout(), (3, 1)),
        ((2, 3), ColMajorLayout(), (1, 2)),
        ((1, 2, 3), ColMajorLayout(), (1, 1, 2)),
        ((0, 3), RowMajorLayout(), (3, 1)),
        ((2, 3), StridedLayout((0, -1)), (0, -1)),
        ((None, 2), StridedLayout((2, 1)), (2, 1)),
    ],
)
def test_strides_are_in_elements(shape, layout, strides):
    t = Tensor(bytes(64), float32, shape, layout=layout, byte_offset=8)
    assert t.strides == strides
    assert all(type(stride) is int for stride in t.strides)


@pytest.mark.parametrize("layout", [RowMajorLayout(), ColMajorLayout()], ids=repr)
def test_strides_that_depend_on_a_dynamic_dimension_are_absent(layout):
    t = make((None, None), layout=layout)
    assert not hasattr(t, "strides")
    with pytest.raises(AttributeError, match="dynamic"):
        t.strides


def test_the_layout_is_a_fresh_equal_object():
    t = make(layout=StridedLayout((3, 1)))
    assert t.layout == t.layout
    assert t.layout is not t.layout
    with pytest.raises(AttributeError):
        t.layout = RowMajorLayout()


ATTRIBUTES = [
    "shape",
    "ndim",
    "size",
    "nbytes",
    "dtype",
    "device",
    "layout",
    "quantization",
    "statistics",
    "shard",
    "extension_type",
    "member_role",
    "byte_offset",
    "descriptor",
    "buffer_handles",
    "buffer_count",
    "strides",
    "readonly",
    "T",
]


@pytest.mark.parametrize("name", [*ATTRIBUTES, "something"])
def test_nothing_can_be_assigned(name):
    t = make()
    with pytest.raises(AttributeError):
        setattr(t, name, None)
    with pytest.raises(AttributeError):
        delattr(t, name)


@pytest.mark.parametrize(
    "name", ["nnz", "values", "indices", "col_indices", "row_ptr", "row_indices", "col_ptr"]
)
def test_what_sparse_tensors_have_is_absent(name):
    assert not hasattr(make(), name)


def test_the_descriptor_says_what_the_tensor_does():
    t = strided((2, 2), (-3, 2), byte_offset=12)
    d = t.descriptor
    assert isinstance(d, Descriptor)
    for name in (*ATTRIBUTES,):
        if name not in ("descriptor", "readonly", "T"):
            assert getattr(d, name) == getattr(t, name)
    assert Descriptor.decode(d.encode()) == d


def test_buffer_handles():
    t = make()
    (handle,) = t.buffer_handles
    assert isinstance(handle, BufferHandle)
    assert (handle.byte_size, handle.alignment) == (24, 64)
    assert handle.sync_mode == "producer_synced"
    assert handle.is_empty is False
    assert handle.device is t.device
    assert t.device is t.device
    assert t.T.buffer_handles[0].device is t.T.device
    assert Tensor(b"", float32, (0,)).buffer_handles[0].is_empty is True


@pytest.mark.parametrize("device", [CPU, CUDA, hurray.Device("rocm", 3, "host_pinned")], ids=repr)
def test_a_buffer_handle_shows_the_device_of_its_tensor(device):
    t = make(device=device)
    assert t.device == device
    assert t.buffer_handles[0].device is t.device


def test_a_buffer_handle_holds_neither_tensor_nor_memory():
    t = make()
    alive = weakref.ref(t)
    (handle,) = t.buffer_handles
    del t
    gc.collect()
    assert alive() is None
    assert handle.byte_size == 24


# ---- what a tensor is not ----


def test_no_container_and_no_number():
    t = make()
    for refused in (len, iter, operator.neg, lambda x: x[0], lambda x: x + x, lambda x: 1 in x):
        with pytest.raises(TypeError):
            refused(t)
    assert not hasattr(t, "__array_namespace__")
    assert not hasattr(hurray, "__array_namespace__")


def test_tensors_are_compared_and_hashed_by_identity():
    a, b = make(), make()
    assert a == a and a != b
    assert len({a, b, a}) == 2


def test_tensors_are_final():
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (Tensor,), {})


# ---- T ----


def test_t_is_a_view():
    t = make()
    turned = t.T
    assert turned.shape == (3, 2)
    assert turned.layout == ColMajorLayout()
    assert turned.T.layout == RowMajorLayout()
    assert address(turned) == address(t)
    memoryview(turned)[2, 1] = 50
    assert np.asarray(t).tolist() == [[0, 1, 2], [3, 4, 50]]
    assert strided((2, 2), (3, 2)).T.layout == StridedLayout((2, 3))
    alive = weakref.ref(t)
    del t
    gc.collect()
    assert alive() is None  # the view holds the memory, not the object
    assert np.asarray(turned).tolist() == [[0, 3], [1, 4], [2, 50]]


@given(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["float32", "int4", "bool"]))
def test_t_exchanges_the_indices(rows, columns, name):
    dtype = hurray.Dtype.from_name(name)
    t = Tensor(bytes(range(64)), dtype, (rows, columns), byte_offset=0)
    assert t.T.to_numpy().tolist() == t.to_numpy().T.tolist()
    assert t.T.T.descriptor == t.descriptor


def test_t_of_a_dynamic_shape_and_of_declared_devices():
    assert make((None, 3)).T.shape == (3, None)
    turned = make(device=CUDA).T
    assert (turned.shape, turned.device) == ((3, 2), CUDA)


@pytest.mark.parametrize("shape", [(), (6,), (1, 2, 3)], ids=repr)
def test_t_is_for_matrices(shape):
    with pytest.raises(ValueError, match=f"rank {len(shape)}") as caught:
        make(shape).T
    assert type(caught.value) is ValueError


# ---- buffer(i) ----


@pytest.mark.parametrize("index", [0, -1, np.int64(0)], ids=repr)
def test_a_buffer_is_a_view_of_bytes(index):
    t = strided((2, 2), (3, 2))
    view = t.buffer(index)
    assert (view.dtype, view.shape, view.layout) == (hurray.uint8, (24,), RowMajorLayout())
    assert (view.byte_offset, view.buffer_count) == (0, 1)
    assert bytes(view) == DATA
    assert address(view) == address(t)
    memoryview(view)[0:4] = struct.pack("f", 7)
    assert np.asarray(t)[0, 0] == 7
    del t
    gc.collect()
    assert bytes(view)[4:] == DATA[4:]


@pytest.mark.parametrize("index", [1, -2, 2**31, 2**70, -(2**70)])
def test_there_is_one_buffer(index):
    with pytest.raises(IndexError, match="1 buffers"):
        make().buffer(index)


@pytest.mark.parametrize("index", ["0", 0.0, None], ids=repr)
def test_a_buffer_index_is_an_int(index):
    with pytest.raises(TypeError):
        make().buffer(index)


def test_a_byte_offset_does_not_move_the_buffer():
    t = make((2,), byte_offset=8)
    assert bytes(t.buffer(0)) == DATA
    assert np.asarray(t).tolist() == [2, 3]


# ---- declared placements ----

HANDOVERS = {
    "legacy": lambda t: t.__dlpack__(),
    "versioned": lambda t: t.__dlpack__(max_version=(1, 0)),
    "copy": lambda t: t.__dlpack__(max_version=(1, 0), copy=True),
    "to the cpu": lambda t: t.__dlpack__(max_version=(1, 0), dl_device=(1, 0)),
    "copy to the cpu": lambda t: t.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True),
    "__array__": lambda t: t.__array__(),
    "__array__ copy": lambda t: t.__array__(copy=True),
    "to_numpy": lambda t: t.to_numpy(),
    "memoryview": memoryview,
    "numpy.asarray": np.asarray,
    "numpy.from_dlpack": np.from_dlpack,
    "from_dlpack": hurray.from_dlpack,
    "asarray copy": lambda t: hurray.asarray(t, copy=True),
}


@pytest.mark.parametrize("handover", HANDOVERS)
@pytest.mark.parametrize("view", ["itself", "T", "buffer", "buffer of T"])
@pytest.mark.parametrize("name", ["float32", "bool", "int4", "float8_e5m2"])
def test_a_declared_placement_is_the_reason_of_every_refusal(name, view, handover):
    t = Tensor(DATA, hurray.Dtype.from_name(name), (2, 3), CUDA)
    t = {"itself": t, "T": t.T, "buffer": t.buffer(0), "buffer of T": t.T.buffer(0)}[view]
    with pytest.raises(hurray.UnsupportedError, match=r"declares device cuda.*host memory"):
        HANDOVERS[handover](t)
    assert not hasattr(t, "__array_interface__")


@pytest.mark.parametrize(
    "device", [hurray.Device("cuda", 0, "peer"), hurray.Device("rocm", 0, "unified")], ids=repr
)
def test_that_dlpack_has_no_number_for_a_placement_matters_less(device):
    with pytest.raises(builtins.BufferError, match="host memory"):
        make(device=device).__dlpack__()


# ---- copies, pickles, references ----


def test_copy_copy_shares():
    t = make()
    again = copy.copy(t)
    assert again.descriptor == t.descriptor
    assert address(again) == address(t)


@pytest.mark.parametrize(
    "t",
    [
        make(),
        make(layout=ColMajorLayout()),
        strided((2, 3), (-3, 1), byte_offset=12),
        Tensor(DATA, hurray.bool, (3, 5)),
        Tensor(DATA, hurray.dtype.int4, (3, 3)),
        Tensor(DATA, hurray.dtype.float6_e2m3, (3, 3), layout=ColMajorLayout()),
        Tensor(b"", float32, (0, 3)),
        Tensor(DATA, float32, ()),
    ],
)
def test_deepcopy_has_the_same_elements_in_memory_of_its_own(t):
    again = copy.deepcopy(t)
    assert (again.dtype, again.shape, again.device) == (t.dtype, t.shape, t.device)
    assert again.to_numpy().tolist() == t.to_numpy().tolist()
    before = bytes(t.buffer(0))
    for i in range(again.buffer(0).size):
        memoryview(again.buffer(0))[i] = 0xFF
    assert bytes(t.buffer(0)) == before


def test_deepcopy_keeps_a_declared_placement():
    device = hurray.Device("cuda", 2, "unified")
    again = copy.deepcopy(make(device=device).T)
    assert (again.device, again.shape) == (device, (3, 2))
    with pytest.raises(hurray.UnsupportedError, match="host memory"):
        again.__dlpack__()


def test_a_deep_copy_of_a_read_only_tensor_can_be_written():
    source = np.zeros(64, np.uint8)
    source.flags.writeable = False
    t = hurray.from_numpy(source[-source.ctypes.data % 64 :][:0], copy=False)
    assert t.readonly
    assert not copy.deepcopy(t).readonly


PICKLED = {
    "row-major": lambda: make(),
    "column-major": lambda: make(layout=ColMajorLayout()),
    "strided": lambda: strided((2, 2), (-3, 2), byte_offset=12),
    "broadcast": lambda: strided((5, 2), (0, 1)),
    "larger buffer": lambda: Tensor(DATA + b"more", float32, (2, 3)),
    "scalar": lambda: Tensor(DATA, hurray.float64, ()),
    "empty": lambda: Tensor(b"", float32, (0, 3)),
    "dynamic": lambda: make((None, 3)),
    "bool": lambda: Tensor(DATA, hurray.bool, (5,)),
    "bfloat16": lambda: Tensor(DATA, hurray.bfloat16, (5,)),
    "int4": lambda: Tensor(DATA, hurray.dtype.int4, (3, 3)),
    "float128": lambda: Tensor(bytes(32), hurray.dtype.float128, (2,)),
    "pages": lambda: hurray.arange(10_000),
    "declared": lambda: make(device=hurray.Device("cuda", 2, "unified")),
    "private device": lambda: make(device=hurray.Device(0xF3, 0, 0xF1)),
}


def described(t):
    """Everything but what depends on where the memory happens to be."""
    names = ["shape", "dtype", "device", "layout", "byte_offset", "buffer_count", "size", "nbytes"]
    return [getattr(t, name) for name in names] + [h.byte_size for h in t.buffer_handles]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", PICKLED)
def test_pickles(kind, protocol):
    t = PICKLED[kind]()
    again = pickle.loads(pickle.dumps(t, protocol))
    assert type(again) is Tensor
    assert described(again) == described(t)
    assert not again.readonly
    if t.device.kind == "cpu":
        assert bytes(again.buffer(0)) == bytes(t.buffer(0))
    else:
        with pytest.raises(hurray.UnsupportedError, match="host memory"):
            again.__dlpack__()
        # Its bytes are still there: described, saved, and so on.
        assert pickle.dumps(again, protocol) == pickle.dumps(t, protocol)


def test_pickles_out_of_band_share_the_memory():
    t = hurray.arange(1000, dtype=hurray.float64)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    assert len(buffers) == t.buffer_count
    again = pickle.loads(data, buffers=buffers)
    assert address(again) == address(t)
    memoryview(again)[7] = -1
    assert memoryview(t)[7] == -1
    del t, buffers
    gc.collect()
    assert memoryview(again)[999] == 999


def test_pickled_buffers_of_the_receiver():
    """What arrived in memory of the receiver is used where it is, when it is aligned."""
    t = hurray.arange(100, dtype=hurray.int32)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    received = bytearray(1024)
    base = np.frombuffer(received, np.uint8).ctypes.data
    start = -base % 64
    for shift, shared in ((0, True), (4, False)):
        place = memoryview(received)[start + shift :][:400]
        place[:] = bytes(buffers[0].raw())
        again = pickle.loads(data, buffers=[place])
        assert (address(again) == base + start + shift) is shared
        assert np.asarray(again).tolist() == list(range(100))
        assert not again.readonly
    place = memoryview(received)[start:][:400]
    place[:] = bytes(buffers[0].raw())
    again = pickle.loads(data, buffers=[place.toreadonly()])
    assert again.readonly
    assert address(again) == base + start


def test_a_read_only_tensor_stays_read_only_out_of_band():
    memory = bytearray(128)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % 64
    t = hurray.asarray(memoryview(memory)[start:][:64].toreadonly(), copy=False)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    assert buffers[0].raw().readonly
    assert pickle.loads(data, buffers=buffers).readonly


def test_memory_elsewhere_is_not_pickled():
    t = hurray.from_dlpack(Producer(0x7F00_0000_0000, (4, 8), device=(2, 0)))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(hurray.UnsupportedError, match=r"cuda.*CPU first"):
            pickle.dumps(t, protocol)


def test_pickles_leak_nothing():
    t = make()

    def there_and_back():
        buffers = []
        pickle.loads(pickle.dumps(t, 5, buffer_callback=buffers.append), buffers=buffers)
        pickle.loads(pickle.dumps(t, 5))

    leaks.check(there_and_back, [t, t.device], repetitions=20_000)


def test_weak_references():
    t = make()
    gone = []
    reference = weakref.ref(t, gone.append)
    assert reference() is t
    del t
    gc.collect()
    assert reference() is None
    assert gone == [reference]


def test_sizeof_counts_the_memory():
    small, large = sys.getsizeof(Tensor(b"", float32, (0,))), sys.getsizeof(hurray.zeros(1000))
    assert large - small == 8000


def test_construction_leaks_nothing():
    data = bytearray(DATA)

    def construct():
        Tensor(data, float32, (2, 3))
        for shape, layout in (((2, 4), None), ((2, -1), None), ((2, 3), ColMajorLayout)):
            with contextlib.suppress(ValueError, TypeError):
                Tensor(data, float32, shape, layout=layout)

    leaks.check(construct, [data, float32, CPU], repetitions=100_000)
    data.append(0)
