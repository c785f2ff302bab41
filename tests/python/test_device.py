"""Devices: kinds, memory classes, values (spec 1.6, 8.2)."""

from __future__ import annotations

import copy
import importlib
import itertools
import operator
import pickle

import pytest

import hurray
from hurray import Device

KINDS = ["cpu", "cuda", "rocm", "metal", "vulkan", "webgpu", "hexagon", "level_zero", "opencl"]
CLASSES = ["standard", "host_pinned", "unified", "peer"]
PRIVATE = range(0xF0, 0xFF)


@pytest.mark.parametrize(("tag", "kind"), list(enumerate(KINDS)))
def test_a_kind_is_given_by_name_or_byte(tag, kind):
    device = Device(kind)
    assert (device.kind, device.tag, device.device_id) == (kind, tag, 0)
    assert (device.memory_class, device.memory_class_tag) == ("standard", 0)
    assert device.is_private is False
    assert Device(tag) == device


@pytest.mark.parametrize(("tag", "memory_class"), list(enumerate(CLASSES)))
def test_a_memory_class_is_given_by_name_or_byte(tag, memory_class):
    device = Device("cuda", 3, memory_class)
    assert (device.memory_class, device.memory_class_tag) == (memory_class, tag)
    assert Device("cuda", 3, tag) == device
    assert Device(kind="cuda", device_id=3, memory_class=memory_class) == device


@pytest.mark.parametrize("tag", PRIVATE)
def test_private_devices_and_classes(tag):
    device = Device(tag, 1, tag)
    assert (device.kind, device.tag, device.is_private) == ("private", tag, True)
    assert (device.memory_class, device.memory_class_tag) == ("private", tag)
    assert f"0x{tag:02X}" in repr(device)


def every_pair():
    tags = [*range(len(KINDS)), *PRIVATE]
    classes = [*range(len(CLASSES)), *PRIVATE]
    return list(itertools.product(tags, classes))


def test_an_object_holds_any_pair():
    devices = [Device(tag, 0, memory_class) for tag, memory_class in every_pair()]
    assert [(d.tag, d.memory_class_tag) for d in devices] == every_pair()
    assert len(set(devices)) == len(devices)


def test_none_means_the_default():
    assert Device("cuda", None, None) == Device("cuda", 0, "standard")


def test_constants():
    module = importlib.import_module("hurray.device")
    assert module is hurray.device
    assert sorted(module.__all__) == sorted(KINDS)
    for kind in KINDS:
        assert getattr(hurray.device, kind) == Device(kind, 0, "standard")


@pytest.mark.parametrize("tag", [*range(0x09, 0xF0), 0xFF, -1, 256, 2**70])
def test_reserved_and_invalid_tags(tag):
    with pytest.raises(hurray.InvalidDescriptorError):
        Device(tag)


@pytest.mark.parametrize("memory_class", [*range(4, 0xF0), 0xFF, -1, 256, 2**70])
def test_reserved_and_invalid_memory_classes(memory_class):
    with pytest.raises(hurray.InvalidDescriptorError):
        Device("cpu", 0, memory_class)


def test_an_unknown_kind_is_answered_with_the_known_ones():
    with pytest.raises(hurray.InvalidDescriptorError, match="'gpu'") as error:
        Device("gpu")
    assert all(kind in str(error.value) for kind in KINDS)
    assert "wire byte" in str(error.value)


def test_an_unknown_memory_class_is_answered_with_the_known_ones():
    with pytest.raises(hurray.InvalidDescriptorError, match="'pinned'") as error:
        Device("cuda", 0, "pinned")
    assert all(memory_class in str(error.value) for memory_class in CLASSES)
    assert "wire byte" in str(error.value)


@pytest.mark.parametrize("other", [1.0, b"cpu", [0], Device("cpu"), hurray.float32])
def test_kinds_and_classes_of_other_types(other):
    with pytest.raises(hurray.InvalidDescriptorError, match="wire byte"):
        Device(other)
    with pytest.raises(hurray.InvalidDescriptorError, match="wire byte"):
        Device("cpu", 0, other)


@pytest.mark.parametrize("device_id", [-1, 2**31, 2**70])
def test_device_ids_are_not_negative_and_fit_31_bits(device_id):
    with pytest.raises(hurray.InvalidDescriptorError, match="device_id"):
        Device("cuda", device_id)
    assert Device("cuda", 2**31 - 1).device_id == 2**31 - 1


@pytest.mark.parametrize("device_id", ["0", 0.0])
def test_device_ids_are_ints(device_id):
    with pytest.raises(TypeError, match="device_id"):
        Device("cuda", device_id)


@pytest.mark.parametrize("call", [(), ("cpu", 0, "standard", 1)])
def test_numbers_of_arguments(call):
    with pytest.raises(TypeError, match="Device\\(\\)"):
        Device(*call)


def test_names_of_arguments():
    with pytest.raises(TypeError, match="'id'"):
        Device("cpu", id=0)
    with pytest.raises(TypeError, match="'kind'"):
        Device("cpu", kind="cpu")


def test_devices_are_values():
    devices = [
        Device("cpu"),
        Device("cuda"),
        Device("cuda", 1),
        Device("cuda", 1, "unified"),
        Device(0xF1),
    ]
    for a, b in itertools.product(devices, devices):
        assert (a == b) is (a is b)
        assert (a != b) is (a is not b)
    assert hash(Device("cuda", 1, "unified")) == hash(devices[3])
    assert Device("cpu") != "cpu"
    assert Device("cpu") != 0
    with pytest.raises(TypeError):
        operator.lt(Device("cpu"), Device("cuda"))


@pytest.mark.parametrize(("tag", "memory_class"), every_pair())
def test_pickles_copies_and_repr_give_an_equal_device(tag, memory_class):
    device = Device(tag, 5, memory_class)
    assert eval(repr(device)) == device
    assert copy.copy(device) == device
    assert copy.deepcopy([device]) == [device]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(device, protocol)) == device


def test_repr():
    assert (
        repr(Device("cuda", 1, "unified"))
        == "hurray.Device(kind='cuda', device_id=1, memory_class='unified')"
    )
    assert repr(Device(0xF1, 0, 0xF3)) == "hurray.Device(kind=0xF1, device_id=0, memory_class=0xF3)"


def test_devices_are_frozen_and_final():
    with pytest.raises(AttributeError):
        hurray.device.cpu.device_id = 1
    with pytest.raises(AttributeError):
        hurray.device.cpu.other = 1
    with pytest.raises(TypeError, match="immutable"):
        Device.kind = "cpu"
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Derived", (Device,), {})


@pytest.mark.parametrize("name", ["", "cpu\0", "float32\0", "\ud800"])
def test_what_no_name_holds_is_an_unknown_name(name):
    with pytest.raises(hurray.InvalidDescriptorError):
        hurray.Device(name)
