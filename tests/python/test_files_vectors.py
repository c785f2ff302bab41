"""The golden files of an independent encoder: read exactly and written again alike, or refused."""

from __future__ import annotations

import re
import struct

import pytest
from file_cases import payload
from manifest import MANIFEST, VECTORS, layout_of, quantization_of, read, shape_of

import hurray

FILES = {vector["file"]: vector for vector in MANIFEST["files"]}
REFUSED = {vector["file"]: vector for vector in MANIFEST["files_invalid"]}
MODES = [True, "r", False]

# The manifest's words for a fault, and what a message has to say: the field, or the rule of spec 4.
WORDS = {
    "magic or size": r"magic|bytes|trailer",
    "container version or flags": r"version|flags",
    "header reserved": r"reserved",
    "trailer reserved": r"reserved",
    "alignment": r"alignment",
    "first_descriptor_offset": r"first_descriptor_offset",
    "first_descriptor_offset is not the first descriptor": r"descriptor_offset|descriptor",
    "index crc": r"crc|CRC",
    "index section": r"index",
    "sections overlap": r"overlap",
    "kv section": r"kv|KV",
    "kv section absent": r"kv|KV",
    "kv slack": r"metadata",
    "truncated at byte 32": r"metadata",
    "truncated at byte 34": r"metadata",
    "index not sorted": r"SORTED_INDEX|sort|order|before|after",
    "entry count": r"count|entries|tensors",
    "index slack": r"index",
    "name": r"name",
    "name not UTF-8": r"UTF-8",
    "entry descriptor_length": r"descriptor_length|descriptor",
    "entry data": r"data",
    "entry data_length": r"data_length|data_offset|the data of .* overlap",
    "entry": r"flags",
    "entries overlap": r"overlap",
    "magic": r"magic",
    "kv bool": r"bool",
    "kv tag": r"tag",
    "kv key": r"key|twice",
    "kv not UTF-8": r"UTF-8",
    "kv element tag": r"tag",
    "torn composite": r"member",
    "partition overlap": r"partition",
}


def as_json(value):
    return value.hex() if isinstance(value, bytes) else value


def check_fields(tensor, fields):
    assert tensor.shape == shape_of(fields)
    assert tensor.dtype.tag == fields["type_tag"]
    assert tensor.layout == layout_of(fields)
    assert tensor.quantization == quantization_of(fields)
    assert tensor.byte_offset == fields["byte_offset"]


@pytest.mark.parametrize("access", MODES)
@pytest.mark.parametrize("file", FILES)
def test_golden_files_are_read_exactly(file, access):
    vector = FILES[file]
    path = VECTORS / file
    assert {k: as_json(v) for k, v in hurray.load_kv(path).items()} == vector.get("kv", {})
    with hurray.open(path, mmap=access) as opened:
        assert opened.all_names() == [tensor["name"] for tensor in vector["tensors"]]
        for tensor in vector["tensors"]:
            fields, found = tensor["descriptor"], opened[tensor["name"]]
            assert opened.descriptor(tensor["name"]).shape == shape_of(fields)
            if isinstance(found, hurray.Composite):
                assert tensor["buffers"] == [] and found.layout == layout_of(fields)
                continue
            check_fields(found, fields)
            assert [buffer.hex() for buffer in payload(found)] == tensor["buffers"]
        opened.verify()


@pytest.mark.parametrize("file", FILES)
def test_all_ways_of_reading_give_the_same(file):
    data = read(file)
    expected = {name: str(t.shape) for name, t in hurray.load(VECTORS / file).items()}
    for source in (data, bytearray(data), str(VECTORS / file)):
        for access in MODES:
            loaded = hurray.load(source, mmap=access)
            assert {name: str(t.shape) for name, t in loaded.items()} == expected
            assert list(loaded) == list(expected)


# An index begins with the number of its entries, here after a descriptor or zeroes.
INDEX_OF_5 = struct.pack("<Q", 5)


# What a writer of ours does otherwise, by choice: KV that is known is announced in the header; an
# index has a checksum; the number of tensors is not told beforehand.
def comparable(data):
    changed = bytearray(data)
    changed[12:16] = bytes([data[12] & 2, 0, 0, 0])
    changed[28:36] = bytes(8)
    if data.endswith(b"HRRY"):
        changed[-12:-8] = bytes(4)
    return bytes(changed)


@pytest.mark.parametrize("file", FILES)
def test_golden_files_are_written_again_alike(file, tmp_path):
    original = read(file)
    path = tmp_path / "again.hrry"
    with hurray.open(VECTORS / file) as opened:
        hurray.save(
            path,
            dict(opened),
            kv=opened.kv,
            alignment=opened.info["alignment"],
            sorted_index=bool(opened.info["flags"] & 2),
        )
    again = path.read_bytes()
    if file == "files/nested_sorted.hrry":
        # Its members have names that only another writer gives; they stand in the index alone.
        again, original = again[: again.index(INDEX_OF_5)], original[: original.index(INDEX_OF_5)]
    assert comparable(again) == comparable(original)


@pytest.mark.parametrize("access", MODES)
@pytest.mark.parametrize("file", REFUSED)
def test_broken_files_are_refused_with_what_is_wrong(file, access):
    """At the latest when metadata and all tensors were asked for."""
    errors = (hurray.FileError, hurray.InvalidDescriptorError)
    for source in (VECTORS / file, read(file)):
        with pytest.raises(errors) as caught:
            with hurray.open(source, mmap=access) as opened:
                opened.kv
                hurray.load(source, mmap=access)
        message = str(caught.value)
        assert re.search(WORDS[REFUSED[file]["because"]], message), message
        assert not isinstance(caught.value, KeyError)


def test_every_reason_is_used():
    assert {vector["because"] for vector in REFUSED.values()} == set(WORDS)


def swapped_sections(data):
    """With the KV section before the index, where another writer may put it (spec 4.6)."""
    index, index_size, kv, kv_size = struct.unpack_from("<QQQI", data, len(data) - 40)
    assert index != kv and kv_size
    region = data[: min(index, kv)]
    first = data[kv : kv + kv_size] if kv > index else data[index : index + index_size]
    second = data[index : index + index_size] if kv > index else data[kv : kv + kv_size]
    first += bytes(-len(first) % 8)
    places = (len(region), len(region) + len(first))
    kv, index = places if kv > index else places[::-1]
    trailer = struct.pack("<QQQI", index, index_size, kv, kv_size) + data[-12:]
    return region + first + second + trailer


@pytest.mark.parametrize("access", MODES)
def test_what_another_writer_may_do_is_read(access):
    data = bytearray(read("files/everything.hrry"))
    expected = hurray.load_kv(bytes(data))
    data[9] = 200  # container_version_minor
    data[28:36] = struct.pack("<Q", 10**15)  # tensor_count_hint
    for other in (bytes(data), swapped_sections(bytes(data))):
        with hurray.open(other, mmap=access) as opened:
            assert opened.kv == expected
            assert opened.all_names() == [
                tensor["name"] for tensor in FILES["files/everything.hrry"]["tensors"]
            ]
            opened.verify()
