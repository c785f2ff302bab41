"""PyTorch in both directions (spec 8.7): to_torch, from_torch, and torch.from_dlpack."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from dlpack_abi import DTYPE_CODES, Producer, aligned, data_pointer

import hurray

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.frameworks

# hurray's name -> torch's
DLPACK_DTYPES = {name: name for name in DTYPE_CODES if hasattr(torch, name)}
FLOAT8_DTYPES = {
    name: torch_name
    for name, torch_name in [
        ("float8_e4m3", "float8_e4m3fn"),
        ("float8_e5m2", "float8_e5m2"),
        ("float8_e8m0", "float8_e8m0fnu"),
    ]
    if hasattr(torch, torch_name)
}
ZERO_COPY_DTYPES = DLPACK_DTYPES | FLOAT8_DTYPES

PATTERN = bytes(range(1, 129))


def hurray_dtype(name: str) -> hurray.Dtype:
    return getattr(hurray.dtype, name)


def raw(x: torch.Tensor) -> bytes:
    """The bytes of a tensor's elements in row-major order, of any dtype."""
    return x.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


# ---- to_torch ----


@pytest.mark.parametrize("name", ZERO_COPY_DTYPES)
def test_to_torch_shares(name):
    t = hurray.Tensor(PATTERN, hurray_dtype(name), [2, 3])
    x = t.to_torch()
    assert isinstance(x, torch.Tensor)
    assert x.dtype is getattr(torch, ZERO_COPY_DTYPES[name])
    assert tuple(x.shape) == (2, 3)
    assert x.stride() == (3, 1)
    assert raw(x) == PATTERN[: t.nbytes]
    assert not x.requires_grad
    bytes_of_t = np.from_dlpack(t.buffer(0))
    assert x.data_ptr() == bytes_of_t.ctypes.data
    # A write on either side is seen on the other.
    bytes_of_t[0] ^= 0x7F
    assert raw(x)[0] == PATTERN[0] ^ 0x7F
    x.view(torch.uint8)[0, 1] = 0x55
    assert bytes_of_t[1] == 0x55


@pytest.mark.parametrize("shape", [[0], [2, 0], [], [1, 1, 1], [7], [2, 3, 5]], ids=str)
@pytest.mark.parametrize("name", ["float32", "bool", *FLOAT8_DTYPES])
def test_to_torch_shapes(name, shape):
    t = hurray.Tensor(PATTERN, hurray_dtype(name), shape)
    x = t.to_torch()
    assert list(x.shape) == shape
    assert x.numel() == t.size


def test_to_torch_bool_unpacks_into_a_copy():
    t = hurray.Tensor(bytes([0b1011_0001, 0b0000_0010]), hurray.bool, [2, 5])
    x = t.to_torch()
    assert x.dtype is torch.bool
    assert x.tolist() == [[True, False, False, False, True], [True, False, True, False, True]]
    x.fill_(True)
    assert np.asarray(t).tolist() == [[1, 0, 0, 0, 1], [1, 0, 1, 0, 1]]


def test_to_torch_bool_of_other_layouts():
    data = np.packbits(np.arange(24) % 3 == 0, bitorder="little").tobytes()
    t = hurray.Tensor(data, hurray.bool, [4, 6], layout=hurray.ColMajorLayout())
    expected = (np.arange(24) % 3 == 0).reshape(6, 4).T
    assert t.to_torch().tolist() == expected.tolist()


@pytest.mark.parametrize("name", ZERO_COPY_DTYPES)
def test_to_torch_layouts(name):
    base = hurray.Tensor(PATTERN, hurray_dtype(name), [2, 3])
    for t, stride in (
        (base.T, (1, 2 + 1)),
        (
            hurray.Tensor(PATTERN, hurray_dtype(name), [2, 3], layout=hurray.ColMajorLayout()),
            (1, 2),
        ),
        (
            hurray.Tensor(PATTERN, hurray_dtype(name), [2, 2], layout=hurray.StridedLayout((0, 3))),
            (0, 3),
        ),
    ):
        x = t.to_torch()
        assert x.stride() == stride
        assert tuple(x.shape) == t.shape


@pytest.mark.parametrize("name", ["float32", *FLOAT8_DTYPES])
def test_to_torch_negative_strides(name):
    """torch has none; its from_dlpack ends the process, so that it must not get that far."""
    layout = hurray.StridedLayout((-1,))
    t = hurray.Tensor(PATTERN, hurray_dtype(name), [3], layout=layout, byte_offset=8)
    with pytest.raises(hurray.UnsupportedError, match=r"negative strides.*deepcopy"):
        t.to_torch()
    x = copy.deepcopy(t).to_torch()
    width = t.dtype.bit_width // 8
    elements = [PATTERN[start : start + width] for start in (8, 8 - width, 8 - 2 * width)]
    assert raw(x) == b"".join(elements)


def test_to_torch_byte_offset():
    t = hurray.Tensor(PATTERN, hurray.uint8, [4], byte_offset=5)
    x = t.to_torch()
    assert x.tolist() == [6, 7, 8, 9]
    assert x.data_ptr() == data_pointer(t)


@pytest.mark.parametrize(
    "name", ["int4", "uint4", "int2", "uint2", "float128", "float4_e2m1", "float6_e2m3"]
)
def test_to_torch_refuses_what_torch_cannot_hold(name):
    t = hurray.Tensor(bytes(64), hurray_dtype(name), [4])
    with pytest.raises(hurray.UnsupportedError, match=name):
        t.to_torch()


def test_to_torch_refuses_dynamic_shapes_and_declared_devices():
    with pytest.raises(hurray.UnsupportedError, match="dynamic"):
        hurray.Tensor(bytes(8), hurray.float32, [None]).to_torch()
    for dtype in (hurray.float32, hurray.dtype.float8_e5m2, hurray.bool):
        with pytest.raises(hurray.UnsupportedError, match="host memory"):
            hurray.Tensor(bytes(8), dtype, [2], hurray.device.cuda).to_torch()


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (3, "host_pinned memory of device cuda"),
        (13, "unified memory of device cuda"),
        (4, "opencl"),
        (7, "vulkan"),
        (15, "webgpu"),
        (16, "hexagon"),
    ],
)
def test_to_torch_refuses_devices_that_torch_has_not(number, name):
    t = hurray.from_dlpack(Producer(0x7F00_0000_0000, (4,), device=(number, 0)))
    with pytest.raises(hurray.UnsupportedError, match=name):
        t.to_torch()


# ---- read-only ----


def read_only(dtype=np.float32) -> hurray.Tensor:
    array = aligned((2, 3), dtype)
    array[:] = [[0, 1, 2], [3, 4, 5]]
    array.flags.writeable = False
    t = hurray.from_numpy(array)
    assert t.readonly
    return t


def test_to_torch_refuses_read_only_tensors_with_two_ways_out():
    """torch would hand out memory that must not be written as if it could."""
    t = read_only()
    with pytest.raises(hurray.UnsupportedError, match="read-only") as caught:
        t.to_torch()
    assert "copy.deepcopy(t).to_torch()" in str(caught.value)
    assert "torch.from_dlpack(t)" in str(caught.value)
    copied = copy.deepcopy(t).to_torch()
    assert copied.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert copied.data_ptr() != data_pointer(t)
    shared = torch.from_dlpack(t)
    assert shared.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert shared.data_ptr() == data_pointer(t)


# ---- from_torch ----


def values(torch_name: str, shape=(4, 6)) -> torch.Tensor:
    count = int(np.prod(shape))
    return (torch.arange(count) % 5).reshape(shape).to(getattr(torch, torch_name))


@pytest.mark.parametrize("name", ZERO_COPY_DTYPES)
def test_from_torch_shares(name):
    x = values(ZERO_COPY_DTYPES[name])
    t = hurray.from_torch(x, copy=False)
    assert t.dtype is hurray_dtype(name)
    assert t.shape == (4, 6)
    assert t.layout == hurray.RowMajorLayout()
    assert t.device == hurray.device.cpu
    assert not t.readonly
    bytes_of_t = np.from_dlpack(t.buffer(0))
    assert bytes_of_t.ctypes.data == x.data_ptr()
    assert bytes_of_t.tobytes() == raw(x)
    bytes_of_t[3] ^= 0x11
    assert raw(x) == bytes_of_t.tobytes()
    x.view(torch.uint8)[0, 1] = 0x5A
    assert bytes_of_t[1] == 0x5A


@pytest.mark.parametrize("name", ["bool", *ZERO_COPY_DTYPES])
def test_there_and_back(name):
    x = values(name if name == "bool" else ZERO_COPY_DTYPES[name])
    back = hurray.from_torch(x).to_torch()
    assert back.dtype is x.dtype
    assert raw(back) == raw(x)
    assert (back.data_ptr() == x.data_ptr()) == (name != "bool")


def test_from_torch_bool_is_packed():
    x = torch.tensor([True, False, False, True, True, False, False, False, True])
    t = hurray.from_torch(x)
    assert t.dtype is hurray.bool
    assert bytes(memoryview(t.buffer(0)))[:2] == bytes([0b0001_1001, 0b1])
    with pytest.raises(hurray.CopyRequiredError, match="bool"):
        hurray.from_torch(x, copy=False)


VIEWS = {
    "transposed": lambda x: x.T,
    "expanded": lambda x: x[:1].expand(4, 6),
    "expanded by a dimension": lambda x: x.expand(3, 4, 6),
    "every other column": lambda x: x[:, ::2],
    "a diagonal": lambda x: x.diagonal(),
    "permuted": lambda x: x.reshape(2, 3, 4).permute(2, 0, 1),
    "a window": lambda x: x.unfold(1, 4, 1),
    "as_strided": lambda x: x.as_strided((2, 2), (3, 5)),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ZERO_COPY_DTYPES)
def test_views_that_are_not_contiguous(name, view):
    x = VIEWS[view](values(ZERO_COPY_DTYPES[name]))
    t = hurray.from_torch(x, copy=False)
    assert t.shape == tuple(x.shape)
    assert t.strides == tuple(x.stride())
    assert t.layout == hurray.StridedLayout(tuple(x.stride()))
    back = t.to_torch()
    assert back.data_ptr() == x.data_ptr()
    assert back.stride() == x.stride()
    assert raw(back) == raw(x)


def test_a_view_with_a_storage_offset():
    x = torch.arange(64.0)
    aligned_view = x[16:32]
    assert data_pointer(hurray.from_torch(aligned_view, copy=False)) == aligned_view.data_ptr()
    misaligned = x[3:]
    with pytest.raises(hurray.CopyRequiredError, match="4-byte aligned"):
        hurray.from_torch(misaligned, copy=False)
    t = hurray.from_torch(misaligned)
    assert t.to_torch().tolist() == list(range(3, 64))
    assert data_pointer(t) != misaligned.data_ptr()


def test_from_torch_copy_true():
    x = values("float32")
    t = hurray.from_torch(x, copy=True)
    assert data_pointer(t) != x.data_ptr()
    assert t.to_torch().tolist() == x.tolist()
    float8 = values("float8_e5m2")
    assert raw(hurray.from_torch(float8, copy=True).to_torch()) == raw(float8)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("name", ["float32", "bool", "float8_e5m2"])
def test_from_torch_shapes(name, shape):
    x = values(name, shape)
    t = hurray.from_torch(x)
    assert t.shape == shape
    assert raw(t.to_torch()) == raw(x)


def test_a_subclass():
    parameter = torch.nn.Parameter(torch.arange(4.0), requires_grad=False)
    t = hurray.from_torch(parameter, copy=False)
    assert data_pointer(t) == parameter.data_ptr()


def test_detach_is_the_remedy_for_a_gradient():
    x = torch.ones(3, requires_grad=True)
    for tensor in (x, x * 2, torch.nn.Parameter(torch.ones(3))):
        with pytest.raises(hurray.UnsupportedError, match=r"\.detach\(\)"):
            hurray.from_torch(tensor)
        assert hurray.from_torch(tensor.detach(), copy=False).shape == (3,)


def test_conjugate_and_negative_views():
    x = torch.tensor([1 + 2j, 3 - 4j])
    with pytest.raises(hurray.UnsupportedError, match=r"\.resolve_conj\(\)"):
        hurray.from_torch(x.conj())
    assert hurray.from_torch(x.conj().resolve_conj()).to_torch().tolist() == [1 - 2j, 3 + 4j]
    with pytest.raises(hurray.UnsupportedError, match=r"\.resolve_neg\(\)"):
        hurray.from_torch(x.conj().imag)
    assert hurray.from_torch(x.conj().imag.resolve_neg()).to_torch().tolist() == [-2.0, 4.0]


def make_quantized():
    return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)


def make_nested():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: torch.eye(4).to_sparse_bsr((2, 2)), "sparse_bsr"),
        (make_quantized, r"quantized.*\.int_repr\(\)"),
        (make_nested, r"nested.*\.unbind\(\)"),
        (lambda: torch.ones(3, device="meta"), "meta"),
        (lambda: torch.ones(3, dtype=torch.complex32), "complex32"),
        (lambda: torch.empty(3, dtype=torch.uint4), "uint4"),
        (lambda: torch.empty(3, dtype=torch.bits8), "bits8"),
        (lambda: torch.empty(3, dtype=torch.float8_e4m3fnuz), "float8_e4m3fnuz"),
    ],
)
def test_what_is_not_supported_is_named(make, what):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch about its own prototypes
        x = make()
        with pytest.raises(hurray.UnsupportedError, match=what):
            hurray.from_torch(x)


@pytest.mark.parametrize("thing", [None, 1, np.zeros(3), [1.0], hurray.zeros([2]), torch.float32])
def test_from_torch_of_something_else(thing):
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        hurray.from_torch(thing)


def test_from_torch_arguments():
    x = torch.zeros(3)
    with pytest.raises(TypeError):
        hurray.from_torch()
    with pytest.raises(TypeError):
        hurray.from_torch(x, True)
    assert hurray.from_torch(x, copy=None).shape == (3,)


# ---- torch.from_dlpack, and the same without to_torch ----


@pytest.mark.parametrize("name", DLPACK_DTYPES)
def test_torch_from_dlpack(name):
    t = hurray.Tensor(PATTERN, hurray_dtype(name), [2, 3])
    x = torch.from_dlpack(t)
    assert x.dtype is getattr(torch, name)
    assert x.data_ptr() == data_pointer(t)
    assert raw(x) == PATTERN[: t.nbytes]


def test_torch_from_dlpack_of_a_capsule():
    t = hurray.Tensor(PATTERN, hurray.int16, [3])
    for max_version in (None, (1, 0)):
        x = torch.from_dlpack(t.__dlpack__(max_version=max_version))
        assert x.data_ptr() == data_pointer(t)


def test_torch_from_dlpack_arguments():
    t = hurray.Tensor(PATTERN, hurray.int32, [4])
    assert torch.from_dlpack(t, copy=True).data_ptr() != data_pointer(t)
    assert torch.from_dlpack(t, copy=False).data_ptr() == data_pointer(t)
    assert torch.from_dlpack(t, device="cpu").data_ptr() == data_pointer(t)


def test_torch_from_dlpack_of_a_bool():
    with pytest.raises(BufferError, match="1 bit"):
        torch.from_dlpack(hurray.Tensor(b"\1", hurray.bool, [3]))


@pytest.mark.parametrize("name", ["bool", *DLPACK_DTYPES, *FLOAT8_DTYPES.values()])
def test_hurray_from_dlpack(name):
    x = values(name)
    t = hurray.from_dlpack(x)
    if name == "bool":
        assert t.dtype is hurray.bool
    elif name in DLPACK_DTYPES:
        assert t.dtype.name == name
        assert data_pointer(t) == x.data_ptr()
    else:
        assert FLOAT8_DTYPES[t.dtype.name] == name
    assert raw(t.to_torch()) == raw(x)


def test_asarray():
    x = torch.arange(6.0).reshape(2, 3)
    t = hurray.asarray(x)
    assert data_pointer(t) == x.data_ptr()


# ---- lifetimes ----


@pytest.mark.parametrize("name", ["float32", *FLOAT8_DTYPES])
def test_the_last_one_keeps_the_memory(name):
    x = values(ZERO_COPY_DTYPES[name], (1000,))
    expected = raw(x)
    t = hurray.from_torch(x)
    del x
    gc.collect()
    y = t.to_torch()
    del t
    gc.collect()
    noise = [torch.full((1000,), 7.0) for _ in range(50)]
    assert raw(y) == expected
    del noise


# ---- without torch ----


def test_without_torch():
    """In a process where torch cannot be imported, the two functions name it, and no more needs it."""
    code = """
        import sys
        sys.modules["torch"] = None
        import hurray
        t = hurray.Tensor(bytes(16), hurray.float32, [4])
        for call in (t.to_torch, lambda: hurray.from_torch(t)):
            try:
                call()
            except ImportError as error:
                assert "torch" in str(error), error
            else:
                raise AssertionError("no ImportError")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_importing_hurray_does_not_import_torch():
    code = "import hurray, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
