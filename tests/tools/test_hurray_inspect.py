#!/usr/bin/env python3
"""hurray-inspect from outside: what it prints, what it complains of, and its exit status.

test_hurray_inspect.py PROGRAM VECTORS
"""

import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

program = sys.argv.pop(1)
vectors = pathlib.Path(sys.argv.pop(1))

VALID, FAULT, TROUBLE = 0, 1, 2


def run(*arguments, stdin=None, file=None, **options):
    """Runs the program; its input is `stdin`, bytes through a pipe, or an open `file`."""
    if stdin is None:
        options["stdin"] = subprocess.DEVNULL if file is None else file
    else:
        options["input"] = stdin
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        [program, *map(str, arguments)], stderr=subprocess.PIPE, timeout=60, check=False, **options
    )


def files(kind, pattern):
    found = sorted((vectors / kind).glob(pattern))
    assert found, f"no {kind}/{pattern} in {vectors}"
    return found


def with_byte_size(size):
    """A descriptor of bytes, as many as in its buffer."""
    return struct.pack(
        "<4sBBIIBBI QQ BQIBBBB",
        *(b"HRRY", 1, 0, 53, 0, 0x11, 1, 1),
        *(size, 0),
        *(1, size, 64, 0, 0, 0, 0),
    )


class Inspect(unittest.TestCase):
    def expect(self, result, status, complaint=None):
        """A fault is named by one line on standard error, and nothing is written there else."""
        error = result.stderr.decode()
        self.assertEqual(result.returncode, status, error)
        if status == VALID:
            self.assertEqual(error, "")
        else:
            self.assertRegex(error, r"\Ahurray-inspect: [^\n]+\n\Z")
        if complaint is not None:
            self.assertIn(complaint, error)

    def test_valid_descriptors(self):
        for path in files("valid", "*.bin"):
            with self.subTest(path.name):
                alone = run("--descriptor", path)
                self.expect(alone, VALID)
                self.assertTrue(alone.stdout.startswith(b"offset  bytes"))
                self.assertTrue(alone.stdout.endswith(b"\nvalid\n"))
                automatic = run(path)
                self.expect(automatic, VALID)
                self.assertTrue(automatic.stdout.startswith(alone.stdout))
                self.assertEqual(run("--descriptor", stdin=path.read_bytes()).stdout, alone.stdout)
                self.assertEqual(run("-", stdin=path.read_bytes()).stdout, automatic.stdout)

    def test_invalid_descriptors(self):
        for path in files("invalid", "*.bin"):
            with self.subTest(path.name):
                result = run("--descriptor", path)
                self.expect(result, FAULT, "HURRAY_ERR_")
                fault = result.stderr.decode().split(": ", 3)[3].rstrip("\n")
                self.assertEqual(result.stdout.decode().splitlines()[-1], fault)
                if path.stat().st_size != 0:  # without a byte, it is a stream of no tensors
                    self.expect(run(path), FAULT, fault)

    def test_streams(self):
        for path in files("streams", "*.hrs") + files("verify", "*.hrs"):
            with self.subTest(path.name):
                result = run("--stream", path)
                self.expect(result, VALID)
                self.expect(run(path), VALID)
                piped = run("--stream", stdin=path.read_bytes())
                self.expect(piped, VALID)
                self.assertEqual(piped.stdout, result.stdout)

    def test_invalid_streams(self):
        for path in files("streams_invalid", "*.hrs"):
            with self.subTest(path.name):
                result = run("--stream", path)
                self.expect(result, FAULT)
                self.expect(run(path), FAULT)
                piped = run("--stream", stdin=path.read_bytes())
                self.expect(piped, FAULT)
                self.assertEqual(piped.stdout, result.stdout)

    def test_the_whole_stream_is_shown(self):
        """Rows and data follow one another without a gap up to the last byte."""
        for path in files("streams", "*.hrs"):
            with self.subTest(path.name):
                position = 0
                for line in run("--stream", "--rows=1000", path).stdout.decode().splitlines():
                    if not line[:6].strip().isdigit():
                        continue
                    self.assertEqual(int(line[:6]), position)
                    number, _, what = line[8:].partition(" ")
                    if what.startswith("bytes of buffers["):
                        position += int(number)
                    else:
                        position += len(line[8:31].split())
                self.assertEqual(position, path.stat().st_size)

    def test_a_stream_may_end_only_between_items(self):
        whole = (vectors / "streams" / "overlay.hrs").read_bytes()
        for length in range(1, len(whole)):
            with self.subTest(length):
                self.expect(run("--stream", stdin=whole[:length]), FAULT)

    def test_bytes_may_come_one_by_one(self):
        path = vectors / "streams" / "overlay.hrs"
        with subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        ) as process:
            for byte in path.read_bytes():
                process.stdin.write(bytes([byte]))
            output = process.communicate()[0]
        self.assertEqual(process.returncode, VALID)
        self.assertEqual(output, run(path).stdout)

    def test_a_file_may_be_read_from_its_middle(self):
        """As a shell does it: { read -N 1000; hurray-inspect; } < file"""
        path = vectors / "streams" / "overlay.hrs"
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 1000 + path.read_bytes())
            file.flush()
            os.lseek(file.fileno(), 1000, os.SEEK_SET)
            result = run(file=file)
        self.expect(result, VALID)
        self.assertEqual(result.stdout, run(path).stdout)

    def test_data_of_files_is_not_read(self):
        size = 1 << 33
        with tempfile.NamedTemporaryFile() as file:
            file.write(with_byte_size(size))
            file.truncate(53 + size)
            self.expect(run("--stream", file.name), VALID)
            file.truncate(53 + size - 1)
            self.expect(run("--stream", file.name), FAULT, f"{size - 1} of its {size} bytes")

    def test_sizes_are_not_believed(self):
        enormous = with_byte_size((1 << 64) - 2)
        self.expect(run("--descriptor", stdin=enormous), VALID)
        self.expect(run("--stream", stdin=enormous), FAULT, "2^64")
        self.expect(run("--stream", stdin=with_byte_size(1 << 63)), FAULT, "0 of its")
        self.expect(run("--stream", stdin=with_byte_size(1 << 63) + b"x"), FAULT, "1 of its")
        endless = bytearray(with_byte_size(4))
        endless[6:10] = b"\xff" * 4
        self.expect(run(stdin=endless), FAULT, "limit")
        self.expect(run("--limit=4294967295", stdin=endless), FAULT, "4294967295")

    def test_a_limit_for_descriptors(self):
        path = vectors / "valid" / "type_float32.bin"
        size = path.stat().st_size
        self.expect(run("--limit", size, path), VALID)
        self.expect(run("--limit", size - 1, path), FAULT, f"limit of {size - 1}")

    def test_what_only_the_permissive_carry(self):
        unknown = bytearray(with_byte_size(4))
        unknown[15] = 0x41  # a layout that is not assigned
        self.expect(run(stdin=unknown), FAULT, "0x41")
        self.expect(run("--permissive", stdin=unknown), VALID)
        self.expect(run("-p", "-d", stdin=unknown + b"data"), VALID)
        # In a stream nobody knows how much data follows.
        self.expect(run("-p", "-s", stdin=unknown), FAULT, "not assigned")
        self.expect(run("-p", stdin=unknown + b"data"), FAULT, "not assigned")

    def test_a_head_alone(self):
        head = vectors / "valid" / "head_partition.bin"
        self.expect(run(head), VALID)
        self.expect(run("--descriptor", head), VALID)
        self.expect(run("--stream", head), FAULT)

    def test_files_that_cannot_be_read(self):
        missing = vectors / "no such file"
        self.expect(run(missing), TROUBLE, "no such file: ")
        self.expect(run(vectors), TROUBLE)

    def test_wrong_usage(self):
        path = vectors / "valid" / "type_float32.bin"
        for arguments in [
            ["--no-such-option"],
            [path, path],
            ["--limit"],
            ["--limit=-1"],
            ["--limit=1x"],
            ["--limit=99999999999999999999999"],
            ["--rows=0"],
            ["--width=33"],
        ]:
            with self.subTest(arguments):
                result = run(*arguments)
                self.assertEqual(result.returncode, TROUBLE)
                self.assertNotEqual(result.stderr, b"")
                self.assertEqual(result.stdout, b"")

    def test_help(self):
        result = run("--help")
        self.expect(result, VALID)
        for part in ["SYNOPSIS", "EXIT STATUS", "--permissive", "--descriptor", "--stream"]:
            self.assertIn(part, result.stdout.decode())
        self.assertLessEqual(max(map(len, result.stdout.decode().splitlines())), 100)
        self.expect(run("--version"), VALID)
        self.assertRegex(run("--version").stdout, rb"\Ahurray-inspect \d+\.\d+")

    def test_color_is_only_on_request(self):
        path = vectors / "valid" / "type_float32.bin"
        self.assertNotIn(b"\x1b", run(path).stdout)
        self.assertIn(b"\x1b", run("--color", path).stdout)

    def test_a_reader_may_go_away(self):
        """With SIGPIPE as it is the signal ends the program; else it ends itself, in silence."""
        path = vectors / "streams" / "grid.hrs"
        for restored, status in [(True, -signal.SIGPIPE), (False, TROUBLE)]:
            reader, writer = os.pipe()
            os.close(reader)
            result = run(path, stdout=writer, restore_signals=restored)
            os.close(writer)
            self.assertEqual(result.returncode, status)
            self.assertEqual(result.stderr, b"")

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_output_that_cannot_be_written(self):
        path = vectors / "valid" / "type_float32.bin"
        with open("/dev/full", "wb") as full:
            self.expect(run(path, stdout=full), TROUBLE, "standard output")


if __name__ == "__main__":
    unittest.main()
