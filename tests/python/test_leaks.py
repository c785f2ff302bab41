"""Every construction, hand-over and refusal, 10^5 times: references, blocks and bytes stay.

What takes longer than 20 microseconds is done 10^4 times, which the detector is more than fine
enough for: it notices one byte in 300 repetitions.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import importlib.util
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import leaks
import numpy as np
import pytest
from capsule_abi import KINDS
from dlpack_abi import aligned
from scipy import sparse

import hurray
from hurray import (
    MXFP,
    NF4,
    BlockPagedLayout,
    ColMajorLayout,
    Composite,
    CompositeLayout,
    CooLayout,
    CscLayout,
    CsfLayout,
    CsrLayout,
    Descriptor,
    Device,
    ExtensionType,
    HilbertLayout,
    MortonLayout,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    PrivateExtensionLayout,
    RowMajorLayout,
    Shard,
    Statistics,
    StridedLayout,
    Tensor,
    TiledLayout,
    UnknownLayout,
    float32,
)

FAST, SLOW, SLOWEST = 100_000, 10_000, 1_000
SANITIZED = 100


@pytest.fixture(autouse=True, scope="module")
def only_ours_is_collected() -> Iterator[None]:
    """Collections need not look at all that the libraries imported so far have made."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


# ---- the detector ----


def leak_a_byte() -> None:
    ctypes.pythonapi.PyMem_RawMalloc(ctypes.c_size_t(1))


def leak_a_block() -> None:
    ctypes.pythonapi.PyMem_Malloc(ctypes.c_size_t(1))


def leak_a_reference() -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(ARRAY))


def leak_a_tensor() -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(hurray.zeros([1])))


@pytest.mark.parametrize("leak", [leak_a_byte, leak_a_block, leak_a_reference, leak_a_tensor])
@pytest.mark.skipif(leaks.heap_bytes is None, reason="nobody counts the bytes of this C heap")
def test_the_detector_notices(leak):
    with pytest.raises(AssertionError, match="left behind"):
        leaks.check(leak, [ARRAY], repetitions=300, sanitized=50_000)


def test_the_detector_lets_pass_what_is_freed():
    def action() -> None:
        pointer = ctypes.pythonapi.PyMem_RawMalloc(ctypes.c_size_t(1))
        ctypes.pythonapi.PyMem_RawFree(ctypes.c_void_p(pointer))
        [None] * 100

    ctypes.pythonapi.PyMem_RawMalloc.restype = ctypes.c_void_p
    leaks.check(action, [None], repetitions=300, sanitized=300)


# ---- what there is to work with ----

ARRAY = aligned((4, 6))
ARRAY[...] = np.arange(24).reshape(4, 6)
MISALIGNED = aligned((4, 6), off_by=4)
FLAGS = aligned((16,), np.bool_)
DENSE = hurray.from_numpy(ARRAY, copy=False)
BITS = hurray.from_numpy(FLAGS)
ENCODED = DENSE.descriptor.encode()
BYTES = bytes(96)
SQUARE = hurray.zeros([4, 4], dtype=float32)
INDICES = aligned((3, 2), np.uint64)
INDICES[...] = [[0, 1], [2, 0], [3, 5]]
VALUES = aligned((3,))
SPARSE = hurray.sparse_coo(VALUES, INDICES, (4, 6))
CSR = sparse.csr_array(np.eye(4, dtype=np.float32))
CSC = sparse.csc_array(np.eye(4, dtype=np.float32))
COO = sparse.coo_array(np.eye(4, dtype=np.float32))
NESTED = [[1.0, 2.0], [3.0, 4.0]]
HALVES = [Tensor(bytes(8), hurray.int8, (8,), shard=Shard((16,), (at,))) for at in (0, 8)]
WHOLE = Composite("partition", shape=(16,), dtype=hurray.int8, members=HALVES)
STATISTICS = Statistics(nnz=3, sparsity_ratio=0.25)
EXTENSION = ExtensionType(bit_width=24)
CUDA = hurray.device.cuda
CONSUMED = DENSE.__dlpack__()
hurray.from_dlpack(CONSUMED)
ON_CUDA = Tensor(BYTES, float32, (4, 6), CUDA)

# Whose references are counted: arguments, types, singletons.
WATCHED = [
    *(ARRAY, MISALIGNED, FLAGS, DENSE, BITS, ENCODED, BYTES, SQUARE, INDICES, VALUES, SPARSE),
    *(CSR, CSC, COO, NESTED, HALVES, *HALVES, WHOLE, STATISTICS, EXTENSION, CONSUMED, ON_CUDA),
    *(Tensor, Descriptor, Composite, Device, Statistics, Shard, ExtensionType, hurray.Layout),
    *(float32, hurray.int8, hurray.bool, hurray.device.cpu, CUDA, None, True),
]


class Producer:
    """Knows Python's side of DLPack only, and no newer than `versions`."""

    def __init__(self, exporter: Any, *, legacy: bool = False) -> None:
        self.exporter, self.legacy = exporter, legacy

    def __dlpack__(self, **kwargs: Any) -> Any:
        if not self.legacy:
            return self.exporter.__dlpack__(**kwargs)
        if kwargs.get("max_version") is not None:
            raise TypeError("max_version")
        return self.exporter.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OnlyInterface:
    def __init__(self, array: Any) -> None:
        # Without strides, which are None: NumPy loses a reference to None each time.
        interface = array.__array_interface__
        self.__array_interface__ = {
            name: interface[name] for name in interface if name != "strides"
        }
        self.array = array


class NativeProducer:
    def __hurray__(self, stream: Any = None) -> Any:
        return DENSE.__hurray__()


MODERN, LEGACY = Producer(ARRAY), Producer(ARRAY, legacy=True)
INTERFACE, NATIVE = OnlyInterface(ARRAY), NativeProducer()

# Action, and how often where that is not FAST.
Case = tuple[Callable[[], object], int]


def cases(**table: Any) -> list[Any]:
    """Parameters of a test, by name."""
    pairs = [
        (name, value if isinstance(value, tuple) else (value, FAST))
        for name, value in table.items()
    ]
    return [pytest.param(*value, id=name) for name, value in pairs]


def check(action: Callable[[], object], repetitions: int) -> None:
    leaks.check(action, WATCHED, repetitions=repetitions, sanitized=min(repetitions, SANITIZED))


# ---- constructions ----

VALUE_OBJECTS = cases(
    row_major=RowMajorLayout,
    col_major=ColMajorLayout,
    strided=lambda: StridedLayout((-6, 1)),
    tiled=lambda: TiledLayout((2, 3), "col_major"),
    tiled_strided=lambda: TiledLayout((2, 2), "strided", "strided", (1, 2), (2, 1)),
    tiled_twice=lambda: TiledLayout((4, 4), inner_layout="tiled", inner_tiled=TiledLayout((2, 2))),
    morton=lambda: MortonLayout([2, 1]),
    hilbert=lambda: HilbertLayout(3, 2),
    coo=lambda: CooLayout(2, True),
    csr=lambda: CsrLayout(2),
    csc=lambda: CscLayout(2),
    csf=lambda: CsfLayout(2, (2, 0, 1)),
    block_paged=lambda: BlockPagedLayout(4, 5, 0, 2),
    composite=lambda: CompositeLayout("overlay", 2, "add"),
    private=lambda: PrivateExtensionLayout(0xF0, 7, b"abc"),
    unknown=lambda: UnknownLayout(0x30, b"abcd"),
    per_tensor=lambda: PerTensorAffine(0.5, 1),
    per_channel=lambda: PerChannelAffine.symmetric(1, 2),
    per_channel_asymmetric=lambda: PerChannelAffine.asymmetric(1, 2, 3),
    per_block=lambda: PerBlockAffine.symmetric(0, 32, 1, hurray.bfloat16),
    per_block_asymmetric=lambda: PerBlockAffine.asymmetric(0, 32, 1, 2, hurray.float16),
    nf4=lambda: NF4(0, 64, 1),
    mxfp=lambda: MXFP(0, 32, 1),
    decode_quantization=lambda: hurray.decode_quantization(PerTensorAffine(0.5, 1).encode()),
    statistics=lambda: Statistics(nnz=3, sparsity_ratio=0.25, nm_n=2, nm_m=4),
    statistics_compute=(lambda: Statistics.compute(DENSE), SLOW),
    shard=lambda: Shard((8, 8), [0, 4]),
    extension_type=lambda: ExtensionType(bit_width=24, is_signed=True),
    device=lambda: Device("cuda", 3, "unified"),
    dtype=lambda: (hurray.Dtype.from_name("bfloat16"), hurray.Dtype.from_tag(2)),
    descriptor=lambda: Descriptor.decode(ENCODED),
    buffer_handles=lambda: DENSE.buffer_handles,
    buffer_size=lambda: hurray.buffer_size_bytes(float32, 100),
    equal=lambda: (DENSE.layout == DENSE.layout, DENSE.descriptor == DENSE.descriptor),
    hash=lambda: (hash(StridedLayout((1, 2))), hash(Device("cuda"))),
    repr=lambda: (repr(StridedLayout((1, 2))), repr(Shard((2,), (0,))), repr(Device("cuda"))),
    pickle=(lambda: pickle.loads(pickle.dumps([STATISTICS, EXTENSION, CUDA, float32])), SLOW),
    copies=(lambda: copy.deepcopy([STATISTICS, CUDA, float32, DENSE.layout]), SLOW),
)

TENSORS = cases(
    tensor=lambda: Tensor(BYTES, float32, (4, 6)),
    tensor_col_major=lambda: Tensor(BYTES, float32, (4, 6), layout=ColMajorLayout()),
    tensor_strided=lambda: Tensor(BYTES, float32, (4, 3), layout=StridedLayout((6, 2))),
    tensor_tiled=lambda: Tensor(BYTES, float32, (4, 6), layout=TiledLayout((2, 3))),
    tensor_morton=lambda: Tensor(BYTES, float32, (4, 4), layout=MortonLayout((2, 2))),
    tensor_hilbert=lambda: Tensor(BYTES, float32, (4, 4), layout=HilbertLayout(2, 2)),
    tensor_coo=lambda: Tensor(
        bytes(12), float32, (4, 6), layout=CooLayout(3), aux_buffers=[bytes(48)]
    ),
    tensor_csr=lambda: Tensor(
        bytes(12), float32, (4, 6), layout=CsrLayout(3), aux_buffers=[bytes(24), bytes(40)]
    ),
    tensor_elsewhere=lambda: Tensor(BYTES, float32, (4, 6), CUDA),
    tensor_dynamic=lambda: Tensor(BYTES, float32, (None, 6)),
    tensor_quantized=lambda: Tensor(
        bytes(24), hurray.int8, (4, 6), quantization=PerTensorAffine(0.5, 1)
    ),
    tensor_per_channel=lambda: Tensor(
        bytes(24),
        hurray.int8,
        (4, 6),
        aux_buffers=[bytes(16)],
        quantization=PerChannelAffine.symmetric(0, 1),
    ),
    tensor_sections=lambda: Tensor(
        BYTES,
        float32,
        (4, 6),
        statistics=STATISTICS,
        shard=Shard((8, 6), (4, 0)),
        member_role="base",
        byte_offset=0,
    ),
    tensor_private=lambda: Tensor(
        BYTES, hurray.Dtype.from_tag(0xF0), (4, 6), extension_type=EXTENSION
    ),
    composite=lambda: Composite("partition", shape=(16,), dtype=hurray.int8, members=HALVES),
    group=lambda: Composite("group", shape=(1,), dtype=float32, members=[DENSE, WHOLE]),
    zeros=lambda: hurray.zeros((4, 6)),
    ones=lambda: hurray.ones((4, 6), dtype=hurray.bool),
    empty=lambda: hurray.empty((4, 6), dtype=float32),
    full=lambda: hurray.full((4, 6), 2.5),
    zeros_like=lambda: hurray.zeros_like(DENSE),
    ones_like=lambda: hurray.ones_like(DENSE),
    empty_like=lambda: hurray.empty_like(DENSE),
    full_like=lambda: hurray.full_like(DENSE, 3),
    arange=lambda: hurray.arange(2, 20, 3),
    arange_float=lambda: hurray.arange(0.0, 1.0, 0.25, dtype=hurray.float16),
    linspace=lambda: hurray.linspace(0, 1, 5),
    eye=lambda: hurray.eye(3, 4, k=1),
    large=(lambda: hurray.full((400, 400), 2.5), SLOWEST),
    asarray_tensor=lambda: hurray.asarray(DENSE),
    asarray_array=lambda: hurray.asarray(ARRAY),
    asarray_cast=(lambda: hurray.asarray(DENSE, dtype=hurray.float64), SLOW),
    asarray_buffer=lambda: hurray.asarray(BYTES),
    asarray_memoryview=lambda: hurray.asarray(memoryview(ARRAY)),
    asarray_nested=lambda: hurray.asarray(NESTED),
    asarray_nested_bools=lambda: hurray.asarray([True, False]),
    asarray_nested_arrays=(lambda: hurray.asarray([ARRAY, ARRAY]), SLOW),
    asarray_number=lambda: hurray.asarray(3),
    asarray_scalar=lambda: hurray.asarray(np.float32(3)),
    asarray_range=lambda: hurray.asarray(range(5)),
    asarray_producer=lambda: hurray.asarray(MODERN),
    asarray_interface=lambda: hurray.asarray(INTERFACE),
    sparse_coo=lambda: hurray.sparse_coo(VALUES, INDICES, (4, 6)),
    sparse_coo_copied=lambda: hurray.sparse_coo(VALUES, INDICES, (4, 6), copy=True),
    from_numpy=lambda: hurray.from_numpy(ARRAY, copy=False),
    from_numpy_copied=lambda: hurray.from_numpy(ARRAY, copy=True),
    from_numpy_misaligned=lambda: hurray.from_numpy(MISALIGNED),
    from_numpy_bools=lambda: hurray.from_numpy(FLAGS),
    from_csr=(lambda: hurray.from_scipy(CSR), SLOW),
    from_csc=(lambda: hurray.from_scipy(CSC), SLOW),
    from_coo=(lambda: hurray.from_scipy(COO), SLOW),
    from_dlpack=lambda: hurray.from_dlpack(ARRAY),
    from_dlpack_tensor=lambda: hurray.from_dlpack(DENSE),
    from_dlpack_modern=lambda: hurray.from_dlpack(MODERN),
    from_dlpack_legacy=lambda: hurray.from_dlpack(LEGACY),
    from_dlpack_copied=lambda: hurray.from_dlpack(ARRAY, copy=True),
    from_dlpack_misaligned=lambda: hurray.from_dlpack(MISALIGNED),
    from_dlpack_capsule=lambda: hurray.from_dlpack(ARRAY.__dlpack__()),
    from_hurray=lambda: hurray.from_hurray(DENSE),
    from_hurray_producer=lambda: hurray.from_hurray(NATIVE),
    aligned_allocator=lambda: enter_allocator(),
)


def enter_allocator() -> None:
    with hurray.aligned_allocator():
        np.empty(10)


@pytest.mark.parametrize(("action", "repetitions"), VALUE_OBJECTS)
def test_values_leave_nothing(action, repetitions):
    check(action, repetitions)


@pytest.mark.parametrize(("action", "repetitions"), TENSORS)
def test_new_tensors_leave_nothing(action, repetitions):
    check(action, repetitions)


# ---- hand-overs ----

TILED = DENSE.to_layout(TiledLayout((2, 3)))
AS_CSR = DENSE.to_layout(CsrLayout(0))
WATCHED += [TILED, AS_CSR]

HAND_OVERS = cases(
    legacy_unconsumed=DENSE.__dlpack__,
    versioned_unconsumed=lambda: DENSE.__dlpack__(max_version=(1, 3)),
    copy_unconsumed=lambda: DENSE.__dlpack__(max_version=(1, 3), copy=True),
    legacy_consumed=lambda: hurray.from_dlpack(DENSE.__dlpack__()),
    versioned_consumed=lambda: hurray.from_dlpack(DENSE.__dlpack__(max_version=(1, 3))),
    copy_consumed=lambda: hurray.from_dlpack(DENSE.__dlpack__(copy=True)),
    numpy_consumed=lambda: np.from_dlpack(DENSE),
    dlpack_device=DENSE.__dlpack_device__,
    hurray_unconsumed=DENSE.__hurray__,
    hurray_consumed=lambda: hurray.from_hurray(SPARSE),
    array=DENSE.__array__,
    array_cast=lambda: DENSE.__array__(np.float64),
    array_copied=lambda: DENSE.__array__(copy=True),
    array_bools=BITS.__array__,
    array_tiled=TILED.__array__,
    asarray=lambda: np.asarray(DENSE),
    array_interface=lambda: DENSE.__array_interface__,
    memoryview=lambda: memoryview(DENSE),
    memoryview_of_a_view=lambda: memoryview(DENSE.T),
    bytes=lambda: bytes(memoryview(DENSE.buffer(0))),
    to_numpy=DENSE.to_numpy,
    to_numpy_ml_dtypes=hurray.zeros([4], dtype=hurray.bfloat16).to_numpy,
    to_numpy_int4=hurray.from_numpy(np.zeros(4, "i1")).to_numpy,
    to_scipy=(SPARSE.to_scipy, SLOW),
    to_scipy_csr=(AS_CSR.to_scipy, SLOW),
    to_layout=lambda: DENSE.to_layout(TiledLayout((2, 3))),
    to_layout_sparse=lambda: DENSE.to_layout(CsrLayout(0)),
    to_layout_dense=lambda: AS_CSR.to_layout(RowMajorLayout()),
    verify=SPARSE.verify,
    T=lambda: DENSE.T,
    buffer=lambda: DENSE.buffer(0),
    components=lambda: (SPARSE.values, SPARSE.indices, AS_CSR.row_ptr, AS_CSR.col_indices),
    attributes=lambda: [
        (t.shape, t.ndim, t.size, t.nbytes, t.dtype, t.device, t.layout, t.quantization)
        for t in (DENSE, SPARSE)
    ],
    sections=lambda: (HALVES[0].shard, HALVES[0].statistics, HALVES[0].extension_type),
    strides=lambda: (DENSE.strides, DENSE.byte_offset, DENSE.readonly, DENSE.buffer_count),
    descriptor=lambda: DENSE.descriptor.encode(),
    repr=(lambda: repr(DENSE), SLOWEST),
    str=(lambda: str(SPARSE), SLOWEST),
    sizeof=DENSE.__sizeof__,
    copy=lambda: copy.copy(DENSE),
    deepcopy=lambda: copy.deepcopy(DENSE),
    pickle=(lambda: pickle.loads(pickle.dumps(DENSE, 4)), SLOW),
    pickle_out_of_band=(lambda: pickle_out_of_band(DENSE), SLOW),
    pickle_sparse=(lambda: pickle.loads(pickle.dumps(SPARSE)), SLOW),
    pickle_composite=(lambda: pickle.loads(pickle.dumps(WHOLE)), SLOW),
    members=lambda: WHOLE.members,
    composite_attributes=lambda: (WHOLE.shape, WHOLE.layout, WHOLE.dtype, WHOLE.descriptor),
    composite_equal=lambda: (WHOLE == WHOLE, WHOLE != 3),
    composite_to_numpy=(WHOLE.to_numpy, SLOWEST),
    composite_repr=(lambda: repr(WHOLE), SLOWEST),
    weak_reference=lambda: weakref.ref(hurray.zeros([1])),
)


def pickle_out_of_band(t: Tensor) -> Tensor:
    buffers: list[pickle.PickleBuffer] = []
    return pickle.loads(pickle.dumps(t, 5, buffer_callback=buffers.append), buffers=buffers)


@pytest.mark.parametrize(("action", "repetitions"), HAND_OVERS)
def test_hand_overs_leave_nothing(action, repetitions):
    check(action, repetitions)


@pytest.mark.parametrize("name", [name for name in KINDS if name.startswith("valid/")])
def test_tensors_of_every_kind_leave_nothing(name):
    t = KINDS[name].tensor()
    encoded = KINDS[name].encoded

    def action() -> None:
        other = hurray.from_hurray(t)
        other.buffer(0)
        other.descriptor
        Descriptor.decode(encoded, permissive=True)

    leaks.check(action, [t, t.device, encoded], repetitions=SLOW, sanitized=SANITIZED)


# ---- refusals ----


def test_no_exception_class_is_missing():
    tested = {param.values[1] for param in REFUSALS}
    from_files = {hurray.FileError, hurray.StreamError}  # raised by nothing that is here
    named = {value for value in (getattr(hurray, n) for n in dir(hurray)) if is_exception(value)}
    assert named - from_files - {hurray.InternalError} <= tested


def is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def refusals(exception: type[Exception], **table: Callable[[], object]) -> list[Any]:
    return [pytest.param(action, exception, id=name) for name, action in table.items()]


REFUSALS = [
    *refusals(
        hurray.InvalidDescriptorError,
        strided_rank=lambda: Tensor(BYTES, float32, (4, 6), layout=StridedLayout((1,))),
        tile_of_nothing=lambda: TiledLayout((0, 2)),
        inner_layout=lambda: TiledLayout((2, 2), "strided"),
        morton_bits=lambda: MortonLayout([70, 70]),
        hilbert_order=lambda: HilbertLayout(0, 2),
        mode_order=lambda: CsfLayout(2, (0, 0)),
        scale=lambda: PerTensorAffine(float("nan"), 0),
        block_size=lambda: MXFP(0, 31, 1),
        statistics=lambda: Statistics(value_min=1.0),
        shard=lambda: Shard((8,), (1, 2)),
        bit_width=lambda: ExtensionType(bit_width=0),
        device=lambda: Device("abacus"),
        negative=lambda: hurray.zeros((-1,)),
        dynamic=lambda: hurray.zeros((None,)),
        magic=lambda: Descriptor.decode(b"HURRAY" * 20),
        truncated=lambda: Descriptor.decode(ENCODED[:-8]),
        members=lambda: Composite("partition", shape=(16,), dtype=hurray.int8, members=HALVES[:1]),
        private=lambda: Tensor(BYTES, hurray.Dtype.from_tag(0xF0), (4, 6)),
        too_few_buffers=lambda: Tensor(BYTES, float32, (4, 6), layout=CooLayout(3)),
        quantization=lambda: hurray.decode_quantization(b"abc"),
    ),
    *refusals(
        hurray.BufferError,
        too_small=lambda: Tensor(bytes(4), float32, (4, 6)),
        consumed=lambda: hurray.from_dlpack(CONSUMED),
    ),
    *refusals(
        hurray.CopyRequiredError,
        misaligned=lambda: hurray.from_numpy(MISALIGNED, copy=False),
        misaligned_dlpack=lambda: hurray.from_dlpack(MISALIGNED, copy=False),
        misaligned_buffer=lambda: hurray.asarray(memoryview(MISALIGNED), copy=False),
        cast=lambda: DENSE.__array__(np.float64, copy=False),
        bools=lambda: BITS.__array__(copy=False),
    ),
    *refusals(
        hurray.UnsupportedError,
        object_array=lambda: hurray.from_numpy(np.empty(3, object)),
        not_contiguous=lambda: hurray.from_numpy(ARRAY.T),
        dlpack_of_bits=BITS.__dlpack__,
        dl_device=lambda: DENSE.__dlpack__(dl_device=(2, 0)),
        array_elsewhere=ON_CUDA.__array__,
        dlpack_elsewhere=ON_CUDA.__dlpack__,
        native_elsewhere=ON_CUDA.__hurray__,
        array_of_sparse=SPARSE.__array__,
        to_scipy_dense=DENSE.to_scipy,
        composite_layout=lambda: Tensor(BYTES, float32, (4, 6), layout=CompositeLayout("group", 1)),
        zeros_elsewhere=lambda: hurray.zeros((3,), device=CUDA),
    ),
    *refusals(
        BufferError,
        memoryview_of_bits=lambda: memoryview(BITS),
        memoryview_of_sparse=lambda: memoryview(SPARSE),
    ),
    *refusals(
        TypeError,
        no_arguments=Tensor,
        no_buffer=lambda: Tensor(3, float32, (4, 6)),
        dtype=lambda: Tensor(BYTES, "float32", (4, 6)),
        layout=lambda: Tensor(BYTES, float32, (4, 6), layout=3),
        keyword=lambda: hurray.zeros((3,), order="C"),
        shape=lambda: hurray.zeros("abc"),
        strides=lambda: StridedLayout(("a",)),
        no_producer=lambda: hurray.from_dlpack(3),
        no_native_producer=lambda: hurray.from_hurray(3),
        no_array=lambda: hurray.from_numpy(NESTED),
        nested=lambda: hurray.asarray([["a"], ["b"]]),
        fill_value=lambda: hurray.full((3,), "x"),
        max_version=lambda: DENSE.__dlpack__(max_version=3),
        instantiation=hurray.Dtype,
    ),
    *refusals(
        ValueError,
        ragged=lambda: hurray.asarray([[1, 2], [3]]),
        transpose=lambda: FLAT.T,
        role=lambda: Tensor(BYTES, float32, (4, 6), member_role="king"),
        rule=lambda: CompositeLayout("committee", 2),
    ),
    *refusals(
        AttributeError,
        strides_of_sparse=lambda: SPARSE.strides,
        indices_of_dense=lambda: DENSE.indices,
        interface_of_bits=lambda: BITS.__array_interface__,
        attribute=lambda: DENSE.no_such_thing,
    ),
    *refusals(IndexError, buffer_index=lambda: DENSE.buffer(1)),
    *refusals(OverflowError, out_of_range=lambda: hurray.full((3,), 300, dtype=hurray.int8)),
    *refusals(MemoryError, too_large=lambda: hurray.empty((2**60,))),
]
FLAT = hurray.zeros([3])


@pytest.mark.parametrize(("action", "exception"), REFUSALS)
def test_refusals_leave_nothing(action, exception):
    def refused() -> None:
        try:
            action()
        except exception:
            return
        raise AssertionError("not refused")

    check(refused, FAST)


# ---- frameworks ----


@pytest.mark.frameworks
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("what", ["to_torch", "from_torch", "from_dlpack", "torch", "refused"])
def test_exchanges_with_torch_leave_nothing(what):
    import torch

    x = torch.zeros(16)
    with_gradient = torch.zeros(16, requires_grad=True)

    def refused() -> None:
        with pytest.raises(hurray.UnsupportedError):
            hurray.from_torch(with_gradient)

    actions = {
        "to_torch": (DENSE.to_torch, FAST),
        "from_torch": (lambda: hurray.from_torch(x), FAST),
        "from_dlpack": (lambda: hurray.from_dlpack(x), FAST),
        "torch": (lambda: torch.from_dlpack(DENSE), FAST),
        "refused": (refused, SLOW),
    }
    action, repetitions = actions[what]
    leaks.check(action, [x, with_gradient, *WATCHED], repetitions=repetitions)
