"""The console blocks in README.md and docs/ run: each page in a directory of its own, block after block.

A line that begins with "$ " is a command for bash, the lines below it what it prints; "..." stands for
anything, alone in a line for any lines.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if "\n```console\n" in page.read_text(encoding="utf-8")
]


def steps_of(page):
    """Pairs of a command and what it is said to print."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        assert block.startswith("$ ")
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            yield command, output


def pattern_of(output):
    parts = re.split(r"^\.\.\.\n|\.\.\.", output, flags=re.MULTILINE)
    return "(?s:.*)".join(map(re.escape, parts))


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Runs a command where `python` and `hurray` are those under test."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, program in (("python", ""), ("hurray", "-m hurray ")):
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {program}"$@"\n')
        path.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    def run(command):
        return subprocess.run(
            ["bash", "-c", command],
            cwd=work,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_the_page_of_the_command_has_blocks():
    commands = [command for command, _ in steps_of(ROOT / "docs" / "command.md")]
    used = {word for command in commands for word in re.findall(r"hurray (\w+)", command)}
    assert used >= {"convert", "ls", "kv", "cat", "inspect", "verify", "diff", "stream"}


@pytest.mark.frameworks
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_blocks_print_what_the_page_says(page, shell):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    for command, output in steps_of(page):
        done = shell(command)
        assert done.returncode == 0, (command, done.stderr)
        assert re.fullmatch(pattern_of(output), done.stdout), (command, done.stdout)
