"""The constructor with all its arguments, sections, components of sparse tensors (spec 8.3)."""

from __future__ import annotations

import contextlib
import gc
import inspect
import operator
import struct

import leaks
import pytest
from manifest import MANIFEST, layout_of, read

import hurray
from hurray import (
    BlockPagedLayout,
    BufferError,
    CompositeLayout,
    CooLayout,
    CscLayout,
    CsfLayout,
    CsrLayout,
    Descriptor,
    Device,
    ExtensionType,
    HilbertLayout,
    InvalidDescriptorError,
    MortonLayout,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    PrivateExtensionLayout,
    Shard,
    Statistics,
    StridedLayout,
    Tensor,
    TiledLayout,
    UnknownLayout,
    UnsupportedError,
)

PRIVATE = hurray.Dtype.from_tag(0xF1)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


VALUES = struct.pack("<2f", 1.5, -2)


def coo(**more):
    aux = [u64(0, 1, 2, 3)]
    return Tensor(VALUES, hurray.float32, (4, 5), layout=CooLayout(2), aux_buffers=aux, **more)


def csr(**more):
    aux = [u64(3, 1), u64(0, 1, 2)]
    return Tensor(VALUES, hurray.float32, (2, 5), layout=CsrLayout(2), aux_buffers=aux, **more)


def csc(**more):
    aux = [u64(3, 1), u64(0, 1, 2)]
    return Tensor(VALUES, hurray.float32, (5, 2), layout=CscLayout(2), aux_buffers=aux, **more)


def csf(**more):
    aux = [u64(0, 1), u64(0), u64(0, 1), u64(1), u64(0, 2), u64(0, 2)]
    layout = CsfLayout(2, (2, 0, 1))
    return Tensor(VALUES, hurray.float32, (2, 3, 4), layout=layout, aux_buffers=aux, **more)


# ---- every valid descriptor, as a tensor ----


def tensor_vectors():
    entries = [e for e in MANIFEST["valid"] if e["descriptor"]["layout"]["name"] != "composite"]
    return [pytest.param(e["file"], id=e["file"]) for e in entries]


def parts_of(described):
    """All arguments but the buffers that make such a tensor."""
    names = ("layout", "quantization", "statistics", "shard", "extension_type", "member_role")
    return {name: getattr(described, name) for name in (*names, "byte_offset")}


def tensor_like(descriptor, buffers):
    return Tensor(
        buffers[0],
        descriptor.dtype,
        descriptor.shape,
        descriptor.device,
        aux_buffers=buffers[1:],
        **parts_of(descriptor),
    )


def zeros_for(descriptor):
    return [bytes(handle.byte_size) for handle in descriptor.buffer_handles]


@pytest.mark.parametrize("file", tensor_vectors())
def test_a_tensor_rebuilt_from_its_parts_has_an_equal_descriptor(file):
    descriptor = Descriptor.decode(read(file))
    buffers = zeros_for(descriptor)
    statistics = descriptor.statistics
    if statistics is not None and statistics.sparsity_ratio == 7.5:
        with pytest.raises(InvalidDescriptorError, match="sparsity_ratio"):
            tensor_like(descriptor, buffers)
        return
    t = tensor_like(descriptor, buffers)
    again = tensor_like(t, buffers)
    assert again.descriptor == t.descriptor
    assert parts_of(t) == parts_of(descriptor) == parts_of(t.descriptor)
    assert t.nbytes == descriptor.nbytes
    assert len(t.buffer_handles) == len(buffers) == t.buffer_count
    # What our buffers promise of themselves aside, it is the descriptor that was read.
    if t.buffer_handles == descriptor.buffer_handles:
        assert t.descriptor == descriptor
        assert t.descriptor.encode() == read(file)
    if t.device == hurray.device.cpu:
        from_views = [t.buffer(i) for i in range(t.buffer_count)]
        assert tensor_like(t, from_views).descriptor == t.descriptor


@pytest.mark.parametrize("file", tensor_vectors())
def test_buffers_one_byte_short_or_long(file):
    descriptor = Descriptor.decode(read(file))
    buffers = zeros_for(descriptor)
    if descriptor.statistics is not None or None in descriptor.shape:
        return
    own = descriptor.layout.buffer_count
    for i, whole in enumerate(buffers):
        longer = [*buffers[:i], whole + b"\0", *buffers[i + 1 :]]
        if i >= own:
            with pytest.raises(BufferError, match=f"buffer {i} .* exactly {len(whole)}"):
                tensor_like(descriptor, longer)
        else:
            assert tensor_like(descriptor, longer).buffer_handles[i].byte_size == len(whole) + 1
        if whole == b"":
            continue
        shorter = [*buffers[:i], whole[:-1], *buffers[i + 1 :]]
        with contextlib.suppress(BufferError):  # where the vector's buffer is larger than needed
            tensor_like(descriptor, shorter)
            assert i < own


# ---- arguments and buffers ----


def test_the_signature_is_shown():
    parameters = inspect.signature(Tensor).parameters
    assert list(parameters) == [
        *("buffer", "dtype", "shape", "device", "aux_buffers", "layout", "quantization"),
        *("statistics", "shard", "extension_type", "member_role", "byte_offset"),
    ]
    for i, parameter in enumerate(parameters.values()):
        keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert keyword_only is (i >= 4)
        assert (parameter.default is inspect.Parameter.empty) is (i < 3)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_buffer_is_copied_into_aligned_memory_of_its_own(kind):
    np = pytest.importorskip("numpy")
    sources = [VALUES, u64(3, 1), u64(0, 1, 2)]
    given = [bytearray(source) for source in sources]
    aux = [kind(source) for source in given[1:]]
    data = kind(given[0])
    t = Tensor(data, hurray.float32, (2, 5), layout=CsrLayout(2), aux_buffers=aux)
    for i, source in enumerate(sources):
        view = t.buffer(i).to_numpy()
        assert view.ctypes.data % 64 == 0
        given[i][:] = bytes(len(source))
        assert view.tobytes() == source
        assert not np.shares_memory(view, np.frombuffer(given[i], np.uint8))
    del data, aux
    for source in given:
        source.extend(bytes(10_000))  # not held, so that it can move
    assert t.col_indices.to_numpy().tolist() == [3, 1]
    assert not t.readonly


def test_every_buffer_has_its_bytes():
    t = csr()
    sources = [VALUES, u64(3, 1), u64(0, 1, 2)]
    for i, source in enumerate(sources):
        for view in (t.buffer(i), t.buffer(i - 3)):
            assert (view.dtype, view.shape) == (hurray.uint8, (len(source),))
            assert bytes(view) == source
    for index in (3, -4):
        with pytest.raises(IndexError, match="3 buffers"):
            t.buffer(index)


# ---- tiers of checks ----

ROLES = [
    (coo, 0, "values", 8),
    (coo, 1, "indices", 32),
    (csr, 0, "values", 8),
    (csr, 1, "col_indices", 16),
    (csr, 2, "row_ptr", 24),
    (csc, 1, "row_indices", 16),
    (csc, 2, "col_ptr", 24),
    (csf, 0, "values", 8),
    (csf, 1, "pos_0", 16),
    (csf, 6, "crd_2", 16),
]


@pytest.mark.parametrize(("make", "index", "role", "size"), ROLES)
def test_a_short_buffer_is_named(make, index, role, size):
    t = make()
    buffers = [memoryview(t.buffer(i)) for i in range(t.buffer_count)]
    assert len(buffers[index]) == size
    buffers[index] = buffers[index][:-1]
    message = f"buffer {index} \\({role}\\) has {size - 1} bytes; .* need {size}$"
    with pytest.raises(BufferError, match=message):
        tensor_like(t, buffers)


PAGED = BlockPagedLayout(4, 5, 0, 2)
PAGED_BUFFERS = [bytes(160), bytes(8), bytes(12)]


def test_short_buffers_of_paged_and_quantized_tensors():
    def make(*buffers, **more):
        aux = buffers[1:]
        return Tensor(buffers[0], hurray.int8, (9, 2, 4), layout=PAGED, aux_buffers=aux, **more)

    make(*PAGED_BUFFERS)
    with pytest.raises(BufferError, match=r"page_pool.*159.*160"):
        make(bytes(159), *PAGED_BUFFERS[1:])
    with pytest.raises(BufferError, match=r"seq_ptr.*11.*12"):
        make(*PAGED_BUFFERS[:2], bytes(11))
    scheme = PerBlockAffine.asymmetric(0, 4, 3, 4, hurray.float16)
    make(*PAGED_BUFFERS, bytes(40), bytes(80), quantization=scheme)
    with pytest.raises(BufferError, match=r"buffer 3 \(scales\) has 39 .* exactly 40"):
        make(*PAGED_BUFFERS, bytes(39), bytes(80), quantization=scheme)
    with pytest.raises(BufferError, match=r"buffer 4 \(zero points\) has 81 .* exactly 80"):
        make(*PAGED_BUFFERS, bytes(40), bytes(81), quantization=scheme)
    shared = PerBlockAffine.asymmetric(0, 4, 3, 3, hurray.float16)
    make(*PAGED_BUFFERS, bytes(120), quantization=shared)
    with pytest.raises(BufferError, match=r"scales and zero points.*119.*120"):
        make(*PAGED_BUFFERS, bytes(119), quantization=shared)


def dense(**more):
    more = {"dtype": hurray.int8, "shape": (4, 2), "buffer": bytes(8), **more}
    return Tensor(more.pop("buffer"), more.pop("dtype"), more.pop("shape"), **more)


def quantized(scheme, *aux, **more):
    return dense(quantization=scheme, aux_buffers=aux, **more)


STRUCTURE = [
    # shape against layout
    (lambda: dense(layout=CsrLayout(0), shape=(8,)), "rank 1"),
    (lambda: dense(layout=CsfLayout(0, (0, 1, 2))), "3 dimensions; the shape has 2"),
    (lambda: dense(layout=StridedLayout(())), "0 dimensions; the shape has 2"),
    (lambda: dense(layout=StridedLayout((1,))), "1 dimensions"),
    (lambda: dense(layout=TiledLayout((2, 2, 2))), "3 dimensions"),
    (lambda: dense(layout=MortonLayout((1, 1))), "morton_bits"),
    (lambda: dense(layout=HilbertLayout(1, 2)), "extent 4"),
    (lambda: dense(layout=BlockPagedLayout(4, 5, 1, 2), shape=(1, 1, 1)), "paged_axis"),
    (lambda: dense(layout=CooLayout(2**62), aux_buffers=[b""]), "nnz"),
    (lambda: dense(layout=CsrLayout(2**64 - 1), aux_buffers=[b"", b""]), "nnz"),
    (lambda: dense(layout=CooLayout(1), aux_buffers=[bytes(16)], byte_offset=1), "byte_offset 1"),
    (lambda: dense(shape=(2**33, 2**33)), "2\\^64"),
    (lambda: dense(byte_offset=-1), "byte_offset is -1"),
    # the number of buffers
    (lambda: dense(aux_buffers=[b""]), "buffer count 2"),
    (lambda: dense(layout=CooLayout(0)), "buffer count 1"),
    (lambda: dense(layout=CooLayout(0), aux_buffers=[b"", b""]), "buffer count 3"),
    (lambda: dense(layout=CsrLayout(0), aux_buffers=[bytes(40)]), "buffer count 2"),
    (lambda: quantized(PerChannelAffine.symmetric(0, 1)), "buffer count 1"),
    (lambda: quantized(PerTensorAffine(1, 0), bytes(4)), "buffer count 2"),
    (lambda: dense(aux_buffers=[b""] * 255), "255"),
    # schemes
    (lambda: quantized(PerChannelAffine.symmetric(0, 0), bytes(16)), "scale_buffer 0"),
    (lambda: quantized(PerChannelAffine.symmetric(0, 2), bytes(16)), "scale_buffer 2"),
    (lambda: quantized(PerChannelAffine.symmetric(2, 1), bytes(16)), "axis 2"),
    (
        lambda: quantized(PerChannelAffine.asymmetric(0, 1, 0), bytes(16), bytes(16)),
        "zero_point_buffer 0",
    ),
    (
        lambda: quantized(PerChannelAffine.symmetric(0, 1), bytes(16), dtype=hurray.float32),
        "stored type",
    ),
    (
        lambda: quantized(PerChannelAffine.symmetric(0, 1), bytes(16), shape=(None, 2)),
        "axis 0 is dynamic",
    ),
    (lambda: quantized(PerTensorAffine(1, 128)), "zero_point 128"),
    (
        lambda: quantized(PerBlockAffine.symmetric(0, 8, 1, hurray.float32), bytes(8)),
        "block_size 8",
    ),
    (lambda: quantized(hurray.NF4(0, 8, 1), bytes(4)), "stored type"),
    (lambda: quantized(hurray.MXFP(0, 16, 1), bytes(4)), "extent 4"),
    # sections
    (lambda: dense(shard=Shard((8,), (0,))), "1 dimensions; the tensor's shape has 2"),
    (lambda: dense(shard=Shard((8, 2), (5, 0))), "shard_offset 5"),
    (lambda: dense(shape=(None, 2), shard=Shard((8, 2), (0, 0))), "dynamic"),
    (lambda: csf(shard=Shard((2, 3, 4), (0, 0, 0))), "shard"),
    (lambda: coo(statistics=Statistics(nnz=3)), "nnz is 3; expected that of the layout, 2"),
    (lambda: dense(dtype=PRIVATE), "must describe itself"),
    (lambda: dense(extension_type=ExtensionType(bit_width=8)), "not a private extension"),
    (
        lambda: Tensor(b"", hurray.int8, (0,), Device(0xF0, memory_class=0xF1), aux_buffers=[b""]),
        "buffer count",
    ),
]


@pytest.mark.parametrize(("make", "message"), STRUCTURE)
def test_structures_that_no_buffers_could_make_right(make, message):
    with pytest.raises(InvalidDescriptorError, match=message):
        make()


def test_the_structure_comes_before_the_bytes():
    with pytest.raises(InvalidDescriptorError, match="buffer count"):
        Tensor(b"", hurray.float32, (4, 5), layout=CooLayout(2))
    with pytest.raises(InvalidDescriptorError, match="axis 2"):
        quantized(PerChannelAffine.symmetric(2, 1), b"", buffer=b"")
    with pytest.raises(InvalidDescriptorError, match="nnz is 3"):
        Tensor(
            b"",
            hurray.float32,
            (4, 5),
            layout=CooLayout(2),
            aux_buffers=[b""],
            statistics=Statistics(nnz=3),
        )
    # Among the structure: the shape, then the number of buffers, then the scheme.
    scheme = PerChannelAffine.symmetric(7, 9)
    with pytest.raises(InvalidDescriptorError, match="rank 1"):
        dense(layout=CsrLayout(0), shape=(8,), quantization=scheme)
    with pytest.raises(InvalidDescriptorError, match="buffer count"):
        dense(quantization=scheme)
    with pytest.raises(InvalidDescriptorError, match="axis 7"):
        dense(quantization=scheme, aux_buffers=[b""])


def test_buffers_are_checked_in_their_order():
    with pytest.raises(BufferError, match="buffer 0"):
        Tensor(b"", hurray.float32, (4, 5), layout=CooLayout(2), aux_buffers=[b""])


def test_a_byte_offset_past_the_end():
    with pytest.raises(BufferError, match=r"needs? 9|need 9"):
        dense(byte_offset=1)
    with pytest.raises(BufferError, match="byte_offset 9"):
        dense(layout=PrivateExtensionLayout(0xF0, 0), byte_offset=9)
    assert dense(layout=PrivateExtensionLayout(0xF0, 0), byte_offset=8).byte_offset == 8


TYPES = [
    ({"layout": "coo"}, "hurray.Layout"),
    ({"layout": CooLayout}, "hurray.Layout"),
    ({"quantization": 3}, "quantization"),
    ({"quantization": b"\1\1"}, "quantization"),
    ({"statistics": {"nnz": 3}}, "hurray.Statistics"),
    ({"shard": ((8,), (0,))}, "hurray.Shard"),
    ({"extension_type": 8, "dtype": PRIVATE}, "hurray.ExtensionType"),
    ({"member_role": 1}, "member_role"),
    ({"aux_buffers": bytes(8)}, "aux_buffers"),
    ({"aux_buffers": memoryview(bytes(8))}, "aux_buffers"),
    ({"aux_buffers": "text"}, "aux_buffers"),
    ({"aux_buffers": 3}, "aux_buffers"),
    ({"aux_buffers": {b""}}, "aux_buffers"),
    ({"aux_buffers": [b"", 3]}, "aux_buffers\\[1\\]"),
    ({"buffer": [1, 2]}, "buffer"),
    ({"byte_offset": 1.0}, "byte_offset"),
    ({"sync_mode": "event"}, "sync_mode"),
    ({"alignment": 64}, "alignment"),
]


@pytest.mark.parametrize(("arguments", "message"), TYPES)
def test_arguments_of_another_type(arguments, message):
    with pytest.raises(TypeError, match=message):
        dense(**arguments)


def test_roles_are_words():
    for role in ("base", "correction", None):
        assert dense(member_role=role).member_role == role
        assert dense(member_role=role).descriptor.member_role == role
    with pytest.raises(ValueError, match="'correction', 'base'"):
        dense(member_role="overlay")


def test_none_means_the_default():
    names = ["aux_buffers", "layout", "quantization", "statistics", "shard", "extension_type"]
    t = Tensor(bytes(8), hurray.int8, (4, 2), None, **dict.fromkeys(names), byte_offset=None)
    assert t.descriptor == dense().descriptor


def test_layouts_that_a_tensor_cannot_have():
    with pytest.raises(UnsupportedError, match=r"hurray.Composite"):
        dense(layout=CompositeLayout("group", 2))
    with pytest.raises(UnsupportedError, match="unknown layout"):
        dense(layout=UnknownLayout(0x20, b"raw"))


def test_private_types_and_layouts():
    section = ExtensionType(bit_width=24, is_signed=True)
    t = Tensor(bytes(12), PRIVATE, (4,), extension_type=section)
    assert t.dtype is PRIVATE
    assert t.extension_type == section == t.descriptor.extension_type
    assert t.nbytes == 12
    with pytest.raises(BufferError, match=r"11 bytes.*need 12"):
        Tensor(bytes(11), PRIVATE, (4,), extension_type=section)
    layout = PrivateExtensionLayout(0xF3, 1, b"abc")
    t = dense(layout=layout, aux_buffers=[b"any", b"number"])
    assert (t.layout, t.buffer_count, t.nbytes) == (layout, 3, 17)


def test_the_layout_is_a_new_equal_object_each_time():
    t = coo()
    assert t.layout == t.layout == CooLayout(2)
    assert t.layout is not t.layout
    with pytest.raises(AttributeError):
        t.layout = CooLayout(2)


# ---- devices ----


def test_a_declared_device_is_that_of_all_buffers():
    device = Device("cuda", 1, "unified")
    aux = [u64(0, 1, 2, 3)]
    t = Tensor(VALUES, hurray.float32, (4, 5), device, layout=CooLayout(2), aux_buffers=aux)
    assert all(handle.device is t.device for handle in t.buffer_handles)
    assert t.device == device
    assert t.values.device == device
    with pytest.raises(UnsupportedError, match="cuda"):
        t.values.to_numpy()
    assert repr(t) == "hurray.Tensor(layout='coo', shape=(4, 5), nnz=2, dtype=float32)"


# ---- components ----

COMPONENTS = {"nnz", "values", "indices", "col_indices", "row_ptr", "row_indices", "col_ptr"}
PRESENT = [
    (coo, {"nnz", "values", "indices"}),
    (csr, {"nnz", "values", "col_indices", "row_ptr"}),
    (csc, {"nnz", "values", "row_indices", "col_ptr"}),
    (csf, {"nnz", "values"}),
    (dense, set()),
    (lambda: dense(layout=PrivateExtensionLayout(0xF0, 0)), set()),
]


@pytest.mark.parametrize(("make", "present"), PRESENT)
def test_hasattr_tells_the_truth(make, present):
    t = make()
    assert {name for name in COMPONENTS if hasattr(t, name)} == present
    for name in COMPONENTS - present:
        with pytest.raises(AttributeError, match=f"'{name}'"):
            getattr(t, name)
    assert not hasattr(t, "strides") or present == set()


@pytest.mark.parametrize(("make", "present"), PRESENT)
def test_dir_names_what_hasattr_finds(make, present):
    t = make()
    assert COMPONENTS & {*dir(t)} == present
    public = [name for name in dir(Tensor) if not name.startswith("__") or "array" in name]
    assert {n for n in dir(t) if n in public} == {n for n in public if n == "T" or hasattr(t, n)}
    assert dir(t) == sorted({*dir(t)})


def test_dir_tells_of_strides():
    assert "strides" in dir(dense())
    assert "strides" not in dir(dense(layout=TiledLayout((2, 2))))
    assert "T" in dir(dense(shape=(8,)))  # which raises ValueError, not AttributeError


def test_components_are_views():
    np = pytest.importorskip("numpy")
    t = coo()
    assert t.nnz == 2
    assert (t.values.dtype, t.values.shape) == (hurray.float32, (2,))
    assert (t.indices.dtype, t.indices.shape) == (hurray.uint64, (2, 2))
    assert t.indices.to_numpy().tolist() == [[0, 1], [2, 3]]
    t.values.to_numpy()[0] = 7
    assert t.values.to_numpy().tolist() == [7, -2]
    assert np.shares_memory(t.values.to_numpy(), t.buffer(0).to_numpy())
    rows = csr()
    assert rows.col_indices.to_numpy().tolist() == [3, 1]
    assert rows.row_ptr.to_numpy().tolist() == [0, 1, 2]
    columns = csc()
    assert columns.row_indices.to_numpy().tolist() == [3, 1]
    assert columns.col_ptr.to_numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize(("make", "present"), PRESENT[:4])
def test_components_outlive_their_tensor(make, present):
    pytest.importorskip("numpy")
    t = make()
    views = {name: getattr(t, name) for name in present - {"nnz"}}
    before = {name: view.to_numpy().tolist() for name, view in views.items()}
    del t
    gc.collect()
    assert {name: view.to_numpy().tolist() for name, view in views.items()} == before


def test_components_of_quantized_packed_private_and_dynamic_tensors():
    np = pytest.importorskip("numpy")
    aux = [u64(0, 1, 2)]
    t = Tensor(
        b"\x21\x0f",
        hurray.dtype.int4,
        (None,),
        layout=CooLayout(3),
        aux_buffers=aux,
        quantization=PerTensorAffine(1, 0),
    )
    assert t.values.quantization is None
    assert t.values.dtype is hurray.dtype.int4
    assert np.asarray(t.values._unpacked()).view(np.int8).tolist() == [1, 2, -1]
    section = ExtensionType(bit_width=16)
    t = Tensor(
        bytes(6), PRIVATE, (9,), layout=CooLayout(3), aux_buffers=aux, extension_type=section
    )
    assert (t.values.dtype, t.values.extension_type) == (PRIVATE, section)
    t = Tensor(b"", hurray.int8, (None, 3), layout=CsrLayout(0), aux_buffers=[b"", u64(0, 0, 0)])
    assert t.row_ptr.shape == (3,)


def test_tensors_without_values():
    t = Tensor(b"", hurray.float32, (0, 0), layout=CooLayout(0), aux_buffers=[b""])
    assert (t.nnz, t.values.shape, t.indices.shape) == (0, (0,), (0, 2))
    t = Tensor(b"", hurray.float32, (3, 0), layout=CsrLayout(0), aux_buffers=[b"", bytes(32)])
    assert t.row_ptr.shape == (4,)


def test_bytes_of_all_buffers():
    assert coo().nbytes == coo().descriptor.nbytes == 40
    assert csf().nbytes == 8 + 2 * 8 + 8 + 2 * 8 + 8 + 2 * 8 + 2 * 8
    assert quantized(PerChannelAffine.symmetric(0, 1), bytes(16)).nbytes == 24
    assert dense(buffer=bytes(100)).nbytes == 8
    assert Tensor(bytes(64), hurray.int8, (3, 3), layout=TiledLayout((4, 4))).nbytes == 9


# ---- what is shown ----


def test_reprs_of_sparse_tensors():
    assert repr(coo()) == "hurray.Tensor(layout='coo', shape=(4, 5), nnz=2, dtype=float32)"
    assert repr(csf()) == "hurray.Tensor(layout='csf', shape=(2, 3, 4), nnz=2, dtype=float32)"
    assert str(csr()) == repr(csr())


def test_content_of_sparse_tensors():
    pytest.importorskip("numpy")
    with hurray.print_options(sparse_display="content"):
        assert repr(csr()) == (
            "hurray.Tensor(layout='csr', shape=(2, 5), nnz=2, dtype=float32, "
            "col_indices=[3, 1], row_ptr=[0, 1, 2], values=[ 1.5, -2. ])"
        )
        lines = repr(coo()).split("\n")
        assert lines[0].endswith("indices=[[0, 1],")
        assert lines[1].endswith("[2, 3]], values=[ 1.5, -2. ])")
        nnz = 5000
        t = Tensor(
            bytes(nnz), hurray.int8, (nnz,), layout=CooLayout(nnz), aux_buffers=[bytes(8 * nnz)]
        )
        assert "..." in repr(t) and len(repr(t)) < 500
        aux = [u64(0, 1, 2, 3)]
        t = Tensor(
            VALUES,
            hurray.float32,
            (4, 5),
            hurray.device.cuda,
            layout=CooLayout(2),
            aux_buffers=aux,
        )
        assert repr(t) == "hurray.Tensor(layout='coo', shape=(4, 5), nnz=2, dtype=float32)"


@pytest.mark.parametrize("file", tensor_vectors())
def test_no_repr_has_a_newline_but_between_rows(file):
    descriptor = Descriptor.decode(read(file))
    assert "\n" not in repr(descriptor)
    assert "\n" not in repr(descriptor.layout) + repr(descriptor.quantization)
    if descriptor.statistics is not None:
        return
    t = tensor_like(descriptor, zeros_for(descriptor))
    rows = ("],", "...,")
    assert all(line.endswith(rows) or line == "" for line in repr(t).split("\n")[:-1])


# ---- leaks ----


def test_nothing_is_left_behind():
    files = [
        e["file"]
        for e in MANIFEST["valid"]
        if e["descriptor"]["layout"]["name"] not in ("composite", "tiled")
        and "statistics" not in e["descriptor"]
    ][::8]
    descriptors = [Descriptor.decode(read(file)) for file in files]
    whole = [(d, zeros_for(d)) for d in descriptors if sum(map(len, zeros_for(d))) < 10_000]

    def action():
        for descriptor, buffers in whole:
            t = tensor_like(descriptor, buffers)
            parts_of(t), t.nbytes, repr(t), t.descriptor
            for name in COMPONENTS:
                getattr(t, name, None)
        for make, _ in STRUCTURE[::4]:
            with pytest.raises(InvalidDescriptorError):
                make()
        with pytest.raises(BufferError):
            dense(buffer=b"")

    leaks.check(action, [hurray.device.cpu, hurray.int8, Tensor], repetitions=300)


def test_every_layout_has_a_vector():
    names = map(operator.itemgetter("name"), (e["descriptor"]["layout"] for e in MANIFEST["valid"]))
    assert {*names} == {layout_of(e["descriptor"]).name for e in MANIFEST["valid"]}
    assert len({e["descriptor"]["layout"]["name"] for e in MANIFEST["valid"]}) == 12
