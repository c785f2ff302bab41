"""Arguments that change while they are read, or that no message can show: the documented error."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hurray

# Python refuses to print it (sys.set_int_max_str_digits).
HUGE = 10**5000
MORE = "a number of thousands of digits"


class EmptyingIndex:
    """Empties the list it stands in when it is asked for its number."""

    def __init__(self, items: list[object]) -> None:
        self.items = items

    def __index__(self) -> int:
        self.items.clear()
        return 1


def test_a_pair_that_loses_its_items_while_it_is_read():
    t = hurray.zeros(3)
    version: list[object] = []
    version[:] = [EmptyingIndex(version), 0]
    assert "dltensor_versioned" in repr(t.__dlpack__(max_version=version))
    device: list[object] = []
    device[:] = [EmptyingIndex(device), 0]
    assert "dltensor" in repr(t.__dlpack__(dl_device=device))


def test_a_device_pair_of_a_producer_that_loses_its_items():
    class Producer:
        def __dlpack__(self, **kwargs):
            return np.arange(3.0).__dlpack__(**kwargs)

        def __dlpack_device__(self):
            pair: list[object] = []
            pair[:] = [EmptyingIndex(pair), 0]
            return pair

    assert hurray.from_dlpack(Producer()).shape == (3,)


class Interrupting:
    def __iter__(self):
        raise KeyboardInterrupt


def test_an_exception_on_the_way_to_a_pair_comes_through():
    with pytest.raises(KeyboardInterrupt):
        hurray.zeros(3).__dlpack__(max_version=Interrupting())


@pytest.mark.parametrize("pair", ["10", (1.0, 0), (None, 0)])
def test_a_pair_of_other_things_names_the_argument(pair):
    with pytest.raises(TypeError, match="max_version must be a pair of integers"):
        hurray.zeros(3).__dlpack__(max_version=pair)


@pytest.mark.parametrize("number", [HUGE, -HUGE], ids=["huge", "-huge"])
@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (hurray.Dtype.from_tag, OverflowError, "tag"),
        (hurray.layout_tag_kind, OverflowError, "tag"),
        (lambda n: hurray.buffer_size_bytes(hurray.float32, n), OverflowError, "count"),
        (lambda n: hurray.zeros((2, n)), hurray.InvalidDescriptorError, "shape[1]"),
        (hurray.eye, hurray.InvalidDescriptorError, "n_rows"),
        (lambda n: hurray.eye(2, n), hurray.InvalidDescriptorError, "n_cols"),
        (hurray.Device, hurray.InvalidDescriptorError, "kind"),
        (lambda n: hurray.Device("cuda", n), hurray.InvalidDescriptorError, "device_id"),
        (lambda n: hurray.Device("cpu", 0, n), hurray.InvalidDescriptorError, "memory_class"),
        (lambda n: hurray.StridedLayout((1, n)), hurray.InvalidDescriptorError, "strides[1]"),
        (
            lambda n: hurray.Tensor(b"1234", hurray.float32, (1,), byte_offset=n),
            hurray.InvalidDescriptorError,
            "byte_offset",
        ),
        (hurray.zeros(3).buffer, IndexError, "buffer index"),
    ],
)
def test_a_number_too_long_to_print(call, error, name, number):
    with pytest.raises(error, match=f"^{re.escape(name)} is {MORE}; expected "):
        call(number)


def test_extents_of_eye_are_named():
    with pytest.raises(hurray.InvalidDescriptorError, match="n_rows is -1"):
        hurray.eye(-1)
    with pytest.raises(hurray.InvalidDescriptorError, match=r"n_cols is 18446744073709551615"):
        hurray.eye(1, 2**64 - 1)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: hurray.eye(2, k=1.5), "k"),
        (lambda: hurray.linspace(0, 1, 2.0), "num"),
        (lambda: hurray.zeros(2).buffer(0.0), "buffer index"),
    ],
)
def test_a_float_where_an_int_belongs_names_the_argument(call, name):
    with pytest.raises(TypeError, match=f"^{name} must be an int, not float"):
        call()


@pytest.mark.parametrize(
    "scalar",
    [
        hurray.Tensor(b"5", hurray.uint8, ()),
        hurray.Tensor(b"12345678", hurray.float64, ()),
        memoryview(b"5").cast("B", []),
    ],
    ids=["uint8", "float64", "memoryview"],
)
@pytest.mark.parametrize("dtype", [hurray.int8, hurray.uint64], ids=str)
def test_the_bytes_of_a_scalar_are_no_digits(scalar, dtype):
    with pytest.raises(TypeError):
        hurray.full((2,), scalar, dtype=dtype)


# ---- structures and buffers that are wrong ----


def dense(data=bytes(8), shape=(4, 2), dtype=hurray.int8, **keywords):
    return hurray.Tensor(data, dtype, shape, **keywords)


def sparse(layout, *aux, data=bytes(8), **keywords):
    return dense(data, layout=layout, aux_buffers=aux, dtype=hurray.float32, **keywords)


def u64(*numbers):
    return np.array(numbers, "<u8")


def quantized(scheme, *aux, **keywords):
    return dense(quantization=scheme, aux_buffers=aux, **keywords)


def per_block(axis, block_size, scale_buffer=1):
    return hurray.PerBlockAffine.symmetric(axis, block_size, scale_buffer, hurray.float32)


def part(rows, start):
    """Some rows of a matrix [4, 2]."""
    return dense(bytes(2 * rows), (rows, 2), shard=hurray.Shard((4, 2), (start, 0)))


def partition(*members):
    return hurray.Composite("partition", shape=(4, 2), dtype=hurray.int8, members=members)


def nested(depth):
    composite = dense()
    for _ in range(depth):
        composite = hurray.Composite("group", shape=(), dtype=hurray.int8, members=[composite])
    return composite


COO, CSR, CSC = hurray.CooLayout, hurray.CsrLayout, hurray.CscLayout
PRIVATE = hurray.Dtype.from_tag(0xF1)
INVALID, SHORT = hurray.InvalidDescriptorError, hurray.BufferError

# What is called, the exception, and what its message names: the field, its value, what was expected.
WRONG = {
    "rank": (
        lambda: sparse(CSR(0), b"", b"", shape=(8,)),
        INVALID,
        ["rank 1", "csr", "expected 2"],
    ),
    "rank of strides": (
        lambda: dense(layout=hurray.StridedLayout((1,))),
        INVALID,
        ["strided", "1 dimensions", "shape has 2"],
    ),
    "rank of a shard": (
        lambda: dense(shard=hurray.Shard((8,), (0,))),
        INVALID,
        ["shard", "1 dimensions", "shape has 2"],
    ),
    "a buffer too many": (
        lambda: dense(aux_buffers=[b""]),
        INVALID,
        ["buffer count 2", "row_major has 1"],
    ),
    "a buffer too few": (
        lambda: sparse(CSR(0), bytes(40)),
        INVALID,
        ["buffer count 2", "csr has 3"],
    ),
    "no scales": (
        lambda: quantized(per_block(0, 2)),
        INVALID,
        ["buffer count 1", "scheme 1"],
    ),
    "data one byte short": (
        lambda: dense(bytes(7)),
        SHORT,
        ["buffer 0 (data)", "has 7 bytes", "need 8"],
    ),
    "values one byte short": (
        lambda: sparse(COO(2), u64(0, 0, 1, 1), data=bytes(7)),
        SHORT,
        ["buffer 0 (values)", "has 7 bytes", "need 8"],
    ),
    "indices one byte short": (
        lambda: sparse(COO(2), u64(0, 0, 1, 1).tobytes()[:-1]),
        SHORT,
        ["buffer 1 (indices)", "has 31 bytes", "need 32"],
    ),
    "pointers one byte short": (
        lambda: sparse(CSR(2), u64(0, 1), bytes(39)),
        SHORT,
        ["buffer 2 (row_ptr)", "has 39 bytes", "need 40"],
    ),
    "scales one byte short": (
        lambda: quantized(per_block(0, 2), bytes(15)),
        SHORT,
        ["buffer 1 (scales)", "has 15 bytes", "exactly 16"],
    ),
    "indices of int32": (
        lambda: sparse(COO(2), np.array([[0, 0], [1, 1]], np.int32)),
        SHORT,
        ["buffer 1 (indices)", "has 16 bytes", "need 32"],
    ),
    "an index out of bounds": (
        lambda: sparse(COO(2), u64(0, 1, 4, 1)).verify(),
        INVALID,
        ["indices[2] is 4", "less than the extent 4"],
    ),
    "a column out of bounds": (
        lambda: sparse(CSR(2), u64(0, 2), u64(0, 1, 1, 1, 2)).verify(),
        INVALID,
        ["col_indices[1] is 2", "less than", "2"],
    ),
    "pointers that go back": (
        lambda: sparse(CSR(2), u64(0, 1), u64(0, 2, 1, 1, 2)).verify(),
        INVALID,
        ["row_ptr[2] is 1", "expected"],
    ),
    "indices of int32 in a longer buffer": (
        lambda: sparse(COO(2), np.array([0, 0, 3, 1, 0, 0, 0, 0], np.int32)).verify(),
        INVALID,
        ["indices[1] is 4294967299", "less than the extent 2"],
    ),
    "an axis out of range": (
        lambda: quantized(hurray.PerChannelAffine.symmetric(2, 1), bytes(16)),
        INVALID,
        ["axis 2", "below rank 2"],
    ),
    "an axis that no tensor has": (
        lambda: per_block(64, 2),
        INVALID,
        ["axis 64", "below 64, the greatest rank"],
    ),
    "an axis of blocks out of range": (
        lambda: quantized(per_block(7, 2), bytes(16)),
        INVALID,
        ["axis 7", "below rank 2"],
    ),
    **{
        f"{name} of {size}": (
            lambda make=make, size=size: make(size),
            INVALID,
            ["block_size", f"is {size}", expected],
        )
        for name, make, least in [
            ("blocks", lambda size: per_block(0, size), 2),
            ("NF4 blocks", lambda size: hurray.NF4(0, size, 1), 8),
            ("MXFP blocks", lambda size: hurray.MXFP(0, size, 1), 16),
        ]
        for size, expected in [
            (0, f"power of two in {least}"),
            (3, f"power of two in {least}"),
            (2**31 + 1, f"power of two in {least}"),
            (2**32, "expected 0 to 4294967295"),
            (-1, "expected 0 to 4294967295"),
            (2**64, "expected 0 to 4294967295"),
        ]
    },
    "MXFP blocks of 2**31": (
        lambda: hurray.MXFP(0, 2**31, 1),
        INVALID,
        ["block_size", "is 2147483648", "16 … 2048"],
    ),
    "blocks of 2**31 in a tensor": (
        lambda: quantized(per_block(0, 2**31), bytes(4)),
        INVALID,
        ["block_size 2147483648", "4"],
    ),
    "scales that are the data": (
        lambda: quantized(hurray.PerChannelAffine.symmetric(0, 0), bytes(16)),
        INVALID,
        ["scale_buffer 0", "expected one of 2 buffers after the layout's first 1"],
    ),
    "zero points that are the data": (
        lambda: quantized(hurray.PerChannelAffine.asymmetric(0, 1, 0), bytes(16), bytes(16)),
        INVALID,
        ["zero_point_buffer 0", "expected one of 3 buffers after the layout's first 1"],
    ),
    "scales that are the pointers": (
        lambda: sparse(
            CSR(0), b"", bytes(40), bytes(16), quantization=hurray.PerChannelAffine.symmetric(0, 2)
        ),
        INVALID,
        ["quantization"],
    ),
    "a shard outside its parent": (
        lambda: dense(shard=hurray.Shard((8, 2), (5, 0))),
        INVALID,
        ["shard_offset 5", "extent 4 of dimension 0", "within 8 of parent_shape"],
    ),
    "a shard that begins outside": (
        lambda: hurray.Shard((8, 2), (9, 0)),
        INVALID,
        ["shard_offset 9", "within 8 of parent_shape"],
    ),
    "a shard that ends at 2**64": (
        lambda: dense(shard=hurray.Shard((2**64 - 2, 2), (2**64 - 3, 0))),
        INVALID,
        [f"shard_offset {2**64 - 3}", "extent 4 of dimension 0"],
    ),
    "members that overlap by a row": (
        lambda: partition(part(3, 0), part(2, 2)),
        INVALID,
        ["partition", "members 0 and 1", "overlap"],
    ),
    "members with a row between them": (
        lambda: partition(part(2, 0), part(1, 3)),
        INVALID,
        ["partition", "cover"],
    ),
    "composites 9 deep": (lambda: nested(9), INVALID, ["member 0", "deeper than 8"]),
    "a private dtype without description": (
        lambda: dense(dtype=PRIVATE),
        INVALID,
        ["0xF1", "must describe itself", "ExtensionType"],
    ),
    "a description of a standard dtype": (
        lambda: dense(extension_type=hurray.ExtensionType(bit_width=8)),
        INVALID,
        ["int8", "not a private extension"],
    ),
    "an unknown layout over a known tag": (
        lambda: hurray.UnknownLayout(0x01, b""),
        ValueError,
        ["tag 0x01", "not unknown", "hurray.RowMajorLayout"],
    ),
    "an unknown layout over a private tag": (
        lambda: hurray.UnknownLayout(0xF0, b""),
        ValueError,
        ["tag 0xF0", "not unknown", "hurray.PrivateExtensionLayout"],
    ),
    "an unknown layout over tag 0": (
        lambda: hurray.UnknownLayout(0, b""),
        INVALID,
        ["tag 0x00", "invalid"],
    ),
    **{
        f"{layout.__name__} of nnz {nnz}": (
            lambda layout=layout, nnz=nnz, aux=aux: sparse(layout(nnz), *[b""] * aux),
            exception,
            expected,
        )
        for layout, aux in [(COO, 1), (CSR, 2), (CSC, 2)]
        for nnz, exception, expected in [
            (2**40, SHORT, ["buffer 0 (values)", "has 8 bytes", f"need {2**42}"]),
            (2**62, INVALID, [f"nnz {2**62}", "2^64"]),
            (2**64 - 1, INVALID, [f"nnz {2**64 - 1}", "2^64"]),
            (2**64, INVALID, [f"nnz is {2**64}", "expected 0 to 2**64 - 1"]),
            (-1, INVALID, ["nnz is -1", "expected 0 to 2**64 - 1"]),
        ]
    },
    "CSF of huge nnz": (
        lambda: dense(
            shape=(4, 2, 1), layout=hurray.CsfLayout(2**63, (0, 1, 2)), aux_buffers=[b""] * 6
        ),
        INVALID,
        [f"nnz {2**63}", "2^64"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_and_leaves_all_else_usable(name):
    call, exception, named = WRONG[name]
    for _ in range(3):
        with pytest.raises(ValueError) as caught:
            call()
        assert type(caught.value) is exception
        assert "\n" not in str(caught.value)
        for words in named:
            assert words in str(caught.value)
    # The neighbours of what is wrong are right.
    assert sparse(COO(2), u64(0, 0, 3, 1)).verify() is None
    assert quantized(per_block(0, 2), bytes(16)).quantization == per_block(0, 2)
    assert partition(part(2, 0), part(2, 2)).member_count == 2
    assert nested(8).ndim == 0
    assert per_block(0, 2**31).block_size == hurray.NF4(0, 2**31, 1).block_size == 2**31
    t = hurray.from_hurray(dense(bytes(range(8))))
    assert t.to_numpy().tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
