"""Sparse torch tensors in both directions (spec 8.7): COO, CSR, CSC."""

from __future__ import annotations

import gc

import leaks
import numpy as np
import pytest

import hurray

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.frameworks

DENSE = [[0.0, 1.5, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0, -3.0]]
# The components of a layout: hurray's names and torch's methods.
COMPRESSED = {
    "csr": {"col_indices": "col_indices", "row_ptr": "crow_indices"},
    "csc": {"row_indices": "row_indices", "col_ptr": "ccol_indices"},
}


def compressed(kind, dtype=torch.float32):
    """DENSE with each component in memory of its own; torch lets some of them share."""
    dense = torch.tensor(DENSE).to(dtype)
    x = dense.to_sparse_csr() if kind == "csr" else dense.to_sparse_csc()
    indices, pointers = (getattr(x, name)().clone() for name in COMPRESSED[kind].values())
    values = x.values().clone()
    return torch.sparse_compressed_tensor(
        pointers, indices, values, (3, 3), layout=x.layout, check_invariants=True
    )


def address(component):
    return np.asarray(component).ctypes.data


# ---- CSR, CSC ----


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_components_are_shared(kind, copy):
    x = compressed(kind)
    t = hurray.from_torch(x, copy=copy)
    assert (t.layout.name, t.shape, t.nnz, t.dtype) == (kind, (3, 3), 3, hurray.float32)
    assert address(t.values) == x.values().data_ptr()
    for ours, theirs in COMPRESSED[kind].items():
        assert getattr(t, ours).dtype is hurray.uint64
        assert address(getattr(t, ours)) == getattr(x, theirs)().data_ptr()
    back = t.to_torch()
    assert back.layout is x.layout and back.to_dense().tolist() == DENSE
    assert back.values().data_ptr() == x.values().data_ptr()
    for theirs in COMPRESSED[kind].values():
        assert getattr(back, theirs)().data_ptr() == getattr(x, theirs)().data_ptr()
        assert getattr(back, theirs)().dtype is torch.int64
    x.values()[0] = 9
    assert back.values()[0] == 9 and np.asarray(t.values)[0] == 9


@pytest.mark.parametrize("kind", COMPRESSED)
def test_copy_true_shares_nothing(kind):
    x = compressed(kind)
    t = hurray.from_torch(x, copy=True)
    assert address(t.values) != x.values().data_ptr()
    for ours, theirs in COMPRESSED[kind].items():
        assert address(getattr(t, ours)) != getattr(x, theirs)().data_ptr()


def test_int32_indices_are_converted():
    y = compressed("csr")
    x = torch.sparse_csr_tensor(
        y.crow_indices().int(), y.col_indices().int(), y.values(), (3, 3), check_invariants=True
    )
    t = hurray.from_torch(x)
    assert t.to_torch().to_dense().tolist() == DENSE
    with pytest.raises(hurray.CopyRequiredError, match=r"^col_indices: .*int32"):
        hurray.from_torch(x, copy=False)


def csr(pointers, columns, count, shape=(2, 3)):
    return torch.sparse_csr_tensor(
        torch.tensor(pointers),
        torch.tensor(columns),
        torch.ones(count),
        shape,
        check_invariants=False,
    )


def test_wrong_indices():
    with pytest.raises(hurray.InvalidDescriptorError, match=r"col_indices\[1\] is 9"):
        hurray.from_torch(csr([0, 1, 2], [0, 9], 2))
    with pytest.raises(hurray.InvalidDescriptorError, match=r"col_indices\[0\]"):
        hurray.from_torch(csr([0, 1, 2], [-1, 0], 2))
    with pytest.raises(hurray.InvalidDescriptorError, match=r"row_ptr\[1\] is 3"):
        hurray.from_torch(csr([0, 3, 2], [0, 1], 2))
    for columns in ([1, 1], [1, 0]):
        with pytest.raises(hurray.UnsupportedError, match=r"\.coalesce\(\)"):
            hurray.from_torch(csr([0, 2, 2], columns, 2))


# ---- COO ----


def coo(indices, values, shape=(3, 3), **more):
    rules = {"check_invariants": True} | more
    return torch.sparse_coo_tensor(torch.tensor(indices), torch.tensor(values), shape, **rules)


def test_coo_is_packed():
    x = torch.tensor(DENSE).to_sparse_coo()
    t = hurray.from_torch(x)
    assert t.layout == hurray.CooLayout(3, is_sorted=True)
    assert np.asarray(t.indices).tolist() == [[0, 1], [2, 0], [2, 2]]
    assert address(t.values) == x.values().data_ptr()
    with pytest.raises(hurray.CopyRequiredError, match=r"^indices: "):
        hurray.from_torch(x, copy=False)
    back = t.to_torch()
    assert back.is_coalesced() and back.to_dense().tolist() == DENSE
    assert back.values().data_ptr() == address(t.values)
    assert back.indices().data_ptr() == address(t.indices)
    # Now the indices lie as we store them.
    again = hurray.from_torch(back, copy=False)
    assert address(again.indices) == address(t.indices)


def test_uncoalesced():
    x = coo([[2, 0], [0, 1]], [2.0, 1.0])
    t = hurray.from_torch(x)
    assert not x.is_coalesced() and not t.layout.is_sorted
    back = t.to_torch()
    assert not back.is_coalesced() and (back.to_dense() == x.to_dense()).all()
    x = coo([[2, 2], [0, 0]], [2.0, 1.0])
    with pytest.raises(hurray.UnsupportedError, match=r"\.coalesce\(\)"):
        hurray.from_torch(x)
    assert hurray.from_torch(x.coalesce()).nnz == 1


def test_coo_out_of_bounds():
    x = coo([[0], [7]], [1.0], check_invariants=False)
    with pytest.raises(hurray.InvalidDescriptorError, match=r"indices\[1\] is 7"):
        hurray.from_torch(x)


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (1, 2, 1, 2, 1)])
def test_coo_of_any_rank(shape):
    dense = torch.arange(np.prod(shape)).reshape(shape) % 3
    t = hurray.from_torch(dense.to_sparse_coo())
    assert t.shape == shape
    assert (t.to_torch().to_dense() == dense).all()


# ---- both ----


@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.complex64],
    ids=str,
)
def test_dtypes(kind, dtype):
    dense = torch.tensor(DENSE).to(dtype)
    x = dense.to_sparse_coo() if kind == "coo" else compressed(kind, dtype)
    back = hurray.from_torch(x).to_torch()
    assert back.dtype is dtype
    assert back.layout is x.layout
    # torch scatters no bool out of CSC, so the values are what is compared.
    ours = back._values() if kind == "coo" else back.values()
    theirs = x._values() if kind == "coo" else x.values()
    assert (ours == theirs).all()
    if dtype is torch.bool:
        with pytest.raises(hurray.CopyRequiredError, match=r"^values: "):
            hurray.from_torch(x, copy=False)


def test_float8():
    values = torch.tensor([1.0, 2.0]).to(torch.float8_e5m2)
    x = torch.sparse_coo_tensor(
        torch.tensor([[0, 1], [1, 0]]), values, (2, 2), check_invariants=True
    )
    t = hurray.from_torch(x)
    assert t.dtype is hurray.dtype.float8_e5m2
    assert address(t.buffer(0)) == x._values().data_ptr()
    assert t.to_torch().dtype is torch.float8_e5m2


@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
def test_nothing_stored(kind):
    layout = getattr(torch, f"sparse_{kind}")
    x = torch.zeros(3, 4).to_sparse(layout=layout)
    t = hurray.from_torch(x)
    assert (t.nnz, t.shape) == (0, (3, 4))
    assert t.to_torch().to_dense().tolist() == x.to_dense().tolist()


@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
def test_stored_zeros_keep_their_bits(kind):
    values = torch.tensor([-0.0, 0.0, float("nan")], dtype=torch.float64)
    rows, columns = torch.tensor([0, 1, 3]), torch.tensor([0, 1, 3])
    if kind == "coo":
        x = torch.sparse_coo_tensor(
            torch.stack([rows, columns]), values, (4, 4), check_invariants=True
        )
    else:  # the third row (column) is empty
        pointers = torch.tensor([0, 1, 2, 2, 3])
        layout = getattr(torch, f"sparse_{kind}")
        x = torch.sparse_compressed_tensor(
            pointers, rows, values, (4, 4), layout=layout, check_invariants=True
        )
    t = hurray.from_torch(x)
    stored = values.numpy().tobytes()
    assert t.nnz == 3 and np.asarray(t.values).tobytes() == stored
    back = t.to_torch()
    back_values = back._values() if kind == "coo" else back.values()
    assert back_values.numpy().tobytes() == stored


@pytest.mark.parametrize("kind", COMPRESSED)
def test_the_error_names_the_component_that_would_be_copied(kind):
    x = compressed(kind)
    indices, pointers = (getattr(x, name)() for name in COMPRESSED[kind].values())
    index_name, pointer_name = COMPRESSED[kind]

    def again(pointers, indices, values):
        return torch.sparse_compressed_tensor(
            pointers, indices, values, (3, 3), layout=x.layout, check_invariants=True
        )

    values = torch.empty(4)[1:].copy_(x.values())  # 4 bytes after an aligned address
    with pytest.raises(hurray.CopyRequiredError, match=r"^values: .*4-byte aligned.* 64"):
        hurray.from_torch(again(pointers, indices, values), copy=False)
    off = torch.empty(4, dtype=torch.int64)[1:].copy_(indices)
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{index_name}: .*8-byte aligned.* 64"):
        hurray.from_torch(again(pointers, off, x.values()), copy=False)
    off = torch.empty(5, dtype=torch.int64)[1:].copy_(pointers)
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{pointer_name}: .*8-byte aligned.* 64"):
        hurray.from_torch(again(off, indices, x.values()), copy=False)


def test_memory_lives_as_long_as_it_is_needed():
    t = hurray.from_torch(compressed("csr"))
    gc.collect()
    back = t.to_torch()
    del t
    gc.collect()
    assert back.to_dense().tolist() == DENSE


def test_refusals():
    with pytest.raises(hurray.UnsupportedError, match=r"sparse_bsr.*\.to_sparse_csr\(\)"):
        hurray.from_torch(torch.ones(2, 2).to_sparse_bsr((1, 1)))
    hybrid = torch.sparse_coo_tensor(
        torch.tensor([[0, 1]]), torch.ones(2, 3), check_invariants=True
    )
    with pytest.raises(hurray.UnsupportedError, match=r"dense or batch.*\.to_dense\(\)"):
        hurray.from_torch(hybrid)
    with pytest.raises(hurray.UnsupportedError, match=r"dense or batch"):
        hurray.from_torch(torch.ones(2, 2, 2).to_sparse_csr())
    nowhere = torch.zeros((0, 1), dtype=torch.int64)
    scalar = torch.sparse_coo_tensor(nowhere, torch.ones(1), (), check_invariants=True)
    with pytest.raises(hurray.UnsupportedError, match="dimension"):
        hurray.from_torch(scalar)
    with pytest.raises(hurray.UnsupportedError, match=r"\.detach\(\)"):
        hurray.from_torch(compressed("csr").requires_grad_())


def of_layout(layout, aux, shape, dtype=hurray.float32, **more):
    aux_buffers = [np.array(x, np.uint64).tobytes() for x in aux]
    return hurray.Tensor(bytes(64), dtype, shape, layout=layout, aux_buffers=aux_buffers, **more)


def test_refusals_on_the_way_out():
    csr_layout, aux = hurray.CsrLayout(2), [[0, 1], [0, 2]]
    with pytest.raises(hurray.UnsupportedError, match="csf"):
        csf_aux = [[0, 0], [], [0], [], [0], []]
        of_layout(hurray.CsfLayout(0, (0, 1, 2)), csf_aux, (2, 2, 2)).to_torch()
    with pytest.raises(hurray.InvalidDescriptorError, match=r"col_indices\[1\] is 7"):
        of_layout(csr_layout, [[0, 7], [0, 2]], (1, 2)).to_torch()
    with pytest.raises(hurray.InvalidDescriptorError, match="dynamic"):
        of_layout(csr_layout, aux, (1, None)).to_torch()
    with pytest.raises(hurray.UnsupportedError, match="int4"):
        of_layout(csr_layout, aux, (1, 2), hurray.dtype.int4).to_torch()
    with pytest.raises(hurray.UnsupportedError, match="cuda"):
        of_layout(csr_layout, aux, (1, 2), device=hurray.device.cuda).to_torch()
    indices = np.zeros((1, 2), np.uint64)
    indices.flags.writeable = False
    t = hurray.sparse_coo([1.0], hurray.from_numpy(indices), (1, 1))
    if t.readonly:  # it is, where the address is 64-aligned
        with pytest.raises(hurray.UnsupportedError, match="read-only"):
            t.to_torch()


def test_leaks_nothing():
    x, y = compressed("csr"), torch.tensor(DENSE).to_sparse_coo()

    def use():
        hurray.from_torch(x).to_torch()
        hurray.from_torch(y).to_torch()

    leaks.check(use, [x, y, hurray.uint64], repetitions=2000)
