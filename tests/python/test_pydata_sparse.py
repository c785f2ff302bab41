"""PyData's sparse arrays in both directions (spec 8.8): from_sparse, to_sparse."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import leaks
import numpy as np
import pytest
from dlpack_abi import aligned
from hypothesis import given, settings
from hypothesis import strategies as st

import hurray

sparse = pytest.importorskip("sparse", reason="the package sparse is not installed")
pytestmark = pytest.mark.frameworks

AXES = {"csr": (0,), "csc": (1,)}
POINTERS = {"csr": "row_ptr", "csc": "col_ptr"}
INDICES = {"csr": "col_indices", "csc": "row_indices"}
ATTRIBUTES = ["data", "indices", "indptr"]
DTYPES = ["bool", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64))]
DTYPES += ["float32", "float64", "complex64", "complex128"]


def aligned_copy(numbers, dtype=None):
    source = np.asarray(numbers, dtype)
    array = aligned(source.shape, source.dtype)
    array[...] = source
    return array


def compressed(kind, data, indices, indptr, shape, index_dtype="int64"):
    """GCXS over exactly these arrays, 128-aligned, whether the constructor would take them or not."""
    array = sparse.GCXS(np.zeros(shape), compressed_axes=AXES[kind])
    array.data = aligned_copy(data)
    array.indices = aligned_copy(indices, index_dtype)
    array.indptr = aligned_copy(indptr, index_dtype)
    return array


def example(kind="csr", index_dtype="int64"):
    # Two of the rows (columns) are empty.
    return compressed(
        kind, [1.5, -0.0, 0.0, 4.0], [0, 2, 1, 3], [0, 2, 2, 2, 4], (4, 4), index_dtype
    )


def coo(data, coords, shape, coords_dtype="int64"):
    array = sparse.COO(np.zeros((len(shape), 0), np.int64), np.zeros(0), shape)
    array.data, array.coords = aligned_copy(data), aligned_copy(coords, coords_dtype)
    return array


def array_of(tensor):
    return np.asarray(tensor)


def address(x):
    return (x if isinstance(x, np.ndarray) else array_of(x)).ctypes.data


def parts(tensor):
    name = tensor.layout.name
    return tensor.values, getattr(tensor, INDICES[name]), getattr(tensor, POINTERS[name])


# ---- in: COO ----


@pytest.mark.parametrize("coords_dtype", ["int64", "uint64", "int32", "uint8", ">i8"])
def test_coo_is_packed(coords_dtype):
    x = coo([1.5, -0.0, 0.0], [[0, 1, 2], [3, 1, 0]], (3, 4), coords_dtype)
    t = hurray.from_sparse(x)
    assert t.layout == hurray.CooLayout(3, is_sorted=True)
    assert (t.shape, t.dtype, t.indices.dtype) == ((3, 4), hurray.float64, hurray.uint64)
    assert array_of(t.indices).tolist() == [[0, 3], [1, 1], [2, 0]]
    assert address(t.values) == address(x.data)
    assert array_of(t.values).tobytes() == x.data.tobytes()  # -0.0 and the stored zero included
    with pytest.raises(hurray.CopyRequiredError, match=r"^indices: .*\[nnz, rank\]"):
        hurray.from_sparse(x, copy=False)
    assert address(hurray.from_sparse(x, copy=True).values) != address(x.data)


@pytest.mark.parametrize("shape", [(60,), (3, 4, 5), (2, 3, 2, 5)])
def test_coo_of_other_ranks(shape):
    dense = np.random.default_rng(1).integers(-1, 2, shape).astype(np.float32)
    t = hurray.from_sparse(sparse.COO(dense))
    assert (t.layout.name, t.shape, t.nnz) == ("coo", shape, np.count_nonzero(dense))
    assert array_of(t.indices).tolist() == np.argwhere(dense).tolist()
    back = t.to_sparse()
    assert type(back) is sparse.COO and (back.todense() == dense).all()


def test_coordinates_that_lie_packed_already_are_shared():
    x = coo([1.0, 2.0], [[3, 5]], (9,))
    t = hurray.from_sparse(x, copy=False)
    assert address(t.indices) == address(x.coords)
    assert address(hurray.from_sparse(x, copy=True).indices) != address(x.coords)
    back = hurray.sparse_coo([1.0, 2.0], [[0, 1], [2, 0]], (3, 3)).to_layout(
        hurray.CooLayout(2, is_sorted=True)
    )
    again = hurray.from_sparse(back.to_sparse(), copy=False)
    assert address(again.indices) == address(back.indices)


def test_the_alignment_rule_is_each_components_own():
    x = coo([1.0, 2.0], [[3, 5]], (9,))
    for attribute, component in [("data", "values"), ("coords", "indices")]:
        source = getattr(x, attribute)
        off = aligned(source.shape, source.dtype, off_by=8)
        off[...] = source
        setattr(x, attribute, off)
        with pytest.raises(hurray.CopyRequiredError, match=rf"^{component}: .*8-byte aligned"):
            hurray.from_sparse(x, copy=False)
        assert address(getattr(hurray.from_sparse(x), component)) != address(off)
        setattr(x, attribute, source)


def test_what_coo_says_of_its_order_is_not_believed():
    x = sparse.COO(
        np.array([[2, 0], [0, 3]]), np.ones(2), (3, 4), sorted=True, has_duplicates=False
    )
    t = hurray.from_sparse(x)
    assert t.layout == hurray.CooLayout(2, is_sorted=False)
    assert array_of(t.indices).tolist() == [[2, 0], [0, 3]]


def test_coo_duplicates_are_refused():
    x = coo([1.0, 2.0, 3.0], [[0, 0, 1], [3, 3, 0]], (3, 4))
    with pytest.raises(hurray.UnsupportedError, match=r"same index: .*sparse\.COO\("):
        hurray.from_sparse(x)
    t = hurray.from_sparse(sparse.COO(x.coords, x.data, x.shape))  # the remedy sums them
    assert array_of(t.values).tolist() == [3.0, 3.0]


def test_coo_that_is_wrong():
    for column in (-1, 4):
        with pytest.raises(hurray.InvalidDescriptorError, match=r"indices\[1\]"):
            hurray.from_sparse(coo([1.0], [[0], [column]], (3, 4)))
    with pytest.raises(hurray.InvalidDescriptorError, match=r"\(2, 2\); expected .*\(2, 1\)"):
        hurray.from_sparse(coo([1.0], [[0, 1], [1, 2]], (3, 4)))
    with pytest.raises(hurray.InvalidDescriptorError, match=r"coords .*shape \(2,\)"):
        hurray.from_sparse(coo([1.0], [0, 1], (3, 4)))
    with pytest.raises(hurray.UnsupportedError, match=r"^indices: .*float64"):
        hurray.from_sparse(coo([1.0], [[0], [1]], (3, 4), "float64"))


def test_coo_without_dimensions():
    with pytest.raises(hurray.UnsupportedError, match=r"dimension: call \.todense\(\)"):
        hurray.from_sparse(sparse.COO(np.zeros((0, 1), np.int64), np.ones(1), ()))


# ---- in: GCXS ----


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("index_dtype", ["int64", "uint64"])
@pytest.mark.parametrize("kind", AXES)
def test_components_are_shared(kind, index_dtype, copy):
    x = example(kind, index_dtype)
    t = hurray.from_sparse(x, copy=copy)
    assert (t.layout.name, t.shape, t.nnz, t.dtype) == (kind, (4, 4), 4, hurray.float64)
    for component, attribute in zip(parts(t), ATTRIBUTES, strict=True):
        assert address(component) == address(getattr(x, attribute))
    assert array_of(t.values).tobytes() == x.data.tobytes()


@pytest.mark.parametrize("index_dtype", ["int32", "uint32", "int16", "uint8"])
@pytest.mark.parametrize("kind", AXES)
def test_narrower_indices_are_converted(kind, index_dtype):
    x = example(kind, index_dtype)
    t = hurray.from_sparse(x)
    assert address(t.values) == address(x.data)
    assert [array_of(part).tolist() for part in parts(t)[1:]] == [
        x.indices.tolist(),
        x.indptr.tolist(),
    ]
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{POINTERS[kind]}: .*to uint64"):
        hurray.from_sparse(x, copy=False)
    x.indptr = aligned_copy(x.indptr, "int64")
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{INDICES[kind]}: .*to uint64"):
        hurray.from_sparse(x, copy=False)


def test_copy_true_shares_nothing():
    x = example()
    t = hurray.from_sparse(x, copy=True)
    for component, attribute in zip(parts(t), ATTRIBUTES, strict=True):
        assert address(component) != address(getattr(x, attribute))
        assert array_of(component).tolist() == getattr(x, attribute).tolist()


@pytest.mark.parametrize("kind", AXES)
def test_unsorted_rows_are_sorted_in_a_copy(kind):
    x = compressed(kind, [1.0, 2.0, 3.0, 4.0], [3, 0, 2, 1], [0, 2, 2, 4, 4], (4, 4))
    t = hurray.from_sparse(x)
    assert array_of(t.values).tolist() == [2.0, 1.0, 4.0, 3.0]
    assert array_of(parts(t)[1]).tolist() == [0, 3, 1, 2]
    assert x.indices.tolist() == [3, 0, 2, 1]  # the array itself is as it was
    assert (t.to_sparse().todense() == x.todense()).all()
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{INDICES[kind]}: .*sorted"):
        hurray.from_sparse(x, copy=False)


@pytest.mark.parametrize("indices", [[1, 1, 2], [2, 1, 2]])
@pytest.mark.parametrize("kind", AXES)
def test_duplicates_are_refused(kind, indices):
    x = compressed(kind, [1.0, 2.0, 3.0], indices, [0, 3, 3, 3], (3, 3))
    with pytest.raises(hurray.UnsupportedError, match=r"\.tocoo\(\)"):
        hurray.from_sparse(x)
    assert hurray.from_sparse(x.tocoo()).nnz == 2  # the remedy sums them


@pytest.mark.parametrize(
    "indices, indptr, message",
    [
        ([0, 9], [0, 1, 2], r"col_indices\[1\] is 9"),
        ([0, -1], [0, 1, 2], r"col_indices\[1\]"),
        ([0, 1], [0, 3, 2], r"row_ptr\[1\] is 3"),
        ([0, 1], [0, 1, 3], "ends at 3; there are 2 values"),
        ([0, 1], [0, 2], r"row_ptr \(indptr\) has 2 entries; expected 3"),
    ],
)
def test_wrong_indices_and_pointers(indices, indptr, message):
    with pytest.raises(hurray.InvalidDescriptorError, match=message):
        hurray.from_sparse(compressed("csr", [1.0, 2.0], indices, indptr, (2, 3)))


@pytest.mark.parametrize("shape, axes", [((6,), None), ((2, 3, 4), (0,)), ((2, 3, 4), (0, 2))])
def test_other_gcxs_is_refused(shape, axes):
    x = sparse.GCXS(np.ones(shape), compressed_axes=axes)
    with pytest.raises(hurray.UnsupportedError, match=rf"{len(shape)} dimensions.*\.tocoo\(\)"):
        hurray.from_sparse(x)
    assert hurray.from_sparse(x.tocoo()).shape == shape  # the remedy


# ---- in: both ----


@pytest.mark.parametrize("fill_value", [1.0, -0.0, np.nan, -1e-300])
@pytest.mark.parametrize("kind", ["coo", "gcxs"])
def test_fill_values_other_than_zero_are_refused(kind, fill_value):
    x = sparse.COO(np.array([[0], [1]]), np.ones(1), (2, 2), fill_value=fill_value).asformat(kind)
    with pytest.raises(hurray.UnsupportedError, match=rf"fill_value is {fill_value}.*\.todense"):
        hurray.from_sparse(x)


def test_other_formats_are_refused():
    x = sparse.DOK((2, 3))
    x[1, 2] = 4.0
    with pytest.raises(hurray.UnsupportedError, match=r'DOK.*\.asformat\("coo"\)'):
        hurray.from_sparse(x)
    assert array_of(hurray.from_sparse(x.asformat("coo")).indices).tolist() == [[1, 2]]


@pytest.mark.parametrize("thing", [np.eye(2), [[1]], None, hurray.zeros((2, 2))], ids=repr)
def test_what_is_not_sparse_is_refused(thing):
    with pytest.raises(TypeError, match=type(thing).__name__):
        hurray.from_sparse(thing)


def test_dtypes_without_a_counterpart():
    x = example()
    x.data = x.data.astype(np.longdouble)
    with pytest.raises(hurray.UnsupportedError, match=r"^values: .*dtype"):
        hurray.from_sparse(x)
    x = example()
    x.indices = x.indices.astype(float)
    with pytest.raises(hurray.UnsupportedError, match=r"^col_indices: .*float64"):
        hurray.from_sparse(x)


def test_bool_is_packed():
    x = compressed("csr", [True, False, True], [0, 1, 2], [0, 3], (1, 3))
    t = hurray.from_sparse(x)
    assert t.dtype is hurray.bool and bytes(t.buffer(0)) == b"\x05"
    assert t.to_sparse().data.tolist() == [True, False, True]
    with pytest.raises(hurray.CopyRequiredError, match=r"^values: "):
        hurray.from_sparse(x, copy=False)


# ---- out ----


@pytest.mark.parametrize("kind", AXES)
def test_out_shares_all_components(kind):
    t = hurray.from_sparse(example(kind))
    x = t.to_sparse()
    assert type(x) is sparse.GCXS and tuple(x.compressed_axes) == AXES[kind]
    assert x.shape == (4, 4) and x.fill_value == 0
    assert x.indices.dtype == x.indptr.dtype == np.int64
    for part, attribute in zip(parts(t), ATTRIBUTES, strict=True):
        assert address(part) == address(getattr(x, attribute))
    assert (x @ np.ones(4)).tolist() == x.todense().sum(axis=1).tolist()


def test_out_shares_sorted_coo():
    t = hurray.from_sparse(coo([1.5, -0.0, 0.0], [[0, 1, 2], [3, 1, 0]], (3, 4)))
    x = t.to_sparse()
    assert type(x) is sparse.COO and x.coords.dtype == np.int64
    assert (address(x.data), address(x.coords)) == (address(t.values), address(t.indices))
    assert x.data.tobytes() == array_of(t.values).tobytes()
    assert x.todense()[0, 3] == 1.5 and x.fill_value == 0


def test_out_sorts_coo_in_a_copy():
    t = hurray.sparse_coo([1.0, 2.0, 3.0], [[2, 1], [0, 3], [2, 0]], (3, 4))
    x = t.to_sparse()
    assert x.coords.tolist() == [[0, 2, 2], [3, 0, 1]] and x.data.tolist() == [2.0, 3.0, 1.0]
    assert array_of(t.indices).tolist() == [[2, 1], [0, 3], [2, 0]]
    assert (x + x).todense()[2, 1] == 2.0 and x[2].todense().tolist() == [3.0, 1.0, 0.0, 0.0]


def test_out_sorts_where_positions_do_not_fit_an_integer():
    shape, far = (2**32, 3 * 2**30), 2**32 - 1  # row-major position of the first is over 2^63
    t = hurray.sparse_coo([1.0, 2.0], np.array([[far, 1], [1, 2]], np.uint64), shape)
    assert t.to_sparse().coords.tolist() == [[1, far], [2, 1]]


@pytest.mark.parametrize("kind", [*AXES, "coo"])
def test_arrays_keep_the_memory_alive(kind):
    class Array(np.ndarray):
        pass

    source = coo([1.0], [[1], [2]], (4, 4)) if kind == "coo" else example(kind)
    data = source.data = source.data.view(Array)
    gone = weakref.ref(data)
    expected = data.tolist()
    x = hurray.from_sparse(source).to_sparse()
    del source, data
    gc.collect()
    assert gone() is not None and x.data.tolist() == expected
    del x
    gc.collect()
    assert gone() is None


def test_read_only_components_stay_so():
    source = example()
    source.data.flags.writeable = False
    x = hurray.from_sparse(source).to_sparse()
    assert not x.data.flags.writeable and x.indices.flags.writeable
    assert (x.todense() == source.todense()).all()


def of_layout(dtype, layout, aux, shape=(1, 2), **more):
    aux_buffers = [np.array(x, np.uint64).tobytes() for x in aux]
    return hurray.Tensor(bytes(64), dtype, shape, layout=layout, aux_buffers=aux_buffers, **more)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_coo_can_be_of_half_precision(name):
    values = hurray.ones((2,), dtype=getattr(hurray, name))
    t = hurray.sparse_coo(values, [[0, 1], [2, 0]], (3, 3))
    x = t.to_sparse()
    assert x.dtype == name and x.todense().astype(float).tolist() == [
        [0, 1, 0],
        [0, 0, 0],
        [1, 0, 0],
    ]
    assert hurray.from_sparse(x).dtype is t.dtype
    with pytest.raises(hurray.UnsupportedError, match=rf"{name}.*to_layout\(CooLayout\(2\)\)"):
        t.to_layout(hurray.CsrLayout(2)).to_sparse()
    assert t.to_layout(hurray.CsrLayout(2)).to_layout(hurray.CooLayout(2)).to_sparse().nnz == 2


@pytest.mark.parametrize("name", ["float8_e5m2", "int4", "float6_e2m3", "uint2", "float4_e2m1"])
def test_tier_2_values_are_refused(name):
    t = of_layout(getattr(hurray.dtype, name), hurray.CsrLayout(2), [[0, 1], [0, 2]])
    with pytest.raises(hurray.UnsupportedError, match=name):
        t.to_sparse()


def test_what_sparse_cannot_say_is_refused():
    with pytest.raises(hurray.UnsupportedError, match="row_major"):
        hurray.zeros((2, 2)).to_sparse()
    csf = hurray.CsfLayout(0, (0, 1, 2))
    with pytest.raises(hurray.UnsupportedError, match="csf"):
        of_layout(hurray.float32, csf, [[0, 0], [], [0], [], [0], []], (2, 2, 2)).to_sparse()
    layout, aux = hurray.CsrLayout(2), [[0, 1], [0, 2]]
    with pytest.raises(hurray.UnsupportedError, match="cuda"):
        of_layout(hurray.float32, layout, aux, device=hurray.device.cuda).to_sparse()
    with pytest.raises(hurray.UnsupportedError, match="quantized"):
        of_layout(
            hurray.uint8, layout, aux, quantization=hurray.PerTensorAffine(0.5, 0)
        ).to_sparse()
    with pytest.raises(hurray.InvalidDescriptorError, match="dynamic"):
        of_layout(hurray.float32, layout, aux, (1, None)).to_sparse()
    with pytest.raises(hurray.UnsupportedError, match="extents"):
        hurray.sparse_coo([1.0], np.array([[0, 0]], np.uint64), (2**63, 1)).to_sparse()


@pytest.mark.parametrize("aux", [[[0, 2], [0, 2]], [[1, 0], [0, 2]], [[0, 1], [0, 9]]])
def test_wrong_indices_reach_nobody(aux):
    t = of_layout(hurray.float32, hurray.CsrLayout(2), aux)
    with pytest.raises(hurray.InvalidDescriptorError, match=r"col_indices|row_ptr"):
        t.to_sparse()


def test_arguments():
    t = hurray.from_sparse(example())
    with pytest.raises(TypeError):
        t.to_sparse(True)
    with pytest.raises(TypeError):
        hurray.from_sparse(example(), True)


# ---- there and back ----


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_round_trip(data):
    kind = data.draw(st.sampled_from(["coo", *AXES]))
    rank = 2 if kind in AXES else data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.integers(0, 5)) for _ in range(rank))
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    dense = (rng.integers(-3, 4, shape) * (rng.random(shape) < 0.5)).astype(dtype)
    x = sparse.COO(dense)
    if kind in AXES:
        x = sparse.GCXS.from_coo(x, compressed_axes=AXES[kind])
    t = hurray.from_sparse(x, copy=data.draw(st.sampled_from([None, True])))
    t.verify()
    assert (t.layout.name, t.shape, t.nnz, str(t.dtype)) == (kind, shape, x.nnz, dtype.name)
    back = t.to_sparse()
    assert type(back) is type(x) and back.dtype == dtype
    assert (back.todense() == dense).all()


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (4, 0), (0, 0), (7,), (2, 0, 3)])
def test_nothing_stored(shape):
    x = sparse.COO(np.zeros(shape))
    arrays = [x]
    if len(shape) == 2:
        arrays += [sparse.GCXS.from_coo(x, compressed_axes=axes) for axes in AXES.values()]
    for array in arrays:
        t = hurray.from_sparse(array)
        assert (t.nnz, t.shape) == (0, shape)
        back = t.to_sparse()
        assert type(back) is type(array)
        assert (back.shape, back.nnz, back.todense().shape) == (shape, 0, shape)


# ---- without, and over and over ----


def test_without_the_package():
    code = """
import sys
sys.modules["sparse"] = None
import hurray
for call in (lambda: hurray.from_sparse(1), hurray.zeros((1, 1)).to_sparse):
    try: call()
    except ImportError as error: assert "package sparse" in str(error), error
    else: raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_backend_of_the_package_is_refused():
    code = """
import sys, types
sys.modules["sparse"] = types.ModuleType("sparse")
import hurray
try: hurray.from_sparse(1)
except ImportError as error: assert "Numba backend" in str(error), error
else: raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_leaks_nothing():
    good, narrow = example(), example(index_dtype="int32")
    wrong = compressed("csr", [1.0, 2.0], [0, 9], [0, 1, 2], (2, 3))
    scattered = hurray.sparse_coo([1.0, 2.0], [[2, 1], [0, 3]], (3, 4))
    t = hurray.from_sparse(good)

    def use():
        hurray.from_sparse(good, copy=False)
        hurray.from_sparse(narrow)
        hurray.from_sparse(scattered.to_sparse())
        t.to_sparse()
        try:
            hurray.from_sparse(wrong)
        except ValueError:
            pass
        else:
            raise AssertionError

    watched = [t, scattered, hurray.uint64, *(getattr(good, name) for name in ATTRIBUTES)]
    leaks.check(use, watched, repetitions=500)
