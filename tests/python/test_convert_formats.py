"""`hurray convert`: every value, type, name and piece of metadata, there and back."""

import io
import json
import math
import os
import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import hurray
from hurray import cli, dtype

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
safetensors = pytest.importorskip("safetensors", reason="safetensors is not installed")
gguf = pytest.importorskip("gguf", reason="gguf is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")

safetensors_torch = pytest.importorskip("safetensors.torch")

pytestmark = pytest.mark.frameworks


def convert(*arguments):
    return cli.main(["convert", *map(str, arguments)])


def converted(capsys, *arguments):
    """Exit status, and the lines on standard error."""
    capsys.readouterr()
    status = convert(*arguments)
    return status, capsys.readouterr().err.splitlines()


def bits(tensor):
    """The bytes of a torch tensor."""
    if tensor.numel() == 0:
        return b""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def random_bits(generator, dtype_name, shape):
    """Any bit patterns, NaN and infinities among them; 0 and 1 for bool."""
    torch_dtype = getattr(torch, dtype_name)
    if torch_dtype is torch.bool:
        return torch.from_numpy(generator.integers(0, 2, shape).astype(np.bool_))
    size = torch.empty(0, dtype=torch_dtype).element_size() * math.prod(shape)
    if size == 0:
        return torch.empty(shape, dtype=torch_dtype)
    data = torch.from_numpy(generator.integers(0, 256, size, dtype=np.uint8))
    return data.view(torch_dtype).reshape(shape)


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64"]
FLOATS8 = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
TORCH_TYPES = ["bool", *INTEGERS, *FLOATS, *FLOATS8]
SHAPES = [(), (0,), (5,), (3, 4), (0, 7), (2, 1, 3)]


@pytest.fixture
def tensors():
    generator = np.random.default_rng(5)
    return {
        f"{name}.{'x'.join(map(str, shape))}": random_bits(generator, name, shape)
        for name in TORCH_TYPES
        for shape in SHAPES
    }


def same_in_hurray(path, tensors):
    loaded = hurray.load(path)
    assert sorted(loaded) == sorted(tensors)
    for name, tensor in tensors.items():
        assert loaded[name].shape == tuple(tensor.shape), name
        back = loaded[name].to_torch()
        assert back.dtype is tensor.dtype, name
        assert bits(back) == bits(tensor), name


# ---- safetensors ----


def test_safetensors_there_and_back_is_the_same_file(tmp_path, tensors):
    first, middle, last = (tmp_path / name for name in ("a.safetensors", "b.hrry", "c.safetensors"))
    safetensors_torch.save_file(tensors, first, metadata={"format": "pt", "author": "mé"})
    assert convert(first, middle) == 0
    same_in_hurray(middle, tensors)
    hurray.open(middle).verify()
    assert hurray.load_kv(middle) == {"format": "pt", "author": "mé"}
    assert convert(middle, last) == 0
    again = safetensors_torch.load_file(last)
    assert {name: bits(tensor) for name, tensor in again.items()} == {
        name: bits(tensor) for name, tensor in tensors.items()
    }
    assert last.stat().st_size == first.stat().st_size


def test_every_kind_of_metadata_survives_safetensors(tmp_path):
    kv = {
        "text": "12",
        "int": -3,
        "large": 2**64 - 1,
        "float": 1.0,
        "inf": math.inf,
        "flag": True,
        "bytes": b"\x00\xff",
        "list": [b"a", b""],
        "empty": [],
        "words": ["a", "b"],
    }
    hurray.save(tmp_path / "a.hrry", {"x": hurray.ones(1)}, kv=kv, checksums=True)
    assert convert(tmp_path / "a.hrry", tmp_path / "b.safetensors") == 0
    assert convert(tmp_path / "b.safetensors", tmp_path / "c.hrry") == 0
    back = hurray.load_kv(tmp_path / "c.hrry")
    assert back == kv
    assert {key: type(value) for key, value in back.items()} == {
        key: type(value) for key, value in kv.items()
    }


def test_ties_of_safetensors_are_names_in_hurray_and_ties_again(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

    model = Model()
    safetensors_torch.save_model(model, tmp_path / "a.safetensors")
    assert convert(tmp_path / "a.safetensors", tmp_path / "b.hrry") == 0
    loaded = hurray.load(tmp_path / "b.hrry")
    assert sorted(loaded) == ["embed.weight", "head.weight"]
    weight = model.embed.weight.detach().numpy()
    assert all((np.asarray(tensor) == weight).all() for tensor in loaded.values())
    assert sorted(hurray.load_kv(tmp_path / "b.hrry")["hurray.tied"]) == sorted(loaded)
    assert convert(tmp_path / "b.hrry", tmp_path / "c.safetensors") == 0
    assert (tmp_path / "c.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()
    fresh = Model()
    safetensors_torch.load_model(fresh, tmp_path / "c.safetensors")
    assert torch.equal(fresh.head.weight, model.embed.weight)


def test_only_metadata_that_name_no_tensor_tie(tmp_path):
    """{"a": "b"} with a tensor a of its own, and the "format" that every file has, tie nothing."""
    data = {"a": torch.zeros(2), "b": torch.ones(2), "pt": torch.ones(3)}
    metadata = {"a": "b", "format": "pt", "c": "b", "d": "nowhere", "e": ""}
    safetensors_torch.save_file(data, tmp_path / "a.safetensors", metadata)
    assert convert(tmp_path / "a.safetensors", tmp_path / "b.hrry") == 0
    loaded, kv = hurray.load(tmp_path / "b.hrry"), hurray.load_kv(tmp_path / "b.hrry")
    assert sorted(loaded) == ["a", "b", "c", "pt"]
    assert np.asarray(loaded["a"]).tolist() == [0, 0]
    assert kv.pop("hurray.tied") == ["c", "b"]
    assert kv == {"a": "b", "format": "pt", "d": "nowhere", "e": ""}
    assert convert(tmp_path / "b.hrry", tmp_path / "c.safetensors") == 0
    with safetensors.safe_open(tmp_path / "c.safetensors", framework="pt") as file:
        assert sorted(file.keys()) == sorted(data)
        assert file.metadata() == metadata


# ---- several files and an index ----


@pytest.fixture
def shards(tmp_path):
    """A checkpoint as the transformers library writes it: the path of its index."""
    folder = tmp_path / "model"
    folder.mkdir()
    parts = {
        "m-00001-of-00002.safetensors": {"a": torch.arange(6.0).reshape(2, 3), "z": torch.ones(2)},
        "m-00002-of-00002.safetensors": {"b": torch.zeros(4, dtype=torch.bfloat16)},
    }
    ties = {"m-00001-of-00002.safetensors": {"tied": "z"}}
    weights = {}
    for file, tensors in parts.items():
        metadata = {"format": "pt", **ties.get(file, {})}
        safetensors_torch.save_file(tensors, folder / file, metadata)
        weights |= dict.fromkeys([*tensors, *ties.get(file, {})], file)
    index = folder / "m.safetensors.index.json"
    index.write_text(
        json.dumps({"metadata": {"total_size": 40, "by": "us"}, "weight_map": weights})
    )
    return index


def test_shards_become_one_file(tmp_path, capsys, shards):
    assert converted(capsys, shards, tmp_path / "a.hrry") == (0, [])
    loaded = hurray.load(tmp_path / "a.hrry")
    assert sorted(loaded) == ["a", "b", "tied", "z"]
    assert np.asarray(loaded["a"]).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.asarray(loaded["tied"]).tolist() == [1, 1]
    assert loaded["b"].dtype is dtype.bfloat16
    kv = hurray.load_kv(tmp_path / "a.hrry")
    assert kv == {"format": "pt", "by": "us", "hurray.tied": ["tied", "z"]}
    assert converted(capsys, "--from", "safetensors", shards, tmp_path / "b.hrry") == (0, [])
    assert (tmp_path / "b.hrry").read_bytes() == (tmp_path / "a.hrry").read_bytes()


def test_shards_may_be_links(tmp_path, capsys, shards):
    """As in the cache of a hub, where files have their hash for a name."""
    (tmp_path / "blobs").mkdir()
    for number, file in enumerate(shards.parent.glob("*.safetensors")):
        file.rename(tmp_path / "blobs" / str(number))
        file.symlink_to(f"../blobs/{number}")
    assert converted(capsys, shards, tmp_path / "a.hrry") == (0, [])
    assert len(hurray.load(tmp_path / "a.hrry")) == 4


def test_what_shards_have_beside_the_index_is_told(tmp_path, capsys, shards):
    index = json.loads(shards.read_text())
    del index["weight_map"]["z"], index["weight_map"]["tied"]
    shards.write_text(json.dumps(index))
    second = shards.parent / "m-00002-of-00002.safetensors"
    safetensors_torch.save_file({"b": torch.zeros(4)}, second, {"format": "tf"})
    status, lines = converted(capsys, shards, tmp_path / "a.hrry")
    assert (status, len(lines)) == (0, 3)
    assert sorted(hurray.load(tmp_path / "a.hrry")) == ["a", "b"]
    assert all("not carried" in line for line in lines)
    assert "'z' of m-00001" in lines[0] and "'format' of m-00002" in lines[2]


@pytest.mark.parametrize(
    "file",
    [
        "gone",
        "../out.safetensors",
        "/etc/passwd",
        "",
        ".",
        "..",
        "sub/x",
        "a\0b",
        "ABSOLUTE",
        3,
        None,
    ],
)
def test_shards_that_are_not_beside_the_index_are_refused(tmp_path, capsys, shards, file):
    """Also where there are such files."""
    outside = tmp_path / "out.safetensors"
    safetensors_torch.save_file({"b": torch.zeros(4)}, outside)
    (shards.parent / "sub").mkdir()
    (shards.parent / "sub" / "x").write_bytes(outside.read_bytes())
    index = json.loads(shards.read_text())
    index["weight_map"]["b"] = str(outside) if file == "ABSOLUTE" else file
    shards.write_text(json.dumps(index))
    status, lines = converted(capsys, shards, tmp_path / "a.hrry")
    assert (status, len(lines)) == (3, 1)
    assert not (tmp_path / "a.hrry").exists()
    if file in ("../out.safetensors", "/etc/passwd", "ABSOLUTE", "sub/x", ""):
        assert "is no file beside the index" in lines[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"weight_map": []}',
        "[" * 10**5,
        "\xff",
        '{"weight_map": {"q": "%s"}}',
    ],
    ids=lambda text: text[:20],
)
def test_a_broken_index_is_an_error_in_one_line(tmp_path, capsys, shards, text):
    text = text.replace("%s", "m-00002-of-00002.safetensors")
    shards.write_text(text, encoding="latin-1")
    status, lines = converted(capsys, shards, tmp_path / "a.hrry")
    assert (status, len(lines)) == (3, 1)
    assert "m.safetensors.index.json" in lines[0]


def test_names_that_are_no_longer_tied_keep_their_own_values(tmp_path):
    tensors = {"a": hurray.ones(3), "b": hurray.zeros(3)}
    hurray.save(tmp_path / "a.hrry", tensors, kv={"hurray.tied": ["b", "a"]})
    assert convert(tmp_path / "a.hrry", tmp_path / "b.safetensors") == 0
    back = safetensors_torch.load_file(tmp_path / "b.safetensors")
    assert back["a"].tolist() == [1, 1, 1]
    assert back["b"].tolist() == [0, 0, 0]


def test_other_layouts_become_row_major(tmp_path, capsys):
    array = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    column = hurray.asarray(array).to_layout(hurray.ColMajorLayout())
    tiled = hurray.asarray(np.ascontiguousarray(array)).to_layout(hurray.TiledLayout([2, 2]))
    hurray.save(tmp_path / "a.hrry", {"c": column, "t": tiled})
    for target in ("b.safetensors", "b.npz"):
        status, lines = converted(capsys, tmp_path / "a.hrry", tmp_path / target)
        assert status == 0
        assert any("layouts other than row-major" in line for line in lines)
    back = safetensors_torch.load_file(tmp_path / "b.safetensors")
    archive = np.load(tmp_path / "b.npz")
    for name in ("c", "t"):
        assert (back[name].numpy() == array).all()
        assert (archive[name] == array).all()


@pytest.mark.parametrize("target", ["b.safetensors", "b.npz"])
def test_what_cannot_be_carried_is_named_and_nothing_is_written(tmp_path, capsys, target):
    scheme = hurray.PerTensorAffine(0.5, 3)
    indices = np.array([[0], [1]], np.uint64)
    hurray.save(
        tmp_path / "a.hrry",
        {
            "plain": hurray.ones(2),
            "quantized": hurray.Tensor(bytes(4), hurray.int8, (4,), quantization=scheme),
            "sparse": hurray.sparse_coo(np.ones(2), indices, (3,)),
            "both": hurray.Composite(
                "group", shape=(), dtype=hurray.float32, members=[hurray.ones(1)]
            ),
        },
    )
    (tmp_path / target).write_bytes(b"old")
    status, lines = converted(capsys, tmp_path / "a.hrry", tmp_path / target)
    assert status == 1
    assert [line.split("'")[1] for line in lines[:3]] == ["quantized", "sparse", "both"]
    assert "was not written" in lines[3]
    assert (tmp_path / target).read_bytes() == b"old"
    status, lines = converted(capsys, "--skip-unsupported", tmp_path / "a.hrry", tmp_path / target)
    assert status == 0
    assert len(lines) == 3
    assert sorted(os.listdir(tmp_path)) == ["a.hrry", target]
    if target.endswith("npz"):
        assert np.load(tmp_path / target).files == ["plain"]
    else:
        assert list(safetensors_torch.load_file(tmp_path / target)) == ["plain"]


def test_safetensors_types_without_counterpart_are_refused(tmp_path, capsys):
    packed = torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    safetensors_torch.save_file({"f": packed, "x": torch.ones(2)}, tmp_path / "a.safetensors")
    status, lines = converted(capsys, tmp_path / "a.safetensors", tmp_path / "b.hrry")
    assert status == 1
    assert "F4" in lines[0]
    assert not (tmp_path / "b.hrry").exists()
    hurray.save(tmp_path / "c.hrry", {"x": hurray.zeros(1, dtype=hurray.complex128)})
    status, lines = converted(capsys, tmp_path / "c.hrry", tmp_path / "d.safetensors")
    assert status == 1
    assert "complex128" in lines[0]


def test_a_broken_safetensors_file_is_an_error_in_one_line(tmp_path, capsys):
    safetensors_torch.save_file({"x": torch.ones(9)}, tmp_path / "a.safetensors")
    whole = (tmp_path / "a.safetensors").read_bytes()
    for broken in (whole[:-1], whole[:20], b"\xff" * 16, whole.replace(b"[0,36]", b"[0,37]")):
        (tmp_path / "b.safetensors").write_bytes(broken)
        status, lines = converted(capsys, tmp_path / "b.safetensors", tmp_path / "c.hrry")
        assert (status, len(lines)) == (3, 1)
    assert not (tmp_path / "c.hrry").exists()


# ---- memory ----

_BOUNDED = """
import re, resource, sys
import numpy, safetensors, hurray, zipfile, tempfile
from hurray import cli
import hurray.cli.convert, hurray.cli.safetensors_format, hurray.cli.numpy_format
used = int(re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
limit = used + (48 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
sys.exit(cli.main(["convert", *sys.argv[1:]]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
def test_memory_is_that_of_the_largest_tensor(tmp_path):
    # 24 tensors of 8 MiB, bool among them, which has to be repacked: 192 MiB, with 48 MiB at hand.
    generator = np.random.default_rng(1)
    tensors = {}
    for number in range(24):
        if number % 3 == 0:
            array = generator.integers(0, 2, 8 << 20, dtype=np.uint8).view(np.bool_)
        else:
            array = generator.random(1 << 20)
        tensors[f"t{number}"] = torch.from_numpy(array)
    safetensors_torch.save_file(tensors, tmp_path / "a.safetensors")
    for source, target in (
        ("a.safetensors", "b.hrry"),
        ("b.hrry", "c.safetensors"),
        ("b.hrry", "d.npz"),
        ("d.npz", "e.hrry"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", _BOUNDED, tmp_path / source, tmp_path / target],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, ""), (source, target)
    assert cli.main(["diff", str(tmp_path / "b.hrry"), str(tmp_path / "e.hrry")]) == 0
    assert (tmp_path / "c.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()


# ---- NumPy ----


def test_npz_there_and_back(tmp_path, tensors):
    source = {name: hurray.from_torch(tensor) for name, tensor in tensors.items()}
    small = np.array([1, -2, 3], ml_dtypes.int4)
    source["int4"] = hurray.from_numpy(small)
    source["a/b c"] = hurray.ones(2)
    kv = {"k": [1, 2], "b": b"\xff"}
    hurray.save(tmp_path / "a.hrry", source, kv=kv)
    assert convert(tmp_path / "a.hrry", tmp_path / "b.npz") == 0
    archive = np.load(tmp_path / "b.npz", allow_pickle=False)
    for name, tensor in tensors.items():
        assert archive[name].shape == tuple(tensor.shape)
        assert archive[name].tobytes() == bits(tensor)
    assert archive["bfloat16.5"].view(ml_dtypes.bfloat16).shape == (5,)
    assert convert(tmp_path / "b.npz", tmp_path / "c.hrry") == 0
    assert cli.main(["diff", str(tmp_path / "a.hrry"), str(tmp_path / "c.hrry")]) == 0


def test_what_numpy_writes_is_read(tmp_path, capsys):
    arrays = {
        "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big": np.array([1, 2], ">i4"),
        "scalar": np.array(3, np.int16),
        "none": np.empty((0, 3)),
        "flags": np.array([True, False]),
    }
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    assert convert(tmp_path / "a.npz", tmp_path / "b.hrry") == 0
    loaded = hurray.load(tmp_path / "b.hrry")
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert np.array_equal(np.asarray(loaded[name]), array)
    for number, array in enumerate([np.arange(2000.0), np.empty((0, 2)), np.array(1)]):
        np.save(tmp_path / f"one{number}.npy", array)
        assert convert(tmp_path / f"one{number}.npy", tmp_path / "c.hrry") == 0
        assert np.array_equal(np.asarray(hurray.load(tmp_path / "c.hrry")[f"one{number}"]), array)
    np.savez(tmp_path / "odd.npz", s=np.array(["a"]), o=np.array([{}]), x=np.ones(1), y=np.ones(2))
    status, lines = converted(capsys, tmp_path / "odd.npz", tmp_path / "d.hrry")
    assert status == 1
    assert [line.split("'")[1] for line in lines[:2]] == ["s", "o"]
    assert not (tmp_path / "d.hrry").exists()
    assert convert("--skip-unsupported", tmp_path / "odd.npz", tmp_path / "d.hrry") == 0
    assert list(hurray.load(tmp_path / "d.hrry")) == ["x", "y"]


# ---- PyTorch ----


def test_state_dicts_keep_types_names_and_bits(tmp_path, tensors):
    torch.save(tensors, tmp_path / "a.pt")
    assert convert(tmp_path / "a.pt", tmp_path / "b.hrry") == 0
    same_in_hurray(tmp_path / "b.hrry", tensors)
    assert list(hurray.load(tmp_path / "b.hrry")) == list(tensors)


def test_tied_weights_of_a_state_dict_are_recorded(tmp_path):
    shared = torch.arange(6.0).reshape(2, 3)
    torch.save({"embed": shared, "x": torch.ones(1), "head": shared}, tmp_path / "a.pt")
    assert convert(tmp_path / "a.pt", tmp_path / "b.hrry") == 0
    loaded = hurray.load(tmp_path / "b.hrry")
    assert np.array_equal(np.asarray(loaded["embed"]), np.asarray(loaded["head"]))
    assert hurray.load_kv(tmp_path / "b.hrry") == {"hurray.tied": ["head", "embed"]}
    assert convert(tmp_path / "b.hrry", tmp_path / "c.safetensors") == 0
    with safetensors.safe_open(tmp_path / "c.safetensors", framework="pt") as file:
        assert sorted(file.keys()) == ["embed", "x"]
        assert file.metadata() == {"head": "embed"}


def test_checkpoints_are_flattened_and_their_numbers_are_metadata(tmp_path, capsys):
    model = torch.nn.Linear(3, 2)
    base = torch.arange(12.0)
    torch.save(
        {
            "model": model.state_dict(),
            "epoch": 3,
            "note": "best",
            "rates": [0.1, 0.2],
            "mixed": [1, "a"],
            "nothing": None,
            "views": {"lower": base[:6], "upper": base[6:], "t": base.reshape(3, 4).T},
        },
        tmp_path / "a.ckpt",
    )
    status, lines = converted(capsys, tmp_path / "a.ckpt", tmp_path / "b.hrry")
    assert status == 0
    assert [line.split("'")[1] for line in lines[:2]] == ["mixed", "nothing"]
    assert "views of one storage" in lines[2]
    loaded = hurray.load(tmp_path / "b.hrry")
    assert list(loaded)[:2] == ["model.weight", "model.bias"]
    assert np.array_equal(np.asarray(loaded["model.weight"]), model.weight.detach().numpy())
    assert np.array_equal(np.asarray(loaded["views.t"]), base.numpy().reshape(3, 4).T)
    assert hurray.load_kv(tmp_path / "b.hrry") == {
        "epoch": 3,
        "note": "best",
        "rates": [0.1, 0.2],
    }


def test_versions_of_modules_are_kept(tmp_path):
    torch.save(torch.nn.BatchNorm1d(2).state_dict(), tmp_path / "a.pt")
    assert convert(tmp_path / "a.pt", tmp_path / "b.hrry") == 0
    kept = json.loads(hurray.load_kv(tmp_path / "b.hrry")["torch.state_dict_metadata"])
    assert kept == {"": {"version": 2}}


class _Evil:
    def __reduce__(self):
        return os.mkdir, (_Evil.path,)


def test_nothing_in_a_pytorch_file_is_executed(tmp_path, capsys):
    _Evil.path = str(tmp_path / "made")
    torch.save({"x": torch.ones(1), "evil": _Evil()}, tmp_path / "a.pt")
    status, lines = converted(capsys, tmp_path / "a.pt", tmp_path / "b.hrry")
    assert (status, len(lines)) == (3, 1)
    assert "weights_only" in lines[0]
    assert sorted(os.listdir(tmp_path)) == ["a.pt"]


def test_what_a_pytorch_file_asks_for_is_named(tmp_path, capsys):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "a.pt")
    assert "torch.nn.modules.linear.Linear" in converted(capsys, tmp_path / "a.pt", "x.hrry")[1][0]
    state = {"x": torch.ones(1)}
    state["self"] = state
    torch.save(state, tmp_path / "b.pt")
    status, lines = converted(capsys, tmp_path / "b.pt", tmp_path / "b.hrry")
    assert (status, len(lines)) == (3, 1)
    assert "hold themselves" in lines[0]
    for text in (b"", b"h", b"hello", b"PK", b"\x80\x02.", b"(", b"cos\nsystem\n."):
        (tmp_path / "c.pt").write_bytes(text)
        status, lines = converted(capsys, tmp_path / "c.pt", tmp_path / "b.hrry")
        assert (status, len(lines)) == (3, 1)
        assert "c.pt: " in lines[0]
    assert sorted(os.listdir(tmp_path)) == ["a.pt", "b.pt", "c.pt"]


def test_old_and_broken_pytorch_files(tmp_path, capsys):
    torch.save({"x": torch.ones(3)}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    assert convert(tmp_path / "a.pt", tmp_path / "b.hrry") == 0
    assert np.asarray(hurray.load(tmp_path / "b.hrry")["x"]).tolist() == [1, 1, 1]
    (tmp_path / "c.pt").write_bytes(b"no pickle at all")
    status, lines = converted(capsys, tmp_path / "c.pt", tmp_path / "d.hrry")
    assert (status, len(lines)) == (3, 1)
    torch.save([1, 2], tmp_path / "e.pt")
    status, lines = converted(capsys, tmp_path / "e.pt", tmp_path / "d.hrry")
    assert (status, len(lines)) == (3, 1)
    torch.save(torch.nn.Linear(1, 1), tmp_path / "f.pt")
    status, lines = converted(capsys, tmp_path / "f.pt", tmp_path / "d.hrry")
    assert (status, len(lines)) == (3, 1)
    assert "holds a torch.nn.modules.linear.Linear" in lines[0]
    assert "state_dict()" in lines[0]


# ---- GGUF ----

Type = gguf.GGMLQuantizationType


def write_gguf(path, tensors, **fields):
    """tensors: names to (array, type or None)."""
    writer = gguf.GGUFWriter(path, "test")
    for key, value in fields.items():
        getattr(writer, f"add_{key}")(f"x.{key}", value)
    for name, (array, kind) in tensors.items():
        if kind is None:
            writer.add_tensor(name, array)
        else:
            writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def codes_of(tensor):
    """Stored elements, int8, in the tensor's shape."""
    data = np.asarray(tensor.buffer(0))
    if tensor.dtype is dtype.int4:
        nibbles = np.stack([data & 15, data >> 4], axis=-1).astype(np.int8)
        return np.where(nibbles > 7, nibbles - 16, nibbles).reshape(tensor.shape)
    return data.view(np.int8).reshape(tensor.shape)


def affine_values(tensor):
    """What spec 3 says of per-block affine quantization without zero points."""
    scheme = tensor.quantization
    scales = np.frombuffer(memoryview(tensor.buffer(scheme.scale_buffer_index)), np.float16)
    blocks = codes_of(tensor).reshape(-1, scheme.block_size).astype(np.float32)
    return (scales.astype(np.float32)[:, None] * blocks).reshape(tensor.shape)


@pytest.mark.parametrize("kind, element", [("Q8_0", "int8"), ("Q4_0", "int4"), ("Q5_0", "int8")])
def test_blocks_of_gguf_have_exactly_the_values_that_gguf_says(tmp_path, kind, element):
    generator = np.random.default_rng(3)
    array = generator.standard_normal((6, 5, 96)).astype(np.float32)
    array[1] = 0  # blocks with scale 0
    path = tmp_path / "a.gguf"
    write_gguf(path, {"w": (array, Type[kind]), "v": (array[0, 0], Type[kind])})
    assert convert("-q", path, tmp_path / "b.hrry") == 0
    hurray.open(tmp_path / "b.hrry").verify(deep=True)
    loaded = hurray.load(tmp_path / "b.hrry")
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    for name, shape in (("w", (6, 5, 96)), ("v", (96,))):
        tensor = loaded[name]
        assert (tensor.dtype.name, tensor.shape) == (element, shape)
        assert tensor.quantization == hurray.PerBlockAffine.symmetric(
            len(shape) - 1, 32, 1, hurray.float16
        )
        wanted = gguf.dequantize(stored[name].data, stored[name].tensor_type).reshape(shape)
        assert np.array_equal(affine_values(tensor), wanted)
    assert np.any(affine_values(loaded["w"]) != 0)


def test_mxfp4_of_gguf_is_mxfp(tmp_path):
    generator = np.random.default_rng(3)
    array = generator.standard_normal((4, 64)).astype(np.float32) * 100
    path = tmp_path / "a.gguf"
    write_gguf(path, {"w": (array, Type.MXFP4)})
    assert convert(path, tmp_path / "b.hrry") == 0
    hurray.open(tmp_path / "b.hrry").verify(deep=True)
    tensor = hurray.load(tmp_path / "b.hrry")["w"]
    assert tensor.quantization == hurray.MXFP(1, 32, 1)
    data = np.asarray(tensor.buffer(0))
    codes = np.stack([data & 15, data >> 4], axis=-1).reshape(4, 64)
    values = codes.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    scales = np.exp2(np.asarray(tensor.buffer(1)).astype(np.float32) - 127).reshape(4, 2, 1)
    stored = gguf.GGUFReader(path).tensors[0]
    wanted = gguf.dequantize(stored.data, stored.tensor_type).reshape(4, 64)
    assert np.array_equal((values.reshape(4, 2, 32) * scales).reshape(4, 64), wanted)


def test_plain_types_and_fields_of_gguf(tmp_path):
    half = np.arange(12, dtype=np.float16).reshape(3, 4)
    arrays = {
        "f16": half,
        "f32": half.astype(np.float32),
        "f64": half.astype(np.float64),
        **{f"i{n}": np.arange(-3, 3, dtype=f"int{n}") for n in (8, 16, 32, 64)},
    }
    wide = half.astype(ml_dtypes.bfloat16)
    tensors = {name: (array, None) for name, array in arrays.items()}
    tensors["bf16"] = (wide.astype(np.float32), Type.BF16)
    write_gguf(
        tmp_path / "a.gguf",
        tensors,
        uint8=3,
        int32=-5,
        uint64=2**64 - 1,
        float32=0.5,
        bool=True,
        string="é",
        array=["a", "bc"],
    )
    assert convert(tmp_path / "a.gguf", tmp_path / "b.hrry") == 0
    loaded = hurray.load(tmp_path / "b.hrry")
    for name, array in arrays.items():
        assert np.asarray(loaded[name]).dtype == array.dtype
        assert np.array_equal(np.asarray(loaded[name]), array)
    assert loaded["bf16"].dtype is hurray.bfloat16
    assert np.array_equal(np.asarray(loaded["bf16"]), wide)
    kv = hurray.load_kv(tmp_path / "b.hrry")
    assert kv["general.architecture"] == "test"
    made = {key: value for key, value in kv.items() if key.startswith("x.")}
    assert made == {
        "x.uint8": 3,
        "x.int32": -5,
        "x.uint64": 2**64 - 1,
        "x.float32": 0.5,
        "x.bool": True,
        "x.string": "é",
        "x.array": ["a", "bc"],
    }


def test_other_blocks_are_refused_by_name_skipped_or_dequantized(tmp_path, capsys):
    generator = np.random.default_rng(3)
    array = generator.standard_normal((2, 256)).astype(np.float32)
    path, target = tmp_path / "a.gguf", tmp_path / "b.hrry"
    raw = generator.integers(0, 100, (2, 144), dtype=np.uint8)  # 144 bytes: a block of Q4_K
    writer = gguf.GGUFWriter(path, "test")
    writer.add_tensor("good", array)
    writer.add_tensor("k", raw, raw_dtype=Type.Q4_K)
    writer.add_tensor("min", gguf.quantize(array, Type.Q4_1), raw_dtype=Type.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    status, lines = converted(capsys, path, target)
    assert status == 1
    assert ["Q4_K" in lines[0], "Q4_1" in lines[1]] == [True, True]
    assert not target.exists()
    assert converted(capsys, "--skip-unsupported", path, target)[0] == 0
    assert list(hurray.load(target)) == ["good"]
    assert converted(capsys, "--dequantize", path, target) == (0, [])
    loaded = hurray.load(target)
    for stored in gguf.GGUFReader(path).tensors:
        wanted = gguf.dequantize(stored.data, stored.tensor_type)
        assert np.array_equal(np.asarray(loaded[stored.name]), wanted, equal_nan=True)


def test_a_broken_gguf_file_is_an_error_in_one_line(tmp_path, capsys):
    write_gguf(tmp_path / "a.gguf", {"w": (np.ones((2, 32), np.float32), None)})
    whole = (tmp_path / "a.gguf").read_bytes()
    for length in (4, 8, 30, len(whole) - 64, len(whole) - 250):
        (tmp_path / "b.gguf").write_bytes(whole[:length])
        status, lines = converted(capsys, tmp_path / "b.gguf", tmp_path / "c.hrry")
        assert (status, len(lines)) == (3, 1)


# ---- options ----


def test_formats_show_by_content_where_the_suffix_says_nothing(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "a")
    np.savez(tmp_path / "b.npz", x=np.ones(2))
    (tmp_path / "b.npz").rename(tmp_path / "b")
    safetensors_torch.save_file({"x": torch.ones(2)}, tmp_path / "c")
    write_gguf(tmp_path / "d", {"x": (np.ones(2, np.float32), None)})
    for name in "abcd":
        assert convert(tmp_path / name, tmp_path / "out") == 0
        assert np.asarray(hurray.load(tmp_path / "out")["x"]).tolist() == [1, 1]
        assert convert("--to", "safetensors", tmp_path / "out", tmp_path / "back") == 0
        assert safetensors_torch.load_file(tmp_path / "back")["x"].tolist() == [1, 1]


def test_metadata_that_no_file_can_have_are_notes(tmp_path, capsys):
    metadata = {
        "": "nothing",
        "k" * 70000: "long",
        "hurray.kv": json.dumps({"a": None, "b": {"c": 1}, "d": [1, "x"], "e": 2**70, "f": [1, 2]}),
        "plain": "text",
    }
    safetensors_torch.save_file({"x": torch.ones(2)}, tmp_path / "a.safetensors", metadata)
    status, lines = converted(capsys, tmp_path / "a.safetensors", tmp_path / "a.hrry")
    assert (status, len(lines)) == (0, 6)
    assert all("not carried: metadata " in line and len(line) < 500 for line in lines)
    assert hurray.load_kv(tmp_path / "a.hrry") == {"f": [1, 2], "plain": "text"}
    torch.save({"x": torch.ones(2), "s": "\ud800", "n": 3}, tmp_path / "b.pt")
    status, lines = converted(capsys, tmp_path / "b.pt", tmp_path / "b.hrry")
    assert (status, len(lines)) == (0, 1)
    assert hurray.load_kv(tmp_path / "b.hrry") == {"n": 3}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_tensors_whose_names_no_file_can_have_are_refused_by_name(tmp_path, capsys):
    array = io.BytesIO()
    np.save(array, np.ones(2))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in (".npy", "x.npy", "x.npy", "y.npy"):
            archive.writestr(name, array.getvalue())
    tensors = {"k" * 70000: torch.ones(1), "": torch.ones(1), "x": torch.ones(1)}
    safetensors_torch.save_file(tensors, tmp_path / "b.safetensors")
    for source, kept, refused in (("a.npz", ["x", "y"], 2), ("b.safetensors", ["x"], 2)):
        target = tmp_path / f"{source}.hrry"
        status, lines = converted(capsys, tmp_path / source, target)
        assert (status, len(lines), target.exists()) == (1, 2, False)
        assert all("cannot carry" in line and len(line) < 500 for line in lines[:-1])
        status, lines = converted(capsys, "--skip-unsupported", tmp_path / source, target)
        assert (status, len(lines)) == (0, refused)
        assert list(hurray.load(target)) == kept


@pytest.mark.parametrize(
    "text, status",
    [
        ("[1]", 3),
        ('{"kv": 3}', 3),
        ('{"dtypes": []}', 3),
        ('{"dtypes": {"x": 3}}', 3),
        ("[" * 10**5, 3),
        ('{"dtypes": {"x": "no type"}}', 1),
        ('{"dtypes": {"x": "int64"}}', 1),
        ('{"dtypes": {"y": "int64"}}', 0),
    ],
    ids=lambda value: str(value)[:28],
)
def test_the_member_for_types_and_metadata_may_be_a_strangers(tmp_path, capsys, text, status):
    np.savez(tmp_path / "a.npz", x=np.ones(2))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("hurray.json", text)
    found, lines = converted(capsys, tmp_path / "a.npz", tmp_path / "a.hrry")
    assert found == status
    assert len(lines) == {0: 0, 1: 2, 3: 1}[status]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.npz", "a.npz"], "same file"),
        (["a.npz", "b.safetensors"], "convert twice"),
        (["a.npz", "b.pt"], "torch is only read; expected one of hurray, safetensors, npz"),
        (["a.hrry", "b.hrry"], "already"),
        (["a.hrry", "b.what"], "--to"),
        (["text", "b.hrry"], "--from"),
        (["a.hrry", "b.npz", "--checksums"], "--checksums is for a Hurray file"),
        (["a.hrry", "b.npz", "--alignment", "4096"], "--alignment"),
        (["memory://a.npz", "b.hrry"], "URL"),
        (["a.hrry", "memory://b.npz"], "URL"),
        (["a.npz", "b.hrry", "--alignment", "5"], "5"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", x=np.ones(2))
    hurray.save("a.hrry", {"x": hurray.ones(2)})
    (tmp_path / "text").write_text("no tensors")
    status, lines = converted(capsys, *arguments)
    assert status == (3 if arguments[-1] == "5" else 2)
    assert len(lines) == 1
    assert said in lines[0]
    assert sorted(os.listdir()) == ["a.hrry", "a.npz", "text"]


def test_hurray_files_are_converted_from_urls(tmp_path):
    pytest.importorskip("fsspec")
    hurray.save(tmp_path / "a.hrry", {"x": hurray.ones(2)})
    assert convert(f"file://{tmp_path}/a.hrry", tmp_path / "b.npz") == 0
    assert np.load(tmp_path / "b.npz")["x"].tolist() == [1, 1]


def test_options_of_the_written_file(tmp_path):
    np.savez(tmp_path / "a.npz", b=np.ones(2), a=np.ones(3))
    options = ["--checksums", "--sorted-index", "--alignment", "65536"]
    assert convert(*options, tmp_path / "a.npz", tmp_path / "b.hrry") == 0
    with hurray.open(tmp_path / "b.hrry") as file:
        assert file.info["alignment"] == 65536
        assert file.info["flags"] & 2
        assert len(file.kv["hurray.crc32c"]) == 8
    safetensors_torch.save_file(
        {"x": torch.ones(1)}, tmp_path / "c.safetensors", metadata={"a": "b"}
    )
    assert convert("--no-metadata", tmp_path / "c.safetensors", tmp_path / "d.hrry") == 0
    assert hurray.load_kv(tmp_path / "d.hrry") == {}


def test_a_missing_library_is_named(tmp_path):
    safetensors_torch.save_file({"x": torch.ones(1)}, tmp_path / "a.safetensors")
    code = (
        "import sys; sys.modules['safetensors'] = None\n"
        "from hurray import cli; sys.exit(cli.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "convert", tmp_path / "a.safetensors", tmp_path / "b"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3
    assert "install hurray[safetensors]" in done.stderr
    assert done.stderr.count("\n") == 1


# ---- the example ----


def test_the_example_compares_what_it_converted(tmp_path, capsys, monkeypatch):
    import runpy

    script = pathlib.Path(__file__).parents[2] / "examples" / "convert_model.py"
    example = runpy.run_path(str(script))
    tensors = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.arange(3)}
    safetensors_torch.save_file(tensors, tmp_path / "a.safetensors")
    monkeypatch.setattr(sys, "argv", ["convert_model.py", str(tmp_path / "a.safetensors")])
    example["main"]()
    assert "9 values in 2 tensors are the same, bit for bit." in capsys.readouterr().out
    with pytest.raises(AssertionError, match="other values"):
        example["compare"]({"x": hurray.ones(2)}, {"x": np.zeros(2)})
