"""JAX in both directions, through DLPack (spec 8.6, 8.7): the same unsafe_buffer_pointer."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest
from dlpack_abi import LEGACY, aligned, capsule_name, data_pointer

import hurray

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
pytestmark = pytest.mark.frameworks

# 64-bit types, which JAX narrows unless it is told not to, have tests of their own.
DTYPES_32 = [
    "int8", "int16", "int32", "uint8", "uint16", "uint32",
    "float16", "bfloat16", "float32", "complex64",
]  # fmt: skip
DTYPES_64 = ["int64", "uint64", "float64", "complex128"]

PATTERN = bytes(range(1, 129))


def values(name: str, shape=(4, 16)):
    return (jnp.arange(int(np.prod(shape))) % 100).reshape(shape).astype(name)


def raw(x) -> bytes:
    return np.asarray(x).tobytes()


@pytest.fixture
def x64():
    """JAX with 64-bit types."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


# ---- hurray -> JAX ----


@pytest.mark.parametrize("name", DTYPES_32)
def test_jnp_from_dlpack_shares(name):
    t = hurray.Tensor(PATTERN, getattr(hurray, name), [2, 3])
    x = jnp.from_dlpack(t)
    assert x.dtype == name
    assert x.shape == (2, 3)
    assert x.unsafe_buffer_pointer() == data_pointer(t)
    assert raw(x) == PATTERN[: t.nbytes]


@pytest.mark.parametrize("name", DTYPES_64)
def test_jnp_from_dlpack_shares_64_bits(name, x64):
    t = hurray.Tensor(PATTERN, getattr(hurray, name), [2, 3])
    x = jnp.from_dlpack(t)
    assert x.dtype == name
    assert x.unsafe_buffer_pointer() == data_pointer(t)


@pytest.mark.parametrize("shape", [[], [1], [1, 1, 5], [2, 3, 4]], ids=str)
def test_shapes_to_jax(shape):
    t = hurray.Tensor(PATTERN, hurray.float32, shape)
    x = jnp.from_dlpack(t)
    assert list(x.shape) == shape
    assert x.unsafe_buffer_pointer() == data_pointer(t)


def test_no_elements_to_jax():
    assert jnp.from_dlpack(hurray.zeros([0, 3], dtype=hurray.float32)).shape == (0, 3)


def test_jax_asks_for_the_legacy_capsule():
    """It passes no max_version, and accepts nothing else: the reason for that default."""

    class Watched:
        def __init__(self, tensor):
            self.tensor, self.requests, self.names = tensor, [], []

        def __dlpack__(self, **request):
            self.requests.append(request)
            capsule = self.tensor.__dlpack__(**request)
            self.names.append(capsule_name(capsule))
            return capsule

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    watched = Watched(hurray.Tensor(PATTERN, hurray.float32, [4]))
    x = jnp.from_dlpack(watched)
    assert x.unsafe_buffer_pointer() == data_pointer(watched.tensor)
    assert "max_version" not in watched.requests[0]
    assert watched.names == [LEGACY]


def test_read_only_tensors_are_not_handed_to_jax_as_writable():
    array = aligned((4,))
    array.flags.writeable = False
    t = hurray.from_numpy(array)
    with pytest.raises(BufferError, match=r"read-only.*copy=True"):
        jnp.from_dlpack(t)
    assert jnp.from_dlpack(copy.deepcopy(t)).tolist() == [0, 0, 0, 0]


def test_bool_is_refused_for_jax():
    with pytest.raises(BufferError, match="1 bit"):
        jnp.from_dlpack(hurray.Tensor(b"\1", hurray.bool, [3]))
    assert jnp.asarray(np.asarray(hurray.Tensor(b"\5", hurray.bool, [3]))).tolist() == [1, 0, 1]


# ---- JAX -> hurray ----


@pytest.mark.parametrize("name", DTYPES_32)
def test_from_dlpack_shares(name):
    x = values(name)
    t = hurray.from_dlpack(x, copy=False)
    assert t.dtype is getattr(hurray, name)
    assert t.shape == (4, 16)
    assert t.layout == hurray.RowMajorLayout()
    assert t.device == hurray.device.cpu
    assert data_pointer(t) == x.unsafe_buffer_pointer()
    assert np.from_dlpack(t.buffer(0)).tobytes() == raw(x)


@pytest.mark.parametrize("name", DTYPES_64)
def test_from_dlpack_shares_64_bits(name, x64):
    x = values(name)
    t = hurray.from_dlpack(x, copy=False)
    assert t.dtype is getattr(hurray, name)
    assert data_pointer(t) == x.unsafe_buffer_pointer()


@pytest.mark.parametrize("name", [*DTYPES_32, "bool"])
def test_there_and_back(name):
    x = values(name) if name != "bool" else values("int32") % 3 == 0
    t = hurray.from_dlpack(x)
    if name == "bool":
        assert t.dtype is hurray.bool
        assert np.asarray(t).tolist() == x.tolist()
        return
    back = jnp.from_dlpack(t)
    assert back.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert back.dtype == x.dtype
    assert raw(back) == raw(x)


def test_bool_from_jax_is_packed():
    x = jnp.array([True, False, True, True])
    t = hurray.from_dlpack(x)
    assert bytes(memoryview(t.buffer(0)))[0] == 0b1101
    with pytest.raises(hurray.CopyRequiredError, match="bool"):
        hurray.from_dlpack(x, copy=False)


def test_whether_a_tensor_over_a_jax_array_is_read_only():
    """JAX arrays are immutable, but its capsule is what counts. Today it is a legacy one, which
    cannot say so; when JAX says READ_ONLY, the tensor is.
    """
    x = values("float32")
    capsule = x.__dlpack__(max_version=(1, 3))
    t = hurray.from_dlpack(x)
    if capsule_name(capsule) == LEGACY:
        assert not t.readonly
    else:
        from dlpack_abi import READ_ONLY, managed

        assert t.readonly == bool(managed(capsule).flags & READ_ONLY)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)], ids=str)
def test_shapes_from_jax(shape):
    t = hurray.from_dlpack(jnp.ones(shape))
    assert t.shape == shape


def test_transposes_and_slices_of_jax_are_arrays_of_their_own():
    x = values("float32")
    for view in (x.T, x[::2], x[:, 1:3]):
        t = hurray.from_dlpack(view)
        assert np.from_dlpack(t).tolist() == view.tolist()


def test_asarray():
    x = values("float32")
    assert data_pointer(hurray.asarray(x)) == x.unsafe_buffer_pointer()


def test_from_dlpack_copy_true():
    x = values("float32")
    t = hurray.from_dlpack(x, copy=True)
    assert data_pointer(t) != x.unsafe_buffer_pointer()
    assert np.from_dlpack(t).tolist() == x.tolist()


# ---- lifetimes ----


def test_the_last_one_keeps_the_memory():
    x = values("float32", (1000,))
    expected = x.tolist()
    t = hurray.from_dlpack(x)
    del x
    gc.collect()
    y = jnp.from_dlpack(t)
    del t
    gc.collect()
    noise = [jnp.full((1000,), float(i)) for i in range(50)]
    assert y.tolist() == expected
    del noise


def test_a_jax_computation_on_shared_memory():
    t = hurray.arange(6, dtype=hurray.float32)
    x = jnp.from_dlpack(t)
    del t
    gc.collect()
    assert (jax.jit(lambda a: a * 2)(x)).tolist() == [0, 2, 4, 6, 8, 10]
