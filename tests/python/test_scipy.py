"""SciPy's sparse matrices in both directions (spec 8.8): from_scipy, to_scipy."""

from __future__ import annotations

import gc
import itertools
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

sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")

CLASSES = ["csr_matrix", "csr_array", "csc_matrix", "csc_array"]
POINTERS = {"csr": "row_ptr", "csc": "col_ptr"}
INDICES = {"csr": "col_indices", "csc": "row_indices"}
DTYPES = ["bool", *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64))]
DTYPES += ["float32", "float64", "complex64", "complex128"]


def aligned_copy(numbers, dtype=None):
    source = np.asarray(numbers, dtype)
    array = aligned(source.shape, source.dtype)
    array[...] = source
    return array


def compressed(name, data, indices, indptr, shape, index_dtype="int64"):
    """A matrix over exactly these arrays, 128-aligned; SciPy's constructors would narrow indices."""
    matrix = getattr(sparse, name)(shape)
    matrix.data = aligned_copy(data)
    matrix.indices = aligned_copy(indices, index_dtype)
    matrix.indptr = aligned_copy(indptr, index_dtype)
    return matrix


def example(name="csr_matrix", index_dtype="int64"):
    # Two of the rows (columns) are empty.
    return compressed(
        name, [1.5, -0.0, 0.0, 4.0], [0, 2, 1, 3], [0, 2, 2, 2, 4], (4, 4), index_dtype
    )


def array_of(tensor):
    return np.asarray(tensor)


def address(x):
    return (x if isinstance(x, np.ndarray) else array_of(x)).ctypes.data


def parts(tensor):
    name = tensor.layout.name
    return tensor.values, getattr(tensor, INDICES[name]), getattr(tensor, POINTERS[name])


# ---- in: csr, csc ----


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("index_dtype", ["int64", "uint64"])
@pytest.mark.parametrize("name", CLASSES)
def test_components_are_shared(name, index_dtype, copy):
    matrix = example(name, index_dtype)
    t = hurray.from_scipy(matrix, copy=copy)
    assert (t.layout.name, t.shape, t.nnz, t.dtype) == (name[:3], (4, 4), 4, hurray.float64)
    for component, attribute in zip(parts(t), ["data", "indices", "indptr"], strict=True):
        assert address(component) == address(getattr(matrix, attribute))
    assert all(component.dtype is hurray.uint64 for component in parts(t)[1:])
    matrix.data[0] = 9
    assert array_of(t.values)[0] == 9


@pytest.mark.parametrize("index_dtype", ["int32", "uint32", "int16", "uint8", ">i8"])
@pytest.mark.parametrize("name", CLASSES)
def test_narrower_indices_are_converted(name, index_dtype):
    matrix = example(name, index_dtype)
    t = hurray.from_scipy(matrix)
    values, indices, pointers = parts(t)
    assert address(values) == address(matrix.data)
    assert array_of(indices).tolist() == matrix.indices.tolist()
    assert array_of(pointers).tolist() == matrix.indptr.tolist()
    pointer_name = POINTERS[name[:3]]
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{pointer_name}: .*converted to uint64"):
        hurray.from_scipy(matrix, copy=False)
    matrix.indptr = aligned_copy(matrix.indptr, "int64")
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{INDICES[name[:3]]}: .*to uint64"):
        hurray.from_scipy(matrix, copy=False)


def test_copy_true_shares_nothing():
    matrix = example()
    t = hurray.from_scipy(matrix, copy=True)
    for component, attribute in zip(parts(t), ["data", "indices", "indptr"], strict=True):
        assert address(component) != address(getattr(matrix, attribute))
        assert array_of(component).tolist() == getattr(matrix, attribute).tolist()


@pytest.mark.parametrize(
    "attribute, component", [("data", "values"), ("indices", "row_indices"), ("indptr", "col_ptr")]
)
def test_the_alignment_rule_is_each_components_own(attribute, component):
    matrix = example("csc_matrix")
    source = getattr(matrix, attribute)
    off = aligned(source.shape, source.dtype, off_by=8)
    off[...] = source
    setattr(matrix, attribute, off)
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{component}: .*8-byte aligned"):
        hurray.from_scipy(matrix, copy=False)
    t = hurray.from_scipy(matrix)
    shared = [
        address(part) == address(getattr(matrix, name))
        for part, name in zip(parts(t), ["data", "indices", "indptr"], strict=True)
    ]
    assert shared == [name != attribute for name in ["data", "indices", "indptr"]]


def test_strided_data_is_copied():
    matrix = example()
    matrix.data = np.repeat(matrix.data, 2)[::2]
    assert array_of(hurray.from_scipy(matrix).values).tolist() == matrix.data.tolist()
    with pytest.raises(hurray.CopyRequiredError, match=r"^values: .*one after another"):
        hurray.from_scipy(matrix, copy=False)


def test_stored_zeros_keep_their_bits():
    matrix = example()
    t = hurray.from_scipy(matrix)
    assert array_of(t.values).tobytes() == matrix.data.tobytes()
    assert t.to_scipy().data.tobytes() == matrix.data.tobytes()


def test_arrays_longer_than_needed():
    matrix = compressed("csr_matrix", [1.0, 2.0, 3.0], [0, 1, 9], [0, 1, 2], (2, 3))
    t = hurray.from_scipy(matrix, copy=False)
    assert t.nnz == 2
    assert array_of(t.values).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", CLASSES)
def test_unsorted_rows_are_sorted_in_a_copy(name):
    matrix = compressed(name, [1.0, 2.0, 3.0, 4.0], [3, 0, 2, 1], [0, 2, 2, 4, 4], (4, 4))
    before = matrix.copy()
    t = hurray.from_scipy(matrix)
    assert array_of(t.values).tolist() == [2.0, 1.0, 4.0, 3.0]
    assert array_of(parts(t)[1]).tolist() == [0, 3, 1, 2]
    assert matrix.indices.tolist() == before.indices.tolist()  # the matrix itself is as it was
    t.verify()
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{INDICES[name[:3]]}: .*sorted"):
        hurray.from_scipy(matrix, copy=False)


def test_what_a_matrix_says_of_its_order_is_not_believed():
    matrix = compressed("csr_matrix", [1.0, 2.0], [1, 0], [0, 2], (1, 2))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    assert array_of(hurray.from_scipy(matrix).values).tolist() == [2.0, 1.0]


@pytest.mark.parametrize("indices", [[1, 1, 2], [2, 1, 2], [1, 0, 1]])
@pytest.mark.parametrize("name", CLASSES)
def test_duplicates_are_refused(name, indices):
    matrix = compressed(name, [1.0, 2.0, 3.0], indices, [0, 3, 3, 3], (3, 3))
    with pytest.raises(hurray.UnsupportedError, match=r"\.sum_duplicates\(\)"):
        hurray.from_scipy(matrix)
    matrix.sum_duplicates()
    assert hurray.from_scipy(matrix).nnz == 2


@pytest.mark.parametrize(
    "indices, indptr, message",
    [
        ([0, 9], [0, 1, 2], r"col_indices\[1\] is 9"),
        ([0, -1], [0, 1, 2], r"col_indices\[1\]"),
        ([0, 1], [0, 3, 2], r"row_ptr\[1\] is 3"),
        ([0, 1], [1, 1, 2], r"row_ptr\[0\]"),
        ([0, 1], [0, -1, 2], r"row_ptr\[1\]"),
        ([0, 1], [0, 1, 3], "ends at 3; there are 2 values"),
        ([0, 1], [0, 1, -2], "ends at -2"),
        ([0, 1], [0, 2], r"row_ptr \(indptr\) has 2 entries; expected 3"),
        ([0, 1], [0, 1, 2, 2], "has 4 entries; expected 3"),
        ([[0, 1]], [0, 1, 2], "one dimension"),
    ],
)
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_wrong_indices_and_pointers(indices, indptr, message, index_dtype):
    matrix = compressed("csr_matrix", [1.0, 2.0], indices, indptr, (2, 3), index_dtype)
    with pytest.raises(hurray.InvalidDescriptorError, match=message):
        hurray.from_scipy(matrix)


@pytest.mark.parametrize("kind", ["bsr", "dia", "lil", "dok"])
def test_other_formats_are_refused(kind):
    with pytest.raises(hurray.UnsupportedError, match=rf"{kind}.*\.tocsr\(\)"):
        hurray.from_scipy(sparse.eye(3, format=kind))


@pytest.mark.parametrize("thing", [np.eye(2), [[1]], None, hurray.zeros((2, 2))], ids=repr)
def test_what_is_not_sparse_is_refused(thing):
    with pytest.raises(TypeError, match=type(thing).__name__):
        hurray.from_scipy(thing)


def test_dtypes_without_a_counterpart():
    with pytest.raises(hurray.UnsupportedError, match=r"^values: .*dtype"):
        hurray.from_scipy(sparse.eye(3, format="csr", dtype=np.longdouble))
    matrix = example()
    matrix.indices = matrix.indices.astype(float)
    with pytest.raises(hurray.UnsupportedError, match=r"^col_indices: .*float64"):
        hurray.from_scipy(matrix)


def test_bool_is_packed():
    matrix = compressed("csr_matrix", [True, False, True], [0, 1, 2], [0, 3], (1, 3))
    t = hurray.from_scipy(matrix)
    assert t.dtype is hurray.bool and bytes(t.buffer(0)) == b"\x05"
    assert t.to_scipy().data.tolist() == [True, False, True]
    with pytest.raises(hurray.CopyRequiredError, match=r"^values: "):
        hurray.from_scipy(matrix, copy=False)


# ---- in: coo ----


@pytest.mark.parametrize("name", ["coo_matrix", "coo_array"])
def test_coo_is_packed(name):
    data = aligned_copy([1.5, -0.0, 0.0])
    matrix = getattr(sparse, name)((data, ([2, 0, 1], [0, 3, 1])), shape=(3, 4))
    t = hurray.from_scipy(matrix)
    assert t.layout == hurray.CooLayout(3, is_sorted=False)
    assert array_of(t.indices).tolist() == [[2, 0], [0, 3], [1, 1]]
    assert address(t.values) == address(matrix.data)
    with pytest.raises(hurray.CopyRequiredError, match=r"^indices: .*\[nnz, rank\]"):
        hurray.from_scipy(matrix, copy=False)
    assert address(hurray.from_scipy(matrix, copy=True).values) != address(matrix.data)


def test_coo_says_when_it_is_sorted():
    matrix = sparse.coo_matrix(([1.0, 2.0], ([0, 1], [3, 0])), shape=(3, 4))
    assert hurray.from_scipy(matrix).layout == hurray.CooLayout(2, is_sorted=True)


def test_coo_duplicates_are_refused():
    matrix = sparse.coo_matrix(([1.0, 2.0, 3.0], ([0, 1, 0], [3, 0, 3])), shape=(3, 4))
    with pytest.raises(hurray.UnsupportedError, match=r"\.sum_duplicates\(\)"):
        hurray.from_scipy(matrix)


@pytest.mark.parametrize("column", [-1, 4])
def test_coo_out_of_bounds(column):
    matrix = sparse.coo_matrix(([1.0], ([0], [3])), shape=(3, 4))
    matrix.coords = (np.array([0]), np.array([column]))
    with pytest.raises(hurray.InvalidDescriptorError, match=r"indices\[1\]"):
        hurray.from_scipy(matrix)
    matrix.coords = (np.array([0, 1]), np.array([0, 1]))
    with pytest.raises(hurray.InvalidDescriptorError, match="differ in length"):
        hurray.from_scipy(matrix)


def test_coo_of_one_dimension():
    t = hurray.from_scipy(sparse.coo_array(np.array([0.0, 2.0, 0.0, 3.0])))
    assert (t.shape, array_of(t.indices).tolist()) == ((4,), [[1], [3]])
    back = t.to_scipy(array=True)
    assert back.shape == (4,) and back.toarray().tolist() == [0.0, 2.0, 0.0, 3.0]
    with pytest.raises(hurray.UnsupportedError, match="array=True"):
        t.to_scipy()


# ---- out ----


@pytest.mark.parametrize("wants_array", [False, True])
@pytest.mark.parametrize("name", ["csr", "csc"])
def test_out_shares_all_components(name, wants_array):
    t = hurray.from_scipy(example(f"{name}_matrix"))
    matrix = t.to_scipy(array=wants_array)
    assert type(matrix) is getattr(sparse, f"{name}_{'array' if wants_array else 'matrix'}")
    assert matrix.shape == (4, 4) and matrix.has_canonical_format
    matrix.check_format(full_check=True)
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int64
    for part, attribute in zip(parts(t), ["data", "indices", "indptr"], strict=True):
        assert address(part) == address(getattr(matrix, attribute))
    matrix.data[0] = 8
    assert array_of(t.values)[0] == 8
    assert (matrix @ np.ones(4)).shape == (4,)


@pytest.mark.parametrize("wants_array", [False, True])
def test_out_shares_coo(wants_array):
    t = hurray.sparse_coo([1.0, 2.0], [[2, 1], [0, 3]], (3, 4))
    matrix = t.to_scipy(array=wants_array)
    assert type(matrix) is (sparse.coo_array if wants_array else sparse.coo_matrix)
    assert address(matrix.data) == address(t.values)
    assert [address(along) for along in matrix.coords] == [
        address(t.indices),
        address(t.indices) + 8,
    ]
    assert [along.dtype for along in matrix.coords] == [np.int64, np.int64]
    expected = np.zeros((3, 4))
    expected[2, 1], expected[0, 3] = 1, 2
    assert (matrix.toarray() == expected).all()
    assert (matrix.tocsr().toarray() == expected).all()


def test_matrices_keep_the_memory_alive():
    class Array(np.ndarray):
        pass

    source = example()
    data = source.data = source.data.view(Array)
    gone = weakref.ref(data)
    matrix = hurray.from_scipy(source).to_scipy()
    del source, data
    gc.collect()
    assert gone() is not None and matrix.data.tolist() == [1.5, -0.0, 0.0, 4.0]
    del matrix
    gc.collect()
    assert gone() is None


def test_read_only_components_stay_so():
    source = example()
    source.data.flags.writeable = False
    matrix = hurray.from_scipy(source).to_scipy()
    assert not matrix.data.flags.writeable and matrix.indices.flags.writeable
    assert (matrix.toarray() == source.toarray()).all()


def of_layout(dtype, layout, aux, shape=(1, 2), **more):
    aux_buffers = [np.array(x, np.uint64).tobytes() for x in aux]
    return hurray.Tensor(bytes(64), dtype, shape, layout=layout, aux_buffers=aux_buffers, **more)


@pytest.mark.parametrize("name", ["float8_e5m2", "int4", "float6_e2m3", "uint2", "float4_e2m1"])
def test_tier_2_values_are_refused(name):
    t = of_layout(getattr(hurray.dtype, name), hurray.CsrLayout(2), [[0, 1], [0, 2]])
    with pytest.raises(hurray.UnsupportedError, match=name):
        t.to_scipy()


def test_other_layouts_are_refused():
    with pytest.raises(hurray.UnsupportedError, match="row_major"):
        hurray.zeros((2, 2)).to_scipy()
    aux = [[0, 0], [], [0], [], [0], []]
    t = of_layout(hurray.float32, hurray.CsfLayout(0, (0, 1, 2)), aux, (2, 2, 2))
    with pytest.raises(hurray.UnsupportedError, match="csf"):
        t.to_scipy()


def test_other_devices_and_dynamic_dimensions_are_refused():
    layout, aux = hurray.CsrLayout(2), [[0, 1], [0, 2]]
    with pytest.raises(hurray.UnsupportedError, match="cuda"):
        of_layout(hurray.float32, layout, aux, device=hurray.device.cuda).to_scipy()
    with pytest.raises(hurray.InvalidDescriptorError, match="dynamic"):
        of_layout(hurray.float32, layout, aux, (1, None)).to_scipy()


@pytest.mark.parametrize("aux", [[[0, 2], [0, 2]], [[1, 0], [0, 2]], [[0, 1], [0, 9]]])
def test_wrong_indices_reach_nobody(aux):
    t = of_layout(hurray.float32, hurray.CsrLayout(2), aux)
    with pytest.raises(hurray.InvalidDescriptorError, match=r"col_indices|row_ptr"):
        t.to_scipy()


def test_arguments():
    t = hurray.from_scipy(example())
    assert type(t.to_scipy(array=None)) is sparse.csr_matrix
    with pytest.raises(TypeError):
        t.to_scipy(True)
    with pytest.raises(TypeError):
        hurray.from_scipy(example(), True)


# ---- there and back ----


@st.composite
def matrices(draw):
    rows, columns = draw(st.integers(0, 7)), draw(st.integers(0, 7))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, columns)) < draw(st.floats(0, 1))) * rng.integers(
        1, 9, (rows, columns)
    )
    matrix = sparse.coo_matrix(dense.astype(dtype))
    order = rng.permutation(matrix.nnz)
    matrix.coords = tuple(along[order] for along in matrix.coords)
    matrix.data = matrix.data[order]
    kind = draw(st.sampled_from(["csr", "csc", "coo"]))
    kind = f"{kind}_{draw(st.sampled_from(['matrix', 'array']))}"
    made = getattr(sparse, kind)(matrix.asformat(kind[:3]))
    if made.format != "coo":
        width = draw(st.sampled_from(["int32", "int64", "uint64"]))
        if draw(st.booleans()) and made.nnz and made.format == "csr":  # reverse every row
            ends = made.indptr
            back = np.concatenate(
                [np.arange(e - 1, b - 1, -1) for b, e in itertools.pairwise(ends)]
            ).astype(int)
            made.indices, made.data = made.indices[back], made.data[back]
            made.has_sorted_indices = False
        made.indices, made.indptr = made.indices.astype(width), made.indptr.astype(width)
    return made, dense.astype(dtype), kind


@settings(max_examples=200, deadline=None)
@given(matrices(), st.sampled_from([None, True]))
def test_round_trip(made, copy):
    matrix, dense, kind = made
    t = hurray.from_scipy(matrix, copy=copy)
    t.verify()
    assert (t.shape, t.nnz, str(t.dtype)) == (dense.shape, matrix.nnz, dense.dtype.name)
    back = t.to_scipy(array=kind.endswith("array"))
    assert type(back) is type(matrix) and back.dtype == dense.dtype
    assert (back.toarray() == dense).all()
    if kind.startswith("cs"):
        assert hurray.from_scipy(back).nnz == t.nnz


@pytest.mark.parametrize("name", [*CLASSES, "coo_matrix", "coo_array"])
@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (4, 0), (0, 0)])
def test_nothing_stored(name, shape):
    t = hurray.from_scipy(getattr(sparse, name)(shape))
    assert (t.nnz, t.shape) == (0, shape)
    back = t.to_scipy()
    assert back.shape == shape and back.nnz == 0
    assert back.toarray().shape == shape


@pytest.mark.parametrize("name", CLASSES)
def test_nothing_stored_needs_no_copy(name):
    matrix = compressed(name, np.empty(0), [], [0, 0, 0, 0], (3, 3))
    t = hurray.from_scipy(matrix, copy=False)
    assert (t.nnz, t.shape) == (0, (3, 3))
    assert address(parts(t)[2]) == address(matrix.indptr)


@pytest.mark.parametrize("coords_dtype", ["int32", "int64", "uint16"])
def test_coo_of_every_width_keeps_its_bits(coords_dtype):
    matrix = sparse.coo_array((3, 4))
    matrix.data = aligned_copy([-0.0, 0.0, np.nan])
    matrix.coords = tuple(np.array(c, coords_dtype) for c in ([2, 0, 1], [0, 3, 1]))
    t = hurray.from_scipy(matrix)
    assert t.indices.dtype is hurray.uint64
    assert array_of(t.indices).tolist() == [[2, 0], [0, 3], [1, 1]]
    assert t.to_scipy().data.tobytes() == matrix.data.tobytes()


def test_coo_of_three_dimensions():
    t = hurray.sparse_coo([1.0, 2.0], [[0, 1, 1], [2, 0, 3]], (3, 3, 4))
    with pytest.raises(hurray.UnsupportedError, match=r"2 dimensions, not 3: .*array=True"):
        t.to_scipy()
    try:
        sparse.coo_array((3, 3, 4))
    except ValueError:
        pytest.skip("this SciPy has no arrays of three dimensions")
    made = t.to_scipy(array=True)
    assert made.shape == (3, 3, 4) and made.toarray()[2, 0, 3] == 2.0
    assert array_of(hurray.from_scipy(made).indices).tolist() == array_of(t.indices).tolist()


@pytest.mark.parametrize("index_dtype", ["int32", "int64", "uint64"])
def test_sorting_keeps_bits_of_values(index_dtype):
    matrix = compressed("csr_array", [-0.0, 0.0, np.nan], [2, 1, 0], [0, 3], (1, 3), index_dtype)
    t = hurray.from_scipy(matrix)
    assert array_of(t.values).tobytes() == matrix.data[::-1].tobytes()
    assert array_of(t.col_indices).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_stored_though_scipy_computes_nothing_with_it(name):
    values = hurray.ones((2,), dtype=getattr(hurray, name))
    t = hurray.sparse_coo(values, [[0, 1], [2, 0]], (3, 3))
    for layout in (hurray.CooLayout(2), hurray.CsrLayout(2), hurray.CscLayout(2)):
        made = t.to_layout(layout).to_scipy()
        assert made.dtype == name
        assert hurray.from_scipy(made).dtype is t.dtype


# ---- without, and over and over ----


def test_without_scipy():
    code = """
import sys
sys.modules["scipy"] = None
import hurray
for call in (lambda: hurray.from_scipy(1), hurray.zeros((1, 1)).to_scipy):
    try: call()
    except ImportError as error: assert "SciPy" in str(error), error
    else: raise AssertionError
assert "scipy.sparse" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_leaks_nothing():
    good, narrow = example(), example(index_dtype="int32")
    wrong = compressed("csr_matrix", [1.0, 2.0], [0, 9], [0, 1, 2], (2, 3))
    repeated = compressed("csr_matrix", [1.0, 2.0], [0, 0], [0, 2, 2], (2, 3))
    t = hurray.from_scipy(good)

    def use():
        hurray.from_scipy(good, copy=False)
        hurray.from_scipy(narrow)
        t.to_scipy()
        for bad in (wrong, repeated):
            try:
                hurray.from_scipy(bad)
            except (ValueError, NotImplementedError):
                pass
            else:
                raise AssertionError

    watched = [t, hurray.uint64, *(getattr(good, name) for name in ("data", "indices", "indptr"))]
    leaks.check(use, watched, repetitions=1000)
