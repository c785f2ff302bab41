"""Arguments that change while they are read, or that no message can show: the documented error."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hurray

# Python refuses to print it (sys.set_int_max_str_digits).
HUGE = 10**5000
MORE = "a number of thousands of digits"


class EmptyingIndex:
    """Empties the list it stands in when it is asked for its number."""

    def __init__(self, items: list[object]) -> None:
        self.items = items

    def __index__(self) -> int:
        self.items.clear()
        return 1


def test_a_pair_that_loses_its_items_while_it_is_read():
    t = hurray.zeros(3)
    version: list[object] = []
    version[:] = [EmptyingIndex(version), 0]
    assert "dltensor_versioned" in repr(t.__dlpack__(max_version=version))
    device: list[object] = []
    device[:] = [EmptyingIndex(device), 0]
    assert "dltensor" in repr(t.__dlpack__(dl_device=device))


def test_a_device_pair_of_a_producer_that_loses_its_items():
    class Producer:
        def __dlpack__(self, **kwargs):
            return np.arange(3.0).__dlpack__(**kwargs)

        def __dlpack_device__(self):
            pair: list[object] = []
            pair[:] = [EmptyingIndex(pair), 0]
            return pair

    assert hurray.from_dlpack(Producer()).shape == (3,)


class Interrupting:
    def __iter__(self):
        raise KeyboardInterrupt


def test_an_exception_on_the_way_to_a_pair_comes_through():
    with pytest.raises(KeyboardInterrupt):
        hurray.zeros(3).__dlpack__(max_version=Interrupting())


@pytest.mark.parametrize("pair", ["10", (1.0, 0), (None, 0)])
def test_a_pair_of_other_things_names_the_argument(pair):
    with pytest.raises(TypeError, match="max_version must be a pair of integers"):
        hurray.zeros(3).__dlpack__(max_version=pair)


@pytest.mark.parametrize("number", [HUGE, -HUGE], ids=["huge", "-huge"])
@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (hurray.Dtype.from_tag, OverflowError, "tag"),
        (hurray.layout_tag_kind, OverflowError, "tag"),
        (lambda n: hurray.buffer_size_bytes(hurray.float32, n), OverflowError, "count"),
        (lambda n: hurray.zeros((2, n)), hurray.InvalidDescriptorError, "shape[1]"),
        (hurray.eye, hurray.InvalidDescriptorError, "n_rows"),
        (lambda n: hurray.eye(2, n), hurray.InvalidDescriptorError, "n_cols"),
        (hurray.Device, hurray.InvalidDescriptorError, "kind"),
        (lambda n: hurray.Device("cuda", n), hurray.InvalidDescriptorError, "device_id"),
        (lambda n: hurray.Device("cpu", 0, n), hurray.InvalidDescriptorError, "memory_class"),
        (lambda n: hurray.StridedLayout((1, n)), hurray.InvalidDescriptorError, "strides[1]"),
        (
            lambda n: hurray.Tensor(b"1234", hurray.float32, (1,), byte_offset=n),
            hurray.InvalidDescriptorError,
            "byte_offset",
        ),
        (hurray.zeros(3).buffer, IndexError, "buffer index"),
    ],
)
def test_a_number_too_long_to_print(call, error, name, number):
    with pytest.raises(error, match=f"^{re.escape(name)} is {MORE}; expected "):
        call(number)


def test_extents_of_eye_are_named():
    with pytest.raises(hurray.InvalidDescriptorError, match="n_rows is -1"):
        hurray.eye(-1)
    with pytest.raises(hurray.InvalidDescriptorError, match=r"n_cols is 18446744073709551615"):
        hurray.eye(1, 2**64 - 1)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: hurray.eye(2, k=1.5), "k"),
        (lambda: hurray.linspace(0, 1, 2.0), "num"),
        (lambda: hurray.zeros(2).buffer(0.0), "buffer index"),
    ],
)
def test_a_float_where_an_int_belongs_names_the_argument(call, name):
    with pytest.raises(TypeError, match=f"^{name} must be an int, not float"):
        call()


@pytest.mark.parametrize(
    "scalar",
    [
        hurray.Tensor(b"5", hurray.uint8, ()),
        hurray.Tensor(b"12345678", hurray.float64, ()),
        memoryview(b"5").cast("B", []),
    ],
    ids=["uint8", "float64", "memoryview"],
)
@pytest.mark.parametrize("dtype", [hurray.int8, hurray.uint64], ids=str)
def test_the_bytes_of_a_scalar_are_no_digits(scalar, dtype):
    with pytest.raises(TypeError):
        hurray.full((2,), scalar, dtype=dtype)
