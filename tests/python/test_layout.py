"""Layout objects (spec 8.9): the dense ones without tiles."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from hurray import ColMajorLayout, Layout, RowMajorLayout, StridedLayout

EXAMPLES = [
    (RowMajorLayout(), 0x01, "row_major", "RowMajorLayout()"),
    (ColMajorLayout(), 0x02, "col_major", "ColMajorLayout()"),
    (StridedLayout((-4, 1)), 0x03, "strided", "StridedLayout(strides=(-4, 1))"),
    (StridedLayout([7]), 0x03, "strided", "StridedLayout(strides=(7,))"),
]


@pytest.mark.parametrize(("layout", "tag", "name", "text"), EXAMPLES)
def test_a_layout_says_what_it_is(layout, tag, name, text):
    assert isinstance(layout, Layout)
    assert (layout.tag, layout.name, layout.buffer_count) == (tag, name, 1)
    assert layout.is_dense is True
    assert layout.is_virtual is False
    assert repr(layout) == text
    assert eval(text) == layout


def test_layouts_are_values():
    layouts = [example[0] for example in EXAMPLES]
    for (i, a), (k, b) in itertools.product(enumerate(layouts), enumerate(layouts)):
        assert (a == b) is (i == k)
        assert (a != b) is (i != k)
    assert len({*layouts, RowMajorLayout(), StridedLayout([-4, 1])}) == len(layouts)
    assert hash(StridedLayout([-4, 1])) == hash(StridedLayout((-4, 1)))
    with pytest.raises(TypeError):
        operator.lt(RowMajorLayout(), ColMajorLayout())


@pytest.mark.parametrize("layout", [example[0] for example in EXAMPLES], ids=repr)
def test_a_layout_is_no_string_tuple_or_number(layout):
    assert layout != layout.name
    assert layout != layout.tag
    assert layout != getattr(layout, "strides", ())


@pytest.mark.parametrize("layout", [example[0] for example in EXAMPLES], ids=repr)
def test_copies_and_pickles_are_equal(layout):
    assert copy.copy(layout) == layout
    assert copy.deepcopy([layout]) == [layout]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(layout, protocol))
        assert again == layout
        assert type(again) is type(layout)


def test_layout_is_abstract():
    with pytest.raises(TypeError, match="cannot create"):
        Layout()
    derived = type("Derived", (Layout,), {})
    with pytest.raises(TypeError, match="cannot create"):
        derived()


@pytest.mark.parametrize("layout", [example[0] for example in EXAMPLES], ids=repr)
def test_layouts_are_frozen_and_final(layout):
    with pytest.raises(AttributeError):
        layout.tag = 1
    with pytest.raises(AttributeError):
        layout.strides = (1,)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (type(layout),), {})


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=64))
def test_strides_come_back_as_a_tuple(strides):
    assert StridedLayout(strides).strides == tuple(strides)
    assert StridedLayout(strides=strides) == StridedLayout(tuple(strides))


@pytest.mark.parametrize("stride", [2**63, -(2**63) - 1, 2**100])
def test_a_stride_has_64_bits(stride):
    with pytest.raises(hurray.InvalidDescriptorError, match="strides\\[1\\]"):
        StridedLayout([1, stride])


def test_at_most_64_strides():
    with pytest.raises(hurray.InvalidDescriptorError, match="65"):
        StridedLayout([1] * 65)


@pytest.mark.parametrize("strides", [None, 3, "12", b"12", {1, 2}, {1: 2}, (1.0,), ("1",), [None]])
def test_strides_are_a_sequence_of_ints(strides):
    with pytest.raises(TypeError, match="strides"):
        StridedLayout(strides)


def test_arguments_that_do_not_exist():
    with pytest.raises(TypeError, match="RowMajorLayout"):
        RowMajorLayout(1)
    with pytest.raises(TypeError, match="'order'"):
        ColMajorLayout(order="F")
    with pytest.raises(TypeError, match="'strides'"):
        StridedLayout()


VALID = [
    (RowMajorLayout(), ()),
    (RowMajorLayout(), 3),
    (RowMajorLayout(), (3, 4)),
    (RowMajorLayout(), (0, 2**63, 2**63)),
    (RowMajorLayout(), (None, 4)),
    (RowMajorLayout(), [1] * 64),
    (RowMajorLayout(), (2**64 - 2,)),
    (ColMajorLayout(), (3, 4)),
    (StridedLayout((-4, 1)), (3, 4)),
    (StridedLayout((0, 0)), (2**31, 2**31)),
]


@pytest.mark.parametrize(("layout", "shape"), VALID)
def test_shapes_that_fit(layout, shape):
    assert layout.validate_against_shape(shape) is None


INVALID = [
    (RowMajorLayout(), (2**40, 2**40), "2\\^64"),
    (RowMajorLayout(), [1] * 65, "65"),
    (RowMajorLayout(), (3, -1), "None"),
    (RowMajorLayout(), (2**64 - 1,), "shape\\[0\\]"),
    (RowMajorLayout(), (2**64,), "shape\\[0\\]"),
    (ColMajorLayout(), (), "rank 0"),
    (StridedLayout(()), (), "rank 0"),
    (StridedLayout((1,)), (3, 4), "1 dimensions"),
    (StridedLayout((2**62, 2**62)), (9, 9), "strid"),
]


@pytest.mark.parametrize(("layout", "shape", "message"), INVALID)
def test_shapes_that_do_not_fit(layout, shape, message):
    with pytest.raises(hurray.InvalidDescriptorError, match=message):
        layout.validate_against_shape(shape)


@pytest.mark.parametrize("shape", [None, "34", b"34", {3, 4}, (3.0,), ("3",), 3.0, object()])
def test_shapes_are_sequences_of_ints(shape):
    with pytest.raises(TypeError, match="shape"):
        RowMajorLayout().validate_against_shape(shape)


def test_the_kinds_of_tags():
    kinds = [hurray.layout_tag_kind(tag) for tag in range(256)]
    named = [*range(0x01, 0x0C), 0x40]
    assert all(
        kind == "invalid"
        if tag in (0x00, 0xFF)
        else kind == "named"
        if tag in named
        else kind == "private"
        if 0xF0 <= tag <= 0xFE
        else kind == "reserved"
        for tag, kind in enumerate(kinds)
    )


@pytest.mark.parametrize("tag", [-1, 256])
def test_a_tag_is_a_byte(tag):
    with pytest.raises(OverflowError):
        hurray.layout_tag_kind(tag)


def test_a_tag_is_an_int():
    with pytest.raises(TypeError):
        hurray.layout_tag_kind("row_major")
