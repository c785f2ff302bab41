"""The same tensors, made by whichever package is called `hurray` where this runs: ours, or the peer's.

As a program, in an environment of its own, it is the peer's side of test_peer.py:

    peer.py make DIRECTORY        items() in files and streams
    peer.py rewrite FROM TO       a file, loaded and saved
    peer.py restream FROM TO      a stream, read and written
"""

from __future__ import annotations

import pathlib
import sys

import hurray

DENSE = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64"
KV = {
    "text": "ü",
    "int": -5,
    "big": 2**62,
    "float": 0.1,
    "bool": True,
    "bytes": b"\x00\xff",
    "texts": ["a", "b"],
    "ints": [1, 2, 3],
    "floats": [0.5],
    "bools": [True, False],
    "chunks": [b"x", b""],
}


def pattern(size):
    return bytes(i * 37 % 251 for i in range(size))


def dense():
    """Name → tensor, of every element type that both have a constant for, and some layouts."""
    sizes = {"8": 1, "16": 2, "32": 4, "64": 8}
    made = {}
    for name in DENSE.split():
        width = next(size for bits, size in sizes.items() if name.endswith(bits))
        made[name] = hurray.Tensor(pattern(6 * width), getattr(hurray, name), [2, 3])
    f32 = hurray.float32
    made["bits"] = hurray.Tensor(b"\x5a\x81", hurray.bool, [2, 8])
    made["scalar"] = hurray.Tensor(pattern(8), hurray.float64, [])
    made["empty"] = hurray.Tensor(b"", f32, [3, 0])
    made["columns"] = hurray.Tensor(pattern(48), f32, [3, 4], layout=hurray.ColMajorLayout())
    made["strided"] = hurray.Tensor(pattern(48), f32, [3, 2], layout=hurray.StridedLayout([4, 1]))
    made["shard"] = hurray.Tensor(
        pattern(24), f32, [2, 3], shard=hurray.Shard(parent_shape=[4, 3], shard_offset=[2, 0])
    )
    made["scaled"] = hurray.Tensor(
        pattern(6), hurray.int8, [2, 3], quantization=hurray.PerTensorAffine(0.5, 3)
    )
    return made


def composites():
    members = [hurray.Tensor(pattern(8), hurray.float32, [2]) for _ in range(2)]
    inner = hurray.Composite("group", shape=(1,), dtype=hurray.float32, members=members)
    outer = [members[0], inner]
    return {
        "group": inner,
        "nested": hurray.Composite("group", shape=(1,), dtype=hurray.float32, members=outer),
        "none": hurray.Composite("group", shape=(1,), dtype=hurray.float32, members=[]),
    }


def stream(items):
    writer = hurray.StreamWriter()
    for item in items:
        writer.write(item)
    writer.finish()
    return bytes(writer.getvalue())


def make(directory):
    place = pathlib.Path(directory)
    hurray.save(str(place / "dense.hrry"), dense())
    hurray.save(str(place / "kv.hrry"), dense(), kv=KV)
    hurray.save(str(place / "composites.hrry"), composites())
    (place / "dense.hrs").write_bytes(stream(dense().values()))
    (place / "composites.hrs").write_bytes(stream(composites().values()))


def rewrite(source, target):
    hurray.save(target, hurray.load(source), kv=hurray.load_kv(source) or None)


def restream(source, target):
    data = pathlib.Path(source).read_bytes()
    pathlib.Path(target).write_bytes(stream(hurray.StreamReader(data)))


if __name__ == "__main__":
    {"make": make, "rewrite": rewrite, "restream": restream}[sys.argv[1]](*sys.argv[2:])
