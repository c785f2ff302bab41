"""Files and streams cross both ways between this package and the peer of the same name (pyhurray).

The peer lives in an environment of its own, since both are `import hurray`: build-aux/test makes
build/venv-peer, and HURRAY_PEER_PYTHON names another interpreter. tests/python/peer.py runs there.

Where the peer does otherwise, the specification decides; what it does is noted at each place.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

import numpy as np
import peer
import pytest
from file_cases import same
from manifest import MANIFEST, VECTORS

import hurray

ROOT = pathlib.Path(__file__).parents[2]
NAMED = os.environ.get("HURRAY_PEER_PYTHON")
PYTHON = pathlib.Path(NAMED) if NAMED else ROOT / "build" / "venv-peer" / "bin" / "python"


def environment():
    """Without paths to this package, and without a sanitizer."""
    ours = ("PYTHONPATH", "LD_PRELOAD", "PYTHONMALLOC")
    return {name: value for name, value in os.environ.items() if name not in ours}


def run_peer(*arguments):
    command = [str(PYTHON), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment(), check=False
    )


def call_peer(*arguments):
    done = run_peer(peer.__file__, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def absence():
    if not PYTHON.exists():
        return f"there is no {PYTHON}: build-aux/test installs pyhurray there"
    found = run_peer("-c", "import hurray, importlib.metadata as m; print(m.version('pyhurray'))")
    if found.returncode != 0:
        return f"{PYTHON} has no pyhurray: {found.stderr.strip().splitlines()[-1]}"
    return None


ABSENCE = absence()
if NAMED and ABSENCE:
    raise RuntimeError(f"HURRAY_PEER_PYTHON: {ABSENCE}")
pytestmark = pytest.mark.skipif(ABSENCE is not None, reason=f"no peer: {ABSENCE}")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """What the peer makes of items that both make."""
    place = tmp_path_factory.mktemp("theirs")
    call_peer("make", place)
    return place


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    place = tmp_path_factory.mktemp("ours")
    peer.make(place)
    return place


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def comparable(path):
    """Bytes of a file without bit 0 of file_flags, in which the peer never announces metadata."""
    data = bytearray(path.read_bytes())
    data[12] &= ~1
    return data


# ---- what it makes ----


@pytest.mark.parametrize("kind", ["dense", "composites"])
@pytest.mark.parametrize("access", [True, "r", False])
def test_files_of_the_peer_are_read(theirs, kind, access):
    made = getattr(peer, kind)()
    with hurray.open(theirs / f"{kind}.hrry", mmap=access) as file:
        file.verify()
        # The peer writes an index as it hashes or sorts names; the order of the file is ours.
        assert set(file) == set(made)
        assert [name for name in made if not same(made[name], file[name])] == []


@pytest.mark.parametrize("kind", ["dense", "composites"])
def test_streams_of_the_peer_are_read(theirs, kind):
    made = getattr(peer, kind)()
    read = list(hurray.StreamReader(theirs / f"{kind}.hrs"))
    assert len(read) == len(made) and all(map(same, made.values(), read))


def test_metadata_of_the_peer_is_read(theirs):
    kv = hurray.load_kv(theirs / "kv.hrry")
    assert kv == peer.KV
    assert {k: type(v) for k, v in kv.items()} == {k: type(v) for k, v in peer.KV.items()}


# ---- what we make ----


@pytest.mark.parametrize("kind", ["dense", "kv", "composites"])
def test_our_files_are_read_and_written_by_the_peer(ours, out, kind):
    call_peer("rewrite", ours / f"{kind}.hrry", out)
    before, after = hurray.load(ours / f"{kind}.hrry"), hurray.load(out)
    assert set(before) == set(after)
    assert [name for name in before if not same(before[name], after[name])] == []
    assert hurray.load_kv(out) == hurray.load_kv(ours / f"{kind}.hrry")
    if kind != "composites":
        # The peer pads after a head up to the alignment of data (spec 4.2); all else is the same.
        assert comparable(out) == comparable(ours / f"{kind}.hrry")


@pytest.mark.parametrize("kind", ["dense", "composites"])
def test_our_streams_are_read_and_written_by_the_peer(ours, out, kind):
    call_peer("restream", ours / f"{kind}.hrs", out)
    assert out.read_bytes() == (ours / f"{kind}.hrs").read_bytes()


@pytest.mark.parametrize(
    "options", [{"sorted_index": True}, {"checksums": True}, {"alignment": 2**21}]
)
def test_our_options_are_read_by_the_peer(out, tmp_path, options):
    made = peer.dense()
    hurray.save(tmp_path / "in.hrry", made, **options)
    call_peer("rewrite", tmp_path / "in.hrry", out)
    after = hurray.load(out)
    assert [name for name in made if not same(made[name], after[name])] == []


def test_the_same_items_make_the_same_bytes(ours, theirs):
    """But for the alignment that an empty buffer declares, where each has its own habit."""
    for name in ("dense.hrry", "kv.hrry", "dense.hrs", "composites.hrs"):
        a, b = (np.frombuffer(comparable(place / name), np.uint8) for place in (ours, theirs))
        assert a.size == b.size, name
        differing = np.flatnonzero(a != b)
        assert differing.size <= 1 and (a[differing] == 64).all() and (b[differing] == 1).all()


def test_many_and_large(tmp_path, out):
    generator = np.random.default_rng(1)
    made = {f"layer.{i}.ü": generator.standard_normal((50, i + 1), np.float32) for i in range(40)}
    made["large"] = generator.integers(0, 255, 20 << 20, np.uint8)
    hurray.save(tmp_path / "in.hrry", made)
    call_peer("rewrite", tmp_path / "in.hrry", out)
    assert out.read_bytes() == (tmp_path / "in.hrry").read_bytes()


# ---- golden vectors, through the peer and back ----

# The peer finds members by the order of the index, where spec 4.6 has the order of writing: it cannot
# read a sorted index in which they differ.
FILES = [v["file"] for v in MANIFEST["files"] if v["file"] != "files/nested_sorted.hrry"]
STREAMS = [vector["file"] for vector in MANIFEST["streams"]]


@pytest.mark.parametrize("file", FILES)
def test_golden_files_survive_the_peer(file, out, tmp_path):
    source = VECTORS / file
    if file == "files/everything.hrry":
        # The peer has no integers above 2**63 - 1 in metadata (spec 4.3 has them): leave them out.
        kv = {k: v for k, v in hurray.load_kv(source).items() if v != 2**64 - 1}
        hurray.save(tmp_path / "in.hrry", hurray.load(source), kv=kv)
        source = tmp_path / "in.hrry"
    call_peer("rewrite", source, out)
    before, after = hurray.load(source), hurray.load(out)
    assert set(before) == set(after)
    assert [name for name in before if not same(before[name], after[name])] == []
    assert hurray.load_kv(out) == hurray.load_kv(source)


@pytest.mark.parametrize("file", STREAMS)
def test_golden_streams_survive_the_peer(file, out):
    call_peer("restream", VECTORS / file, out)
    assert out.read_bytes() == (VECTORS / file).read_bytes()
