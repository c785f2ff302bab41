"""The exceptions of spec 8.1."""

from __future__ import annotations

import builtins
import pickle

import pytest

import hurray

BASES = {
    "InvalidDescriptorError": ValueError,
    "BufferError": ValueError,
    "CopyRequiredError": ValueError,
    "UnsupportedError": NotImplementedError,
    "FileError": OSError,
    "StreamError": OSError,
    "InternalError": RuntimeError,
}


@pytest.mark.parametrize(("name", "base"), BASES.items())
def test_an_error_has_its_base_name_and_text(name, base):
    error = getattr(hurray, name)
    assert error.__bases__ == (base,)
    assert (error.__module__, error.__name__) == ("hurray", name)
    assert "8.1" in error.__doc__
    assert str(error("what happened")) == "what happened"


@pytest.mark.parametrize("name", BASES)
def test_an_error_survives_pickling(name):
    error = getattr(hurray, name)("what happened")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.args == error.args


def test_the_errors_are_distinct():
    errors = [getattr(hurray, name) for name in BASES]
    for error in errors:
        assert [other for other in errors if issubclass(error, other)] == [error]


def test_buffer_error_is_not_the_built_in_one():
    assert hurray.BufferError is not builtins.BufferError
    assert not issubclass(hurray.BufferError, builtins.BufferError)


def test_files_and_streams_keep_errno():
    assert hurray.FileError(2, "no such file", "x.hrry").errno == 2
    assert hurray.StreamError(32, "broken pipe").errno == 32
