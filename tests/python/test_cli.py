"""The `hurray` command: each subcommand, its exit statuses, pipes, and what it does at a terminal."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

import hurray
from hurray import cli

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
COMMAND = [sys.executable, "-m", "hurray"]


def run(capsys, *argv):
    """Exit status, standard output, standard error of main(argv)."""
    try:
        status = cli.main([str(each) for each in argv])
    except SystemExit as error:
        status = error.code
    out, err = capsys.readouterr()
    return status, out, err


def spawn(*argv, **options):
    return subprocess.run([*COMMAND, *map(str, argv)], capture_output=True, timeout=60, **options)


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.hrry"
    members = [hurray.zeros(3, dtype=hurray.float32), hurray.ones(4, dtype=hurray.int8)]
    tensors = {
        "w": hurray.asarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
        "b": hurray.asarray(np.array([1.5, -2, np.nan])),
        "group": hurray.Composite("group", shape=(), dtype=hurray.float32, members=members),
        "flags": hurray.asarray(np.array([True, False, True])),
        "z[0]": hurray.asarray(np.array([1 + 2j])),
    }
    kv = {"author": "me", "layers": [2, 4], "raw": b"\x00\x01", "rate": 0.5}
    hurray.save(path, tensors, kv=kv, checksums=True)
    return path


# ---- ls ----


def test_ls_lists_names_types_shapes_layouts_and_sizes(capsys, model):
    status, out, err = run(capsys, "ls", model)
    lines = [line.split() for line in out.splitlines()]
    assert (status, err) == (0, "")
    assert lines[0] == ["name", "dtype", "shape", "layout", "size"]
    assert lines[1] == ["w", "float32", "[3,", "4]", "row_major", "48", "B"]
    assert lines[3] == ["group", "float32", "[]", "group", "of", "2", "16", "B"]
    assert lines[-1] == ["5", "tensors,", "105", "B"]


def test_ls_shows_members_when_asked(capsys, model):
    assert "group.1" not in run(capsys, "ls", model)[1]
    assert "\n  group.1 " in run(capsys, "ls", "--members", model)[1]


def test_ls_of_composites_in_composites(capsys, tmp_path):
    def group(*members):
        return hurray.Composite("group", shape=(), dtype=hurray.float32, members=members)

    one = hurray.ones(4, dtype=hurray.int8)
    hurray.save(tmp_path / "f", {"g": group(group(one, group(one)), one, group(one)), "w": one})
    entries = json.loads(run(capsys, "ls", "--members", "--json", tmp_path / "f")[1])
    assert [(entry["name"], entry["nbytes"]) for entry in entries] == [
        ("g", 16),
        ("g.0", 8),
        ("g.0.0", 4),
        ("g.0.1", 4),
        ("g.0.1.0", 4),
        ("g.1", 4),
        ("g.2", 4),
        ("g.2.0", 4),
        ("w", 4),
    ]
    out = run(capsys, "ls", "--members", tmp_path / "f")[1]
    assert "      g.0.1.0  " in out and "\nw " in out


def test_ls_of_heads_without_end(capsys, tmp_path):
    """Each a member of the one before: deeper than the format allows, and than the interpreter."""
    tensors = {f"{i}": hurray.ones(0) for i in range(5000)}
    head = hurray.Composite("group", shape=(1, 1), dtype=hurray.float32, members=[hurray.ones(0)])
    head = head.descriptor.encode()
    hurray.save(tmp_path / "f", tensors)
    data = bytearray((tmp_path / "f").read_bytes())
    with hurray.open(tmp_path / "f") as file:
        places = [file._reader.entry(name) for name in file.all_names()]
    assert places[0][1] == len(head)
    for offset, length, *_ in places[:-1]:
        data[offset : offset + length] = head
    (tmp_path / "f").write_bytes(data)
    status, out, _ = run(capsys, "ls", tmp_path / "f")
    assert (status, out.splitlines()[-1]) == (0, "1 tensor, 0 B")
    assert run(capsys, "verify", "--quiet", tmp_path / "f")[0] == 1


def test_ls_json_says_the_same(capsys, model):
    entries = json.loads(run(capsys, "ls", "--json", "--members", model)[1])
    assert [entry["name"] for entry in entries] == hurray.open(model).all_names()
    data = model.read_bytes()
    w = entries[0]
    assert (w["dtype"], w["shape"], w["layout"], w["nbytes"]) == (
        "float32",
        [3, 4],
        "row_major",
        48,
    )
    kept = np.frombuffer(data, np.float32, 12, w["offset"])
    assert kept.tolist() == list(range(12))


def test_ls_names_is_one_name_per_line(capsys, model):
    assert run(capsys, "ls", "--names", model)[1].splitlines() == [
        "w",
        "b",
        "group",
        "flags",
        "z[0]",
    ]


def test_ls_of_an_empty_file(capsys, tmp_path):
    hurray.save(tmp_path / "empty", {})
    assert run(capsys, "ls", tmp_path / "empty") == (0, "0 tensors, 0 B\n", "")


def test_ls_shows_quantization_where_there_is_one(capsys, tmp_path):
    scheme = hurray.PerTensorAffine(0.5, 3)
    tensor = hurray.Tensor(bytes(4), hurray.int8, (4,), quantization=scheme)
    hurray.save(tmp_path / "q", {"q": tensor})
    out = run(capsys, "ls", tmp_path / "q")[1]
    assert "quantization" in out
    assert "PerTensorAffine" in out


def test_no_name_reaches_the_terminal_with_its_control_characters(capsys, tmp_path):
    name = "a\x1b[31m\n"
    hurray.save(tmp_path / "odd", {name: hurray.zeros(1)}, kv={name: name})
    for arguments in (["ls"], ["kv"], ["inspect"]):
        out = run(capsys, *arguments, tmp_path / "odd")[1]
        assert "\x1b" not in out
        assert "a\\x1b[31m\\n" in out


@pytest.mark.parametrize("value, shown", [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB")])
@pytest.mark.parametrize("factor, unit", [(1, ""), (1024**2, "MiB"), (1024**5, "PiB")])
def test_sizes(value, shown, factor, unit):
    from hurray.cli.output import shown_size

    if factor == 1:
        assert shown_size(value) == shown
    else:
        assert shown_size(3 * factor) == f"3 {unit}"


# ---- kv ----


def test_kv_shows_types_and_values(capsys, model):
    status, out, _ = run(capsys, "kv", model)
    assert status == 0
    assert [line.split(maxsplit=2) for line in out.splitlines()][1:5] == [
        ["author", "str", "'me'"],
        ["layers", "list[int]", "[2, 4]"],
        ["raw", "bytes", r"b'\x00\x01'"],
        ["rate", "float", "0.5"],
    ]


def test_kv_json_and_single_keys(capsys, model):
    made = json.loads(run(capsys, "kv", "--json", model)[1])
    assert made["layers"] == [2, 4]
    assert made["raw"] == {"base64": "AAE="}
    assert run(capsys, "kv", model, "author")[1] == "me\n"
    status, _, err = run(capsys, "kv", model, "nix")
    assert (status, err.count("\n")) == (3, 1)


# ---- cat ----


def test_cat_prints_as_numpy(capsys, model):
    assert run(capsys, "cat", model, "w")[1] == f"{np.arange(12, dtype=np.float32).reshape(3, 4)}\n"


@pytest.mark.parametrize(
    "index", ["0:2, :2", "-1", "1, 2", "..., 0", "::2", ":, ::-1", "0:100", "2:1", "1:2,"]
)
def test_cat_takes_slices_as_numpy_does(capsys, model, index):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    status, out, _ = run(capsys, "cat", "--json", model, f"w[{index}]")
    assert status == 0
    assert json.loads(out) == eval(f"array[{index}]", {"array": array}).tolist()


@pytest.mark.parametrize("index", ["x", "", "0, 0, 0", "3", "1:2:3:4", "::0", "0;1"])
def test_cat_refuses_other_indices_in_one_line(capsys, model, index):
    status, out, err = run(capsys, "cat", model, f"w[{index}]")
    assert (status, out, err.count("\n")) == (2, "", 1)


def test_cat_prefers_a_name_that_looks_like_a_slice(capsys, model):
    assert json.loads(run(capsys, "cat", "--json", model, "z[0]")[1]) == [[1.0, 2.0]]


def test_cat_all_leaves_nothing_out(capsys, tmp_path):
    hurray.save(tmp_path / "long", {"x": hurray.arange(5000)})
    assert "..." in run(capsys, "cat", tmp_path / "long", "x")[1]
    whole = run(capsys, "cat", "--all", tmp_path / "long", "x")[1]
    assert whole.split()[-1] == "4999]"


def test_cat_raw_is_the_bytes(model):
    done = spawn("cat", "--raw", model, "w[:, 1:3]")
    wanted = np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1:3]
    assert (done.returncode, done.stdout) == (0, wanted.tobytes())
    assert spawn("cat", "--raw", model, "flags").stdout == b"\x01\x00\x01"


def test_cat_of_small_floats_is_json(capsys, tmp_path):
    pytest.importorskip("ml_dtypes")
    hurray.save(tmp_path / "f", {"h": hurray.ones(2, dtype=hurray.bfloat16)})
    assert json.loads(run(capsys, "cat", "--json", tmp_path / "f", "h")[1]) == [1.0, 1.0]


def test_cat_of_what_has_no_values_says_so(capsys, model, tmp_path):
    status, _, err = run(capsys, "cat", model, "group")
    assert (status, err.count("\n")) == (3, 1)
    tensor = hurray.Tensor(bytes(4), hurray.int8, (4,), quantization=hurray.PerTensorAffine(0.5, 3))
    hurray.save(tmp_path / "q", {"q": tensor})
    status, _, err = run(capsys, "cat", tmp_path / "q", "q")
    assert status == 3
    assert "PerTensorAffine" in err


# ---- inspect ----


def test_inspect_of_a_tensor_shows_each_byte_at_its_place(capsys, model):
    status, out, _ = run(capsys, "inspect", model, "w")
    assert status == 0
    assert out.startswith("w\noffset")
    assert "    64  48 52 52 59" in out
    assert "shape[1] = 4" in out
    assert out.endswith("valid\n")


def test_inspect_of_a_file_shows_all_its_descriptors(capsys, model):
    out = run(capsys, "inspect", model)[1]
    assert out.count('magic = "HRRY"') == len(hurray.open(model).all_names())


def test_inspect_of_a_descriptor_a_stream_and_standard_input(capsys, tmp_path):
    tensor = hurray.ones((2, 3))
    encoded = tensor.descriptor.encode()
    (tmp_path / "d").write_bytes(encoded)
    status, alone, _ = run(capsys, "inspect", tmp_path / "d")
    assert status == 0
    with hurray.StreamWriter(tmp_path / "s") as writer:
        writer.write(tensor)
        writer.write(tensor)
    status, both, _ = run(capsys, "inspect", tmp_path / "s")
    assert status == 0
    assert both.startswith(alone)
    assert f"{len(encoded) + 48:6}  48 52 52 59" in both
    done = spawn("inspect", input=(tmp_path / "s").read_bytes())
    assert (done.returncode, done.stdout.decode()) == (0, both)


def test_inspect_says_what_is_wrong_and_where(capsys, tmp_path):
    encoded = bytearray(hurray.ones(2).descriptor.encode())
    encoded[4] = 9
    (tmp_path / "d").write_bytes(encoded)
    status, out, _ = run(capsys, "inspect", tmp_path / "d")
    assert status == 1
    assert "version_major = 9" in out
    with hurray.StreamWriter(tmp_path / "s") as writer:
        writer.write(hurray.ones(4))
        writer.write(hurray.ones(4))
    whole = (tmp_path / "s").read_bytes()
    (tmp_path / "s").write_bytes(whole[:-5])
    status, _, err = run(capsys, "inspect", tmp_path / "s")
    assert status == 3
    assert "5 of 32 bytes are missing" in err


@pytest.mark.parametrize("path", sorted(VECTORS.glob("valid/*.bin"))[:20], ids=lambda p: p.name)
def test_inspect_takes_every_golden_descriptor(capsys, path):
    status, out, _ = run(capsys, "inspect", "--permissive", path)
    assert status == 0
    assert out.endswith("valid\n")


# ---- verify ----


def test_verify_of_sound_files_and_streams(capsys, model, tmp_path):
    with hurray.StreamWriter(tmp_path / "s") as writer:
        writer.write(hurray.ones(4))
    status, out, err = run(capsys, "verify", "--deep", model, tmp_path / "s")
    assert (status, err) == (0, "")
    assert [line.rpartition(": ")[2] for line in out.splitlines()] == ["sound", "sound"]
    assert run(capsys, "verify", "-q", model) == (0, "", "")


def test_verify_lists_every_fault(capsys, model):
    entries = {e["name"]: e for e in json.loads(run(capsys, "ls", "--json", "--members", model)[1])}
    flip(model, entries["w"]["offset"])
    flip(model, entries["flags"]["offset"])
    status, out, _ = run(capsys, "verify", model)
    lines = out.splitlines()
    assert status == 1
    assert len(lines) == 2
    assert "'w'" in lines[0]
    assert "'flags'" in lines[1]


def test_verify_deep_looks_at_indices(capsys, tmp_path):
    path = tmp_path / "sparse"
    good = hurray.sparse_coo(np.array([1.0, 2.0]), np.array([[0, 1], [1, 2]], np.uint64), (2, 3))
    hurray.save(path, {"s": good})
    at = path.read_bytes().rindex(np.array(good.indices.to_numpy()).tobytes())
    flip(path, at + 7)
    assert run(capsys, "verify", path)[0] == 0
    status, out, _ = run(capsys, "verify", "--deep", path)
    assert status == 1
    assert "'s'" in out


def test_verify_of_what_is_no_file(capsys, tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_bytes(b"")
    status, out, _ = run(capsys, "verify", tmp_path / "text", tmp_path / "empty")
    assert status == 1
    assert len(out.splitlines()) == 2
    status, out, err = run(capsys, "verify", tmp_path / "absent", tmp_path / "text")
    assert status == 3
    assert len(out.splitlines()) == len(err.splitlines()) == 1


@pytest.mark.parametrize("path", sorted(VECTORS.glob("files_invalid/*")), ids=lambda p: p.name)
def test_verify_finds_a_fault_in_every_broken_file(capsys, path):
    status, out, err = run(capsys, "verify", "--deep", path)
    assert (status, err) == (1, "")
    assert out.count("\n") >= 1


@pytest.mark.parametrize("path", sorted(VECTORS.glob("streams_invalid/*")), ids=lambda p: p.name)
def test_verify_finds_a_fault_in_every_broken_stream(path):
    from hurray.cli.source import kind_of

    # Given as a stream, whatever its first bytes are.
    with path.open("rb") as file:
        done = spawn("verify", "--deep", "-", stdin=file)
    assert kind_of("-") == "stream"
    assert done.returncode == 1, done
    assert done.stdout.count(b"\n") >= 1


@pytest.mark.parametrize("path", sorted(VECTORS.glob("verify/*.hrs")), ids=lambda p: p.name)
def test_only_deep_verification_sees_what_is_in_buffers(capsys, path):
    assert run(capsys, "verify", path)[0] == 0
    status, out, _ = run(capsys, "verify", "--deep", path)
    assert (status, out.count("\n")) == (1, 1)


# ---- diff ----


def test_diff_of_equal_files_is_silent(capsys, model, tmp_path):
    again = tmp_path / "again.hrry"
    file = hurray.open(model)
    kv = {key: value for key, value in file.kv.items() if key != "hurray.crc32c"}
    names = list(reversed(list(file)))
    hurray.save(again, {name: file[name] for name in names}, kv=kv, alignment=65536)
    assert run(capsys, "diff", model, again) == (0, "", "")


def test_diff_says_what_differs(capsys, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    values = np.arange(12, dtype=np.float32)
    others = values.copy()
    others[[3, 7]] = -1
    one = {"x": values, "same": values, "shape": values, "type": values, "gone": values}
    two = {
        "x": others,
        "same": values,
        "shape": values.reshape(3, 4),
        "type": values.view(np.int32),
        "new": values,
    }
    hurray.save(a, one, kv={"k": 1, "old": 1, "s": "t"})
    hurray.save(b, two, kv={"k": True, "fresh": 1, "s": "t"})
    status, out, _ = run(capsys, "diff", a, b)
    assert status == 1
    differing = [
        i for i, (x, y) in enumerate(zip(values.tobytes(), others.tobytes(), strict=True)) if x != y
    ]
    assert out.splitlines() == [
        "metadata 'k': 1 and True",
        f"metadata 'old': only in {a}",
        f"metadata 'fresh': only in {b}",
        f"'gone': only in {a}",
        f"'new': only in {b}",
        f"'x': {len(differing)} of 48 bytes differ, the first at byte {differing[0]}",
        "'shape': shape [12] and [3, 4]",
        "'type': dtype float32 and int32",
    ]
    assert run(capsys, "diff", "-q", a, b) == (1, "", "")


def test_diff_without_data_looks_at_descriptors_only(capsys, tmp_path):
    for name, value in (("a", 1), ("b", 2)):
        hurray.save(tmp_path / name, {"x": hurray.full(3, value)})
    assert run(capsys, "diff", tmp_path / "a", tmp_path / "b")[0] == 1
    assert run(capsys, "diff", "--no-data", tmp_path / "a", tmp_path / "b")[0] == 0


# ---- stream ----


def test_two_processes_carry_a_file_through_a_pipe(model, tmp_path):
    names, copy = tmp_path / "names.json", tmp_path / "copy.hrry"
    sender = subprocess.Popen([*COMMAND, "stream", model, "--names", names], stdout=subprocess.PIPE)
    done = spawn("stream", "-", copy, "--names", names, stdin=sender.stdout)
    sender.stdout.close()
    assert (sender.wait(60), done.returncode, done.stderr) == (0, 0, b"")
    assert spawn("diff", model, copy).returncode == 0
    assert hurray.load_kv(copy)["raw"] == b"\x00\x01"


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_nothing_is_written_over_what_is_read(capsys, model, tmp_path, link):
    before, other = model.read_bytes(), model
    if link is not None:
        link(model, other := tmp_path / "link")
    kept = tmp_path / "kept"
    for argv in (
        ["stream", model, other],
        ["stream", model, kept, "--names", other],
        ["stream", model, kept, "--names", kept],
        ["convert", model, other, "--to", "npz"],
    ):
        status, _, err = run(capsys, *argv)
        assert (status, err.count("\n")) == (2, 1)
        assert "same file" in err
        assert model.read_bytes() == before
        assert not kept.exists()


def test_a_stream_that_cannot_be_whole_leaves_the_old_one(capsys, model, tmp_path):
    with hurray.open(model) as file:
        flip(model, file._reader.entry("flags")[0])
    (tmp_path / "s").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    there = sorted(os.listdir(tmp_path))
    for argv in (
        [model, tmp_path / "s"],
        [model, tmp_path / "folder"],
        [model, tmp_path / "no" / "s"],
        [model, tmp_path / "s", "--names", tmp_path / "folder"],
        [model, tmp_path / "s", "--names", tmp_path / "no" / "names"],
    ):
        status, _, err = run(capsys, "stream", *argv)
        assert (status, err.count("\n")) == (3, 1)
        assert sorted(os.listdir(tmp_path)) == there
        assert (tmp_path / "s").read_bytes() == b"old"


def test_a_stream_goes_into_pipes_and_devices_as_they_are(model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen([*COMMAND, "stream", model, tmp_path / "pipe"]) as process:
        received = (tmp_path / "pipe").read_bytes()
        assert process.wait(60) == 0
    assert received == spawn("stream", model).stdout
    assert sorted(os.listdir(tmp_path)) == ["model.hrry", "pipe"]
    assert spawn("stream", model, "/dev/full").returncode == 3


@pytest.mark.parametrize("target", ["npz", "safetensors"])
def test_what_is_no_file_is_not_replaced(capsys, tmp_path, target):
    pytest.importorskip(target.replace("npz", "numpy"))
    hurray.save(tmp_path / "f", {"w": hurray.ones(3)})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in ("pipe", "folder", "no/file", "new/", ""):
        path = os.path.join(tmp_path, path) if path else path
        status, _, err = run(capsys, "convert", tmp_path / "f", path, "--to", target)
        assert (status, err.count("\n")) == (3, 1)
        assert path in err
        assert sorted(os.listdir(tmp_path)) == ["f", "folder", "pipe"]


def test_without_names_tensors_are_numbered_and_metadata_is_reported(model, tmp_path):
    sent = spawn("stream", model)
    assert sent.returncode == 0
    assert b"not carried: metadata (author" in sent.stderr
    done = spawn("stream", "-", tmp_path / "copy", "--checksums", input=sent.stdout)
    assert done.returncode == 0
    with hurray.open(tmp_path / "copy") as file:
        assert list(file) == ["0000", "0001", "0002", "0003", "0004"]
        ours, theirs = file.descriptor("0000"), hurray.open(model).descriptor("w")
        assert (ours.dtype, ours.shape, ours.layout) == (theirs.dtype, theirs.shape, theirs.layout)
        file.verify()


def test_a_stream_file_becomes_a_file_and_back(capsys, model, tmp_path):
    assert run(capsys, "stream", "-q", model, tmp_path / "s")[0] == 0
    assert run(capsys, "ls", "--names", tmp_path / "s")[1].split() == ["0", "1", "2", "3", "4"]
    assert run(capsys, "stream", tmp_path / "s", tmp_path / "f")[0] == 0
    assert len(hurray.open(tmp_path / "f")) == 5


def test_an_empty_stream_becomes_an_empty_file(tmp_path):
    assert spawn("stream", "-", tmp_path / "f", input=b"").returncode == 0
    assert hurray.load(tmp_path / "f") == {}


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["a", "a"], [1, 2], {"kv": {}}, "text"])
def test_names_that_do_not_fit_leave_no_file(capsys, tmp_path, names):
    with hurray.StreamWriter(tmp_path / "s") as writer:
        writer.write(hurray.ones(4))
        writer.write(hurray.ones(4))
    (tmp_path / "n").write_text(json.dumps(names))
    status, _, err = run(
        capsys, "stream", tmp_path / "s", tmp_path / "f", "--names", tmp_path / "n"
    )
    assert (status, err.count("\n")) == (3, 1)
    assert sorted(os.listdir(tmp_path)) == ["n", "s"]


def test_a_truncated_stream_leaves_the_old_file(tmp_path):
    hurray.save(tmp_path / "f", {"old": hurray.ones(2)})
    with hurray.StreamWriter() as writer:
        writer.write(hurray.ones(4))
    done = spawn("stream", "-", tmp_path / "f", input=writer.getvalue()[:-1])
    assert done.returncode == 3
    assert done.stderr.count(b"\n") == 1
    assert list(hurray.load(tmp_path / "f")) == ["old"]
    assert os.listdir(tmp_path) == ["f"]


# ---- the command itself ----


def test_version_and_help(capsys):
    assert run(capsys, "--version") == (0, f"hurray {hurray.__version__}\n", "")
    status, out, _ = run(capsys, "--help")
    assert status == 0
    assert "exit status:" in out


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nix"],
        ["ls"],
        ["ls", "--nix", "f"],
        ["convert", "a"],
        ["completion", "csh"],
        ["ls", "--js", "f"],
    ],
)
def test_wrong_usage_is_2(capsys, argv):
    assert run(capsys, *argv)[0] == 2


@pytest.mark.parametrize(
    "argv",
    [
        ["ls", "absent"],
        ["kv", "."],
        ["cat", "model.hrry", "nix"],
        ["ls", "text"],
        ["inspect", "absent"],
        ["stream", "absent"],
        ["convert", "absent.npz", "x.hrry"],
        ["diff", "model.hrry", "absent"],
        ["inspect", "model.hrry", "nix"],
    ],
)
def test_failures_are_3_and_one_line(capsys, monkeypatch, model, argv):
    (model.parent / "text").write_text("no tensors")
    monkeypatch.chdir(model.parent)
    status, out, err = run(capsys, *argv)
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("hurray: ")
    assert "Traceback" not in err


def test_debug_shows_the_traceback(tmp_path):
    for argv in (["--debug", "ls", tmp_path / "absent"], ["ls", "--debug", tmp_path / "absent"]):
        done = spawn(*argv)
        assert b"Traceback" in done.stderr
        assert done.returncode == 1


def test_a_name_that_is_nearly_right_is_suggested(capsys, model):
    assert "'group.1'" in run(capsys, "inspect", model, "group.11")[2]


def test_files_in_the_formats_of_others_are_named_with_the_way_from_them(capsys, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones(2))
    for argv in (["ls"], ["kv"], ["stream"]):
        status, _, error = run(capsys, *argv, tmp_path / "a.npz")
        assert status == 3
        assert "npz, not Hurray; `hurray convert" in error
    (tmp_path / "b.hrry").write_bytes(b"no file, though called one".ljust(200))
    status, _, error = run(capsys, "ls", tmp_path / "b.hrry")
    assert (status, "magic is 6E 6F 20 66 69 6C 65 2C" in error) == (3, True)


def test_a_file_is_no_stream(model):
    for argv in (["ls", "-"], ["stream", "-", model.with_suffix(".new")]):
        done = spawn(*argv, input=model.read_bytes())
        assert done.returncode == 3
        assert b"begins a file" in done.stderr
    assert not model.with_suffix(".new").exists()


def test_a_reader_that_leaves_is_no_error(tmp_path):
    hurray.save(tmp_path / "many", {f"tensor {i}": hurray.zeros(1) for i in range(3000)})
    for argv in (["ls", tmp_path / "many"], ["stream", tmp_path / "many"]):
        process = subprocess.Popen(
            [*COMMAND, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(60) == 141


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_the_status_and_leaves_nothing(tmp_path, number):
    process = subprocess.Popen(
        [*COMMAND, "stream", "-", tmp_path / "f"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with hurray.StreamWriter() as writer:
        writer.write(hurray.ones(4))
    process.stdin.write(writer.getvalue())
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not os.listdir(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert os.listdir(tmp_path)
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()
    assert os.listdir(tmp_path) == []


def test_closed_standard_streams_are_failures_in_one_line(model, tmp_path):
    def shell(line):
        line = f"{sys.executable} -m hurray {line}"
        return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)

    for line, what in (
        (f"ls {model} >&-", "output"),
        ("ls - <&-", "input"),
        ("inspect <&-", "input"),
    ):
        done = shell(line)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"hurray: standard {what} is closed\n"
    # Errors and notes do not get into the output instead.
    done = shell(f"stream {model} 2>&- | {sys.executable} -m hurray ls --names -")
    assert (done.returncode, done.stdout.split()) == (0, ["0", "1", "2", "3", "4"])
    done = shell(f"ls {tmp_path}/no 2>&-")
    assert (done.returncode, done.stdout) == (3, "")


def test_errors_are_short_lines_that_a_terminal_only_shows(capsys, tmp_path):
    hurray.save(tmp_path / "f", {"a\x1b[1m\x9b1m\u202e": hurray.ones(1)})
    with hurray.open(tmp_path / "f") as file:
        flip(tmp_path / "f", file._reader.entry(file.all_names()[0])[0])
    for argv in (
        ["ls", tmp_path / "a\x1b[1m\n\x9b"],
        ["ls", tmp_path / "f"],
        ["cat", tmp_path / "f", "a\x1b[1m"],
        ["cat", tmp_path / "f", "x" * 10**5],
        ["convert", tmp_path / "f", tmp_path / "\x1b"],
        ["stream", tmp_path / "f", tmp_path / "g"],
    ):
        status, out, err = run(capsys, *argv)
        assert (status in (2, 3), out) == (True, "")
        assert err.endswith("\n") and err[:-1].isprintable() and len(err) < 3000
    path = os.fsdecode(os.fsencode(tmp_path / "x") + b"\xff\x1b")
    hurray.save(path, {"w": hurray.ones(1)})
    for argv in (["verify", path], ["diff", path, tmp_path / "f"]):
        out = run(capsys, *argv)[1]
        assert "x\\udcff\\x1b" in out and "\x1b" not in out


# ---- terminals ----


def test_a_terminal_obeys_no_name_and_no_value(capsys, tmp_path):
    name = "a\x1b[31m\x9b31m\nb"
    hurray.save(tmp_path / "f", {name: hurray.ones(1)}, kv={"k": name})
    for argv in (["ls", "--names"], ["kv"], ["ls", "--json"], ["kv", "--json"]):
        argv += [tmp_path / "f"] + ["k"] * ("kv" in argv)
        status, shown = at_a_terminal(*argv)
        assert status == 0
        assert b"31m" in shown and b"\x1b" not in shown and "\x9b".encode() not in shown
    # A program gets it all; in JSON it is the same anyway.
    assert spawn("ls", "--names", tmp_path / "f").stdout.decode() == f"{name}\n"
    assert spawn("kv", tmp_path / "f", "k").stdout.decode() == f"{name}\n"
    assert json.loads(run(capsys, "kv", "--json", tmp_path / "f", "k")[1]) == name
    assert json.loads(run(capsys, "ls", "--json", tmp_path / "f")[1])[0]["name"] == name


def at_a_terminal(*argv):
    """Status and what a terminal shows of a process whose outputs both are one."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 25, 80, 0, 0))
    process = subprocess.Popen([*COMMAND, *map(str, argv)], stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: all have closed it
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    return process.wait(60), shown


def test_bytes_do_not_go_to_a_terminal(model):
    for argv in (["stream", model], ["cat", "--raw", model, "w"]):
        status, shown = at_a_terminal(*argv)
        assert status == 2
        assert b"terminal" in shown
        assert b"HRRY" not in shown


def test_tables_have_colour_only_at_a_terminal(model):
    assert b"\x1b[" in at_a_terminal("inspect", model, "w")[1]
    assert b"\x1b[" not in spawn("inspect", model, "w").stdout
    assert b"\x1b[" not in at_a_terminal("inspect", "--color", "never", model, "w")[1]
    assert b"\x1b[" in spawn("inspect", "--color", "always", model, "w").stdout


def test_long_work_has_a_bar_at_a_terminal_and_none_elsewhere(tmp_path):
    pytest.importorskip("tqdm")
    hurray.save(tmp_path / "big", {f"x{i}": hurray.zeros(1 << 20) for i in range(9)})
    hurray.save(tmp_path / "small", {"x": hurray.zeros(10)})
    assert b"diff:" in at_a_terminal("diff", tmp_path / "big", tmp_path / "big")[1]
    assert at_a_terminal("diff", tmp_path / "small", tmp_path / "small") == (0, b"")
    assert spawn("diff", tmp_path / "big", tmp_path / "big").stderr == b""
    assert at_a_terminal("stream", "-q", tmp_path / "big", tmp_path / "s") == (0, b"")


# ---- completion ----


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_all_commands(capsys, shell):
    status, out, _ = run(capsys, "completion", shell)
    assert status == 0
    for command in (
        "ls",
        "inspect",
        "kv",
        "cat",
        "verify",
        "diff",
        "convert",
        "stream",
        "completion",
    ):
        assert command in out
    assert "skip-unsupported" in out


@pytest.fixture
def hurray_on_path(monkeypatch, tmp_path):
    """A `hurray` that completion finds and asks for names of tensors."""
    command = tmp_path / "bin" / "hurray"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m hurray "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")


def complete(script, *words):
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {script}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n_hurray\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes(capsys, model, tmp_path, hurray_on_path):
    script = tmp_path / "hurray.bash"
    script.write_text(run(capsys, "completion", "bash")[1])
    assert complete(script, "hurray", "in") == ["inspect"]
    assert complete(script, "hurray", "ls", "--j") == ["--json"]
    assert complete(script, "hurray", "completion", "f") == ["fish"]
    assert complete(script, "hurray", "ls", str(model)[:-3]) == [str(model)]
    assert complete(script, "hurray", "cat", str(model), "gr") == ["group", "group.0", "group.1"]
    assert complete(script, "hurray", "cat", "--json", str(model), "grou") == [
        "group",
        "group.0",
        "group.1",
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_completion_executes_nothing_that_a_file_says(
    capsys, monkeypatch, tmp_path, hurray_on_path
):
    script = tmp_path / "hurray.bash"
    script.write_text(run(capsys, "completion", "bash")[1])
    made = tmp_path / "made"
    names = [f"$(touch {made})", f"`touch {made}`", "a b", "*"]
    hurray.save(tmp_path / "x.hrry", dict.fromkeys(names, hurray.zeros(1)))
    monkeypatch.chdir(tmp_path)
    found = complete(script, "hurray", "cat", "x.hrry", "")
    assert found == [rf"\$\(touch\ {made}\)", rf"\`touch\ {made}\`", r"a\ b", r"\*"]
    assert not made.exists()
    # Nor is a file's name a pattern; and standard input is left alone.
    assert complete(script, "hurray", "cat", "-", "") == [""]
    (tmp_path / "*").touch()
    assert complete(script, "hurray", "ls", "*") == ["*"]


def test_the_parser_needs_no_optional_library():
    code = "import sys, hurray.cli.arguments as a; a.build_parser(); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"
