"""Tensor.to_layout, and the arrays of tensors whose elements lie at no strides (spec 2, 8.5)."""

from __future__ import annotations

import itertools

import leaks
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from hurray import (
    BlockPagedLayout,
    ColMajorLayout,
    CompositeLayout,
    CooLayout,
    CopyRequiredError,
    CscLayout,
    CsfLayout,
    CsrLayout,
    HilbertLayout,
    InvalidDescriptorError,
    MortonLayout,
    PrivateExtensionLayout,
    RowMajorLayout,
    StridedLayout,
    Tensor,
    TiledLayout,
    UnsupportedError,
)

# Every dense layout of 8 x 8.
SCATTERED = [
    TiledLayout((2, 4)),
    TiledLayout((3, 5), "col_major", "col_major"),
    TiledLayout((4, 4), "row_major", "tiled", inner_tiled=TiledLayout((2, 2))),
    TiledLayout((4, 4), "strided", "strided", outer_strides=(2, 1), inner_strides=(1, 4)),
    MortonLayout((3, 3)),
    MortonLayout((3, 4)),
    HilbertLayout(3, 2),
]
AT_STRIDES = [RowMajorLayout(), ColMajorLayout(), StridedLayout((10, 1)), StridedLayout((-1, -8))]
DENSE = AT_STRIDES + SCATTERED
SPARSE = [CooLayout(0), CsrLayout(0), CscLayout(0)]
SHAPE = (8, 8)

NUMPY_TYPES = [
    np.bool_,
    np.int8,
    np.float16,
    np.float32,
    np.float64,
    np.complex128,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float6_e3m2fn,
    ml_dtypes.float4_e2m1fn,
    ml_dtypes.int4,
    ml_dtypes.uint2,
]


def matrix(numpy_type=np.float32, shape=SHAPE):
    """Small integers that every type has, with zeros among them."""
    values = np.random.default_rng(8).integers(0, 2, shape)
    return values.astype(numpy_type)


def bits(array):
    return array.tobytes() if array.dtype.itemsize == 1 else np.ascontiguousarray(array).tobytes()


# ---- dense ----


@pytest.mark.parametrize("numpy_type", NUMPY_TYPES)
@pytest.mark.parametrize("layout", DENSE, ids=repr)
def test_elements_survive_every_dense_layout(layout, numpy_type):
    array = matrix(numpy_type)
    there = hurray.from_numpy(array).to_layout(layout)
    assert there.layout == layout
    assert (there.shape, there.dtype.name) == (SHAPE, hurray.from_numpy(array).dtype.name)
    assert bits(there.to_layout(RowMajorLayout()).to_numpy()) == bits(array)
    assert bits(there.to_numpy()) == bits(array)


@pytest.mark.parametrize(("one", "other"), list(itertools.product(DENSE, DENSE)))
def test_every_dense_layout_becomes_every_other(one, other):
    array = np.arange(64, dtype=np.int32).reshape(SHAPE)
    tensor = hurray.from_numpy(array).to_layout(one).to_layout(other)
    assert tensor.layout == other
    np.testing.assert_array_equal(tensor.to_numpy(), array)


def positions(layout):
    """Where spec 2 puts each element of 4 x 4, written out here once more."""
    if isinstance(layout, MortonLayout):
        spread = [0, 1, 4, 5]
        return [[spread[i] | spread[j] << 1 for j in range(4)] for i in range(4)]
    if isinstance(layout, HilbertLayout):
        curve = "00101101020313122223333231212030"  # spec 2.5, two digits each
        places = [curve[k : k + 2] for k in range(0, 32, 2)]
        return [[places.index(f"{i}{j}") for j in range(4)] for i in range(4)]
    if isinstance(layout, ColMajorLayout):
        return [[j * 4 + i for j in range(4)] for i in range(4)]
    return [[(i // 2 * 2 + j // 2) * 4 + i % 2 * 2 + j % 2 for j in range(4)] for i in range(4)]


@pytest.mark.parametrize(
    "layout",
    [ColMajorLayout(), TiledLayout((2, 2)), MortonLayout((2, 2)), HilbertLayout(2, 2)],
    ids=repr,
)
def test_bytes_lie_where_the_layout_says(layout):
    array = np.arange(16, dtype=np.uint8).reshape(4, 4)
    expected = np.zeros(16, np.uint8)
    expected[np.array(positions(layout))] = array
    tensor = hurray.from_numpy(array).to_layout(layout)
    assert tensor.buffer(0).to_numpy().tobytes() == expected.tobytes()
    given_bytes = Tensor(expected, hurray.uint8, (4, 4), layout=layout)
    np.testing.assert_array_equal(given_bytes.to_numpy(), array)


def test_padding_is_zero():
    tensor = hurray.from_numpy(np.ones((3, 3), np.uint8)).to_layout(TiledLayout((2, 2)))
    assert tensor.buffer(0).to_numpy().sum() == 9
    assert tensor.nbytes == 9
    assert tensor.buffer_handles[0].byte_size == 16


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    tile=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    words=st.tuples(*[st.sampled_from(["row_major", "col_major"])] * 2),
)
def test_any_shape_in_any_tiles(shape, tile, words):
    array = np.random.default_rng(1).integers(0, 100, shape, dtype=np.int16)
    tensor = hurray.from_numpy(array).to_layout(TiledLayout(tile[: len(shape)], *words))
    np.testing.assert_array_equal(tensor.to_numpy(), array)


def test_a_scalar_is_row_major():
    scalar = hurray.asarray(2.5)
    assert scalar.to_layout(RowMajorLayout()).to_numpy()[()] == 2.5
    with pytest.raises(InvalidDescriptorError, match="rank is 0"):
        scalar.to_layout(ColMajorLayout())


def test_the_copy_is_a_copy_that_keeps_sections():
    array = matrix()
    statistics = hurray.Statistics(has_nan=False, has_inf=False)
    shard = hurray.Shard((16, 8), (8, 0))
    tensor = Tensor(
        array, hurray.float32, SHAPE, statistics=statistics, shard=shard, member_role="correction"
    )
    there = tensor.to_layout(MortonLayout((3, 3)))
    assert (there.statistics, there.shard, there.member_role) == (statistics, shard, "correction")
    again = tensor.to_layout(RowMajorLayout())
    assert again.descriptor == tensor.descriptor
    np.from_dlpack(again)[0, 0] = 77
    assert tensor.to_numpy()[0, 0] == array[0, 0]


def test_quantized_elements_move_and_parameters_stay():
    stored = np.arange(64, dtype=np.uint8)
    scales = np.arange(1, 9, dtype=np.float32)
    scheme = hurray.PerChannelAffine.symmetric(0, 1)
    tensor = Tensor(stored, hurray.uint8, SHAPE, aux_buffers=[scales], quantization=scheme)
    there = tensor.to_layout(HilbertLayout(3, 2))
    assert there.quantization == scheme
    assert there.buffer(1).to_numpy().tobytes() == scales.tobytes()
    with pytest.raises(UnsupportedError, match="quantized"):
        there.to_numpy()
    back = there.to_layout(RowMajorLayout())
    assert back.buffer(0).to_numpy().tobytes() == stored.tobytes()


# ---- sparse ----


@pytest.mark.parametrize("numpy_type", NUMPY_TYPES)
@pytest.mark.parametrize("sparse", SPARSE, ids=repr)
@pytest.mark.parametrize("dense", DENSE, ids=repr)
def test_dense_to_sparse_and_back(dense, sparse, numpy_type):
    array = matrix(numpy_type)
    tensor = hurray.from_numpy(array).to_layout(dense).to_layout(sparse)
    assert tensor.layout.tag == sparse.tag
    assert tensor.nnz == np.count_nonzero(array.astype(np.complex128))
    tensor.verify()
    assert bits(tensor.to_layout(dense).to_numpy()) == bits(array)


@pytest.mark.parametrize(("one", "other"), list(itertools.product(SPARSE, SPARSE)))
def test_sparse_layouts_become_each_other(one, other):
    array = matrix()
    tensor = hurray.from_numpy(array).to_layout(one).to_layout(other)
    assert tensor.descriptor == hurray.from_numpy(array).to_layout(other).descriptor
    np.testing.assert_array_equal(tensor.to_layout(RowMajorLayout()).to_numpy(), array)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_csf_of_every_order(order):
    array = matrix(shape=(3, 4, 5))
    tensor = hurray.from_numpy(array).to_layout(CsfLayout(0, order))
    assert tensor.layout == CsfLayout(np.count_nonzero(array), order)
    tensor.verify()
    np.testing.assert_array_equal(tensor.to_layout(RowMajorLayout()).to_numpy(), array)


def test_scipy_agrees():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    array = matrix()
    tensor = hurray.from_numpy(array).to_layout(CsrLayout(0))
    expected = scipy_sparse.csr_array(array)
    np.testing.assert_array_equal(tensor.values.to_numpy(), expected.data)
    np.testing.assert_array_equal(tensor.col_indices.to_numpy(), expected.indices)
    np.testing.assert_array_equal(tensor.row_ptr.to_numpy(), expected.indptr)


def test_negative_zero_and_nan_are_stored_and_kept():
    array = np.array([[0.0, -0.0], [np.nan, 1.0]])
    tensor = hurray.from_numpy(array).to_layout(CsrLayout(0))
    assert tensor.nnz == 3
    assert tensor.to_layout(RowMajorLayout()).to_numpy().tobytes() == array.tobytes()


def test_explicit_zeros_stay_and_coo_gets_sorted():
    indices = np.array([[1, 1], [0, 1]], np.uint64)
    values = np.array([0, 5], np.float32)
    tensor = Tensor(values, hurray.float32, (2, 2), aux_buffers=[indices], layout=CooLayout(2))
    csr = tensor.to_layout(CsrLayout(0))
    assert csr.nnz == 2
    assert csr.values.to_numpy().tolist() == [5, 0]
    coo = csr.to_layout(CooLayout(99))
    assert coo.layout == CooLayout(2, is_sorted=True)


# ---- what goes wrong ----


def coo(indices, shape=(2, 2)):
    indices = np.array(indices, np.uint64)
    values = np.ones(len(indices), np.float32)
    return Tensor(
        values, hurray.float32, shape, aux_buffers=[indices], layout=CooLayout(len(indices))
    )


@pytest.mark.parametrize(
    ("tensor", "layout", "error", "match"),
    [
        (hurray.zeros(SHAPE), "morton", TypeError, "hurray.Layout"),
        (hurray.zeros(SHAPE), None, TypeError, "hurray.Layout"),
        (hurray.zeros(SHAPE), RowMajorLayout, TypeError, "hurray.Layout"),
        (hurray.zeros(SHAPE), TiledLayout((2,)), InvalidDescriptorError, "1 dimensions"),
        (hurray.zeros(SHAPE), MortonLayout((2, 3)), InvalidDescriptorError, "morton"),
        (hurray.zeros(SHAPE), HilbertLayout(2, 2), InvalidDescriptorError, "hilbert|Hilbert"),
        (hurray.zeros((4,)), CsrLayout(0), InvalidDescriptorError, "rank"),
        (hurray.zeros(SHAPE), StridedLayout((0, 1)), UnsupportedError, "stride"),
        (hurray.zeros(SHAPE), StridedLayout((3, 1)), UnsupportedError, "stride"),
        (hurray.zeros(SHAPE), CompositeLayout("group", 1), UnsupportedError, "0x0B"),
        (hurray.zeros((4, 2, 2)), BlockPagedLayout(2, 2, 0, 1), UnsupportedError, "0x0A"),
        (
            hurray.zeros(SHAPE),
            PrivateExtensionLayout(0xF0, 1),
            (UnsupportedError, InvalidDescriptorError),
            "0xF0|private",
        ),
        (coo([[0, 2]]), RowMajorLayout(), IndexError, "2"),
        (coo([[0, 1], [0, 1]]), RowMajorLayout(), InvalidDescriptorError, "tuple 1 .* earlier"),
        (
            Tensor(bytes(64), hurray.float32, (None, 4)),
            ColMajorLayout(),
            InvalidDescriptorError,
            "dynamic",
        ),
        (
            Tensor(bytes(64), hurray.float32, (4, 4), hurray.device.cuda),
            ColMajorLayout(),
            UnsupportedError,
            "cuda",
        ),
    ],
)
def test_what_cannot_be_converted(tensor, layout, error, match):
    with pytest.raises(error, match=match):
        tensor.to_layout(layout)


def test_sparse_with_parameters_in_buffers_is_refused():
    tensor = Tensor(
        bytes(64),
        hurray.uint8,
        SHAPE,
        aux_buffers=[np.ones(8, np.float32)],
        quantization=hurray.PerChannelAffine.symmetric(0, 1),
    )
    with pytest.raises(UnsupportedError, match="quantiz"):
        tensor.to_layout(CsrLayout(0))


# ---- arrays ----


@pytest.mark.parametrize("layout", SCATTERED, ids=repr)
def test_arrays_of_scattered_elements_are_row_major_copies(layout):
    array = np.arange(64, dtype=np.float32).reshape(SHAPE)
    tensor = hurray.from_numpy(array).to_layout(layout)
    for made in (tensor.to_numpy(), np.asarray(tensor), tensor.__array__(), np.array(tensor)):
        np.testing.assert_array_equal(made, array)
        assert made.flags.c_contiguous
        assert made.flags.writeable
        made[...] = -1
    np.testing.assert_array_equal(tensor.to_numpy(), array)
    np.testing.assert_array_equal(tensor.to_numpy(np.float64), array.astype(np.float64))
    as_int = hurray.asarray(tensor, dtype=hurray.int64)
    np.testing.assert_array_equal(as_int.to_numpy(), array.astype(np.int64))
    assert hurray.asarray(tensor) is tensor


@pytest.mark.parametrize("layout", SCATTERED, ids=repr)
def test_without_a_copy_there_is_no_array(layout):
    tensor = hurray.from_numpy(matrix()).to_layout(layout)
    with pytest.raises(CopyRequiredError, match=layout.name):
        tensor.to_numpy(copy=False)
    with pytest.raises(CopyRequiredError, match=layout.name):
        tensor.__array__(copy=False)
    with pytest.raises(BufferError):
        memoryview(tensor)
    with pytest.raises(hurray.UnsupportedError, match=layout.name):
        tensor.__dlpack__()
    assert not hasattr(tensor, "__array_interface__")
    assert not hasattr(tensor, "strides")


def test_what_is_in_the_way_comes_before_the_copy():
    tier_2 = hurray.from_numpy(matrix(ml_dtypes.float8_e5m2)).to_layout(TiledLayout((2, 2)))
    with pytest.raises(UnsupportedError, match="float8_e5m2"):
        np.asarray(tier_2)
    staged = Tensor(bytes(64), hurray.uint8, SHAPE, hurray.device.cuda, layout=MortonLayout((3, 3)))
    with pytest.raises(UnsupportedError, match="cuda"):
        staged.to_numpy(copy=False)
    dynamic = Tensor(bytes(64), hurray.uint8, (8, None), layout=TiledLayout((2, 2)))
    with pytest.raises(InvalidDescriptorError, match="dynamic"):
        dynamic.to_numpy()


@pytest.mark.parametrize("numpy_type", NUMPY_TYPES)
@pytest.mark.parametrize("layout", DENSE, ids=repr)
def test_asarray_and_casts_of_every_type(layout, numpy_type):
    array = matrix(numpy_type)
    tensor = hurray.from_numpy(array).to_layout(layout)
    wide = array.astype(np.complex128)
    np.testing.assert_array_equal(tensor.to_numpy(np.complex128), wide)
    as_complex = hurray.asarray(tensor, dtype=hurray.complex128)
    np.testing.assert_array_equal(as_complex.to_numpy(), wide)
    assert hurray.asarray(tensor, copy=False) is tensor
    copied = hurray.asarray(tensor, copy=True)
    assert copied is not tensor and copied.dtype is tensor.dtype
    assert bits(copied.to_numpy()) == bits(array)
    if tensor.dtype.is_array_api:
        assert bits(np.asarray(tensor)) == bits(array)
    else:  # numpy.asarray gives standard types only
        with pytest.raises(UnsupportedError, match=rf"{tensor.dtype}.*to_numpy"):
            np.asarray(tensor)


@pytest.mark.frameworks
@pytest.mark.parametrize("numpy_type", NUMPY_TYPES)
@pytest.mark.parametrize("layout", [ColMajorLayout(), *SCATTERED], ids=repr)
def test_torch_gets_every_type_that_it_has(layout, numpy_type):
    torch = pytest.importorskip("torch")
    array = matrix(numpy_type)
    tensor = hurray.from_numpy(array).to_layout(layout)
    if numpy_type in NUMPY_TYPES[NUMPY_TYPES.index(ml_dtypes.float8_e4m3fn) + 1 :]:
        with pytest.raises(UnsupportedError, match=str(tensor.dtype)):
            tensor.to_torch()
        return
    made = tensor.to_torch()
    assert str(made.dtype).removeprefix("torch.") == np.dtype(numpy_type).name
    wide = made.to(torch.complex128).numpy()
    np.testing.assert_array_equal(wide, array.astype(np.complex128))


@pytest.mark.frameworks
@pytest.mark.parametrize("numpy_type", [np.float32, np.bool_, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("layout", SCATTERED, ids=repr)
def test_torch_gets_a_copy(layout, numpy_type):
    torch = pytest.importorskip("torch")
    array = matrix(numpy_type)
    made = hurray.from_numpy(array).to_layout(layout).to_torch()
    assert isinstance(made, torch.Tensor)
    np.testing.assert_array_equal(made.to(torch.float32).numpy(), array.astype(np.float32))


def test_read_only_bytes_are_read():
    array = np.arange(16, dtype=np.uint8).reshape(4, 4)
    array.flags.writeable = False
    there = hurray.from_numpy(array).to_layout(MortonLayout((2, 2)))
    assert not there.readonly


def test_large_tensors_go_through_threads():
    array = np.arange(1 << 18, dtype=np.uint16).reshape(512, 512)
    tensor = hurray.from_numpy(array).to_layout(TiledLayout((64, 64)))
    np.testing.assert_array_equal(tensor.to_numpy(), array)
    sparse = tensor.to_layout(CscLayout(0))
    np.testing.assert_array_equal(sparse.to_layout(MortonLayout((9, 9))).to_numpy(), array)


def test_conversions_leave_nothing_behind():
    tensor = hurray.from_numpy(matrix())
    tiled, broken = tensor.to_layout(TiledLayout((2, 2))), coo([[0, 2]])
    layouts = [TiledLayout((2, 2)), CsrLayout(0), ColMajorLayout()]

    def action():
        for layout in layouts:
            tiled.to_layout(layout)
        tiled.to_numpy()
        with pytest.raises(IndexError):
            broken.to_layout(RowMajorLayout())
        with pytest.raises(CopyRequiredError):
            tiled.to_numpy(copy=False)

    leaks.check(action, [tensor, tiled, broken, *layouts], repetitions=10_000)
