"""Quantization schemes (spec 3, 8.10)."""

from __future__ import annotations

import copy
import inspect
import itertools
import operator
import pickle
import struct

import leaks
import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifest import MANIFEST, quantization_of, read

import hurray
from hurray import (
    MXFP,
    NF4,
    InvalidDescriptorError,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    decode_quantization,
)

NO_BUFFER = 2**32 - 1

# Scheme, repr, and its bytes as spec 3 lays them out.
EXAMPLES = [
    (
        PerTensorAffine(0.1, -3),
        "PerTensorAffine(scale=0.1, zero_point=-3)",
        struct.pack("<BBHfi4x", 1, 1, 0, 0.1, -3),
    ),
    (
        PerChannelAffine.symmetric(1, 2),
        "PerChannelAffine.symmetric(axis=1, scale_buffer_index=2)",
        struct.pack("<BBHIIIB3x", 2, 1, 1, 1, 2, NO_BUFFER, 3),
    ),
    (
        PerChannelAffine.asymmetric(1, 2, 3),
        "PerChannelAffine.asymmetric(axis=1, scale_buffer_index=2, zero_point_buffer_index=3)",
        struct.pack("<BBHIIIB3x", 2, 1, 0, 1, 2, 3, 3),
    ),
    (
        PerBlockAffine.symmetric(0, 32, 1, hurray.bfloat16),
        "PerBlockAffine.symmetric(axis=0, block_size=32, scale_buffer_index=1, "
        "scale_type=hurray.bfloat16)",
        struct.pack("<BBHIIIIB3x", 3, 1, 1, 0, 32, 1, NO_BUFFER, 2),
    ),
    (
        PerBlockAffine.asymmetric(0, 32, 1, 1, hurray.float16),
        "PerBlockAffine.asymmetric(axis=0, block_size=32, scale_buffer_index=1, "
        "zero_point_buffer_index=1, scale_type=hurray.float16)",
        struct.pack("<BBHIIIIB3x", 3, 1, 0, 0, 32, 1, 1, 1),
    ),
    (
        NF4(0, 64, 1),
        "NF4(axis=0, block_size=64, scale_buffer_index=1)",
        struct.pack("<BBHIII", 4, 1, 0, 0, 64, 1),
    ),
    (
        MXFP(3, 32, 1),
        "MXFP(axis=3, block_size=32, scale_buffer_index=1)",
        struct.pack("<BBHIII", 5, 1, 0, 3, 32, 1),
    ),
]
SCHEMES = [example[0] for example in EXAMPLES]


@pytest.mark.parametrize(("scheme", "text", "data"), EXAMPLES)
def test_a_scheme_shows_itself_and_is_its_bytes(scheme, text, data):
    assert repr(scheme) == text
    assert eval(text) == scheme
    assert scheme.encode() == data
    assert decode_quantization(data) == scheme
    assert decode_quantization(bytearray(data)) == scheme


def test_schemes_are_values():
    for (i, a), (k, b) in itertools.product(enumerate(SCHEMES), enumerate(SCHEMES)):
        assert (a == b) is (i == k)
        assert (a != b) is (i != k)
    with pytest.raises(TypeError):
        operator.lt(*SCHEMES[1:3])
    assert SCHEMES[0] != (0.1, -3)


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_all_but_per_tensor_are_hashable(scheme):
    again = decode_quantization(scheme.encode())
    assert again is not scheme
    if isinstance(scheme, PerTensorAffine):
        with pytest.raises(TypeError, match="unhashable"):
            hash(scheme)
    else:
        assert hash(again) == hash(scheme)
        assert len({scheme, again}) == 1


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_copies_and_pickles_are_equal(scheme):
    assert copy.copy(scheme) == copy.deepcopy(scheme) == scheme
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(scheme, protocol)) == scheme


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_schemes_are_frozen_and_final(scheme):
    for name in [n for n in dir(scheme) if not n.startswith("_")]:
        with pytest.raises(AttributeError):
            setattr(scheme, name, 1)
    with pytest.raises(AttributeError):
        scheme.other = 1
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (type(scheme),), {})


def test_attributes():
    scheme = PerTensorAffine(zero_point=7, scale=0.1)
    assert (scheme.scale, scheme.zero_point) == (struct.unpack("<f", struct.pack("<f", 0.1))[0], 7)
    scheme = PerChannelAffine.symmetric(axis=1, scale_buffer_index=2)
    assert (scheme.axis, scheme.scale_buffer_index) == (1, 2)
    assert scheme.zero_point_buffer_index is None
    scheme = PerBlockAffine.asymmetric(0, 32, 1, 2, hurray.float16)
    assert (scheme.axis, scheme.block_size, scheme.scale_buffer_index) == (0, 32, 1)
    assert scheme.zero_point_buffer_index == 2
    assert scheme.scale_type is hurray.float16
    for scheme in (NF4(1, 8, 2), MXFP(axis=1, block_size=2048, scale_buffer_index=2)):
        assert (scheme.axis, scheme.scale_buffer_index) == (1, 2)


SIGNATURES = [
    (PerTensorAffine, ["scale", "zero_point"]),
    (PerChannelAffine.symmetric, ["axis", "scale_buffer_index"]),
    (
        PerChannelAffine.asymmetric,
        ["axis", "scale_buffer_index", "zero_point_buffer_index"],
    ),
    (PerBlockAffine.symmetric, ["axis", "block_size", "scale_buffer_index", "scale_type"]),
    (
        PerBlockAffine.asymmetric,
        ["axis", "block_size", "scale_buffer_index", "zero_point_buffer_index", "scale_type"],
    ),
    (NF4, ["axis", "block_size", "scale_buffer_index"]),
    (MXFP, ["axis", "block_size", "scale_buffer_index"]),
]


@pytest.mark.parametrize(("make", "names"), SIGNATURES)
def test_arguments_are_attributes_in_order(make, names):
    values = {
        "scale": 0.5,
        "zero_point": 3,
        "axis": 1,
        "block_size": 64,
        "scale_buffer_index": 2,
        "zero_point_buffer_index": 3,
        "scale_type": hurray.float16,
    }
    assert list(inspect.signature(make).parameters) == names
    scheme = make(*(values[name] for name in names))
    assert scheme == make(**{name: values[name] for name in names})
    assert all(getattr(scheme, name) == values[name] for name in names)
    if (
        isinstance(scheme, PerChannelAffine | PerBlockAffine)
        and "zero_point_buffer_index" not in names
    ):
        assert scheme.zero_point_buffer_index is None


@given(st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool))
def test_a_scale_shows_as_short_as_float32_allows(scale):
    scheme = PerTensorAffine(scale, 0)
    assert scheme.scale == scale
    assert eval(repr(scheme)) == scheme
    assert len(repr(scheme)) <= len(repr(PerTensorAffine(1, 0))) + 20


REFUSED = [
    (lambda: PerTensorAffine(0, 1), "scale is 0"),
    (lambda: PerTensorAffine(-0.0, 1), "scale"),
    (lambda: PerTensorAffine(float("nan"), 1), "scale is -?nan"),
    (lambda: PerTensorAffine(float("inf"), 1), "scale is inf"),
    (lambda: PerTensorAffine(1e39, 1), "scale is inf"),
    (lambda: PerTensorAffine(1e-50, 1), "scale is 0"),
    (lambda: PerTensorAffine(1, 2**31), "zero_point"),
    (lambda: PerTensorAffine(1, -(2**31) - 1), "zero_point"),
    (lambda: PerChannelAffine.symmetric(-1, 1), "axis is -1"),
    (lambda: PerChannelAffine.symmetric(64, 1), "axis 64"),
    (lambda: PerChannelAffine.symmetric(0, 255), "scale_buffer 255"),
    (lambda: PerChannelAffine.symmetric(0, NO_BUFFER), "scale_buffer"),
    (lambda: PerChannelAffine.asymmetric(0, 1, 255), "zero_point_buffer 255"),
    (lambda: PerChannelAffine.asymmetric(0, 1, NO_BUFFER), "zero_point_buffer_index"),
    (lambda: PerBlockAffine.symmetric(0, 32, 1, hurray.float64), "scale_type"),
    (lambda: PerBlockAffine.symmetric(0, 32, 1, hurray.dtype.float8_e8m0), "scale_type"),
    *[
        (lambda n=n, make=make: make(n), "block_size")
        for make in (
            lambda n: PerBlockAffine.symmetric(0, n, 1, hurray.float32),
            lambda n: PerBlockAffine.asymmetric(0, n, 1, 2, hurray.float32),
            lambda n: NF4(0, n, 1),
            lambda n: MXFP(0, n, 1),
        )
        for n in (0, 1, 3, 24, 2**31 + 1, 2**32, -2)
    ],
    (lambda: NF4(0, 4, 1), "block_size"),
    (lambda: MXFP(0, 8, 1), "block_size"),
    (lambda: MXFP(0, 4096, 1), "block_size"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_bad_values(make, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        make()


def test_the_greatest_block_size_is_a_matter_of_the_tensor():
    scheme = PerBlockAffine.symmetric(0, 2**31, 1, hurray.float32)
    with pytest.raises(InvalidDescriptorError, match="block_size 2147483648"):
        hurray.Tensor(bytes(4), hurray.int8, (4,), quantization=scheme, aux_buffers=[bytes(4)])


TYPES = [
    lambda: PerTensorAffine(),
    lambda: PerTensorAffine("1", 0),
    lambda: PerTensorAffine(1, 0.5),
    lambda: PerTensorAffine(1, None),
    lambda: PerChannelAffine(0, 1),
    lambda: PerChannelAffine.symmetric(0),
    lambda: PerChannelAffine.symmetric(0, 1, 2),
    lambda: PerChannelAffine.asymmetric(0, 1),
    lambda: PerBlockAffine(0, 32, 1, hurray.float32),
    lambda: PerBlockAffine.symmetric(0, 32, 1, "float32"),
    lambda: PerBlockAffine.symmetric(0, 32, 1),
    lambda: NF4(0.0, 64, 1),
    lambda: MXFP(0, 32),
    lambda: decode_quantization("text"),
    lambda: decode_quantization(None),
]


@pytest.mark.parametrize("make", TYPES)
def test_arguments_of_another_type(make):
    with pytest.raises(TypeError):
        make()


# ---- bytes ----


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_trailing_bytes_are_kept(scheme):
    longer = decode_quantization(scheme.encode() + b"later")
    assert longer.encode() == scheme.encode() + b"later"
    assert longer != scheme
    assert repr(longer) == repr(scheme)
    assert pickle.loads(pickle.dumps(longer)) == longer
    assert decode_quantization(longer.encode()) == longer


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_bytes_that_are_cut_short_are_refused(scheme):
    data = scheme.encode()
    for length in range(len(data)):
        with pytest.raises(InvalidDescriptorError, match="bytes"):
            decode_quantization(data[:length])


BROKEN = [
    ("00010000" + "00" * 20, "0x00"),
    ("F1010000" + "00" * 20, "0xf1"),
    ("01020000" + "0000803F" + "00" * 8, "version"),
    ("01010100" + "0000803F" + "00" * 8, "flags"),
    ("01010000" + "0000803F" + "00000000" + "01000000", "reserved"),
    ("01010000" + "00000000" + "00" * 8, "scale"),
    ("02010000" + "00000000" + "01000000" + "FFFFFFFF" + "03000000", "SYMMETRIC"),
    ("02010100" + "00000000" + "01000000" + "02000000" + "03000000", "SYMMETRIC"),
    ("04010000" + "00000000" + "03000000" + "01000000", "block_size"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN)
def test_bytes_of_no_scheme(data, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        decode_quantization(bytes.fromhex(data))


@given(st.binary(max_size=40))
def test_noise_is_refused_or_encodes_to_itself(noise):
    try:
        scheme = decode_quantization(noise)
    except InvalidDescriptorError:
        return
    assert scheme.encode() == noise


def quantized_vectors():
    return [e for e in MANIFEST["valid"] if "quantization" in e["descriptor"]]


@pytest.mark.parametrize("entry", quantized_vectors(), ids=operator.itemgetter("file"))
def test_schemes_of_the_golden_vectors(entry):
    data = read(entry["file"])
    scheme = quantization_of(entry["descriptor"])
    assert hurray.Descriptor.decode(data).quantization == scheme
    assert struct.pack("<I", len(scheme.encode())) + scheme.encode() in data


def test_a_scheme_without_a_class_is_told_by_its_tag():
    t = hurray.Tensor(bytes(4), hurray.int8, (4,), quantization=PerTensorAffine(1, 0))
    data = bytearray(t.descriptor.encode())
    data[data.index(PerTensorAffine(1, 0).encode())] = 0xF4
    descriptor = hurray.Descriptor.decode(data, permissive=True)
    assert descriptor.encode() == data
    with pytest.raises(hurray.UnsupportedError, match="0xF4"):
        _ = descriptor.quantization


def test_nothing_is_left_behind():
    def action():
        for scheme in SCHEMES:
            pickle.loads(pickle.dumps(scheme)).encode()
            repr(scheme), hash(scheme) if scheme is not SCHEMES[0] else 0
            assert decode_quantization(scheme.encode() + b"x") != scheme
        for make, _ in REFUSED[:4]:
            with pytest.raises(InvalidDescriptorError):
                make()

    types = [type(scheme) for scheme in SCHEMES]
    leaks.check(action, [*types, hurray.float32, hurray.bfloat16], repetitions=2000)
