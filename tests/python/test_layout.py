"""Layout objects (spec 2, 8.9)."""

from __future__ import annotations

import copy
import inspect
import itertools
import operator
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from hurray import (
    MXFP,
    NF4,
    BlockPagedLayout,
    ColMajorLayout,
    CompositeLayout,
    CooLayout,
    CscLayout,
    CsfLayout,
    CsrLayout,
    HilbertLayout,
    InvalidDescriptorError,
    Layout,
    MortonLayout,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    PrivateExtensionLayout,
    RowMajorLayout,
    StridedLayout,
    TiledLayout,
    UnknownLayout,
)

TILED = TiledLayout([4, 4], "col_major")
DEEP = TiledLayout((8, 8), "strided", "tiled", (1, 2), inner_tiled=TILED)
PAGED = BlockPagedLayout(4, 5, 0, 2)

# Layout, tag, name, buffers, repr.
EXAMPLES = [
    (RowMajorLayout(), 0x01, "row_major", 1, "RowMajorLayout()"),
    (ColMajorLayout(), 0x02, "col_major", 1, "ColMajorLayout()"),
    (StridedLayout((-4, 1)), 0x03, "strided", 1, "StridedLayout(strides=(-4, 1))"),
    (StridedLayout([7]), 0x03, "strided", 1, "StridedLayout(strides=(7,))"),
    (
        TILED,
        0x04,
        "tiled",
        1,
        "TiledLayout(tile_shape=(4, 4), outer_layout='col_major', inner_layout='row_major')",
    ),
    (
        DEEP,
        0x04,
        "tiled",
        1,
        "TiledLayout(tile_shape=(8, 8), outer_layout='strided', inner_layout='tiled', "
        "outer_strides=(1, 2), inner_tiled=TiledLayout(tile_shape=(4, 4), "
        "outer_layout='col_major', inner_layout='row_major'))",
    ),
    (
        TiledLayout((2,), inner_layout="strided", inner_strides=[3]),
        0x04,
        "tiled",
        1,
        "TiledLayout(tile_shape=(2,), outer_layout='row_major', inner_layout='strided', "
        "inner_strides=(3,))",
    ),
    (MortonLayout([2, 1]), 0x05, "morton", 1, "MortonLayout(morton_bits=(2, 1))"),
    (HilbertLayout(3, 2), 0x40, "hilbert", 1, "HilbertLayout(hilbert_order=3, hilbert_rank=2)"),
    (CooLayout(2), 0x06, "coo", 2, "CooLayout(nnz=2, is_sorted=False)"),
    (CooLayout(2, True), 0x06, "coo", 2, "CooLayout(nnz=2, is_sorted=True)"),
    (CsrLayout(2), 0x07, "csr", 3, "CsrLayout(nnz=2)"),
    (CscLayout(2), 0x08, "csc", 3, "CscLayout(nnz=2)"),
    (CsfLayout(2, (2, 0, 1)), 0x09, "csf", 7, "CsfLayout(nnz=2, mode_order=(2, 0, 1))"),
    (
        PAGED,
        0x0A,
        "block_paged",
        3,
        "BlockPagedLayout(page_size=4, num_pages=5, paged_axis=0, num_seqs=2, kv_role='key', "
        "block_table_index_type='uint32')",
    ),
    (
        BlockPagedLayout(4, 2**40, 1, 0, "fused", 0, "uint64"),
        0x0A,
        "block_paged",
        3,
        "BlockPagedLayout(page_size=4, num_pages=1099511627776, paged_axis=1, num_seqs=0, "
        "kv_role='fused', layer_index=0, block_table_index_type='uint64')",
    ),
    (
        CompositeLayout("group", 2),
        0x0B,
        "composite",
        0,
        "CompositeLayout(composition_rule='group', member_count=2)",
    ),
    (
        CompositeLayout("overlay", 2, "add"),
        0x0B,
        "composite",
        0,
        "CompositeLayout(composition_rule='overlay', member_count=2, combine_op='add')",
    ),
    (
        PrivateExtensionLayout(0xF2, 2**64 - 1, b"x"),
        0xF2,
        "extension",
        None,
        "PrivateExtensionLayout(tag=0xF2, extension_layout_id=18446744073709551615, "
        "extension_data=b'x')",
    ),
    (
        UnknownLayout(0x20, bytearray(b"raw")),
        0x20,
        "extension",
        None,
        "UnknownLayout(tag=0x20, raw_bytes=b'raw')",
    ),
]


@pytest.mark.parametrize(("layout", "tag", "name", "buffers", "text"), EXAMPLES)
def test_a_layout_says_what_it_is(layout, tag, name, buffers, text):
    assert isinstance(layout, Layout)
    assert (layout.tag, layout.name, layout.buffer_count) == (tag, name, buffers)
    assert layout.is_dense is (tag <= 0x05 or tag == 0x40)
    assert layout.is_virtual is (tag == 0x0B)
    assert repr(layout) == text
    assert eval(text) == layout


def arguments_of(layout):
    """The attributes that the class itself has."""
    return {name for name in vars(type(layout)) if not name.startswith(("_", "validate"))}


@pytest.mark.parametrize("layout", [example[0] for example in EXAMPLES], ids=repr)
def test_attributes_are_named_like_the_arguments(layout):
    given = {name: getattr(layout, name) for name in arguments_of(layout)}
    if isinstance(layout, PrivateExtensionLayout | UnknownLayout):
        given["tag"] = layout.tag
    assert type(layout)(**given) == layout
    assert not any(isinstance(value, list) for value in given.values())
    assert all(f"{name}=" in repr(layout) for name in given if given[name] is not None)


# Spec 8.9, word for word.
SIGNATURES = """
RowMajorLayout() ColMajorLayout() StridedLayout(strides)
TiledLayout(tile_shape, outer_layout="row_major", inner_layout="row_major", outer_strides=None,
inner_strides=None, inner_tiled=None) MortonLayout(morton_bits) HilbertLayout(hilbert_order,
hilbert_rank) CooLayout(nnz, is_sorted=False) CsrLayout(nnz) CscLayout(nnz) CsfLayout(nnz, mode_order)
BlockPagedLayout(page_size, num_pages, paged_axis, num_seqs, kv_role="key", layer_index=None,
block_table_index_type="uint32") CompositeLayout(composition_rule, member_count, combine_op=None)
PrivateExtensionLayout(tag, extension_layout_id, extension_data=b"") UnknownLayout(tag, raw_bytes=b"")
"""


def test_constructors_take_what_the_specification_says():
    promised = SIGNATURES.replace("\n", " ").replace('"', "'").replace(") ", ")\n").split("\n")
    classes = {type(example[0]) for example in EXAMPLES}
    found = {f"{c.__name__}{inspect.signature(c)}" for c in classes}
    assert found == {line.strip() for line in promised if line.strip()}


@pytest.mark.parametrize("layout", [example[0] for example in EXAMPLES], ids=repr)
def test_arguments_stand_in_the_order_of_the_signature(layout):
    names = inspect.signature(type(layout)).parameters
    assert type(layout)(*(getattr(layout, name) for name in names)) == layout


@pytest.mark.parametrize("layout", [example[0] for example in EXAMPLES], ids=repr)
def test_defaults_are_those_of_the_signature(layout):
    parameters = inspect.signature(type(layout)).parameters.values()
    needed = {p.name: getattr(layout, p.name) for p in parameters if p.default is p.empty}
    if needed.get("composition_rule") == "overlay":
        return  # combine_op has no default then
    made = type(layout)(**needed)
    assert all(getattr(made, p.name) == p.default for p in parameters if p.name not in needed)


def test_combine_op_is_none_where_it_does_not_apply():
    assert CompositeLayout("partition", 2).combine_op is None
    assert CompositeLayout("group", 2).combine_op is None
    assert CompositeLayout("overlay", 2, combine_op="replace").combine_op == "replace"


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
    for name in arguments_of(layout):
        with pytest.raises(AttributeError):
            setattr(layout, name, getattr(layout, name))
        with pytest.raises(AttributeError):
            delattr(layout, name)
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


DEFAULTS = [
    (TiledLayout((2,), None, None, None, None, None), TiledLayout((2,))),
    (CooLayout(3, None), CooLayout(3)),
    (BlockPagedLayout(4, 5, 0, 2, None, None, None), PAGED),
    (CompositeLayout("group", 0, None), CompositeLayout("group", 0)),
    (PrivateExtensionLayout(0xF0, 0, None), PrivateExtensionLayout(0xF0, 0, b"")),
    (UnknownLayout(0x20, None), UnknownLayout(0x20)),
]


@pytest.mark.parametrize(("layout", "same"), DEFAULTS)
def test_none_means_the_default(layout, same):
    assert layout == same


REFUSED = [
    (lambda: TiledLayout(()), "rank 0"),
    (lambda: TiledLayout((2, 0)), "tile_shape\\[1\\] is 0"),
    (lambda: TiledLayout((2, -1)), "tile_shape\\[1\\] is -1"),
    (lambda: TiledLayout([1] * 65), "65"),
    (lambda: TiledLayout((2**40, 2**40)), "2\\^64"),
    (lambda: TiledLayout((2,), "strided"), "outer_strides is missing"),
    (lambda: TiledLayout((2,), inner_layout="strided"), "inner_strides is missing"),
    (lambda: TiledLayout((2,), inner_layout="tiled"), "inner_tiled is missing"),
    (lambda: TiledLayout((2,), outer_strides=(1,)), "outer_strides does not apply"),
    (lambda: TiledLayout((2,), inner_strides=(1,)), "inner_strides does not apply"),
    (lambda: TiledLayout((2,), inner_tiled=TiledLayout((1,))), "inner_tiled does not apply"),
    (lambda: TiledLayout((2, 2), "strided", outer_strides=(1,)), "outer_strides has 1"),
    (lambda: TiledLayout((2,), inner_layout="tiled", inner_tiled=TILED), "inner_tiled has 2"),
    (lambda: TiledLayout((6, 4), inner_layout="tiled", inner_tiled=TILED), "divisor"),
    (lambda: nested(9), "8"),
    (lambda: MortonLayout(()), "rank 0"),
    (lambda: MortonLayout((2, 0)), "morton_bits\\[1\\] is 0"),
    (lambda: MortonLayout((2, 2**32)), "morton_bits\\[1\\]"),
    (lambda: MortonLayout((40, 40)), "2\\^64"),
    (lambda: HilbertLayout(0, 2), "hilbert_order is 0"),
    (lambda: HilbertLayout(3, 1), "rank 1"),
    (lambda: HilbertLayout(3, 65), "65"),
    (lambda: HilbertLayout(33, 2), "hilbert_order is 33"),
    (lambda: HilbertLayout(-1, 2), "hilbert_order is -1"),
    (lambda: CooLayout(-1), "nnz is -1"),
    (lambda: CooLayout(2**64), "nnz is 18446744073709551616"),
    (lambda: CsrLayout(-1), "nnz"),
    (lambda: CscLayout(2**64), "nnz"),
    (lambda: CsfLayout(-1, (0, 1, 2)), "nnz"),
    (lambda: CsfLayout(1, (0, 1)), "rank 2"),
    (lambda: CsfLayout(1, (0, 1, 1)), "mode_order\\[2\\] is 1 a second time"),
    (lambda: CsfLayout(1, (0, 1, 3)), "mode_order\\[2\\] is 3"),
    (lambda: BlockPagedLayout(0, 5, 0, 2), "page_size is 0"),
    (lambda: BlockPagedLayout(2**32, 5, 0, 2), "page_size"),
    (lambda: BlockPagedLayout(4, -1, 0, 2), "num_pages"),
    (lambda: BlockPagedLayout(4, 2**63, 0, 2), "num_pages"),
    (lambda: BlockPagedLayout(4, 5, -1, 2), "paged_axis"),
    (lambda: BlockPagedLayout(4, 5, 0, 2**32), "num_seqs"),
    (lambda: BlockPagedLayout(4, 5, 0, 2, layer_index=2**32 - 1), "layer_index"),
    (lambda: CompositeLayout("group", 2**32 - 1), "member_count"),
    (lambda: CompositeLayout("group", -1), "member_count"),
    (lambda: CompositeLayout(0x10, 1), "0x10"),
    (lambda: PrivateExtensionLayout(0x02, 0), "0x02"),
    (lambda: PrivateExtensionLayout(0xFF, 0), "0xFF"),
    (lambda: PrivateExtensionLayout(0xF0, 2**64), "extension_layout_id"),
    (lambda: UnknownLayout(0x00), "0x00"),
    (lambda: UnknownLayout(0xFF), "0xFF"),
]


def nested(levels):
    layout = TiledLayout((1,))
    for _ in range(levels - 1):
        layout = TiledLayout((1,), inner_layout="tiled", inner_tiled=layout)
    return layout


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_no_shape_could_make_right(make, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        make()


def test_tiles_nest_eight_deep():
    layout = nested(8)
    for _ in range(7):
        layout = layout.inner_tiled
    assert layout == TiledLayout((1,))


WORDS = [
    (lambda: TiledLayout((2,), "tiled"), "outer_layout"),
    (lambda: TiledLayout((2,), "Row_major"), "'row_major', 'col_major', 'strided'"),
    (lambda: TiledLayout((2,), inner_layout="morton"), "inner_layout"),
    (lambda: BlockPagedLayout(4, 5, 0, 2, kv_role="both"), "'key', 'value', 'fused'"),
    (lambda: BlockPagedLayout(4, 5, 0, 2, block_table_index_type="int32"), "'uint32', 'uint64'"),
    (lambda: CompositeLayout("sum", 1), "'partition', 'overlay', 'group'"),
    (lambda: CompositeLayout("overlay", 1, "max"), "'replace', 'add'"),
    (lambda: CompositeLayout("overlay", 1), "combine_op"),
    (lambda: CompositeLayout("partition", 1, "replace"), "combine_op"),
    (lambda: CompositeLayout(1, 1), "composition_rule"),
]


@pytest.mark.parametrize(("make", "message"), WORDS)
def test_words_outside_an_enumeration(make, message):
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert not isinstance(error.value, InvalidDescriptorError)


TYPES = [
    lambda: TiledLayout(2),
    lambda: TiledLayout("22"),
    lambda: TiledLayout((2.0,)),
    lambda: TiledLayout((2,), 1),
    lambda: TiledLayout((2,), inner_layout="tiled", inner_tiled=RowMajorLayout()),
    lambda: TiledLayout((2,), inner_layout="tiled", inner_tiled=(2,)),
    lambda: MortonLayout(2),
    lambda: HilbertLayout(3.0, 2),
    lambda: HilbertLayout(3),
    lambda: CooLayout("2"),
    lambda: CooLayout(None),
    lambda: CsrLayout(),
    lambda: CsfLayout(1, None),
    lambda: BlockPagedLayout(4, 5, 0),
    lambda: BlockPagedLayout(4, 5, 0, 2, kv_role=0),
    lambda: CompositeLayout(None, 2),
    lambda: PrivateExtensionLayout("0xF0", 0),
    lambda: PrivateExtensionLayout(0xF0, 0, "text"),
    lambda: PrivateExtensionLayout(0xF0, 0, [1]),
    lambda: UnknownLayout(0x20, 3),
    lambda: PAGED.validate_index_buffers([0.0], []),
    lambda: PAGED.validate_index_buffers(0, []),
    lambda: PAGED.validate_quantization_compatibility(None),
]


@pytest.mark.parametrize("make", TYPES)
def test_arguments_of_another_type(make):
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize("tag", [*range(0x01, 0x0C), 0x40, *range(0xF0, 0xFF)])
def test_an_unknown_layout_has_no_tag_of_a_class(tag):
    layout = next((e[0] for e in EXAMPLES if e[1] == tag), PrivateExtensionLayout(0xF0, 0))
    with pytest.raises(ValueError, match=f"hurray.{type(layout).__name__}"):
        UnknownLayout(tag, b"")


def test_every_other_tag_is_unknown():
    for tag in {*range(1, 0xF0)} - {*range(0x01, 0x0C), 0x40}:
        assert UnknownLayout(tag).tag == tag
    with pytest.raises(OverflowError):
        UnknownLayout(256)


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
    (TILED, (5, 3)),
    (TILED, (None, 3)),
    (DEEP, (16, 16)),
    (MortonLayout((2, 1)), (4, 2)),
    (MortonLayout((2, 1)), (0, None)),
    (HilbertLayout(3, 2), (8, 8)),
    (HilbertLayout(3, 2), (None, 8)),
    (CooLayout(2**40), (3,)),
    (CooLayout(0), [1] * 64),
    (CsrLayout(2), (3, 4)),
    (CscLayout(2), (None, None)),
    (CsfLayout(2, (2, 0, 1)), (3, 4, 5)),
    (PAGED, (9, 2, 8)),
    (CompositeLayout("group", 2), ()),
    (CompositeLayout("group", 2), (None,)),
    (CompositeLayout("partition", 2), (8, 8)),
    (PrivateExtensionLayout(0xF2, 0), (None, 3)),
    (UnknownLayout(0x20), (3,)),
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
    (TILED, (5,), "2 dimensions"),
    (TiledLayout((2**31, 2**31)), (2**33, 2**33), "2\\^64"),
    (MortonLayout((2, 1)), (4, 3), "morton_bits"),
    (MortonLayout((2, 1)), (4,), "2 dimensions"),
    (HilbertLayout(3, 2), (8, 7), "extent 7"),
    (HilbertLayout(3, 2), (8, 8, 8), "2 dimensions"),
    (CooLayout(2), (), "rank 0"),
    (CooLayout(2**62), (3,), "nnz"),
    (CsrLayout(2), (3,), "rank 1"),
    (CscLayout(2), (3, 4, 5), "rank 3"),
    (CsfLayout(2, (2, 0, 1)), (3, 4), "3 dimensions"),
    (PAGED, (9, 2), "rank 2"),
    (BlockPagedLayout(4, 5, 1, 2), (9, 2, 8), "paged_axis"),
    (BlockPagedLayout(2**31, 2**32, 0, 2), (9, 2, 8), "2\\^64"),
    (CompositeLayout("partition", 2), (None, 8), "dynamic"),
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


# ---- block-paged ----


@pytest.mark.parametrize("wide", ["uint32", "uint64"])
@pytest.mark.parametrize(
    ("seq_ptr", "block_table"),
    [([0, 1, 2], [4, 0]), ((0, 0, 0), ()), ([0, 2, 2], [1, 1]), (range(0, 5, 2), b"")],
)
def test_index_buffers_that_are_right(seq_ptr, block_table, wide):
    layout = BlockPagedLayout(4, 5, 0, 2, block_table_index_type=wide)
    if block_table == b"":
        block_table = range(4)
    assert layout.validate_index_buffers(seq_ptr, block_table) is None
    assert layout.validate_index_buffers(block_table=block_table, seq_ptr=seq_ptr) is None


def test_index_buffers_may_be_tensors_or_arrays():
    pytest.importorskip("numpy")
    seq_ptr = hurray.asarray([0, 1, 2], dtype=hurray.uint64)
    PAGED.validate_index_buffers(seq_ptr, seq_ptr.to_numpy()[:2])


@pytest.mark.parametrize(
    ("seq_ptr", "block_table", "message"),
    [
        ([1, 1, 2], [0, 0], "seq_ptr\\[0\\] is 1"),
        ([0, 2, 1], [0, 0], "seq_ptr\\[2\\] is 1"),
        ([0, 1, 3], [0, 0], "seq_ptr\\[2\\] is 3"),
        ([0, 1, 1], [0, 0], "seq_ptr\\[2\\] is 1"),
        ([0, 1], [0], "seq_ptr"),
        ([0, 1, 1, 1], [0], "seq_ptr"),
        ([0, 1, 2], [0, 5], "block_table\\[1\\] is 5"),
        ([0, -1, 2], [0, 0], "seq_ptr\\[1\\] is -1"),
        ([0, 1, 2], [0, 2**64], "block_table\\[1\\]"),
    ],
)
def test_index_buffers_that_are_wrong(seq_ptr, block_table, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        PAGED.validate_index_buffers(seq_ptr, block_table)


@pytest.mark.parametrize(
    "scheme",
    [
        PerTensorAffine(0.5, -3),
        PerChannelAffine.symmetric(1, 3),
        PerChannelAffine.asymmetric(2, 3, 4),
        PerBlockAffine.symmetric(0, 4, 3, hurray.float16),
        PerBlockAffine.asymmetric(0, 4, 3, 3, hurray.float32),
    ],
)
def test_schemes_that_go_with_pages(scheme):
    assert PAGED.validate_quantization_compatibility(scheme) is None


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (PerChannelAffine.symmetric(0, 3), "axis"),
        (PerChannelAffine.symmetric(3, 3), "axis"),
        (PerChannelAffine.symmetric(1, 2), "scale_buffer 2"),
        (PerChannelAffine.asymmetric(1, 3, 2), "zero_point_buffer 2"),
        (PerBlockAffine.symmetric(1, 4, 3, hurray.float32), "axis"),
        (PerBlockAffine.symmetric(0, 8, 3, hurray.float32), "page_size"),
        (NF4(0, 8, 3), "nf4"),
        (MXFP(0, 16, 3), "mxfp"),
    ],
)
def test_schemes_that_do_not_go_with_pages(scheme, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        PAGED.validate_quantization_compatibility(scheme)


def test_a_private_rule_is_carried_by_its_number():
    layout = CompositeLayout(0xF3, 2)
    assert layout.composition_rule == 0xF3
    assert eval(repr(layout)) == layout
