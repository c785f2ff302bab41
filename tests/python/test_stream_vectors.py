"""Streams of an independent encoder: read exactly and rewritten identically, or refused (spec 5)."""

from __future__ import annotations

import pytest
from manifest import MANIFEST, layout_of, read, shape_of
from streams import written

import hurray

GOOD, BAD, VERIFY = (MANIFEST[kind] for kind in ("streams", "streams_invalid", "verify"))


def flatten(item: hurray.Tensor | hurray.Composite) -> list:
    """Heads and tensors in the order of the stream."""
    if isinstance(item, hurray.Tensor):
        return [item]
    return [item, *(part for member in item.members for part in flatten(member))]


@pytest.mark.parametrize("entry", GOOD, ids=lambda entry: entry["file"])
def test_a_stream_is_read_as_it_was_meant(entry):
    parts = [part for item in hurray.StreamReader(read(entry["file"])) for part in flatten(item)]
    for part, wanted in zip(parts, entry["items"], strict=True):
        fields = wanted["descriptor"]
        assert part.shape == shape_of(fields)
        assert part.dtype.tag == fields["type_tag"]
        assert part.layout == layout_of(fields)
        if isinstance(part, hurray.Tensor):
            assert part.byte_offset == fields["byte_offset"]
            buffers = [bytes(part.buffer(i)).hex() for i in range(part.buffer_count)]
            assert buffers == wanted["buffers"]


@pytest.mark.parametrize("entry", GOOD + VERIFY, ids=lambda entry: entry["file"])
def test_a_stream_is_written_again_as_it_was(entry):
    data = read(entry["file"])
    assert written(*hurray.StreamReader(data)) == data


# What the manifest calls a fault -> words of the message that name it.
FAULTS = {
    "shorter than 10 bytes": "of the 10 bytes",
    "truncated": "bytes .*are missing",
    "torn composite": "torn: 1 of 2 members",
    "partition overlap": "members 0 and 1 overlap",
    "partition gap": "uncovered",
    "member shard": "shard section|parent_shape",
    "member type": "type tag 0x14 under a head of type tag 0x03",
    "role in a partition": r"role 1\) under a partition",
    "role in a group": r"role 0\) under a group",
    "overlay role": "member_role|a role under an overlay",
    "overlay without base": "overlay without members",
    "base does not span": "the base covers 0 … 4",
    "quantized member under this head": "quantized.*under a head of type tag 0x14",
    "nested too deep": "deeper than 8 levels",
    "dynamic partition or overlay head": "dimension 0 of the head of a partition is dynamic",
    "coo index out of bounds": r"indices\[3\].*less than the extent",
    "coo duplicate": "repeats tuple 0",
    "coo not sorted": "expected tuples to increase",
    "index out of bounds": r"(col|row)_indices\[\d+\].*less than the extent",
    "indices not increasing": "expected more than the one before it",
    "pointer array": r"row_ptr\[\d\]",
    "csf pos": r"pos_\d\[\d\]",
    "csf crd out of bounds": r"crd_0\[1\].*less than the extent",
    "csf crd not increasing": r"crd_2\[3\].*more than the one before it",
    "csf leaf count": r"pos_2\[3\].*end at 4",
    "seq_ptr": r"seq_ptr\[\d\]",
    "page id": r"block_table\[1\].*less than num_pages",
    "scale value": r"scales\[0\]",
    "zero point value": r"zero points\[0\].*range of uint4",
    "e8m0 scale": r"scales\[\d\].*no value of float8_e8m0",
}


def test_every_kind_of_fault_is_known():
    assert {entry["because"] for entry in BAD + VERIFY} == set(FAULTS)


@pytest.mark.parametrize("entry", BAD, ids=lambda entry: entry["file"])
def test_a_broken_stream_is_refused(entry):
    """With its place; what is torn or cut is a fault of the stream, the rest of a descriptor."""
    cut = entry["because"] in ("shorter than 10 bytes", "truncated", "torn composite")
    error = hurray.StreamError if cut else hurray.InvalidDescriptorError
    with pytest.raises(error, match=FAULTS[entry["because"]]) as caught:
        list(hurray.StreamReader(read(entry["file"])))
    assert "item " in str(caught.value)


@pytest.mark.parametrize("entry", VERIFY, ids=lambda entry: entry["file"])
def test_what_is_wrong_in_the_data_is_found_by_verify(entry):
    (item,) = hurray.StreamReader(read(entry["file"]))  # structure is all that a reader checks
    with pytest.raises(hurray.InvalidDescriptorError, match=FAULTS[entry["because"]]):
        item.verify()
