"""Element types: the table of spec 1.3, identity, names, sizes."""

from __future__ import annotations

import copy
import importlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray

# Spec 1.3: name, tag, tier, bits, alignment, and f(loat) s(igned) i(nteger) c(omplex).
TABLE = [
    ("float16", 0x01, 1, 16, 2, "fs"),
    ("bfloat16", 0x02, 1, 16, 2, "fs"),
    ("float32", 0x03, 1, 32, 4, "fs"),
    ("float64", 0x04, 1, 64, 8, "fs"),
    ("int8", 0x10, 1, 8, 1, "si"),
    ("uint8", 0x11, 1, 8, 1, "i"),
    ("int16", 0x12, 1, 16, 2, "si"),
    ("uint16", 0x13, 1, 16, 2, "i"),
    ("int32", 0x14, 1, 32, 4, "si"),
    ("uint32", 0x15, 1, 32, 4, "i"),
    ("int64", 0x16, 1, 64, 8, "si"),
    ("uint64", 0x17, 1, 64, 8, "i"),
    ("bool", 0x20, 1, 1, 1, ""),
    ("float8_e4m3", 0x40, 2, 8, 1, "fs"),
    ("float8_e5m2", 0x41, 2, 8, 1, "fs"),
    ("float8_e8m0", 0x42, 2, 8, 1, "f"),
    ("float4_e2m1", 0x43, 2, 4, 1, "fs"),
    ("float6_e2m3", 0x44, 2, 6, 1, "fs"),
    ("float6_e3m2", 0x45, 2, 6, 1, "fs"),
    ("float128", 0x46, 2, 128, 16, "fs"),
    ("int4", 0x48, 2, 4, 1, "si"),
    ("uint4", 0x49, 2, 4, 1, "i"),
    ("int2", 0x4A, 2, 2, 1, "si"),
    ("uint2", 0x4B, 2, 2, 1, "i"),
    ("complex64", 0x50, 2, 64, 4, "fsc"),
    ("complex128", 0x51, 2, 128, 8, "fsc"),
]
NAMES = [row[0] for row in TABLE]
TAGS = [row[1] for row in TABLE]
PRIVATE_TAGS = range(0xF0, 0xFF)


@pytest.mark.parametrize(("name", "tag", "tier", "bits", "alignment", "nature"), TABLE)
def test_a_type_is_what_the_table_says(name, tag, tier, bits, alignment, nature):
    dtype = getattr(hurray.dtype, name)
    assert isinstance(dtype, hurray.Dtype)
    assert (dtype.name, dtype.tag, dtype.tier) == (name, tag, tier)
    assert (dtype.bit_width, dtype.element_alignment) == (bits, alignment)
    assert dtype.is_float is ("f" in nature)
    assert dtype.is_signed is ("s" in nature)
    assert dtype.is_integer is ("i" in nature)
    assert dtype.is_complex is ("c" in nature)
    assert dtype.is_sub_byte is (bits < 8)
    assert dtype.is_array_api is (tier == 1 or "c" in nature)


@pytest.mark.parametrize(("name", "tag"), [row[:2] for row in TABLE])
def test_name_tag_and_attribute_lead_to_one_object(name, tag):
    dtype = getattr(hurray.dtype, name)
    assert hurray.Dtype.from_name(name) is dtype
    assert hurray.Dtype.from_tag(tag) is dtype


def test_the_package_has_what_array_frameworks_have():
    shared = {name for name in NAMES if getattr(hurray.dtype, name).is_array_api}
    assert len(shared) == 15
    assert all(getattr(hurray, name) is getattr(hurray.dtype, name) for name in shared)
    assert not any(hasattr(hurray, name) for name in set(NAMES) - shared)


def test_the_submodule_can_be_imported_and_has_all_types():
    module = importlib.import_module("hurray.dtype")
    assert module is hurray.dtype
    assert set(module.__all__) == set(NAMES)
    assert all(isinstance(getattr(module, name), hurray.Dtype) for name in module.__all__)


@pytest.mark.parametrize("tag", sorted(set(range(256)) - set(TAGS) - set(PRIVATE_TAGS)))
def test_a_tag_that_is_no_type_is_refused(tag):
    with pytest.raises(hurray.InvalidDescriptorError, match=f"0x{tag:02X}"):
        hurray.Dtype.from_tag(tag)


@pytest.mark.parametrize("tag", [-1, 256, 2**70])
def test_a_tag_is_a_byte(tag):
    with pytest.raises(OverflowError, match="0 to 255"):
        hurray.Dtype.from_tag(tag)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(hurray.InvalidDescriptorError, match="'flaot32'") as error:
        hurray.Dtype.from_name("flaot32")
    assert all(name in str(error.value) for name in NAMES)


@pytest.mark.parametrize("name", ["", "Float32", "float32 ", "float", "extension"])
def test_names_are_exact(name):
    with pytest.raises(hurray.InvalidDescriptorError):
        hurray.Dtype.from_name(name)


@pytest.mark.parametrize("argument", [None, 3, b"float32", hurray.float32])
def test_a_name_is_a_string(argument):
    with pytest.raises(TypeError, match="name must be a str"):
        hurray.Dtype.from_name(argument)


@pytest.mark.parametrize("argument", [None, "3", 3.0, hurray.float32])
def test_a_tag_is_an_int(argument):
    with pytest.raises(TypeError, match="tag must be an int"):
        hurray.Dtype.from_tag(argument)


@pytest.mark.parametrize("tag", PRIVATE_TAGS)
def test_private_types_know_their_tag_only(tag):
    dtype = hurray.Dtype.from_tag(tag)
    assert dtype is hurray.Dtype.from_tag(tag)
    assert (dtype.tag, dtype.bit_width, dtype.name, dtype.tier) == (tag, 0, "extension", 2)
    assert dtype.element_alignment == 1
    flags = ["is_float", "is_signed", "is_integer", "is_complex", "is_sub_byte", "is_array_api"]
    assert not any(getattr(dtype, flag) for flag in flags)
    assert repr(dtype) == f"hurray.Dtype.from_tag(0x{tag:02X})"
    assert str(dtype) == "extension"


def every_dtype():
    return [hurray.Dtype.from_tag(tag) for tag in [*TAGS, *PRIVATE_TAGS]]


@pytest.mark.parametrize("dtype", every_dtype(), ids=repr)
def test_repr_is_the_expression_that_gives_the_object(dtype):
    assert eval(repr(dtype)) is dtype


def test_repr_says_where_the_type_is_found():
    assert repr(hurray.float32) == "hurray.float32"
    assert repr(hurray.complex64) == "hurray.complex64"
    assert repr(hurray.dtype.int4) == "hurray.dtype.int4"
    assert repr(hurray.Dtype.from_tag(0xF2)) == "hurray.Dtype.from_tag(0xF2)"


@pytest.mark.parametrize("name", NAMES)
def test_str_is_the_name(name):
    assert str(hurray.Dtype.from_name(name)) == name
    assert f"{hurray.Dtype.from_name(name)}" == name


@pytest.mark.parametrize("dtype", every_dtype(), ids=repr)
def test_copies_and_pickles_are_the_object_itself(dtype):
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy([dtype])[0] is dtype
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype


def test_types_are_equal_to_themselves_only_and_hashable():
    dtypes = every_dtype()
    assert len(set(dtypes)) == len(dtypes)
    assert hurray.float32 == hurray.dtype.float32
    assert hurray.float32 != hurray.float64
    assert hurray.float32 != "float32"
    assert hurray.float32 != hurray.float32.tag


def test_types_cannot_be_made_changed_or_derived_from():
    with pytest.raises(TypeError, match="cannot create"):
        hurray.Dtype()
    with pytest.raises(AttributeError):
        hurray.float32.name = "other"
    with pytest.raises(AttributeError):
        hurray.float32.other = 1
    with pytest.raises(TypeError, match="immutable"):
        hurray.Dtype.name = "other"
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (hurray.Dtype,), {})


@pytest.mark.parametrize(
    ("name", "count", "size"),
    [
        ("bool", 5, 1),
        ("bool", 8, 1),
        ("bool", 9, 2),
        ("uint4", 3, 2),
        ("uint2", 3, 1),
        ("float6_e2m3", 4, 3),
        ("float6_e2m3", 5, 6),
        ("float32", 12, 48),
        ("complex128", 2, 32),
        ("float128", 0, 0),
        ("uint8", 2**64 - 1, 2**64 - 1),
        ("bool", 2**64 - 1, 2**61),
    ],
)
def test_sizes_of_the_spec(name, count, size):
    assert hurray.buffer_size_bytes(hurray.Dtype.from_name(name), count) == size


@given(st.sampled_from(NAMES), st.integers(0, 2**64 - 1))
def test_sizes_are_whole_groups_or_refused(name, count):
    dtype = hurray.Dtype.from_name(name)
    if dtype.bit_width == 6:
        size = (count + 3) // 4 * 3
    else:
        size = (count * dtype.bit_width + 7) // 8
    if size < 2**64:
        assert hurray.buffer_size_bytes(dtype, count) == size
        assert hurray.buffer_size_bytes(dtype=dtype, count=count) == size
    else:
        with pytest.raises(hurray.InvalidDescriptorError, match="2\\^64"):
            hurray.buffer_size_bytes(dtype, count)


def test_the_size_of_a_private_type_stands_in_its_section():
    with pytest.raises(hurray.InvalidDescriptorError, match="ExtensionType"):
        hurray.buffer_size_bytes(hurray.Dtype.from_tag(0xF3), 1)


@pytest.mark.parametrize("count", [-1, 2**64])
def test_counts_fit_64_bits(count):
    with pytest.raises(OverflowError, match="count"):
        hurray.buffer_size_bytes(hurray.float32, count)


@pytest.mark.parametrize(
    "arguments",
    [
        ("float32", 3),
        (None, 3),
        (hurray.float32, 3.0),
        (hurray.float32, "3"),
        (hurray.float32,),
        (hurray.float32, 1, 2),
    ],
)
def test_sizes_of_wrong_arguments(arguments):
    with pytest.raises(TypeError):
        hurray.buffer_size_bytes(*arguments)


def test_alignments():
    assert hurray.MIN_BUFFER_ALIGNMENT == 64
    assert hurray.PAGE_ALIGNMENT == 4096


@pytest.mark.parametrize("name", ["", "cpu\0", "float32\0", "\ud800"])
def test_what_no_name_holds_is_an_unknown_name(name):
    with pytest.raises(hurray.InvalidDescriptorError):
        hurray.Dtype.from_name(name)
