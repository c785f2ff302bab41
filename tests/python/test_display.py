"""repr and str of tensors, and print options (spec 8.3)."""

from __future__ import annotations

import asyncio
import re
import struct
import subprocess
import sys
import threading

import capsule_abi
import pytest

import hurray

np = pytest.importorskip("numpy")


def tensor(values, dtype):
    return hurray.asarray(np.asarray(values, dtype=dtype))


@pytest.mark.parametrize(
    ("values", "dtype", "text"),
    [
        ([1, 2, 3], "float32", "hurray.Tensor([1., 2., 3.], dtype=float32)"),
        ([1, 2, 3], "int8", "hurray.Tensor([1, 2, 3], dtype=int8)"),
        ([0.5, -1], "float64", "hurray.Tensor([ 0.5, -1. ], dtype=float64)"),
        ([1 + 2j], "complex64", "hurray.Tensor([1.+2.j], dtype=complex64)"),
        ([True, False], "bool", "hurray.Tensor([ True, False], dtype=bool)"),
        (7, "int64", "hurray.Tensor(7, dtype=int64)"),
        ([], "float32", "hurray.Tensor([], dtype=float32)"),
    ],
)
def test_repr_shows_the_values_as_numpy_does(values, dtype, text):
    assert repr(tensor(values, dtype)) == text


def test_rows_stand_below_each_other():
    t = tensor([[1, 2], [3, 4]], "float32")
    assert repr(t) == "hurray.Tensor([[1., 2.],\n               [3., 4.]], dtype=float32)"
    assert str(t) == "[[1. 2.]\n [3. 4.]]"


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (0,)])
def test_str_is_the_bare_array(shape):
    array = np.arange(np.prod(shape, dtype=int), dtype="float32").reshape(shape)
    assert str(hurray.asarray(array)) == str(array)


def test_an_empty_tensor_shows_its_shape():
    assert repr(hurray.zeros((0, 3))) == "hurray.Tensor([], shape=(0, 3), dtype=float64)"
    assert str(hurray.zeros((0, 3))) == "[]"


@pytest.mark.parametrize("show", [repr, str])
def test_ellipses_from_1000_elements_on(show):
    below = np.arange(999, dtype="int32")
    assert "..." not in show(hurray.asarray(below))
    assert re.findall("[0-9]+", show(hurray.asarray(below)))[:999] == [str(i) for i in below]
    above = show(hurray.asarray(np.arange(1000, dtype="int32")))
    assert "..." in above and "998" in above and "500" not in above


@pytest.mark.parametrize("shape", [(999,), (1, 999), (5, 199), (1000,), (3, 4, 5), (40, 40)])
def test_newlines_stand_between_rows_only(shape):
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape) / 3
    for text in (repr(hurray.asarray(array)), str(hurray.asarray(array))):
        for before, after in zip(text.split("\n"), text.split("\n")[1:], strict=False):
            ended = before == "" or before.rstrip(",").endswith("]") or before.strip(" ,") == "..."
            begun = after == "" or after.lstrip().startswith(("[", "..."))
            assert ended and begun


# ---- large tensors whose array would be a copy: what is shown is all that is read ----

LARGE = [
    (1000,),
    (2001,),
    (1, 1, 2000),
    (2000, 1),
    (40, 40),
    (3, 400),
    (10, 10, 10),
    (5, 6, 7, 8),
    (7, 7, 7, 7),
]


@pytest.mark.parametrize("edge", [0, 1, 3, 5])
@pytest.mark.parametrize("shape", LARGE)
def test_large_bool_tensors_are_shown_as_numpy_does(shape, edge):
    array = np.random.default_rng(7).integers(0, 2, shape).astype(np.bool_)
    with np.printoptions(edgeitems=edge):
        for values, t in [
            (array, hurray.asarray(array)),
            (array.T, hurray.asarray(array).T if array.ndim == 2 else hurray.asarray(array.T)),
        ]:
            expected = np.array2string(values, threshold=999, max_line_width=10**9)
            assert str(t) == expected
            expected = np.array2string(
                values, separator=", ", threshold=999, max_line_width=10**9, prefix="hurray.Tensor("
            )
            assert repr(t) == f"hurray.Tensor({expected}, dtype=bool)"


def layouts_without_strides(shape):
    rank, bits = len(shape), tuple((n - 1).bit_length() for n in shape)
    yield hurray.TiledLayout(tuple(min(n, 3) for n in shape))
    yield hurray.MortonLayout(bits)
    if rank in (2, 3) and all(n == shape[0] for n in shape):
        yield hurray.HilbertLayout(max(bits), rank)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(40, 40), (30, 50), (10, 10, 11), (32, 32)])
def test_large_tensors_at_no_strides_are_shown_as_numpy_does(shape, dtype):
    array = np.random.default_rng(7).integers(0, 2, shape).astype(dtype)
    expected = np.array2string(array, threshold=999, max_line_width=10**9)
    for layout in layouts_without_strides(shape):
        try:
            t = hurray.asarray(array).to_layout(layout)
        except hurray.InvalidDescriptorError:
            assert layout.name != "tiled"  # curves want powers of two
            continue
        assert str(t) == expected


@pytest.mark.parametrize("extent", [10**9, 10**15])
def test_elements_that_are_not_shown_are_not_unpacked(extent):
    """One byte of memory; unpacked they would take `extent`."""
    t = hurray.Tensor(b"\x15", hurray.bool, (extent,), layout=hurray.StridedLayout((0,)))
    text = "[ True,  True,  True, ...,  True,  True,  True]"
    assert repr(t) == f"hurray.Tensor({text}, dtype=bool)"
    columns = hurray.StridedLayout((0, 1))
    t = hurray.Tensor(b"\x15", hurray.bool, (extent, 3), layout=columns)
    assert str(t).splitlines()[0] == "[[ True False  True]"
    assert str(t).splitlines()[-1] == " [ True False  True]]"


@pytest.mark.parametrize("dtype", [hurray.bool, hurray.float32])
def test_dimensions_too_many_to_show_are_not_shown(dtype):
    """7 of each dimension would be 7**20 numbers."""
    t = hurray.Tensor(bytes(4), dtype, (8,) * 20, layout=hurray.StridedLayout((0,) * 20))
    assert repr(t).startswith("hurray.Tensor(shape=(8, 8")
    assert str(t) == repr(t)


def test_a_type_that_is_not_assigned_is_shown_by_its_tag():
    encoded = bytearray(hurray.Tensor(bytes(16), hurray.float32, (1, 4)).descriptor.encode())
    encoded[14] = 0x60
    memory = capsule_abi.memory(16, 64)
    record = (memory.ctypes.data, 16, 64, 0, 0, 0, 0, 0)
    t = hurray.from_hurray(capsule_abi.Producer(bytes(encoded), [record]))
    assert repr(t) == f"hurray.Tensor(shape=(1, 4), dtype=0x60, device={CPU})" == str(t)
    with pytest.raises(hurray.InvalidDescriptorError, match="0x60"):
        t.dtype


@pytest.mark.parametrize("name", capsule_abi.KINDS)
def test_whatever_another_producer_hands_over_can_be_shown(name):
    t = capsule_abi.KINDS[name].tensor()
    for text in (repr(t), str(t), repr(t.descriptor), repr(t.buffer_handles)):
        assert text


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import hurray
assert repr(hurray.ones(2)) == str(hurray.ones(2)) == (
    "hurray.Tensor(shape=(2,), dtype=float64, device="
    "hurray.Device(kind='cpu', device_id=0, memory_class='standard'))"
)
with hurray.print_options(sparse_display="content"):
    t = hurray.Tensor(bytes(1), hurray.int8, (3,), layout=hurray.CooLayout(1), aux_buffers=[bytes(8)])
    assert repr(t) == "hurray.Tensor(layout='coo', shape=(3,), nnz=1, dtype=int8)"
"""


def test_without_numpy_no_values_are_shown():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], check=True)


def test_numpy_print_options_apply():
    with np.printoptions(precision=2):
        assert repr(tensor([1 / 3], "float64")) == "hurray.Tensor([0.33], dtype=float64)"


def test_bfloat16_is_shown_where_ml_dtypes_is():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    t = hurray.Tensor(struct.pack("2H", 0x3F80, 0xC000), hurray.bfloat16, (2,))
    expected = np.array2string(np.array([1, -2], dtype=ml_dtypes.bfloat16), separator=", ")
    assert repr(t) == f"hurray.Tensor({expected}, dtype=bfloat16)"


CPU = "hurray.Device(kind='cpu', device_id=0, memory_class='standard')"
CUDA = "hurray.Device(kind='cuda', device_id=0, memory_class='standard')"


@pytest.mark.parametrize("show", [repr, str])
@pytest.mark.parametrize(
    ("dtype", "shape", "device", "text"),
    [
        (hurray.dtype.int4, (3,), hurray.device.cpu, f"shape=(3,), dtype=int4, device={CPU}"),
        (hurray.float32, (3,), hurray.device.cuda, f"shape=(3,), dtype=float32, device={CUDA}"),
        (
            hurray.float32,
            (None, 2),
            hurray.device.cpu,
            f"shape=(None, 2), dtype=float32, device={CPU}",
        ),
    ],
)
def test_everything_else_shows_what_it_is(show, dtype, shape, device, text):
    t = hurray.Tensor(bytes(64), dtype, shape, device)
    assert show(t) == f"hurray.Tensor({text})"


def test_showing_a_tensor_leaves_it_alone():
    t = hurray.ones((2, 2))
    before = t.descriptor
    assert repr(t) == repr(t)
    assert t.descriptor == before


# ---- print options ----


@pytest.fixture(autouse=True)
def restored_options():
    before = hurray.get_print_options()
    yield
    hurray.set_print_options(**before)


def test_the_default_is_metadata():
    assert hurray.get_print_options() == {"sparse_display": "metadata"}


def test_an_option_stays_set_and_none_leaves_it():
    hurray.set_print_options(sparse_display="content")
    hurray.set_print_options(sparse_display=None)
    hurray.set_print_options()
    assert hurray.get_print_options() == {"sparse_display": "content"}


def test_the_dict_is_a_copy():
    hurray.get_print_options()["sparse_display"] = "content"
    assert hurray.get_print_options() == {"sparse_display": "metadata"}


def test_the_context_manager_restores_and_nests():
    with hurray.print_options(sparse_display="content"):
        with hurray.print_options(sparse_display="metadata"):
            assert hurray.get_print_options() == {"sparse_display": "metadata"}
        assert hurray.get_print_options() == {"sparse_display": "content"}
        with hurray.print_options():
            hurray.set_print_options(sparse_display="metadata")
        assert hurray.get_print_options() == {"sparse_display": "content"}
    assert hurray.get_print_options() == {"sparse_display": "metadata"}


def test_the_context_manager_restores_after_an_exception():
    with pytest.raises(ZeroDivisionError):
        with hurray.print_options(sparse_display="content"):
            1 / 0
    assert hurray.get_print_options() == {"sparse_display": "metadata"}


@pytest.mark.parametrize("function", [hurray.set_print_options, hurray.print_options])
def test_words_that_are_no_option(function):
    with pytest.raises(ValueError, match="'metadata' or 'content'"):
        function(sparse_display="everything")
    with pytest.raises(TypeError, match="'metadata' or 'content'"):
        function(sparse_display=1)
    with pytest.raises(TypeError):
        function("content")
    assert hurray.get_print_options() == {"sparse_display": "metadata"}


def test_options_are_those_of_the_thread():
    seen = []
    with hurray.print_options(sparse_display="content"):
        thread = threading.Thread(
            target=lambda: (
                hurray.set_print_options(sparse_display="metadata"),
                seen.append(hurray.get_print_options()),
            )
        )
        thread.start()
        thread.join()
        assert hurray.get_print_options() == {"sparse_display": "content"}
    assert seen == [{"sparse_display": "metadata"}]


def test_options_are_those_of_the_task():
    async def task(word, seen):
        hurray.set_print_options(sparse_display=word)
        await asyncio.sleep(0)
        seen.append((word, hurray.get_print_options()["sparse_display"]))

    async def both(seen):
        await asyncio.gather(task("content", seen), task("metadata", seen))

    seen = []
    asyncio.run(both(seen))
    assert sorted(seen) == [("content", "content"), ("metadata", "metadata")]
    assert hurray.get_print_options() == {"sparse_display": "metadata"}
