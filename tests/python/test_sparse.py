"""sparse_coo (spec 8.8), and what shows a sparse tensor's content."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import leaks
import numpy as np
import pytest
from dlpack_abi import FLOAT, UINT, Producer, aligned

import hurray
from hurray import _core

VALUES = [1.5, -0.0, 0.0, 4.0]
INDICES = [[0, 3], [2, 1], [1, 1], [2, 0]]
SHAPE = (3, 4)


def aligned_copy(numbers, dtype):
    source = np.asarray(numbers, dtype)
    array = aligned(source.shape, dtype)
    array[...] = source
    return array


def components():
    return aligned_copy(VALUES, np.float64), aligned_copy(INDICES, np.uint64)


def address(tensor):
    return np.asarray(tensor).ctypes.data


# ---- memory ----


@pytest.mark.parametrize("copy_", [None, False])
def test_both_components_are_shared(copy_):
    values, indices = components()
    t = hurray.sparse_coo(values, indices, SHAPE, copy=copy_)
    assert t.layout == hurray.CooLayout(4, is_sorted=False)
    assert (t.shape, t.nnz, t.dtype, t.buffer_count) == (SHAPE, 4, hurray.float64, 2)
    assert address(t.values) == values.ctypes.data
    assert address(t.indices) == indices.ctypes.data
    values[0] = 7
    assert np.asarray(t.values)[0] == 7
    np.asarray(t.indices)[3] = [2, 3]
    assert indices[3, 1] == 3


def test_values_keep_their_bits():
    values, indices = components()
    t = hurray.sparse_coo(values, indices, SHAPE)
    assert np.asarray(t.values).tobytes() == values.tobytes()
    assert np.signbit(np.asarray(t.values)[1])


def test_copies_when_asked():
    values, indices = components()
    t = hurray.sparse_coo(values, indices, SHAPE, copy=True)
    values[:] = 0
    indices[:] = 0
    assert np.asarray(t.values).tolist() == VALUES
    assert np.asarray(t.indices).tolist() == INDICES
    assert all(handle.alignment >= 64 for handle in t.buffer_handles)


@pytest.mark.parametrize("name", ["values", "indices"])
def test_each_component_is_aligned_for_itself(name):
    arrays = dict(zip(["values", "indices"], components(), strict=True))
    off = aligned(arrays[name].shape, arrays[name].dtype, off_by=8)
    off[...] = arrays[name]
    arrays[name] = off
    with pytest.raises(hurray.CopyRequiredError, match=rf"^{name}: .*8-byte aligned.* 64"):
        hurray.sparse_coo(**arrays, shape=SHAPE, copy=False)
    t = hurray.sparse_coo(**arrays, shape=SHAPE)
    other = {"values": "indices", "indices": "values"}[name]
    assert address(getattr(t, name)) != off.ctypes.data
    assert address(getattr(t, other)) == arrays[other].ctypes.data
    assert np.asarray(getattr(t, name)).tolist() == off.tolist()


@pytest.mark.parametrize("order", ["C", "F"])
def test_strided_components_are_copied(order):
    values = aligned_copy(np.repeat(VALUES, 2), np.float64)[::2]
    indices = np.asarray(INDICES, np.uint64, order=order)
    t = hurray.sparse_coo(values, indices, SHAPE)
    assert np.asarray(t.values).tolist() == VALUES
    assert np.asarray(t.indices).tolist() == INDICES
    with pytest.raises(hurray.CopyRequiredError, match=r"^values: .*one after another"):
        hurray.sparse_coo(values, indices, SHAPE, copy=False)


def test_components_outlive_their_arrays_and_the_tensor():
    class Array(np.ndarray):
        pass

    values, indices = (array.view(Array) for array in components())
    gone = [weakref.ref(values), weakref.ref(indices)]
    t = hurray.sparse_coo(values, indices, SHAPE, copy=False)
    del values, indices
    gc.collect()
    view = t.indices
    del t
    gc.collect()
    assert np.asarray(view).tolist() == INDICES
    assert gone[0]() is None and gone[1]() is not None
    del view
    gc.collect()
    assert gone[1]() is None


def test_read_only_memory_gives_a_read_only_tensor():
    values, indices = components()
    indices.flags.writeable = False
    t = hurray.sparse_coo(values, indices, SHAPE, copy=False)
    assert t.readonly and t.indices.readonly and not t.values.readonly


def test_components_may_be_tensors_with_an_offset():
    data = np.concatenate([np.zeros(8), VALUES]).tobytes()
    values = hurray.Tensor(data, hurray.float64, [4], byte_offset=64)
    indices = hurray.from_numpy(components()[1])
    t = hurray.sparse_coo(values, indices, SHAPE, copy=False)
    assert t.byte_offset == 0
    assert address(t.values) == address(values)
    del values
    gc.collect()
    assert np.asarray(t.values).tolist() == VALUES
    odd = hurray.Tensor(bytes(8) + data[64:], hurray.float64, [4], byte_offset=8)
    assert np.asarray(hurray.sparse_coo(odd, indices, SHAPE).values).tolist() == VALUES
    with pytest.raises(hurray.CopyRequiredError, match=r"^values: "):
        hurray.sparse_coo(odd, indices, SHAPE, copy=False)


# ---- other devices ----

ADDRESS = 0x7F00_0000_0000  # of no memory here


def on_device(address, shape, code):
    return hurray.from_dlpack(Producer(address, shape, dtype=(code, 64, 1), device=(2, 1)))


def on_device_coo(**indices):
    values = on_device(ADDRESS, (2,), FLOAT)
    return values, on_device(**{"address": ADDRESS + 256, "shape": (2, 2), "code": UINT} | indices)


def test_memory_of_a_device_is_shared_and_never_read():
    t = hurray.sparse_coo(*on_device_coo(), (3, 3), copy=False)
    assert t.device == hurray.Device("cuda", 1)
    assert t.values.__dlpack_device__() == t.indices.__dlpack_device__() == (2, 1)
    with pytest.raises(hurray.UnsupportedError):
        hurray.sparse_coo(*on_device_coo(), (3, 3), copy=True)
    with pytest.raises(hurray.UnsupportedError, match="cuda"):
        t.to_scipy()


def test_components_of_several_devices_are_refused():
    with pytest.raises(hurray.InvalidDescriptorError, match="device"):
        hurray.sparse_coo(np.zeros(2), on_device_coo()[1], (3, 3))


def test_device_components_between_alignments_are_refused():
    # On the CPU they would be copied.
    with pytest.raises(hurray.UnsupportedError, match=r"^indices: "):
        hurray.sparse_coo(*on_device_coo(address=ADDRESS + 8), (3, 3))


@pytest.mark.parametrize(
    "host, result",
    [
        ([[0, 1], [1, 0]], hurray.Tensor),
        ([[1, 0], [0, 1]], "index_order"),
        ([[1, 0], [1, 0]], "duplicate"),
        ([[1, 0], [9, 0]], hurray.InvalidDescriptorError),
        ([[1, 0]], ValueError),
    ],
)
def test_the_glue_verifies_a_copy_on_the_host(host, result):
    layout = hurray.CooLayout(2, is_sorted=True)
    copies = (hurray.from_numpy(np.array(host, np.uint64)),)
    if isinstance(result, type) and issubclass(result, Exception):
        with pytest.raises(result):
            _core._from_components(layout, (3, 3), on_device_coo(), copies)
        return
    made = _core._from_components(layout, (3, 3), on_device_coo(), copies)
    assert made == result if isinstance(result, str) else isinstance(made, result)


def test_the_glue_is_checked():
    layout, made = hurray.CooLayout(2), _core._from_components
    values, indices = on_device_coo()
    for bad in [(), [values, indices], (values, None), (values, hurray.zeros((2, 2)).T)]:
        with pytest.raises(TypeError):
            made(layout, (3, 3), bad)
    with pytest.raises(TypeError):
        made(layout, (3, 3), (values, indices), (indices, indices))
    with pytest.raises(hurray.UnsupportedError):
        made(layout, (3, 3), (values, values))
    with pytest.raises(hurray.InvalidDescriptorError, match="needs 72"):
        made(hurray.CooLayout(9), (3, 3), (values, indices))


# ---- what is taken ----


def test_plain_numbers():
    t = hurray.sparse_coo(VALUES, INDICES, SHAPE)
    assert t.dtype is hurray.float64
    assert np.asarray(t.indices).tolist() == INDICES
    with pytest.raises(hurray.CopyRequiredError):
        hurray.sparse_coo(VALUES, INDICES, SHAPE, copy=False)
    with pytest.raises(OverflowError):
        hurray.sparse_coo([1.0], [[0, -1]], SHAPE)


@pytest.mark.parametrize("name", ["bool", "bfloat16", "int4", "float8_e4m3", "complex64"])
def test_values_of_every_kind_of_dtype(name):
    dtype = getattr(hurray.dtype, name)
    values = hurray.Tensor(bytes(range(1, 33)), dtype, [4])
    t = hurray.sparse_coo(values, components()[1], SHAPE)
    assert t.dtype is dtype
    assert bytes(t.buffer(0)) == bytes(values.buffer(0))


def test_values_of_a_private_dtype():
    extension = hurray.ExtensionType(bit_width=16)
    private = hurray.Dtype.from_tag(0xF1)
    values = hurray.Tensor(bytes(8), private, [4], extension_type=extension)
    t = hurray.sparse_coo(values, components()[1], SHAPE)
    assert (t.dtype, t.extension_type) == (private, extension)


def test_quantized_values_are_refused():
    values = hurray.Tensor(bytes(4), hurray.uint8, [4], quantization=hurray.PerTensorAffine(0.5, 0))
    with pytest.raises(hurray.UnsupportedError, match=r"^values: "):
        hurray.sparse_coo(values, components()[1], SHAPE)


@pytest.mark.parametrize("rank", [1, 2, 3, 26, 64])
@pytest.mark.parametrize("extent", [0, 1])
def test_nothing_stored(rank, extent):
    t = hurray.sparse_coo(np.empty(0), np.empty((0, rank), np.uint64), [extent] * rank, copy=False)
    assert (t.nnz, t.shape) == (0, (extent,) * rank)
    assert np.asarray(t.indices).shape == (0, rank)


@pytest.mark.parametrize("shape", [(7,), (3, 4), (3, 4, 5), (2, 3, 2, 3, 2)])
def test_what_is_stored_in_any_rank(shape):
    dense = np.random.default_rng(3).integers(0, 2, shape).astype(np.float32)
    indices = np.argwhere(dense)[::-1].astype(np.uint64)  # in any order
    values = np.arange(1, len(indices) + 1, dtype=np.float32)
    dense[tuple(indices.T.astype(int))] = values
    t = hurray.sparse_coo(values, indices, shape)
    assert t.to_layout(hurray.RowMajorLayout()).to_numpy().tolist() == dense.tolist()


def test_the_largest_extents():
    largest = 2**64 - 2
    t = hurray.sparse_coo([1.0], np.array([[largest - 1, 0]], np.uint64), (largest, 1))
    assert t.shape == (largest, 1)


# ---- refusals ----


@pytest.mark.parametrize("name", ["int8", "int32", "uint32", "int64", "float64"])
def test_indices_of_another_dtype(name):
    values, indices = components()
    with pytest.raises(hurray.UnsupportedError, match=rf"uint64, not {name}.*astype\(numpy.uint64"):
        hurray.sparse_coo(values, indices.astype(name), SHAPE)


@pytest.mark.parametrize(
    "values, indices, shape, message",
    [
        (VALUES[:3], INDICES, SHAPE, r"values must have the shape \[nnz\].*\(3,\)"),
        ([VALUES], INDICES, SHAPE, r"values must have the shape \[nnz\].*\(1, 4\)"),
        (1.0, INDICES, SHAPE, r"values must have the shape \[nnz\].*\(\)"),
        (VALUES, [0, 1, 2, 3], SHAPE, r"indices must have the shape \[nnz, rank\].*\(4,\)"),
        (VALUES, INDICES, (3, 4, 5), "2 numbers for each value; shape has 3"),
        (VALUES, INDICES, (3, None), r"sparse_coo\(\): shape\[1\] is dynamic"),
        (VALUES, INDICES, (3, -4), "None"),
        ([1.0], np.zeros((1, 0), np.uint64), (), "rank 0"),
        (VALUES, INDICES, (3, 3), r"indices\[1\] is 3; expected less than the extent 3"),
        ([1, 2], [[1, 2], [1, 2]], SHAPE, "repeats"),
        ([1, 2, 3], [[1, 2], [0, 0], [1, 2]], SHAPE, "repeats"),
    ],
)
def test_what_does_not_go_together(values, indices, shape, message):
    with pytest.raises(hurray.InvalidDescriptorError, match=message):
        hurray.sparse_coo(values, np.asarray(indices, np.uint64), shape)


def test_arguments():
    values, indices = components()
    with pytest.raises(TypeError):
        hurray.sparse_coo(values, indices)
    with pytest.raises(TypeError):
        hurray.sparse_coo(values, indices, SHAPE, True)
    with pytest.raises(TypeError):
        hurray.sparse_coo("values", indices, SHAPE)
    with pytest.raises(TypeError):
        hurray.sparse_coo(values, indices, "3")


# ---- afterwards ----


def test_travels():
    t = hurray.sparse_coo(*components(), SHAPE)
    for other in [
        pickle.loads(pickle.dumps(t)),
        copy.deepcopy(t),
        hurray.from_hurray(t),
        hurray.Tensor(
            bytes(t.buffer(0)), t.dtype, t.shape, layout=t.layout, aux_buffers=[bytes(t.buffer(1))]
        ),
    ]:
        assert other.layout == t.layout
        assert np.asarray(other.values).tobytes() == np.asarray(t.values).tobytes()
        assert np.asarray(other.indices).tolist() == INDICES


def test_shows_its_content_on_request():
    t = hurray.sparse_coo([1.5, -0.0], [[0, 3], [2, 1]], SHAPE)
    assert repr(t) == "hurray.Tensor(layout='coo', shape=(3, 4), nnz=2, dtype=float64)"
    with hurray.print_options(sparse_display="content"):
        text = repr(t)
    assert "indices=[[0, 3]," in text and "values=[ 1.5, -0. ]" in text
    assert text.startswith("hurray.Tensor(layout='coo', shape=(3, 4), nnz=2, dtype=float64, ")


def test_leaks_nothing():
    values, indices = components()
    wrong = np.array([[9, 9]] * 4, np.uint64)
    offset = hurray.Tensor(bytes(96), hurray.float64, [4], byte_offset=64)

    def use():
        hurray.sparse_coo(values, indices, SHAPE).indices
        hurray.sparse_coo(offset, indices, SHAPE, copy=True)
        for bad in [(values[1:], indices, SHAPE), (values, wrong, SHAPE), (values, indices, (3,))]:
            try:
                hurray.sparse_coo(*bad, copy=False)
            except ValueError:
                pass
            else:
                raise AssertionError

    leaks.check(use, [values, indices, wrong, offset, hurray.uint64], repetitions=5000)
