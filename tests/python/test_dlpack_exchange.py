"""DLPack 1.3's C functions: the ones Tensor offers, and the use of those that others offer."""

from __future__ import annotations

import builtins
import ctypes
import gc

import numpy as np
import pytest
from dlpack_abi import (
    ALLOCATOR,
    BOOL,
    CURRENT_STREAM,
    EXCHANGE_API,
    FLOAT,
    FROM_OBJECT,
    READ_ONLY,
    SET_ERROR,
    TO_OBJECT,
    VIEW_OBJECT,
    DLDataType,
    DLDevice,
    DLManagedTensorVersioned,
    DLPackVersion,
    DLTensor,
    ExchangeAPIStruct,
    Producer,
    aligned,
    capsule_name,
    data_pointer,
    deleter_of,
    drop_reference,
    exchange_api,
    new_capsule,
)

import hurray

VALUES = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@pytest.fixture(scope="module")
def api() -> ExchangeAPIStruct:
    return exchange_api(hurray.Tensor)


def array_of_six(**kwargs) -> np.ndarray:
    array = aligned((2, 3), **kwargs)
    array[:] = VALUES
    return array


def tensor_of_six() -> hurray.Tensor:
    return hurray.from_numpy(array_of_six(), copy=False)


def from_object(api, obj) -> DLManagedTensorVersioned:
    out = ctypes.c_void_p()
    status = FROM_OBJECT(api.managed_tensor_from_py_object_no_sync)(id(obj), ctypes.byref(out))
    assert status == 0
    return DLManagedTensorVersioned.from_address(out.value)


def to_object(api, pointer: int):
    out = ctypes.c_void_p()
    status = TO_OBJECT(api.managed_tensor_to_py_object_no_sync)(pointer, ctypes.byref(out))
    assert status == 0
    result = ctypes.cast(out, ctypes.py_object).value
    drop_reference(out.value)  # the one that came with it
    return result


def free(managed: DLManagedTensorVersioned) -> None:
    pointer = ctypes.addressof(managed)
    deleter_of(pointer, versioned=True)(pointer)


def extents(tensor) -> tuple[list[int], list[int]]:
    return (
        [tensor.shape[k] for k in range(tensor.ndim)],
        [tensor.strides[k] for k in range(tensor.ndim)],
    )


# ---- the table ----


def test_the_capsule(api):
    capsule = hurray.Tensor.__dlpack_c_exchange_api__
    assert capsule_name(capsule) == EXCHANGE_API
    # On the type, the same object each time: a consumer may remember it.
    assert hurray.Tensor.__dlpack_c_exchange_api__ is capsule
    assert hurray.zeros([1]).__dlpack_c_exchange_api__ is capsule
    assert (api.version.major, api.version.minor) == (1, 3)
    assert not api.prev_api


def test_every_function_is_there(api):
    for name, _ in ExchangeAPIStruct._fields_[2:]:
        assert getattr(api, name), name


# ---- managed_tensor_from_py_object_no_sync ----


def test_from_object(api):
    t = tensor_of_six()
    managed = from_object(api, t)
    tensor = managed.dl_tensor
    assert (managed.version.major, managed.version.minor, managed.flags) == (1, 3, 0)
    assert extents(tensor) == ([2, 3], [3, 1])
    assert tensor.data == data_pointer(t)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (FLOAT, 32, 1)
    assert (tensor.device.device_type, tensor.device.device_id) == (1, 0)
    del t
    gc.collect()
    assert ctypes.string_at(tensor.data, 24) == np.array(VALUES, np.float32).tobytes()
    free(managed)


def test_from_object_read_only(api):
    t = hurray.from_dlpack(Producer(array_of_six(), flags=READ_ONLY))
    managed = from_object(api, t)
    assert managed.flags == READ_ONLY
    free(managed)


def test_the_struct_keeps_the_producer(api):
    producer = Producer(array_of_six())
    t = hurray.from_dlpack(producer)
    managed = from_object(api, t)
    del t
    gc.collect()
    assert producer.deleted == 0
    free(managed)
    assert producer.deleted == 1


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (lambda: hurray.Tensor(b"\1", hurray.bool, [3]), "1 bit"),
        (lambda: hurray.Tensor(bytes(8), hurray.dtype.int4, [3]), "int4"),
        (lambda: hurray.Tensor(bytes(8), hurray.float32, [None]), "dynamic"),
        (lambda: hurray.Tensor(bytes(8), hurray.float32, [2], hurray.device.cuda), "host memory"),
        (
            lambda: hurray.Tensor(bytes(8), hurray.float32, [2], hurray.Device("cuda", 0, "peer")),
            "host memory",
        ),
    ],
)
def test_refusals_are_buffer_errors(api, tensor, reason):
    t = tensor()
    out = ctypes.c_void_p()
    view = DLTensor()
    for call in (
        lambda: FROM_OBJECT(api.managed_tensor_from_py_object_no_sync)(id(t), ctypes.byref(out)),
        lambda: VIEW_OBJECT(api.dltensor_from_py_object_no_sync)(id(t), ctypes.byref(view)),
    ):
        with pytest.raises(hurray.UnsupportedError, match=reason) as caught:
            call()
        assert isinstance(caught.value, builtins.BufferError)
    assert out.value is None


@pytest.mark.parametrize("thing", [np.zeros(3), 1, "text", hurray.float32])
def test_other_objects_are_refused(api, thing):
    out = ctypes.c_void_p()
    view = DLTensor()
    with pytest.raises(TypeError, match="Tensor"):
        FROM_OBJECT(api.managed_tensor_from_py_object_no_sync)(id(thing), ctypes.byref(out))
    with pytest.raises(TypeError, match="Tensor"):
        VIEW_OBJECT(api.dltensor_from_py_object_no_sync)(id(thing), ctypes.byref(view))
    with pytest.raises(TypeError, match="Tensor"):
        FROM_OBJECT(api.managed_tensor_from_py_object_no_sync)(None, ctypes.byref(out))


# ---- managed_tensor_to_py_object_no_sync ----


def test_to_object(api):
    producer = Producer(array_of_six())
    t = to_object(api, ctypes.addressof(producer.struct()))
    assert type(t) is hurray.Tensor
    assert data_pointer(t) == producer.data
    assert np.from_dlpack(t).tolist() == VALUES
    assert producer.deleted == 0
    del t
    assert producer.deleted == 1


def test_to_object_copies_what_cannot_be_shared(api):
    producer = Producer(array_of_six(off_by=4))
    t = to_object(api, ctypes.addressof(producer.struct()))
    assert producer.deleted == 1
    assert np.from_dlpack(t).tolist() == VALUES


@pytest.mark.parametrize(
    ("lie", "exception"),
    [
        ({"dtype": (FLOAT, 32, 2)}, hurray.UnsupportedError),
        ({"ndim": 65}, hurray.BufferError),
        ({"ndim": 2**31 - 1}, hurray.BufferError),
        ({"version": (2, 0)}, hurray.BufferError),
        ({"device": (99, 0)}, hurray.UnsupportedError),
    ],
    ids=str,
)
def test_to_object_takes_the_struct_also_when_it_fails(api, lie, exception):
    """DLPack: "the ownership of the tensor is stolen"."""
    producer = Producer(array_of_six(), **lie)
    out = ctypes.c_void_p()
    with pytest.raises(exception):
        TO_OBJECT(api.managed_tensor_to_py_object_no_sync)(
            ctypes.addressof(producer.struct()), ctypes.byref(out)
        )
    assert producer.deleted == 1
    assert out.value is None


def test_there_and_back(api):
    t = tensor_of_six()
    u = to_object(api, ctypes.addressof(from_object(api, t)))
    assert data_pointer(u) == data_pointer(t)
    del t
    gc.collect()
    assert np.from_dlpack(u).tolist() == VALUES


# ---- dltensor_from_py_object_no_sync ----


def test_view_object(api):
    t = tensor_of_six()
    for tensor, expected in ((t, ([2, 3], [3, 1])), (t.T, ([3, 2], [1, 3]))):
        view = DLTensor()
        assert VIEW_OBJECT(api.dltensor_from_py_object_no_sync)(id(tensor), ctypes.byref(view)) == 0
        assert extents(view) == expected
        assert view.data == data_pointer(t)
        assert view.byte_offset == 0


def test_view_object_of_a_scalar_and_of_nothing(api):
    view = DLTensor()
    scalar = hurray.zeros([])
    assert VIEW_OBJECT(api.dltensor_from_py_object_no_sync)(id(scalar), ctypes.byref(view)) == 0
    assert (view.ndim, bool(view.data)) == (0, True)
    nothing = hurray.zeros([0, 3])
    assert VIEW_OBJECT(api.dltensor_from_py_object_no_sync)(id(nothing), ctypes.byref(view)) == 0
    assert (view.ndim, view.data) == (2, None)


def test_view_object_cannot_say_read_only(api):
    """As in a legacy capsule: refused, naming the way that can."""
    t = hurray.from_dlpack(Producer(array_of_six(), flags=READ_ONLY))
    view = DLTensor()
    with pytest.raises(hurray.UnsupportedError, match=r"read-only.*managed_tensor") as caught:
        VIEW_OBJECT(api.dltensor_from_py_object_no_sync)(id(t), ctypes.byref(view))
    assert isinstance(caught.value, builtins.BufferError)


# ---- managed_tensor_allocator ----


class Errors:
    def __init__(self) -> None:
        self.seen: list[tuple[object, bytes, bytes]] = []
        self.callback = SET_ERROR(lambda ctx, kind, text: self.seen.append((ctx, kind, text)))


def allocate(api, prototype: DLTensor, errors: Errors) -> DLManagedTensorVersioned | None:
    out = ctypes.c_void_p()
    status = ALLOCATOR(api.managed_tensor_allocator)(
        ctypes.byref(prototype),
        ctypes.byref(out),
        0x1234,
        ctypes.cast(errors.callback, ctypes.c_void_p),
    )
    assert (status == 0) == (out.value is not None)
    return None if out.value is None else DLManagedTensorVersioned.from_address(out.value)


def prototype(shape, dtype=(FLOAT, 32, 1), device=(1, 0), ndim=None) -> DLTensor:
    extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    result = DLTensor(
        ndim=len(shape) if ndim is None else ndim,
        dtype=DLDataType(*dtype),
        device=DLDevice(*device),
        shape=ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64)),
    )
    result.keep = extents
    return result


@pytest.mark.parametrize("shape", [(2, 3), (), (0,), (3, 0), (1,) * 64, (1000, 1000)], ids=str)
def test_allocator(api, shape):
    errors = Errors()
    managed = allocate(api, prototype(shape), errors)
    assert managed is not None
    tensor = managed.dl_tensor
    assert extents(tensor)[0] == list(shape)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (FLOAT, 32, 1)
    assert managed.flags == 0
    assert errors.seen == []
    if 0 in shape:
        assert tensor.data is None
        free(managed)
        return
    assert tensor.data % 64 == 0
    bytes_ = 4 * int(np.prod(shape, dtype=np.int64))
    ctypes.memset(tensor.data, 1, bytes_)
    t = to_object(api, ctypes.addressof(managed))
    assert not t.readonly
    assert np.from_dlpack(t).tobytes() == b"\1" * bytes_


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (prototype((2,), dtype=(FLOAT, 32, 4)), b"BufferError"),
        (prototype((2,), dtype=(BOOL, 8, 1)), b"BufferError"),
        (prototype((2,), dtype=(99, 8, 1)), b"BufferError"),
        (prototype((2,), device=(2, 0)), b"BufferError"),
        (prototype((2,), device=(99, 0)), b"BufferError"),
        (prototype((2, -1)), b"BufferError"),
        (prototype((2,), ndim=-1), b"BufferError"),
        (prototype((2,), ndim=65), b"BufferError"),
        (prototype((2**40, 2**40)), b"BufferError"),
        (prototype((2**55,)), b"MemoryError"),
    ],
)
def test_allocator_errors_are_told_once_with_a_reason(api, wrong, kind):
    errors = Errors()
    # A message left over from another call must not be reported.
    with pytest.raises(hurray.UnsupportedError):
        hurray.Tensor(b"\1", hurray.bool, [3]).__dlpack__()
    assert allocate(api, wrong, errors) is None
    ((context, seen_kind, text),) = errors.seen
    assert context == 0x1234
    assert seen_kind == kind
    assert text
    if wrong.dtype.code != BOOL:
        assert b"1 bit" not in text


def test_allocator_without_a_place_for_errors(api):
    out = ctypes.c_void_p()
    wrong = prototype((2,), ndim=65)
    status = ALLOCATOR(api.managed_tensor_allocator)(
        ctypes.byref(wrong), ctypes.byref(out), None, None
    )
    assert (status, out.value) == (-1, None)


# ---- current_work_stream ----


@pytest.mark.parametrize("device", [(1, 0), (2, 0), (2, 7), (10, 1)])
def test_current_work_stream(api, device):
    """No work is queued here: NULL, the default stream."""
    out = ctypes.c_void_p(1)
    assert CURRENT_STREAM(api.current_work_stream)(*device, ctypes.byref(out)) == 0
    assert out.value is None


# ---- other types' functions: honest and lying ones ----


class Exchange:
    """A type with an exchange API, whose parts can be replaced."""

    def __init__(self, **changes):
        self.producer = Producer(array_of_six())
        self.calls: list[str] = []
        self.fail = changes.pop("fail", None)
        self.out = changes.pop("out", True)
        self.function = FROM_OBJECT(self.from_object)
        self.table = ExchangeAPIStruct(
            version=DLPackVersion(*changes.pop("version", (1, 3))),
            prev_api=changes.pop("prev_api", None),
            managed_tensor_from_py_object_no_sync=(
                ctypes.cast(self.function, ctypes.c_void_p).value
                if changes.pop("function", True)
                else None
            ),
        )
        name = changes.pop("name", EXCHANGE_API)
        capsule = changes.pop("capsule", new_capsule(ctypes.addressof(self.table), name))
        assert not changes
        exchange = self

        class Fast:
            __dlpack_c_exchange_api__ = capsule

            def __dlpack__(self, **request):
                exchange.calls.append("python")
                return exchange.producer.capsule()

            def __dlpack_device__(self):
                exchange.calls.append("device")
                return exchange.producer.device

        self.type = Fast

    def from_object(self, obj, out):
        self.calls.append("c")
        if self.fail is not None:
            return self.fail
        if self.out:
            out[0] = ctypes.addressof(self.producer.struct())
        return 0


def check_six(exchange: Exchange, route: list[str]) -> None:
    t = hurray.from_dlpack(exchange.type())
    assert exchange.calls == route
    assert np.from_dlpack(t).tolist() == VALUES
    assert exchange.producer.deleted == 0
    del t
    assert exchange.producer.deleted == 1


C = ["c"]
PYTHON = ["device", "python"]


def test_the_c_functions_come_first():
    check_six(Exchange(), C)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": (2, 0)},
        {"version": (0, 9)},
        {"function": False},
        {"name": None},
        {"name": "dlpack_exchange_api2"},
        {"capsule": 42},
        {"capsule": None},
    ],
    ids=str,
)
def test_a_table_that_cannot_be_used(changes):
    check_six(Exchange(**changes), PYTHON)


@pytest.mark.parametrize("changes", [{"fail": -1}, {"fail": 1}, {"out": False}], ids=str)
def test_a_function_that_fails(changes):
    check_six(Exchange(**changes), C + PYTHON)


def test_an_older_table_behind_a_newer_one():
    older = Exchange()
    newer = Exchange(version=(2, 0), prev_api=ctypes.addressof(older.table))
    t = hurray.from_dlpack(newer.type())
    assert (older.calls, newer.calls) == (["c"], [])
    assert np.from_dlpack(t).tolist() == VALUES


def test_a_chain_of_tables_that_are_all_too_new():
    newest = Exchange(version=(3, 0), prev_api=ctypes.addressof(Exchange(version=(2, 0)).table))
    check_six(newest, PYTHON)


def test_a_struct_of_another_version_from_the_c_functions():
    exchange = Exchange()
    exchange.producer.version = (2, 0)
    with pytest.raises(hurray.BufferError, match=r"2\.0"):
        hurray.from_dlpack(exchange.type())
    assert exchange.calls == C
    assert exchange.producer.deleted == 1  # there is no capsule that would do it


@pytest.mark.parametrize(
    ("lie", "exception"),
    [
        ({"ndim": 65}, hurray.BufferError),
        ({"ndim": -1}, hurray.BufferError),
        ({"dtype": (FLOAT, 32, 2)}, hurray.UnsupportedError),
        ({"data": None}, hurray.BufferError),
        ({"shape": [-1, 2]}, hurray.BufferError),
    ],
    ids=str,
)
def test_a_bad_struct_from_the_c_functions_is_freed_once(lie, exception):
    exchange = Exchange()
    for name, value in lie.items():
        setattr(exchange.producer, name, value)
    with pytest.raises(exception):
        hurray.from_dlpack(exchange.type())
    assert exchange.producer.deleted == 1
    assert exchange.calls == C


def test_memory_of_a_device_goes_the_way_that_names_a_stream():
    exchange = Exchange()
    exchange.producer.data, exchange.producer.device = 0x7F00_0000_0000, (2, 1)
    t = hurray.from_dlpack(exchange.type())
    assert exchange.calls == C + PYTHON
    assert exchange.producer.requests == []
    assert t.device == hurray.Device("cuda", 1)
    assert exchange.producer.deleted == 1  # what the C function exported
    del t
    assert exchange.producer.deleted == 2


def test_a_subclass_speaks_for_itself():
    """The functions of a base know nothing of what a subclass changed."""
    exchange = Exchange()
    sub = type("Sub", (exchange.type,), {})
    t = hurray.from_dlpack(sub())
    assert exchange.calls == PYTHON
    assert np.from_dlpack(t).tolist() == VALUES


def test_copy_arguments_reach_the_memory_of_the_c_functions():
    exchange = Exchange()
    t = hurray.from_dlpack(exchange.type(), copy=True)
    assert exchange.calls == C
    assert exchange.producer.deleted == 1
    assert np.from_dlpack(t).tolist() == VALUES
    exchange = Exchange()
    exchange.producer.data = array_of_six(off_by=4).ctypes.data
    with pytest.raises(hurray.CopyRequiredError):
        hurray.from_dlpack(exchange.type(), copy=False)
    assert exchange.producer.deleted == 1


def test_a_device_that_is_asked_for_goes_through_python():
    exchange = Exchange()
    hurray.from_dlpack(exchange.type(), device=hurray.device.cpu)
    assert exchange.calls == PYTHON


@pytest.mark.parametrize(
    ("attribute", "value", "remedy"),
    [
        ("requires_grad", True, "detach"),
        ("is_conj", lambda self: True, "resolve_conj"),
        ("is_neg", lambda self: True, "resolve_neg"),
    ],
)
def test_lazy_state_is_not_dropped(attribute, value, remedy):
    exchange = Exchange()
    setattr(exchange.type, attribute, value)
    for type_ in (exchange.type, type("Sub", (exchange.type,), {})):
        with pytest.raises(hurray.UnsupportedError, match=remedy):
            hurray.from_dlpack(type_())
    assert exchange.calls == []


def test_lazy_state_that_cannot_be_asked():
    exchange = Exchange()

    def broken(self):
        raise RuntimeError("no idea")

    exchange.type.is_conj = broken
    with pytest.raises(RuntimeError, match="no idea"):
        hurray.from_dlpack(exchange.type())


# ---- PyTorch's functions, and PyTorch as our consumer ----


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip(f"PyTorch {torch.__version__} has no DLPack exchange API")
    return torch


@pytest.fixture(scope="module")
def torch_api(torch) -> ExchangeAPIStruct:
    return exchange_api(torch.Tensor)


@pytest.mark.frameworks
def test_torch_carries_the_same_table(torch, torch_api):
    assert capsule_name(torch.Tensor.__dlpack_c_exchange_api__) == EXCHANGE_API
    assert torch_api.version.major == 1
    for name, _ in ExchangeAPIStruct._fields_[2:]:
        assert getattr(torch_api, name), name


@pytest.mark.frameworks
def test_our_struct_in_torchs_hands(api, torch, torch_api):
    t = tensor_of_six()
    there = to_object(torch_api, ctypes.addressof(from_object(api, t)))
    assert isinstance(there, torch.Tensor)
    assert there.data_ptr() == data_pointer(t)
    assert there.tolist() == VALUES
    del t
    gc.collect()
    assert there.tolist() == VALUES


@pytest.mark.frameworks
def test_torchs_struct_in_our_hands(api, torch, torch_api):
    x = torch.tensor(VALUES)
    t = to_object(api, ctypes.addressof(from_object(torch_api, x)))
    assert data_pointer(t) == x.data_ptr()
    del x
    gc.collect()
    assert np.from_dlpack(t).tolist() == VALUES


@pytest.mark.frameworks
def test_torch_allocates_for_us(api, torch, torch_api):
    errors = Errors()
    managed = allocate(torch_api, prototype((2, 3)), errors)
    assert managed is not None
    t = to_object(api, ctypes.addressof(managed))
    assert t.shape == (2, 3)


@pytest.mark.frameworks
def test_we_allocate_for_torch(api, torch, torch_api):
    managed = allocate(api, prototype((2, 3)), Errors())
    assert managed is not None
    x = to_object(torch_api, ctypes.addressof(managed))
    x.fill_(7)
    assert x.tolist() == [[7.0] * 3] * 2


@pytest.mark.frameworks
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_the_structs_are_the_ones_torch_makes(torch, max_version):
    from dlpack_abi import managed

    base = torch.arange(35, dtype=torch.int16).reshape(5, 7)
    for x in (base, base[1:, ::2], base.T, base[:0], base.expand(3, 5, 7), base[0, 0]):
        theirs = x.__dlpack__(max_version=max_version)
        ours = hurray.from_dlpack(x).__dlpack__(max_version=max_version)
        expected, tensor = managed(theirs).dl_tensor, managed(ours).dl_tensor
        assert capsule_name(ours) == capsule_name(theirs)
        assert extents(tensor)[0] == list(x.shape)
        assert bytes(tensor.dtype) == bytes(expected.dtype)
        assert bytes(tensor.device) == bytes(expected.device)
        if max_version:
            assert managed(theirs).version.major == 1
            assert managed(ours).flags == 0


@pytest.mark.frameworks
def test_from_dlpack_prefers_torchs_functions(torch, monkeypatch):
    """The Python method is not called for a torch.Tensor itself, but for a subclass it is."""

    def unexpected(self, **request):
        raise AssertionError("called")

    x = torch.arange(6.0)
    monkeypatch.setattr(torch.Tensor, "__dlpack__", unexpected)
    assert data_pointer(hurray.from_dlpack(x)) == x.data_ptr()
    parameter = torch.nn.Parameter(x, requires_grad=False)
    with pytest.raises(AssertionError, match="called"):
        hurray.from_dlpack(parameter)


@pytest.mark.frameworks
def test_torch_tensors_with_lazy_state_are_refused_with_the_remedy(torch):
    x = torch.zeros(4, requires_grad=True)
    conj = torch.zeros(4, dtype=torch.complex64).conj()
    neg = torch._neg_view(torch.zeros(4))
    for tensor, remedy in (
        (x, "detach"),
        (torch.nn.Parameter(torch.zeros(4)), "detach"),
        (conj, "resolve_conj"),
        (neg, "resolve_neg"),
        (conj.imag, "resolve_neg"),
    ):
        with pytest.raises(hurray.UnsupportedError, match=remedy):
            hurray.from_dlpack(tensor)
        resolved = getattr(tensor, remedy)()
        assert data_pointer(hurray.from_dlpack(resolved)) != 0
