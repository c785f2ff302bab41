"""Descriptors (spec 1, 8.10), against the golden vectors of an independent encoder."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifest import (
    MANIFEST,
    extension_type_of,
    layout_of,
    quantization_of,
    read,
    shape_of,
    shard_of,
)

import hurray
from hurray import Descriptor

LAYOUT_TAG_AT = 15

# Spec 1.10: float32 [3, 4], row-major, one CPU buffer of 192 bytes.
EXAMPLE = bytes.fromhex(
    "48525259 01 00 3D000000 00000000 03 01 02000000"
    "0300000000000000 0400000000000000 0000000000000000"
    "01 C000000000000000 40000000 00 00 00 00"
)


def valid_vectors():
    return [pytest.param(e["file"], e["descriptor"], id=e["file"]) for e in MANIFEST["valid"]]


@pytest.mark.parametrize(("file", "expected"), valid_vectors())
def test_a_valid_descriptor_decodes_to_its_fields_and_encodes_to_its_bytes(file, expected):
    data = read(file)
    descriptor = Descriptor.decode(data)
    assert descriptor.encode() == data
    assert descriptor.encoded_len == len(data)
    assert descriptor.version == (1, 0)
    assert descriptor.shape == shape_of(expected)
    assert descriptor.ndim == len(expected["shape"])
    assert descriptor.dtype.tag == expected["type_tag"]
    assert descriptor.byte_offset == expected["byte_offset"]
    assert descriptor.layout == layout_of(expected)
    assert descriptor.layout.name == expected["layout"]["name"]
    assert descriptor.member_role == expected.get("member_role")


@pytest.mark.parametrize(("file", "expected"), valid_vectors())
def test_the_buffer_handles_of_a_valid_descriptor(file, expected):
    descriptor = Descriptor.decode(read(file))
    handles = descriptor.buffer_handles
    assert descriptor.buffer_count == len(handles) == len(expected["buffers"])
    for handle, fields in zip(handles, expected["buffers"], strict=True):
        assert handle.byte_size == fields["byte_size"]
        assert handle.alignment == fields["alignment"]
        assert handle.device.tag == fields["device"]
        assert handle.device.memory_class_tag == fields["class"]
        assert handle.sync_mode == ["producer_synced", "event", "consumer_stream"][fields["sync"]]
        assert handle.is_empty is (fields["byte_size"] == 0)
        assert handle.device is descriptor.device


@pytest.mark.parametrize(("file", "expected"), valid_vectors())
def test_the_sections_of_a_valid_descriptor(file, expected):
    descriptor = Descriptor.decode(read(file))
    assert descriptor.quantization == quantization_of(expected)
    assert descriptor.shard == shard_of(expected)
    assert descriptor.extension_type == extension_type_of(expected)
    claims = expected.get("statistics")
    if claims is None:
        assert descriptor.statistics is None
    else:
        names = [n for n in dir(hurray.Statistics) if n.startswith(("n", "v", "h", "sp"))]
        shown = {n: getattr(descriptor.statistics, n) for n in names}
        assert {n: v for n, v in shown.items() if v is not None} == claims


@pytest.mark.parametrize(("file", "expected"), valid_vectors())
def test_copies_pickles_and_trailing_bytes(file, expected):
    data = read(file)
    descriptor = Descriptor.decode(data)
    assert Descriptor.decode(data + b"\xff" * 9) == descriptor
    assert copy.copy(descriptor) == copy.deepcopy(descriptor) == descriptor
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(descriptor, protocol)) == descriptor


@pytest.mark.parametrize(("file", "expected"), valid_vectors())
def test_a_valid_descriptor_that_is_cut_short_is_refused(file, expected):
    data = read(file)
    for length in range(len(data)):
        with pytest.raises(hurray.InvalidDescriptorError):
            Descriptor.decode(data[:length])


def invalid_vectors():
    return [entry["file"] for entry in MANIFEST["invalid"]]


@pytest.mark.parametrize("file", invalid_vectors())
def test_an_invalid_descriptor_is_refused(file):
    with pytest.raises(hurray.InvalidDescriptorError) as error:
        Descriptor.decode(read(file))
    assert str(error.value) and "\n" not in str(error.value)


def test_the_vectors_are_there():
    assert len(valid_vectors()) == 106
    assert len(invalid_vectors()) == 169


def test_descriptors_are_equal_when_their_bytes_are():
    by_bytes = {read(parameter.values[0]): None for parameter in valid_vectors()}
    decoded = [(data, Descriptor.decode(data)) for data in by_bytes]
    for data_a, a in decoded:
        for data_b, b in decoded:
            assert (a == b) is (data_a == data_b)
            assert (a != b) is (data_a != data_b)
        assert a != data_a


def test_the_worked_example():
    descriptor = Descriptor.decode(EXAMPLE)
    assert descriptor.encode() == EXAMPLE
    assert descriptor.encoded_len == 61
    assert descriptor.dtype is hurray.float32
    assert descriptor.shape == (3, 4)
    assert (descriptor.ndim, descriptor.size, descriptor.nbytes) == (2, 12, 48)
    assert descriptor.layout == hurray.RowMajorLayout()
    assert descriptor.strides == (4, 1)
    assert descriptor.device is hurray.device.cpu
    assert descriptor.buffer_handles[0].byte_size == 192
    assert (
        repr(descriptor)
        == "hurray.Descriptor(dtype=float32, shape=(3, 4), layout='row_major', buffers=1)"
    )


def test_what_a_dynamic_dimension_leaves_open():
    descriptor = Descriptor.decode(read("valid/dynamic.bin"))
    assert descriptor.shape == (None, 512)
    assert descriptor.size is None
    assert descriptor.nbytes is None
    assert not hasattr(descriptor, "strides")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_like_objects_are_decoded(kind):
    assert Descriptor.decode(kind(EXAMPLE)) == Descriptor.decode(EXAMPLE)
    assert Descriptor.decode(bytes=kind(EXAMPLE), permissive=False).shape == (3, 4)


def test_a_permissive_reader_reads_what_a_strict_one_does():
    assert Descriptor.decode(EXAMPLE, permissive=True) == Descriptor.decode(EXAMPLE)


def test_a_permissive_reader_carries_a_layout_that_is_not_assigned():
    data = bytearray(EXAMPLE)
    data[LAYOUT_TAG_AT] = 0x0C
    with pytest.raises(hurray.InvalidDescriptorError, match="0x0C"):
        Descriptor.decode(data)
    descriptor = Descriptor.decode(data, permissive=True)
    assert descriptor.encode() == data
    assert descriptor.shape == (3, 4)
    assert descriptor.buffer_count == 0
    assert descriptor.layout == hurray.UnknownLayout(0x0C, EXAMPLE[44:])
    assert pickle.loads(pickle.dumps(descriptor)) == descriptor


TYPE_TAG_AT = 14


@pytest.mark.parametrize("tag", [0x3F, 0x60, 0xEF])
def test_a_type_tag_that_is_not_assigned(tag):
    """Dtype has no object for it; repr and the bytes tell which one it is."""
    data = bytearray(EXAMPLE)
    data[TYPE_TAG_AT] = tag
    with pytest.raises(hurray.InvalidDescriptorError, match=f"0x{tag:02X}"):
        Descriptor.decode(data)
    descriptor = Descriptor.decode(data, permissive=True)
    for name in ("dtype", "nbytes"):
        with pytest.raises(hurray.InvalidDescriptorError, match=f"(?i)0x{tag:02X}"):
            getattr(descriptor, name)
    assert repr(descriptor) == (
        f"hurray.Descriptor(dtype=0x{tag:02X}, shape=(3, 4), layout='row_major', buffers=1)"
    )
    assert descriptor.encode() == data
    assert descriptor.encode()[TYPE_TAG_AT] == tag
    assert (descriptor.shape, descriptor.size, descriptor.strides) == ((3, 4), 12, (4, 1))
    assert copy.deepcopy(descriptor) == pickle.loads(pickle.dumps(descriptor)) == descriptor


@pytest.mark.parametrize("tag", [0x00, 0xFF])
def test_type_tags_that_are_never_assigned(tag):
    data = bytearray(EXAMPLE)
    data[TYPE_TAG_AT] = tag
    for permissive in (False, True):
        with pytest.raises(hurray.InvalidDescriptorError, match=f"0x{tag:02X}"):
            Descriptor.decode(data, permissive=permissive)


def test_a_private_layout_survives_pickling():
    layout = hurray.PrivateExtensionLayout(0xF3, 2**40, b"secret")
    t = hurray.Tensor(bytes(8), hurray.int8, (2, 2), layout=layout)
    with pytest.raises(hurray.InvalidDescriptorError):
        Descriptor.decode(t.descriptor.encode())
    carried = Descriptor.decode(t.descriptor.encode(), permissive=True)
    assert carried.layout == layout
    assert pickle.loads(pickle.dumps(t.descriptor)) == t.descriptor == carried


@pytest.mark.parametrize("argument", [None, 3, "HRRY", [72, 82]])
def test_other_things_are_not_decoded(argument):
    with pytest.raises(TypeError):
        Descriptor.decode(argument)


def test_arguments_of_decode():
    with pytest.raises(TypeError, match="'bytes'"):
        Descriptor.decode()
    with pytest.raises(TypeError, match="positional"):
        Descriptor.decode(EXAMPLE, True)
    with pytest.raises(TypeError, match="'strict'"):
        Descriptor.decode(EXAMPLE, strict=True)


@given(st.binary(max_size=100))
def test_noise_is_refused(noise):
    with pytest.raises(hurray.InvalidDescriptorError):
        Descriptor.decode(noise)


@given(st.integers(0, len(EXAMPLE) * 8 - 1))
def test_one_flipped_bit_is_refused_or_encodes_to_itself(bit):
    data = bytearray(EXAMPLE)
    data[bit // 8] ^= 1 << bit % 8
    try:
        descriptor = Descriptor.decode(data)
    except (hurray.InvalidDescriptorError, hurray.UnsupportedError):
        return
    written = bytearray(descriptor.encode())
    written[5] = data[5]  # a greater minor version is read, and written as 0 (spec 1.9)
    assert written == data


def test_descriptors_cannot_be_made_changed_or_hashed():
    descriptor = Descriptor.decode(EXAMPLE)
    with pytest.raises(TypeError, match="cannot create"):
        Descriptor()
    with pytest.raises(AttributeError):
        descriptor.shape = (1,)
    with pytest.raises(AttributeError):
        descriptor.other = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(descriptor)


def test_a_buffer_handle_is_a_value():
    one = Descriptor.decode(EXAMPLE).buffer_handles[0]
    same = Descriptor.decode(EXAMPLE).buffer_handles[0]
    other = Descriptor.decode(read("valid/strided_negative.bin")).buffer_handles[0]
    assert one is not same
    assert one == same and hash(one) == hash(same)
    assert one != other
    assert one != (192, 64)
    assert copy.copy(one) == copy.deepcopy(one) == one
    assert repr(one) == (
        "BufferHandle(byte_size=192, alignment=64, sync_mode='producer_synced', "
        "device=hurray.Device(kind='cpu', device_id=0, memory_class='standard'))"
    )


def test_a_buffer_handle_cannot_be_made_or_changed():
    handle = Descriptor.decode(EXAMPLE).buffer_handles[0]
    with pytest.raises(TypeError, match="cannot create"):
        hurray.BufferHandle()
    with pytest.raises(AttributeError):
        handle.byte_size = 1


def test_a_buffer_handle_outlives_its_descriptor():
    descriptor = Descriptor.decode(EXAMPLE)
    (handle,) = descriptor.buffer_handles
    del descriptor
    assert (handle.byte_size, handle.device) == (192, hurray.device.cpu)
