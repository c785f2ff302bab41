"""Tensor.verify: what decoding a descriptor does not look at (spec 2.6 - 2.9, 3)."""

from __future__ import annotations

import leaks
import numpy as np
import pytest

import hurray
from hurray import (
    MXFP,
    NF4,
    BlockPagedLayout,
    CooLayout,
    CscLayout,
    CsfLayout,
    CsrLayout,
    InvalidDescriptorError,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    RowMajorLayout,
    Statistics,
    Tensor,
)


def u64(*values):
    return np.array(values, np.uint64)


def ones(count):
    return np.ones(count, np.float32)


def sparse(layout, shape, *buffers, **more):
    return Tensor(
        ones(layout.nnz), hurray.float32, shape, aux_buffers=buffers, layout=layout, **more
    )


def coo(*tuples, is_sorted=False, shape=(3, 4)):
    return sparse(CooLayout(len(tuples), is_sorted), shape, np.array(tuples, np.uint64))


def csr(columns, row_ptr):
    return sparse(CsrLayout(len(columns)), (3, 4), u64(*columns), u64(*row_ptr))


def csc(rows, col_ptr):
    return sparse(CscLayout(len(rows)), (3, 4), u64(*rows), u64(*col_ptr))


# Spec 2.8's own example, and what can be broken about it: pos_0, crd_0, pos_1, crd_1, pos_2, crd_2.
CSF = [[0, 2], [0, 1], [0, 2, 3], [0, 2, 1], [0, 1, 2, 4], [1, 3, 0, 2]]


def csf(buffer=None, entry=None, value=None):
    buffers = [u64(*b) for b in CSF]
    if buffer is not None:
        buffers[buffer][entry] = value
    return sparse(CsfLayout(4, (0, 1, 2)), (2, 3, 4), *buffers)


def paged(block_table, seq_ptr, num_pages=3):
    return Tensor(
        bytes(num_pages * 2 * 4),
        hurray.float32,
        (4, 1, 1),
        aux_buffers=[np.array(block_table, np.uint32), np.array(seq_ptr, np.uint32)],
        layout=BlockPagedLayout(2, num_pages, 0, len(seq_ptr) - 1),
    )


def quantized(scheme, *parameters, dtype=hurray.uint8, shape=(4, 32)):
    count = hurray.buffer_size_bytes(dtype, int(np.prod(shape)))
    return Tensor(bytes(count), dtype, shape, aux_buffers=parameters, quantization=scheme)


CHANNEL = PerChannelAffine.asymmetric(0, 1, 2)
BLOCK = PerBlockAffine.asymmetric(1, 16, 1, 2, hurray.float32)
BFLOAT = PerBlockAffine.symmetric(1, 16, 1, hurray.bfloat16)
POINTS = np.zeros(4, np.int32)


@pytest.mark.parametrize(
    "tensor",
    [
        hurray.zeros((3, 4)),
        hurray.zeros((), dtype=hurray.int8),
        coo(),
        coo((0, 0), (2, 3), (1, 1)),
        coo((0, 3), (1, 0), is_sorted=True),
        csr([1, 3, 0], [0, 2, 2, 3]),
        csr([], [0, 0, 0, 0]),
        csc([0, 2, 1], [0, 2, 2, 2, 3]),
        csf(),
        paged([2, 0, 2], [0, 2, 3]),
        paged([], [0]),
        quantized(PerTensorAffine(0.5, 3)),
        quantized(CHANNEL, -ones(4), np.full(4, 255, np.int32)),
        quantized(BLOCK, ones(8), np.zeros(8, np.int32)),
        quantized(NF4(1, 16, 1), np.zeros(8, np.float32), dtype=hurray.dtype.uint4),
        quantized(MXFP(1, 32, 1), bytes([1, 127, 200, 254]), dtype=hurray.dtype.float4_e2m1),
        Tensor(bytes(24), hurray.float16, (3, 4), statistics=Statistics(nnz=0)),
        Tensor(np.full(4, np.nan), hurray.float64, (4,)),  # elements are never looked at
    ],
)
def test_what_is_sound(tensor):
    assert tensor.verify() is None


@pytest.mark.parametrize(
    ("tensor", "match"),
    [
        # COO
        (coo((0, 0), (3, 0)), r"indices.*3"),
        (coo((0, 4)), r"indices.*4"),
        (coo((0, 2**64 - 1)), "18446744073709551615"),
        (coo((1, 1), (0, 0), (1, 1)), "indices"),
        (coo((1, 1), (0, 3), is_sorted=True), "indices"),
        (coo((1, 1), (1, 1), is_sorted=True), "indices"),
        # CSR and CSC
        (csr([1, 3, 0], [1, 2, 2, 3]), r"row_ptr.*\b0\b"),
        (csr([1, 3, 0], [0, 2, 1, 3]), "row_ptr"),
        (csr([1, 3, 0], [0, 2, 2, 2]), "row_ptr"),
        (csr([1, 3, 0], [0, 2, 2, 4]), "row_ptr"),
        (csr([1, 3, 0], [0, 2**63, 2, 3]), "row_ptr"),
        (csr([1, 4, 0], [0, 2, 2, 3]), r"col_indices.*4"),
        (csr([3, 1, 0], [0, 2, 2, 3]), "col_indices"),
        (csr([1, 1, 0], [0, 2, 2, 3]), "col_indices"),
        (csc([0, 3, 1], [0, 2, 2, 2, 3]), r"row_indices.*3"),
        (csc([0, 2, 1], [0, 2, 2, 2, 2]), "col_ptr"),
        # CSF: from the root to the leaves
        (csf(0, 0, 1), "pos"),
        (csf(0, 1, 3), "pos|crd"),
        (csf(1, 1, 2), "crd"),
        (csf(2, 1, 4), "pos"),
        (csf(3, 1, 0), "crd"),
        (csf(4, 3, 3), "pos"),
        (csf(5, 3, 4), "crd"),
        # block-paged
        (paged([3, 0], [0, 2]), r"block_table.*3"),
        (paged([0, 0], [1, 2]), "seq_ptr"),
        (paged([0, 0], [0, 2, 1]), "seq_ptr"),
        (paged([0, 0], [0, 3]), "seq_ptr"),
        # parameters of schemes
        (quantized(CHANNEL, np.array([1, 1, 0, 1], "f4"), POINTS), r"scale"),
        (quantized(CHANNEL, np.full(4, np.inf, "f4"), POINTS), "scale"),
        (quantized(CHANNEL, np.full(4, np.nan, "f4"), POINTS), "scale"),
        (quantized(CHANNEL, ones(4), POINTS - 1), "zero point"),
        (quantized(CHANNEL, ones(4), POINTS + 256), r"256"),
        (quantized(BLOCK, ones(8) * 0, np.zeros(8, np.int32)), "scale"),
        (quantized(BFLOAT, np.full(8, 0x7F80, np.uint16)), "scale"),
        (quantized(NF4(1, 16, 1), -ones(8), dtype=hurray.dtype.uint4), "scale"),
        (quantized(MXFP(1, 32, 1), bytes([1, 0, 1, 1]), dtype=hurray.int8), "scale"),
        (quantized(MXFP(1, 32, 1), bytes([1, 1, 255, 1]), dtype=hurray.int8), "scale"),
    ],
)
def test_what_is_broken_is_named(tensor, match):
    with pytest.raises(InvalidDescriptorError, match=match):
        tensor.verify()


def test_the_message_says_where():
    with pytest.raises(InvalidDescriptorError) as caught:
        csr([1, 9, 0], [0, 2, 2, 3]).verify()
    message = str(caught.value)
    assert "col_indices" in message
    assert "1" in message
    assert "9" in message
    assert "4" in message


def test_an_index_buffer_of_int32_is_found():
    """Half as many bytes are too few; twice as many entries are read as what they are not."""
    columns, row_ptr = np.array([1, 3, 0], np.int32), np.array([0, 2, 2, 3], np.int32)
    with pytest.raises(hurray.BufferError, match=r"buffer 1 \(col_indices\) has 12 .* need 24"):
        sparse(CsrLayout(3), (3, 4), columns, row_ptr)
    padded = [np.concatenate([a, a]) for a in (columns, row_ptr)]
    with pytest.raises(InvalidDescriptorError):
        sparse(CsrLayout(3), (3, 4), *padded).verify()


@pytest.mark.parametrize("index", range(1, 3))
def test_a_buffer_one_byte_short(index):
    buffers = [u64(1, 3, 0).tobytes(), u64(0, 2, 2, 3).tobytes()]
    buffers[index - 1] = buffers[index - 1][:-1]
    with pytest.raises(hurray.BufferError, match=f"buffer {index} "):
        sparse(CsrLayout(3), (3, 4), *buffers)


def test_a_huge_nnz_is_no_allocation():
    with pytest.raises((hurray.BufferError, InvalidDescriptorError)):
        Tensor(b"", hurray.float32, (2**33, 2**33), aux_buffers=[b"", b""], layout=CsrLayout(2**60))
    with pytest.raises((hurray.BufferError, InvalidDescriptorError)):
        Tensor(b"", hurray.float32, (3, 4), aux_buffers=[b"", b""], layout=CsrLayout(2**64 - 1))


def test_memory_can_be_verified_again_after_it_changed():
    columns = np.zeros(3, np.uint64)
    columns[:] = [1, 3, 0]
    tensor = csr([1, 3, 0], [0, 2, 2, 3])
    tensor.verify()
    np.from_dlpack(tensor.col_indices)[1] = 4
    with pytest.raises(InvalidDescriptorError, match="col_indices"):
        tensor.verify()
    np.from_dlpack(tensor.col_indices)[1] = 2
    tensor.verify()


def test_a_declared_placement_is_verified_where_it_stands():
    tensor = Tensor(
        ones(1),
        hurray.float32,
        (3,),
        hurray.device.cuda,
        aux_buffers=[u64(3)],
        layout=CooLayout(1),
    )
    with pytest.raises(InvalidDescriptorError, match="indices"):
        tensor.verify()


def test_a_scale_buffer_may_hold_the_zero_points_too():
    both = np.concatenate([ones(4).view(np.int32), np.array([0, 0, 300, 0], np.int32)])
    tensor = quantized(PerChannelAffine.asymmetric(0, 1, 1), both)
    with pytest.raises(InvalidDescriptorError, match="300"):
        tensor.verify()


def test_scales_that_alias_the_data():
    with pytest.raises(InvalidDescriptorError, match="buffer"):
        quantized(PerChannelAffine.symmetric(0, 0), ones(4))


@pytest.mark.parametrize("block_size", [0, 1, 3, 2**31])
def test_block_sizes(block_size):
    with pytest.raises(InvalidDescriptorError, match="block_size"):
        quantized(PerBlockAffine.symmetric(1, block_size, 1, hurray.float32), ones(8))


@pytest.mark.parametrize("axis", [2, 64, 2**32 - 1])
def test_an_axis_out_of_range(axis):
    with pytest.raises(InvalidDescriptorError, match="axis"):
        quantized(PerChannelAffine.symmetric(axis, 1), ones(4))


def test_large_tensors_are_verified_without_the_gil():
    count = 1 << 17
    tensor = Tensor(
        np.ones(count, np.uint8),
        hurray.uint8,
        (count,),
        aux_buffers=[np.arange(count, dtype=np.uint64)],
        layout=CooLayout(count, True),
    )
    tensor.verify()
    np.from_dlpack(tensor.indices)[count - 1] = count
    with pytest.raises(InvalidDescriptorError, match=str(count - 1)):
        tensor.verify()


def test_what_conversions_make_is_sound():
    dense = hurray.from_numpy(np.eye(8, dtype=np.float32))
    for layout in (CooLayout(0), CsrLayout(0), CscLayout(0)):
        dense.to_layout(layout).to_layout(RowMajorLayout()).verify()


def test_verification_leaves_nothing_behind():
    good, bad = csr([1, 3, 0], [0, 2, 2, 3]), csr([1, 4, 0], [0, 2, 2, 3])

    def action():
        good.verify()
        with pytest.raises(InvalidDescriptorError):
            bad.verify()

    leaks.check(action, [good, bad], repetitions=20_000)
