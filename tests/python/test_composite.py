"""hurray.Composite (spec 2.10, 8.10)."""

from __future__ import annotations

import copy
import gc
import inspect
import operator
import pickle
import weakref

import capsule_abi
import leaks
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hurray
from hurray import (
    ColMajorLayout,
    Composite,
    CompositeLayout,
    CooLayout,
    CsrLayout,
    InvalidDescriptorError,
    MortonLayout,
    Shard,
    Tensor,
    TiledLayout,
    UnsupportedError,
)


def member(array, parent=None, offset=None, role=None, dtype=hurray.float32, **more):
    """A tensor of an array, with the sections of a member; the whole parent by default."""
    array = np.asarray(array)
    if parent is not None:
        more["shard"] = Shard(parent, offset or (0,) * array.ndim)
    return Tensor(np.ascontiguousarray(array), dtype, array.shape, member_role=role, **more)


def floats(*shape, start=0):
    return np.arange(start, start + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def partition(members, shape, dtype=hurray.float32, **more):
    return Composite("partition", shape=shape, dtype=dtype, members=members, **more)


def overlay(op, members, shape, dtype=hurray.float32):
    return Composite("overlay", shape=shape, dtype=dtype, members=members, combine_op=op)


def group(*members, **more):
    return Composite("group", shape=(1,), dtype=hurray.float32, members=members, **more)


def halves(whole):
    """A partition of a matrix into its left and right half."""
    middle = whole.shape[1] // 2
    parts = [whole[:, :middle], whole[:, middle:]]
    offsets = [(0, 0), (0, middle)]
    return [member(p, whole.shape, o) for p, o in zip(parts, offsets, strict=True)]


# ---- what it says about itself ----


def test_members_are_kept_as_the_same_objects():
    members = [member(floats(2)), group(member(floats(3)))]
    composite = group(*members)
    assert type(composite.members) is tuple
    assert all(a is b for a, b in zip(composite.members, members, strict=True))
    members.clear()
    assert composite.member_count == len(composite.members) == 2


def test_attributes():
    composite = overlay("add", [member(floats(2, 3), (2, 3), role="base")], (2, 3))
    assert composite.layout == CompositeLayout("overlay", 1, "add")
    assert (composite.shape, composite.ndim, composite.dtype) == ((2, 3), 2, hurray.float32)
    descriptor = composite.descriptor
    assert (descriptor.buffer_count, descriptor.layout) == (0, composite.layout)
    assert hurray.Descriptor.decode(descriptor.encode()) == descriptor
    assert (composite.shard, composite.statistics, composite.extension_type) == (None,) * 3
    assert [m.member_role for m in composite.members] == ["base"]


def test_it_speaks_no_protocol_of_tensors():
    composite = group(member(floats(2)))
    for name in (
        "__dlpack__",
        "__dlpack_device__",
        "__hurray__",
        "__array__",
        "__array_interface__",
        "__buffer__",
        "__len__",
        "__iter__",
        "buffer",
        "nbytes",
        "device",
        "strides",
        "T",
    ):
        assert not hasattr(composite, name)
    with pytest.raises(TypeError):
        memoryview(composite)
    with pytest.raises(TypeError):
        hurray.asarray(composite)
    with pytest.raises(TypeError):
        hurray.from_hurray(composite)


def test_it_cannot_be_changed_or_subclassed():
    composite = group(member(floats(2)))
    for name in ("members", "shape", "layout", "anything"):
        with pytest.raises(AttributeError):
            setattr(composite, name, ())
    with pytest.raises(TypeError):
        type("Mine", (Composite,), {})
    with pytest.raises(TypeError):
        Composite.members = ()


def test_the_signature_is_shown():
    parameters = inspect.signature(Composite).parameters
    assert list(parameters)[:5] == ["composition_rule", "shape", "dtype", "members", "combine_op"]
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    assert all(p.kind is keyword_only for p in list(parameters.values())[1:])


def test_repr_names_the_rule_and_nests():
    inner = overlay("replace", [member(floats(2), (2,), role="base")], (2,))
    assert repr(group(inner, member(floats(2)))) == (
        "hurray.Composite(rule='group', shape=(1,), dtype=float32, members=["
        "hurray.Composite(rule='overlay', combine_op='replace', shape=(2,), dtype=float32, "
        "members=[Tensor]), Tensor])"
    )
    many = group(*[member(floats(2))] * 1000)
    assert repr(many).endswith("members=[Tensor, Tensor, Tensor, ..., Tensor, Tensor, Tensor])")
    assert repr(group()).endswith("members=[])")
    assert "\n" not in repr(many)


# ---- equality ----


def test_equality_is_by_value():
    whole = floats(2, 4)
    one, other = partition(halves(whole), (2, 4)), partition(halves(whole), (2, 4))
    assert one == one == other
    assert not operator.ne(one, other)
    assert group(one) == group(other)
    assert one != partition(halves(whole + 1), (2, 4))  # other elements
    assert group(one) != group(partition(halves(whole + 1), (2, 4)))
    assert one != group(*one.members)
    assert one != partition(halves(floats(2, 6)), (2, 6))
    assert group(one) != group(one, one)
    assert group(one) != group(one.members[0])
    assert one != one.layout
    assert one != "partition"


def test_alignment_is_no_part_of_a_value_and_bits_are():
    blocks = [capsule_abi.memory(8192, 4096)[start:][:4096] for start in (64, 0)]
    for block in blocks:
        block[:] = 0
    tensors = [hurray.from_numpy(block, copy=False) for block in blocks]
    assert [t.buffer_handles[0].alignment for t in tensors] == [64, 4096]
    assert group(tensors[0]) == group(tensors[1])
    blocks[1][7] = 1
    assert group(tensors[0]) != group(tensors[1])
    assert group(member([0.0])) != group(member([-0.0]))
    nan = member(np.array([np.nan], np.float32))
    assert group(nan) == group(copy.deepcopy(nan))


def test_equality_of_large_members():
    array = np.zeros(1 << 17, np.float32)
    assert group(member(array)) == group(member(array))
    assert group(member(array)) != group(member(np.append(array[1:], np.float32(1))))


def test_it_is_not_hashable_or_ordered():
    composite = group()
    with pytest.raises(TypeError, match="unhashable"):
        hash(composite)
    with pytest.raises(TypeError):
        composite < composite  # noqa: B015


# ---- copies, pickles, lifetime ----


def test_copies_and_pickles_are_equal():
    composite = group(partition(halves(floats(2, 4)), (2, 4)), member(floats(3)))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(composite, protocol)) == composite
    shallow, deep = copy.copy(composite), copy.deepcopy(composite)
    assert shallow == deep == composite
    assert shallow.members[1] is composite.members[1]
    assert deep.members[1] is not composite.members[1]


def test_a_pickle_is_not_believed():
    restore = hurray._core._restore_composite
    plain = member(floats(2))
    with pytest.raises(InvalidDescriptorError, match="no head"):
        restore(plain.descriptor.encode(), (plain,))
    with pytest.raises(InvalidDescriptorError):
        restore(b"HRRY", ())
    with pytest.raises(InvalidDescriptorError, match="member"):
        restore(group(plain).descriptor.encode(), ())
    with pytest.raises(InvalidDescriptorError):
        restore(group(plain).descriptor.encode(), (plain, plain))
    with pytest.raises(TypeError, match=r"members\[0\]"):
        restore(group(plain).descriptor.encode(), (b"",))
    with pytest.raises(TypeError):
        restore(group(plain).descriptor.encode(), plain)


def test_members_live_as_long_as_the_composite():
    array = np.zeros(64, np.float32)
    composite = group(hurray.from_numpy(array), hurray.from_numpy(array))
    reference = weakref.ref(composite.members[0])
    gc.collect()
    assert reference() is not None
    whole = weakref.ref(composite)
    del composite
    assert reference() is None
    assert whole() is None


# ---- bad input ----


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ([member([1.0]), 1], r"members\[1\] is int"),
        ([np.zeros(3)], r"members\[0\] is numpy.ndarray"),
        ([None], r"members\[0\] is NoneType"),
        (5, "members must be a sequence"),
        ("ab", "members must be a sequence"),
        (b"ab", "members must be a sequence"),
        ({1}, "members must be a sequence"),
    ],
)
def test_members_of_another_type(members, match):
    with pytest.raises(TypeError, match=match):
        group_of = {"shape": (1,), "dtype": hurray.float32, "members": members}
        Composite("group", **group_of)


def test_a_tensor_is_no_sequence_of_members():
    with pytest.raises(TypeError, match="members"):
        Composite("group", shape=(1,), dtype=hurray.float32, members=member(floats(2)))


@pytest.mark.parametrize(
    ("rule", "op", "error", "match"),
    [
        ("union", None, ValueError, "'partition', 'overlay', 'group'"),
        (b"group", None, TypeError, "composition_rule"),
        (None, None, TypeError, "composition_rule"),
        (1, None, ValueError, "name of a rule"),
        (0xF0, None, InvalidDescriptorError, "0xF0"),
        ("overlay", None, ValueError, "combine_op is missing"),
        ("overlay", "max", ValueError, "'replace', 'add'"),
        ("group", "add", ValueError, "only an overlay"),
        ("partition", "replace", ValueError, "only an overlay"),
    ],
)
def test_rules_and_operations(rule, op, error, match):
    base = member(floats(1), (1,), role="base")
    with pytest.raises(error, match=match):
        Composite(rule, shape=(1,), dtype=hurray.float32, members=[base], combine_op=op)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"shape": (1,), "dtype": hurray.float32}, TypeError),
        ({"shape": (1,), "members": []}, TypeError),
        ({"shape": (1,), "dtype": "float32", "members": []}, TypeError),
        ({"shape": (-1,), "dtype": hurray.float32, "members": []}, InvalidDescriptorError),
        ({"shape": (1,) * 65, "dtype": hurray.float32, "members": []}, InvalidDescriptorError),
        ({"shape": "ab", "dtype": hurray.float32, "members": []}, TypeError),
        (
            {"shape": (1,), "dtype": hurray.Dtype.from_tag(0xF1), "members": []},
            InvalidDescriptorError,
        ),
        (
            {"shape": (1,), "dtype": hurray.float32, "members": [], "shard": Shard((1, 1), (0, 0))},
            InvalidDescriptorError,
        ),
        (
            {"shape": (2,), "dtype": hurray.float32, "members": [], "shard": Shard((3,), (2,))},
            InvalidDescriptorError,
        ),
        ({"shape": (1,), "dtype": hurray.float32, "members": [], "shard": (0,)}, TypeError),
        ({"shape": (1,), "dtype": hurray.float32, "members": [], "layout": None}, TypeError),
    ],
)
def test_other_arguments(arguments, error):
    with pytest.raises(error):
        Composite("group", **arguments)


def test_statistics_that_a_reader_takes_and_no_writer_makes():
    encoded = (capsule_abi.VECTORS / "valid" / "stats_odd_advice.bin").read_bytes()
    odd = hurray.Descriptor.decode(encoded).statistics
    with pytest.raises(InvalidDescriptorError, match="sparsity_ratio"):
        group(member(floats(1)), statistics=odd)


def test_a_type_that_is_not_assigned_is_shown_by_its_tag():
    encoded = bytearray(group().descriptor.encode())
    encoded[14] = 0x60
    composite = hurray._core._restore_composite(bytes(encoded), ())
    assert repr(composite) == ("hurray.Composite(rule='group', shape=(1,), dtype=0x60, members=[])")
    with pytest.raises(InvalidDescriptorError, match="0x60"):
        composite.dtype
    assert pickle.loads(pickle.dumps(composite)) == composite


LEFT, RIGHT = floats(2, 2), floats(2, 2, start=4)
WHOLE = (2, 4)


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ([member(LEFT)], "member 0.*shard"),
        ([member(LEFT, WHOLE), member(RIGHT)], "member 1.*shard"),
        ([member(LEFT, (2, 5))], "parent_shape"),
        ([member(LEFT, WHOLE)], "cover"),
        ([], "cover"),
        ([member(LEFT, WHOLE), member(RIGHT, WHOLE, (0, 1))], "overlap"),
        ([member(LEFT, WHOLE), member(LEFT, WHOLE)], "overlap"),
        ([member(LEFT, WHOLE, role="base"), member(RIGHT, WHOLE, (0, 2))], "member 0"),
        (
            [
                member(LEFT, WHOLE),
                member(RIGHT.astype("f8"), WHOLE, (0, 2), dtype=hurray.float64),
            ],
            "member 1.*0x04.*0x03",
        ),
        # a writer puts no empty box inside another one
        ([*halves(floats(2, 4)), member(floats(0, 1), WHOLE, (1, 1))], "member 2 is empty"),
    ],
)
def test_what_is_no_partition(members, match):
    with pytest.raises(InvalidDescriptorError, match=match):
        partition(members, WHOLE)


def test_members_that_overlap_by_one_row():
    upper, lower = member(floats(3, 2), (4, 2)), member(floats(2, 2), (4, 2), (2, 0))
    with pytest.raises(InvalidDescriptorError, match="overlap"):
        partition([upper, lower], (4, 2))


def test_a_partition_has_no_dynamic_dimension():
    with pytest.raises(InvalidDescriptorError, match="dynamic"):
        partition([], (None, 2))
    assert Composite("group", shape=(None,), dtype=hurray.float32, members=[]).shape == (None,)


BASE = member(floats(2, 4), WHOLE, role="base")
PATCH = member(floats(1, 2), WHOLE, (1, 1), role="correction")


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ([], "base"),
        ([PATCH], "member 0"),
        ([BASE, BASE], "member 1"),
        ([BASE, member(floats(1, 2), WHOLE, (1, 1))], "member 1"),
        ([member(floats(1, 2), WHOLE, role="base")], "member 0"),
        ([member(floats(2, 4), role="base")], "shard"),
        ([BASE, overlay("add", [BASE], WHOLE)], "member 1"),
    ],
)
def test_what_is_no_overlay(members, match):
    with pytest.raises(InvalidDescriptorError, match=match):
        overlay("add", members, WHOLE)


def test_a_group_takes_no_roles():
    with pytest.raises(InvalidDescriptorError, match="member 0"):
        group(BASE)


def nested(depth):
    composite = member(floats(1))
    for _ in range(depth):
        composite = group(composite)
    return composite


def test_composites_nest_eight_deep_and_no_deeper():
    deepest = nested(8)
    assert repr(deepest).count("hurray.Composite") == 8
    with pytest.raises(InvalidDescriptorError, match="deeper than 8"):
        group(deepest)
    with pytest.raises(InvalidDescriptorError, match="deeper than 8"):
        group(member(floats(1)), deepest)
    assert pickle.loads(pickle.dumps(deepest)) == deepest


def test_no_composite_contains_itself():
    members = [member(floats(1))]
    composite = Composite("group", shape=(1,), dtype=hurray.float32, members=members)
    members.append(composite)
    assert composite not in composite.members
    composite.__init__("group", shape=(1,), dtype=hurray.float32, members=[composite])
    assert composite.member_count == 1


def test_a_sequence_that_fails_while_it_is_read():
    class Failing(list):
        def __iter__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Composite("group", shape=(1,), dtype=hurray.float32, members=Failing([BASE]))


def test_a_private_dtype_needs_its_description():
    private = hurray.Dtype.from_tag(0xF1)
    described = hurray.ExtensionType(bit_width=16)
    part = member(np.zeros(2, np.uint16), (2,), dtype=private, extension_type=described)
    composite = partition([part], (2,), private, extension_type=described)
    assert composite.extension_type == described
    other = hurray.ExtensionType(bit_width=16, is_signed=True)
    with pytest.raises(InvalidDescriptorError, match="member 0"):
        partition([part], (2,), private, extension_type=other)
    with pytest.raises(InvalidDescriptorError):
        partition([part], (2,), private)
    with pytest.raises(UnsupportedError, match="0xF1"):
        composite.to_numpy()


# ---- one array: partitions ----


def test_a_partition_becomes_one_array():
    whole = floats(2, 4)
    composite = partition(halves(whole), whole.shape)
    array = composite.to_numpy()
    np.testing.assert_array_equal(array, whole)
    assert array.dtype == np.float32
    array[...] = 0
    np.testing.assert_array_equal(composite.to_numpy(), whole)


@given(st.data())
def test_any_grid_becomes_one_array(data):
    rank = data.draw(st.integers(1, 3))
    cuts = [sorted(data.draw(st.sets(st.integers(1, 4), max_size=2))) for _ in range(rank)]
    edges = [[0, *c, 5] for c in cuts]
    whole = np.random.default_rng(0).integers(-100, 100, (5,) * rank, dtype=np.int32)
    members = []
    for index in np.ndindex(*[len(e) - 1 for e in edges]):
        box = tuple(slice(e[i], e[i + 1]) for e, i in zip(edges, index, strict=True))
        offset = tuple(s.start for s in box)
        members.append(member(whole[box], whole.shape, offset, dtype=hurray.int32))
    order = data.draw(st.permutations(range(len(members))))
    composite = partition([members[i] for i in order], whole.shape, hurray.int32)
    np.testing.assert_array_equal(composite.to_numpy(), whole)


def test_partitions_nest():
    whole = floats(4, 4)
    upper = partition(
        halves(whole[:2]), (2, 4), shard=Shard((4, 4), (0, 0)), statistics=hurray.Statistics()
    )
    lower = Composite(
        "overlay",
        shape=(2, 4),
        dtype=hurray.float32,
        members=[member(np.zeros((2, 4), np.float32), (2, 4), role="base")],
        combine_op="replace",
        shard=Shard((4, 4), (2, 0)),
    )
    composite = partition([upper, lower], (4, 4))
    expected = whole.copy()
    expected[2:] = 0
    np.testing.assert_array_equal(composite.to_numpy(), expected)
    assert upper.shard == Shard((4, 4), (0, 0))


def test_members_of_every_layout():
    whole = floats(8, 8)
    parts = [whole[:4, :4], whole[:4, 4:], whole[4:, :4], whole[4:, 4:]]
    offsets = [(0, 0), (0, 4), (4, 0), (4, 4)]
    layouts = [ColMajorLayout(), TiledLayout((2, 2)), MortonLayout((2, 2)), CsrLayout(0)]
    members = [
        member(part, (8, 8), offset).to_layout(layout)
        for part, offset, layout in zip(parts, offsets, layouts, strict=True)
    ]
    np.testing.assert_array_equal(partition(members, (8, 8)).to_numpy(), whole)


def test_scalars_and_empty_wholes():
    scalar = partition([member(np.float32(3), ())], ())
    assert scalar.to_numpy()[()] == 3
    assert partition([], (0, 3)).to_numpy().shape == (0, 3)
    assert partition([member(floats(0, 3), (0, 3))], (0, 3)).to_numpy().size == 0


@pytest.mark.parametrize(
    ("dtype", "numpy_type"),
    [
        (hurray.bool, np.bool_),
        (hurray.complex64, np.complex64),
        (hurray.bfloat16, ml_dtypes.bfloat16),
        (hurray.dtype.float8_e4m3, ml_dtypes.float8_e4m3fn),
        (hurray.dtype.int4, ml_dtypes.int4),
        (hurray.dtype.float6_e2m3, ml_dtypes.float6_e2m3fn),
    ],
)
def test_the_array_has_the_type_of_the_head(dtype, numpy_type):
    whole = np.array([1, 0, 1, 1]).astype(numpy_type)
    stored = hurray.from_numpy(whole)
    part = Tensor(stored.buffer(0), dtype, (4,), shard=Shard((4,), (0,)))
    array = partition([part], (4,), dtype).to_numpy()
    assert array.dtype == numpy_type
    assert array.tobytes() == whole.tobytes()


# ---- one array: overlays ----


def resolved(op, base, *patches):
    """Base and (array, offset) corrections, by the spec's words."""
    result = base.copy()
    for patch, offset in patches:
        for index in np.ndindex(patch.shape):
            place = tuple(i + o for i, o in zip(index, offset, strict=True))
            result[place] = patch[index] if op == "replace" else result[place] + patch[index]
    return result


@pytest.mark.parametrize("op", ["replace", "add"])
def test_corrections_apply_in_order(op):
    base = floats(3, 4)
    patches = [(floats(2, 2, start=100), (0, 1)), (floats(2, 3, start=200), (1, 1))]
    members = [member(base, (3, 4), role="base")]
    members += [member(p, (3, 4), o, role="correction") for p, o in patches]
    composite = overlay(op, members, (3, 4))
    np.testing.assert_array_equal(composite.to_numpy(), resolved(op, base, *patches))


@pytest.mark.parametrize("op", ["replace", "add"])
@pytest.mark.parametrize("sparse", [CooLayout(0), CsrLayout(0), hurray.CscLayout(0)], ids=repr)
def test_sparse_corrections_touch_what_they_store(op, sparse):
    base = floats(3, 4) + 1
    patch = np.zeros((2, 3), np.float32)
    patch[0, 2], patch[1, 0] = 50, 60
    correction = member(patch, (3, 4), (1, 1), role="correction").to_layout(sparse)
    composite = overlay(op, [member(base, (3, 4), role="base"), correction], (3, 4))
    expected = base.copy()
    for index in [(1, 3), (2, 1)]:
        value = patch[index[0] - 1, index[1] - 1]
        expected[index] = value if op == "replace" else expected[index] + value
    np.testing.assert_array_equal(composite.to_numpy(), expected)


def test_an_explicit_zero_replaces():
    indices = np.array([[0], [2]], np.uint64)
    correction = Tensor(
        np.array([0, 9], np.float32),
        hurray.float32,
        (3,),
        aux_buffers=[indices],
        layout=CooLayout(2),
        shard=Shard((3,), (0,)),
        member_role="correction",
    )
    base = member(np.ones(3, np.float32), (3,), role="base")
    array = overlay("replace", [base, correction], (3,)).to_numpy()
    assert array.tolist() == [0, 1, 9]


def test_a_sparse_base_reads_zero_elsewhere():
    base = member(np.diag([1.0, 2.0]).astype("f4"), (2, 2), role="base").to_layout(CsrLayout(0))
    patch = member(floats(1, 2, start=5), (2, 2), (1, 0), role="correction")
    array = overlay("add", [base, patch], (2, 2)).to_numpy()
    assert array.tolist() == [[1, 0], [5, 8]]


def test_sums_are_in_the_type_of_the_head():
    base = member(np.array([250, 1], np.uint8), (2,), role="base", dtype=hurray.uint8)
    patch = member(np.array([10], np.uint8), (2,), role="correction", dtype=hurray.uint8)
    assert overlay("add", [base, patch], (2,), hurray.uint8).to_numpy().tolist() == [4, 1]
    half = np.float16
    base = member(np.array([2048], half), (1,), role="base", dtype=hurray.float16)
    patch = member(np.array([1], half), (1,), role="correction", dtype=hurray.float16)
    twice = overlay("add", [base, patch, patch], (1,), hurray.float16)
    assert twice.to_numpy().tolist() == [2048]


def quantized(**more):
    """A uint8 tensor [4] with scale 0.5 and zero point 3."""
    return Tensor(
        np.array([3, 5, 1, 255], np.uint8),
        hurray.uint8,
        (4,),
        quantization=hurray.PerTensorAffine(0.5, 3),
        shard=Shard((4,), (0,)),
        **more,
    )


@pytest.mark.parametrize(
    ("head", "numpy_type"),
    [
        (hurray.float16, np.float16),
        (hurray.bfloat16, ml_dtypes.bfloat16),
        (hurray.float32, np.float32),
        (hurray.float64, np.float64),
    ],
)
def test_a_quantized_base_is_dequantized_into_the_heads_type(head, numpy_type):
    patch = member(np.array([10], numpy_type), (4,), (1,), role="correction", dtype=head)
    composite = overlay("add", [quantized(member_role="base"), patch], (4,), head)
    array = composite.to_numpy()
    assert array.dtype == numpy_type
    assert array.astype(np.float32).tolist() == [0, 11, -1, 126]
    alone = partition([quantized()], (4,), head)
    assert alone.to_numpy().astype(np.float32).tolist() == [0, 1, -1, 126]


def test_quantized_members_go_with_no_other_head():
    with pytest.raises(InvalidDescriptorError, match="member 0"):
        partition([quantized()], (4,), hurray.uint8)


def test_quantized_with_padded_blocks():
    # 3 of a row are stored as 4, in blocks of 2 with a scale each
    stored = np.array([[1, 2, 3, 0], [4, 5, 6, 0]], np.int8)
    scales = np.array([[1, 10], [100, 1000]], np.float32)
    scheme = hurray.PerBlockAffine.symmetric(1, 2, 1, hurray.float32)
    part = Tensor(
        stored,
        hurray.int8,
        (2, 3),
        aux_buffers=[scales],
        quantization=scheme,
        shard=Shard((2, 3), (0, 0)),
    )
    array = partition([part], (2, 3)).to_numpy()
    assert array.tolist() == [[1, 2, 30], [400, 500, 6000]]


def test_broken_members_are_named():
    indices = np.array([[7]], np.uint64)
    broken = Tensor(
        np.ones(1, np.float32),
        hurray.float32,
        (3,),
        aux_buffers=[indices],
        layout=CooLayout(1),
        shard=Shard((3,), (0,)),
    )
    with pytest.raises(InvalidDescriptorError, match="7"):
        partition([broken], (3,)).to_numpy()
    staged = Tensor(bytes(12), hurray.float32, (3,), hurray.device.cuda, shard=Shard((3,), (0,)))
    with pytest.raises(UnsupportedError, match=r"members\[0\].*cuda"):
        partition([staged], (3,)).to_numpy()
    staged = Tensor(
        bytes(3),
        hurray.int8,
        (3,),
        hurray.device.cuda,
        quantization=hurray.PerTensorAffine(1.0, 0),
        shard=Shard((3,), (0,)),
    )
    with pytest.raises(UnsupportedError, match=r"members\[0\].*cuda"):
        partition([staged], (3,)).to_numpy()


def test_a_group_is_no_array():
    with pytest.raises(UnsupportedError, match="group"):
        group(member(floats(2))).to_numpy()
    inner = group(shard=Shard((2,), (0,)))
    rest = member(floats(1), (2,), (1,))
    with pytest.raises(UnsupportedError, match=r"members\[0\] is a group"):
        partition([inner, rest], (2,)).to_numpy()


# ---- leaks ----


def test_composites_leave_nothing_behind():
    members = halves(floats(2, 4))
    good, inner = partition(members, WHOLE), group(*members)
    patch = member(floats(2, 4), WHOLE, role="correction")
    both = overlay("add", [BASE, patch], WHOLE)

    def action():
        assert partition(members, WHOLE) == good
        group(inner, members[0]).descriptor.encode()
        with pytest.raises(InvalidDescriptorError):
            partition(members[:1], WHOLE)
        with pytest.raises(TypeError):
            group(members[0], 1)
        with pytest.raises(ValueError, match="union"):
            Composite("union", shape=(1,), dtype=hurray.float32, members=members)

    leaks.check(action, [*members, good, inner], repetitions=20_000)

    def resolve():
        both.to_numpy()
        pickle.loads(pickle.dumps(both))
        repr(both)

    leaks.check(resolve, [*both.members, both], repetitions=5_000)
