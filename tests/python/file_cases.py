"""What the tests of files share: items of every kind, how they compare, and an index parsed by hand."""

from __future__ import annotations

import struct

import numpy as np

import hurray

ARRAYS = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.arange(5, dtype=np.int16),
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 7), np.uint8),
}


def tensors():
    return {name: hurray.from_numpy(array) for name, array in ARRAYS.items()}


def group(*members):
    return hurray.Composite("group", shape=(1,), dtype=hurray.float32, members=members)


def nested(depth):
    """Composites in one another, `depth` of them, each with a tensor beside the next."""
    item = hurray.full(3, depth)
    for level in range(depth):
        item = group(item, hurray.full(2, level))
    return item


def private_tensor():
    return hurray.Tensor(
        bytes(range(12)),
        hurray.Dtype.from_tag(0xF2),
        [4],
        extension_type=hurray.ExtensionType(bit_width=24),
    )


def declared_tensor():
    """Host bytes that are declared to be a GPU's."""
    return hurray.Tensor(bytes(range(64)), hurray.float32, [16], hurray.device.cuda)


def same(a, b):
    """Descriptors alike but for alignment, and bytes alike; composites member by member."""
    if isinstance(a, hurray.Composite):
        return (
            isinstance(b, hurray.Composite)
            and a.descriptor.encode() == b.descriptor.encode()
            and len(a.members) == len(b.members)
            and all(map(same, a.members, b.members))
        )
    facts = "dtype shape layout quantization shard statistics extension_type byte_offset device"
    return all(getattr(a, fact) == getattr(b, fact) for fact in facts.split()) and (
        payload(a) == payload(b)
    )


def payload(tensor):
    """The bytes of all buffers; those that only stand in for a device's, as a stream has them."""
    if tensor.device.kind != "cpu":
        with hurray.StreamWriter() as writer:
            writer.write(tensor)
        return [bytes(writer.getvalue())]
    return [memoryview(tensor.buffer(i)).tobytes() for i in range(tensor.buffer_count)]


def entries_of(data):
    """The index as spec 4.4 and 4.5 have it: name → descriptor offset and length, data, flags."""
    offset, length = struct.unpack_from("<QQ", data, len(data) - 40)
    (count,) = struct.unpack_from("<Q", data, offset)
    at, entries = offset + 8, {}
    for _ in range(count):
        (size,) = struct.unpack_from("<H", data, at)
        name = bytes(data[at + 2 : at + 2 + size]).decode()
        entries[name] = struct.unpack_from("<QIQQI", data, at + 2 + size)
        at += 2 + size + 32
    assert at == offset + length
    return entries
