"""Hurray moves tensors between NumPy, PyTorch, JAX and CuPy without copying them.

It is a codec and a bridge: a tensor is described in full (element type, shape, layout, device) and
its memory handed on. It does no arithmetic; the frameworks do that.

In, sharing memory where its address is 64-aligned, and copying it where it is not:

    >>> import numpy as np, hurray
    >>> with hurray.aligned_allocator():
    ...     a = np.ones((2, 3), dtype=np.float32)
    >>> t = hurray.from_numpy(a, copy=False)
    >>> t
    hurray.Tensor([[1., 1., 1.],
                   [1., 1., 1.]], dtype=float32)

and out, the consumer keeping the memory alive:

    >>> b = np.from_dlpack(t)
    >>> a[0, 0] = 5
    >>> float(b[0, 0])
    5.0

Where to look; help(hurray.NAME) says more, with an example that begins with the imports above:

==================  ================================================================================
the tensor          Tensor, Composite of several tensors; t.descriptor is a Descriptor without bytes,
                    with a BufferHandle for each buffer
element types       float32 and its like; dtype has all of them; Dtype, buffer_size_bytes
devices             device.cpu and its like; Device
dense layouts       RowMajorLayout, ColMajorLayout, StridedLayout, TiledLayout, MortonLayout,
                    HilbertLayout, each a Layout
sparse layouts      CooLayout, CsrLayout, CscLayout, CsfLayout
other layouts       BlockPagedLayout, CompositeLayout; PrivateExtensionLayout, UnknownLayout,
                    layout_tag_kind
quantization        PerTensorAffine, PerChannelAffine, PerBlockAffine, NF4, MXFP; decode_quantization
other sections      Statistics, Shard, ExtensionType
construction        zeros, ones, empty, full and each with _like; arange, linspace, eye; asarray;
                    sparse_coo
coming in           from_numpy, from_dlpack, from_torch, from_scipy, from_sparse, from_hurray;
                    aligned_allocator for arrays to come
going out           t.to_numpy(), t.to_torch(), t.to_scipy(), t.to_sparse(); numpy.asarray(t),
                    memoryview(t); the from_dlpack of NumPy, PyTorch, JAX or CuPy
in other forms      t.to_layout(layout), t.T, t.buffer(i); copy and pickle know tensors
is it right?        t.verify() reads what is in the buffers
files               save, load, load_kv; open, a File of named tensors
streams             StreamWriter, StreamReader; hurray.aio for asyncio
how it shows        set_print_options, get_print_options, print_options
what goes wrong     InvalidDescriptorError, BufferError, CopyRequiredError, UnsupportedError; FileError,
                    StreamError, InternalError
numbers             MIN_BUFFER_ALIGNMENT, PAGE_ALIGNMENT, in bytes
==================  ================================================================================

copy= means the same everywhere: None copies if it must, False raises CopyRequiredError instead,
True copies always. An argument that is None has its default.

Note that hurray.bool and hurray.BufferError are not the built-in ones: do not import * from here.
NumPy, PyTorch and the others are imported by the functions that need them, not by hurray.
"""

from . import device, dtype
from ._core import (
    MIN_BUFFER_ALIGNMENT,
    MXFP,
    NF4,
    PAGE_ALIGNMENT,
    BlockPagedLayout,
    BufferError,
    BufferHandle,
    ColMajorLayout,
    Composite,
    CompositeLayout,
    CooLayout,
    CopyRequiredError,
    CscLayout,
    CsfLayout,
    CsrLayout,
    Descriptor,
    Device,
    Dtype,
    ExtensionType,
    FileError,
    HilbertLayout,
    InternalError,
    InvalidDescriptorError,
    Layout,
    MortonLayout,
    PerBlockAffine,
    PerChannelAffine,
    PerTensorAffine,
    PrivateExtensionLayout,
    RowMajorLayout,
    Shard,
    Statistics,
    StreamError,
    StreamReader,
    StreamWriter,
    StridedLayout,
    Tensor,
    TiledLayout,
    UnknownLayout,
    UnsupportedError,
    __version__,
    aligned_allocator,
    arange,
    asarray,
    bfloat16,
    bool,
    buffer_size_bytes,
    complex64,
    complex128,
    decode_quantization,
    empty,
    empty_like,
    eye,
    float16,
    float32,
    float64,
    from_dlpack,
    from_hurray,
    from_numpy,
    full,
    full_like,
    int8,
    int16,
    int32,
    int64,
    layout_tag_kind,
    linspace,
    ones,
    ones_like,
    sparse_coo,
    uint8,
    uint16,
    uint32,
    uint64,
    zeros,
    zeros_like,
)

TYPE_CHECKING = False  # as typing has it, which takes longer to import than hurray
if TYPE_CHECKING:
    from ._display import get_print_options, print_options, set_print_options
    from ._files import File, load, load_kv, open, save
    from ._pydata_sparse import from_sparse
    from ._scipy import from_scipy
    from ._torch import from_torch
del TYPE_CHECKING

__all__ = [
    "MIN_BUFFER_ALIGNMENT",
    "MXFP",
    "NF4",
    "PAGE_ALIGNMENT",
    "BlockPagedLayout",
    "BufferError",
    "BufferHandle",
    "ColMajorLayout",
    "Composite",
    "CompositeLayout",
    "CooLayout",
    "CopyRequiredError",
    "CscLayout",
    "CsfLayout",
    "CsrLayout",
    "Descriptor",
    "Device",
    "Dtype",
    "ExtensionType",
    "File",
    "FileError",
    "HilbertLayout",
    "InternalError",
    "InvalidDescriptorError",
    "Layout",
    "MortonLayout",
    "PerBlockAffine",
    "PerChannelAffine",
    "PerTensorAffine",
    "PrivateExtensionLayout",
    "RowMajorLayout",
    "Shard",
    "Statistics",
    "StreamError",
    "StreamReader",
    "StreamWriter",
    "StridedLayout",
    "Tensor",
    "TiledLayout",
    "UnknownLayout",
    "UnsupportedError",
    "__version__",
    "aligned_allocator",
    "arange",
    "asarray",
    "bfloat16",
    "bool",
    "buffer_size_bytes",
    "complex64",
    "complex128",
    "decode_quantization",
    "device",
    "dtype",
    "empty",
    "empty_like",
    "eye",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_hurray",
    "from_numpy",
    "from_scipy",
    "from_sparse",
    "from_torch",
    "full",
    "full_like",
    "get_print_options",
    "int8",
    "int16",
    "int32",
    "int64",
    "layout_tag_kind",
    "linspace",
    "load",
    "load_kv",
    "ones",
    "ones_like",
    "open",
    "print_options",
    "save",
    "set_print_options",
    "sparse_coo",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
    "zeros_like",
]


# Where to find what is imported when somebody asks for it: what these need of Python takes several
# times as long to import as all else here.
_LAZY = {
    "File": "_files",
    "from_scipy": "_scipy",
    "from_sparse": "_pydata_sparse",
    "from_torch": "_torch",
    "get_print_options": "_display",
    "load": "_files",
    "load_kv": "_files",
    "open": "_files",
    "print_options": "_display",
    "save": "_files",
    "set_print_options": "_display",
}


def __getattr__(name: str) -> object:
    module = "aio" if name == "aio" else _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'hurray' has no attribute {name!r}")
    import importlib

    found = importlib.import_module(f"hurray.{module}")  # `from . import aio` would ask here again
    value: object = found if name == "aio" else getattr(found, name)
    globals()[name] = value  # not to be asked again
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, "aio"})
