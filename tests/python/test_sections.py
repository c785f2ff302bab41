"""Statistics, Shard and ExtensionType (spec 1.7, 8.10)."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import struct

import leaks
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from hurray import ExtensionType, InvalidDescriptorError, Shard, Statistics

FLOAT = {
    "bit_width": 16,
    "is_float": True,
    "sign_bits": 1,
    "exponent_bits": 5,
    "mantissa_bits": 10,
    "exponent_bias": 15,
    "has_nan": True,
    "has_inf": True,
}
EVERYTHING = {
    "nnz": 2**64 - 1,
    "sparsity_ratio": 0.25,
    "value_min": -1.5,
    "value_max": 2.0,
    "value_abs_max": 2.0,
    "value_mean": 0.5,
    "value_stddev": 1.25,
    "nm_n": 2,
    "nm_m": 4,
    "has_nan": False,
    "has_inf": True,
}
EXAMPLES = [
    (Statistics(), "Statistics()"),
    (Statistics(nnz=3), "Statistics(nnz=3)"),
    (Statistics(has_nan=True, has_inf=False), "Statistics(has_nan=True, has_inf=False)"),
    (
        Statistics(**EVERYTHING),
        "Statistics(" + ", ".join(f"{name}={value}" for name, value in EVERYTHING.items()) + ")",
    ),
    (Shard((8, 8), [0, 4]), "Shard(parent_shape=(8, 8), shard_offset=(0, 4))"),
    (Shard((), ()), "Shard(parent_shape=(), shard_offset=())"),
    (ExtensionType(bit_width=24, is_signed=True), "ExtensionType(bit_width=24, is_signed=True)"),
    (ExtensionType(bit_width=2), "ExtensionType(bit_width=2)"),
    (
        ExtensionType(**FLOAT),
        "ExtensionType(" + ", ".join(f"{name}={value}" for name, value in FLOAT.items()) + ")",
    ),
]
SECTIONS = [example[0] for example in EXAMPLES]


@pytest.mark.parametrize(("section", "text"), EXAMPLES)
def test_a_section_shows_itself(section, text):
    assert repr(section) == text
    assert eval(text) == section
    assert hash(eval(text)) == hash(section)


def test_sections_are_values():
    for (i, a), (k, b) in itertools.product(enumerate(SECTIONS), enumerate(SECTIONS)):
        assert (a == b) is (i == k)
        assert (a != b) is (i != k)
    assert len({*SECTIONS, *map(copy.copy, SECTIONS)}) == len(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS, ids=repr)
def test_copies_and_pickles_are_equal(section):
    assert copy.copy(section) == copy.deepcopy(section) == section
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(section, protocol)) == section


@pytest.mark.parametrize("section", SECTIONS, ids=repr)
def test_sections_are_frozen_and_final(section):
    for name in [n for n in dir(section) if not n.startswith("_")]:
        with pytest.raises(AttributeError):
            setattr(section, name, 1)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (type(section),), {})


# ---- Statistics ----

GROUPS = [
    ("nnz",),
    ("sparsity_ratio",),
    ("value_min", "value_max", "value_abs_max"),
    ("value_mean", "value_stddev"),
    ("nm_n", "nm_m"),
    ("has_nan", "has_inf"),
]


@pytest.mark.parametrize("mask", range(64))
def test_claims_come_in_groups(mask):
    names = [name for bit, group in enumerate(GROUPS) if mask >> bit & 1 for name in group]
    statistics = Statistics(**{name: EVERYTHING[name] for name in names})
    assert statistics.computed_mask == mask
    for name, value in EVERYTHING.items():
        assert getattr(statistics, name) == (value if name in names else None)
    assert statistics == Statistics(**{name: getattr(statistics, name) for name in EVERYTHING})


@pytest.mark.parametrize("group", [group for group in GROUPS if len(group) > 1])
def test_half_a_group_is_refused(group):
    for size in range(1, len(group)):
        for names in itertools.combinations(group, size):
            with pytest.raises(InvalidDescriptorError, match=names[0][:5]):
                Statistics(**{name: EVERYTHING[name] for name in names})


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"nnz": -1}, "nnz"),
        ({"nnz": 2**64}, "nnz"),
        ({"sparsity_ratio": 1.0001}, "sparsity_ratio"),
        ({"sparsity_ratio": -0.1}, "sparsity_ratio"),
        ({"sparsity_ratio": math.nan}, "sparsity_ratio"),
        ({"value_mean": 0, "value_stddev": -1e-9}, "value_stddev"),
        ({"nm_n": 5, "nm_m": 4}, "nm_n 5"),
        ({"nm_n": 256, "nm_m": 256}, "nm_n"),
        ({"has_nan": 2, "has_inf": 0}, "has_nan"),
        ({"has_nan": 0, "has_inf": -1}, "has_inf"),
    ],
)
def test_what_no_author_may_claim(claims, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        Statistics(**claims)


@pytest.mark.parametrize(
    "claims", [{"nnz": 1.0}, {"nnz": "1"}, {"sparsity_ratio": "1"}, {"other": 1}]
)
def test_claims_of_another_type(claims):
    with pytest.raises(TypeError):
        Statistics(**claims)
    with pytest.raises(TypeError, match="positional"):
        Statistics(3)


def test_nans_are_one_value():
    a, b = (Statistics(value_mean=float("nan"), value_stddev=float("nan")) for _ in range(2))
    assert a == b and hash(a) == hash(b)


def test_a_reader_shows_what_no_author_may_write():
    t = hurray.Tensor(
        bytes(4), hurray.int8, (4,), statistics=Statistics(sparsity_ratio=0.5, nm_n=1, nm_m=2)
    )
    data = t.descriptor.encode().replace(struct.pack("<d", 0.5), struct.pack("<d", 7.5))
    statistics = hurray.Descriptor.decode(data).statistics
    assert statistics.sparsity_ratio == 7.5
    assert pickle.loads(pickle.dumps(statistics)) == statistics
    with pytest.raises(InvalidDescriptorError, match="sparsity_ratio"):
        hurray.Tensor(bytes(4), hurray.int8, (4,), statistics=statistics)


# ---- Statistics.compute ----


def check_measures(statistics, values, **expected):
    """Against NumPy, in float64."""
    np = pytest.importorskip("numpy")
    values = np.asarray(values, np.float64)
    assert statistics.nnz == expected.get("nnz", np.count_nonzero(values))
    assert statistics.sparsity_ratio == (values == 0).mean()
    assert statistics.value_min == values.min()
    assert statistics.value_max == values.max()
    assert statistics.value_abs_max == np.abs(values).max()
    assert statistics.value_mean == pytest.approx(values.mean(), abs=1e-12)
    assert statistics.value_stddev == pytest.approx(values.std(), abs=1e-6)
    assert (statistics.has_nan, statistics.has_inf) == (False, False)


STANDARD = [
    "float16",
    "float32",
    "float64",
    "bfloat16",
    *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
]


@pytest.mark.parametrize("name", STANDARD)
def test_measures_of_dense_tensors(name):
    np = pytest.importorskip("numpy")
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    values = np.array([[3, 0, 5, 0], [0, 0, 1, 0]], np.float64)
    dtype = getattr(hurray, name)
    t = hurray.asarray(values.tolist(), dtype=hurray.float64)
    t = hurray.asarray(t, dtype=dtype) if name != "float64" else t
    for tensor in (t, t.T):
        statistics = Statistics.compute(tensor)
        check_measures(statistics, values)
    assert (Statistics.compute(t).nm_n, Statistics.compute(t).nm_m) == (2, 4)
    assert Statistics.compute(t.T).nm_n is None


def test_measures_of_packed_tensors():
    pytest.importorskip("numpy")
    t = hurray.Tensor(b"\xf1\x08", hurray.dtype.int4, (4,))
    check_measures(Statistics.compute(t), [1, -1, -8, 0])
    t = hurray.Tensor(b"\x0d", hurray.bool, (5,))
    check_measures(Statistics.compute(t), [1, 0, 1, 1, 0])
    pytest.importorskip("ml_dtypes")
    t = hurray.Tensor(b"\x38\x00\xb8", hurray.dtype.float8_e4m3, (3,))
    check_measures(Statistics.compute(t), [1, 0, -1])


def test_measures_of_special_values():
    np = pytest.importorskip("numpy")
    nan = Statistics.compute(hurray.from_numpy(np.array([np.nan, 0, np.inf, 1])))
    assert (nan.has_nan, nan.has_inf, nan.nnz, nan.sparsity_ratio) == (True, True, 3, 0.25)
    assert nan.value_min is nan.value_mean is None
    inf = Statistics.compute(hurray.from_numpy(np.array([-np.inf, 0, 3])))
    assert (inf.has_nan, inf.has_inf) == (False, True)
    assert (inf.value_min, inf.value_max, inf.value_abs_max) == (-np.inf, 3, np.inf)
    assert inf.value_mean is None
    empty = Statistics.compute(hurray.zeros((0, 3)))
    assert empty == Statistics(nnz=0, has_nan=False, has_inf=False)
    scalar = Statistics.compute(hurray.full((), 2.0))
    check_measures(scalar, 2.0)
    huge = Statistics.compute(hurray.full((3,), 1e308))
    assert huge.value_max == 1e308 and huge.value_mean is None
    imaginary = Statistics.compute(hurray.asarray([1j, 0j, 0j, 0j]))
    assert imaginary == Statistics(
        nnz=1, sparsity_ratio=0.75, nm_n=1, nm_m=4, has_nan=False, has_inf=False
    )


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


VALUES = struct.pack("<4f", 1, 2, 0, -4)
SPARSE = [
    ((4, 5), hurray.CooLayout(4), [u64(0, 1, 1, 0, 2, 2, 3, 4)]),
    ((4, 5), hurray.CsrLayout(4), [u64(1, 0, 2, 4), u64(0, 1, 2, 3, 4)]),
    ((5, 4), hurray.CscLayout(4), [u64(1, 0, 2, 4), u64(0, 1, 2, 3, 4)]),
    (
        (2, 3, 4),
        hurray.CsfLayout(4, (0, 1, 2)),
        [u64(0, 2), u64(0, 1), u64(0, 2, 3), u64(0, 2, 1), u64(0, 1, 2, 4), u64(1, 3, 0, 2)],
    ),
]


@pytest.mark.parametrize(("shape", "layout", "aux"), SPARSE)
def test_measures_of_sparse_tensors(shape, layout, aux):
    t = hurray.Tensor(VALUES, hurray.float32, shape, layout=layout, aux_buffers=aux)
    total = math.prod(shape)
    dense = [1, 2, 0, -4, *[0] * (total - 4)]
    statistics = Statistics.compute(t)
    check_measures(statistics, dense, nnz=4)
    assert statistics.nm_n is None
    again = hurray.Tensor(
        VALUES, hurray.float32, shape, layout=layout, aux_buffers=aux, statistics=statistics
    )
    assert again.statistics == statistics


def test_measures_of_quantized_tensors():
    np = pytest.importorskip("numpy")
    q = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
    scales, points = np.float32([0.5, 2, -1, 4]), np.int32([0, 1, -3, 100])
    t = hurray.Tensor(q, hurray.int8, q.shape, quantization=hurray.PerTensorAffine(0.5, -3))
    check_measures(Statistics.compute(t), 0.5 * (q + 3.0))
    expected = scales[:, None] * (q.astype(np.int32) - points[:, None])
    scheme = hurray.PerChannelAffine.asymmetric(0, 1, 2)
    t = hurray.Tensor(q, hurray.int8, (4, 6), quantization=scheme, aux_buffers=[scales, points])
    check_measures(Statistics.compute(t), expected)
    scheme = hurray.PerChannelAffine.asymmetric(0, 1, 1)
    both = scales.tobytes() + points.tobytes()
    t = hurray.Tensor(q, hurray.int8, (4, 6), quantization=scheme, aux_buffers=[both])
    check_measures(Statistics.compute(t), expected)


@pytest.mark.parametrize("layout", [hurray.RowMajorLayout(), hurray.ColMajorLayout()])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_measures_of_padded_blocks(layout, name):
    np = pytest.importorskip("numpy")
    rows, columns, block = 3, 6, 4
    q = np.arange(-9, 9, dtype=np.int8).reshape(rows, columns)
    stored = np.full((rows, 8), 77, np.int8)  # padding that must not be looked at
    stored[:, :columns] = q
    scales = np.float32([1, 2, 4, 8, 16, -0.5]).reshape(rows, 2)
    expected = q * np.repeat(scales, block, axis=1)[:, :columns]
    data = stored.tobytes(order="F" if layout.name == "col_major" else "C")
    bits = scales.view(np.uint32)
    encoded = {
        "float32": scales.tobytes(),
        "float16": scales.astype(np.float16).tobytes(),
        "bfloat16": (bits >> 16).astype(np.uint16).tobytes(),
    }
    scheme = hurray.PerBlockAffine.symmetric(1, block, 1, getattr(hurray, name))
    t = hurray.Tensor(
        data,
        hurray.int8,
        (rows, columns),
        layout=layout,
        quantization=scheme,
        aux_buffers=[encoded[name]],
    )
    check_measures(Statistics.compute(t), expected)


def test_measures_of_small_floats_and_levels():
    np = pytest.importorskip("numpy")
    scheme = hurray.NF4(0, 8, 1)
    t = hurray.Tensor(
        b"\x70\xf7\x77\x77",
        hurray.dtype.uint4,
        (8,),
        quantization=scheme,
        aux_buffers=[struct.pack("<f", 2)],
    )
    check_measures(Statistics.compute(t), [-2, 0, 0, 2, 0, 0, 0, 0])
    pytest.importorskip("ml_dtypes")
    data = np.full(32, 0x38, np.uint8)  # 1.0
    t = hurray.Tensor(
        data,
        hurray.dtype.float8_e4m3,
        (32,),
        quantization=hurray.MXFP(0, 16, 1),
        aux_buffers=[bytes([127, 130])],
    )
    check_measures(Statistics.compute(t), [1] * 16 + [8] * 16)


@pytest.mark.parametrize(("shape", "layout", "aux"), SPARSE)
@pytest.mark.parametrize("axis", [0, 1])
def test_measures_of_quantized_sparse_tensors(shape, layout, aux, axis):
    np = pytest.importorskip("numpy")
    scales = np.arange(1, shape[axis] + 1, dtype=np.float32)
    index = len(aux) + 1
    t = hurray.Tensor(
        bytes([1, 2, 3, 4]),
        hurray.int8,
        shape,
        layout=layout,
        aux_buffers=[*aux, scales],
        quantization=hurray.PerChannelAffine.symmetric(axis, index),
    )
    coordinates = {
        "coo": ([0, 1, 2, 3], [1, 0, 2, 4]),
        "csr": ([0, 1, 2, 3], [1, 0, 2, 4]),
        "csc": ([1, 0, 2, 4], [0, 1, 2, 3]),
        "csf": ([0, 0, 1, 1], [0, 2, 1, 1]),
    }[layout.name]
    dense = np.zeros(math.prod(shape))
    dense[:4] = np.array([1, 2, 3, 4]) * scales[coordinates[axis]]
    check_measures(Statistics.compute(t), dense)


def test_what_is_not_measured():
    pytest.importorskip("numpy")
    private = hurray.Dtype.from_tag(0xF1)
    paged = hurray.BlockPagedLayout(4, 1, 0, 0)
    tensors = [
        hurray.Tensor(bytes(4), private, (4,), extension_type=ExtensionType(bit_width=8)),
        hurray.Tensor(bytes(4), hurray.int8, (None,)),
        hurray.Tensor(bytes(4), hurray.int8, (4,), hurray.device.cuda),
        hurray.Tensor(bytes(4), hurray.int8, (4, 1, 1), layout=paged, aux_buffers=[b"", bytes(4)]),
        hurray.Tensor(bytes(4), hurray.int8, (4,), layout=hurray.PrivateExtensionLayout(0xF0, 0)),
        hurray.Tensor(bytes(16), hurray.dtype.float128, (1,)),
    ]
    for t in tensors:
        with pytest.raises(hurray.UnsupportedError):
            Statistics.compute(t)
    for other in ([1.0], None, b""):
        with pytest.raises(TypeError, match=r"hurray.Tensor"):
            Statistics.compute(other)


# ---- Shard ----


@given(st.lists(st.tuples(st.integers(0, 2**64 - 2), st.floats(0, 1)), max_size=64))
def test_shards_within_their_parent(extents):
    parent = [extent for extent, _ in extents]
    offset = [min(extent, int(extent * share)) for extent, share in extents]
    shard = Shard(parent_shape=parent, shard_offset=offset)
    assert shard.parent_shape == tuple(parent)
    assert shard.shard_offset == tuple(offset)
    assert shard == Shard(tuple(parent), tuple(offset))


@pytest.mark.parametrize(
    ("parent", "offset", "message"),
    [
        ((8, 8), (0,), "2 dimensions"),
        ((8,), (0, 0), "1 dimensions"),
        ((8, 8), (0, 9), "shard_offset 9"),
        ((8, -1), (0, 0), "parent_shape\\[1\\]"),
        ((8, 8), (-1, 0), "shard_offset\\[0\\]"),
        ((2**64 - 1,), (0,), "dynamic"),
        ((2**64,), (0,), "parent_shape\\[0\\]"),
        ([1] * 65, [0] * 65, "65"),
    ],
)
def test_shards_that_no_tensor_could_be(parent, offset, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        Shard(parent, offset)


@pytest.mark.parametrize("arguments", [((8, None), (0, 0)), (8, 0), ("88", "00"), ((8,),), ()])
def test_shards_of_other_types(arguments):
    with pytest.raises(TypeError):
        Shard(*arguments)


# ---- ExtensionType ----


def test_fields_of_a_private_type():
    section = ExtensionType(**FLOAT)
    assert {name: getattr(section, name) for name in FLOAT} == FLOAT
    assert (section.is_signed, type(section.has_nan)) == (False, bool)
    integer = ExtensionType(bit_width=8, is_signed=True)
    assert integer.is_signed is True and integer != ExtensionType(bit_width=8)
    defaults = {name: False if isinstance(value, bool) else 0 for name, value in FLOAT.items()}
    plain = ExtensionType(bit_width=8)
    assert {name: getattr(plain, name) for name in FLOAT} == {**defaults, "bit_width": 8}


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 24, 128, 2**32 - 8])
def test_the_size_of_private_elements(bits):
    section = ExtensionType(bit_width=bits)
    assert section.packing_factor == (8 // bits if bits < 8 else 1)
    for count in (0, 1, 7, 8, 9, 1000):
        assert section.buffer_size_bytes(count) == -(-count * bits // 8)


def test_sizes_that_are_too_large():
    with pytest.raises(InvalidDescriptorError):
        ExtensionType(bit_width=16).buffer_size_bytes(2**63)
    with pytest.raises(OverflowError):
        ExtensionType(bit_width=16).buffer_size_bytes(-1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bit_width": 0}, "greater than 0"),
        ({"bit_width": 3}, "1, 2 or 4"),
        ({"bit_width": 6}, "1, 2 or 4"),
        ({"bit_width": 12}, "multiple of 8"),
        ({"bit_width": -8}, "bit_width is -8"),
        ({"bit_width": 2**32}, "bit_width"),
        ({"bit_width": 8, "is_float": True, "is_signed": True}, "is_signed"),
        ({"bit_width": 8, "is_float": True, "sign_bits": 2}, "sign_bits"),
        ({"bit_width": 8, "is_float": True, "sign_bits": 256}, "sign_bits"),
        ({"bit_width": 8, "sign_bits": 1}, "sign_bits"),
        ({"bit_width": 8, "exponent_bits": 1}, "exponent_bits"),
        ({"bit_width": 8, "mantissa_bits": 1}, "mantissa_bits"),
        ({"bit_width": 8, "exponent_bias": 1}, "exponent_bias"),
        ({"bit_width": 8, "has_nan": True}, "has_nan"),
        ({"bit_width": 8, "has_inf": True}, "has_inf"),
    ],
)
def test_types_that_cannot_be(fields, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        ExtensionType(**fields)


def test_types_of_other_types():
    with pytest.raises(TypeError, match="bit_width"):
        ExtensionType()
    with pytest.raises(TypeError, match="positional"):
        ExtensionType(8)
    with pytest.raises(TypeError):
        ExtensionType(bit_width=8.0)


def test_nothing_is_left_behind():
    def action():
        for section in SECTIONS:
            hash(pickle.loads(pickle.dumps(section)))
            repr(section)
        with pytest.raises(InvalidDescriptorError):
            Shard((8,), (9,))
        with pytest.raises(InvalidDescriptorError):
            Statistics(value_min=1)

    leaks.check(action, [Statistics, Shard, ExtensionType], repetitions=2000)
