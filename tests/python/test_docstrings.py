"""Everything public has a docstring and a signature, what can be called an example, and all run."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import inspect
import pathlib
import pkgutil
import pydoc
import re
import types

import numpy as np
import pytest

import hurray

# What an example takes for granted, as the docstring of hurray says.
NAMES = {"np": np, "hurray": hurray}
FRAMEWORKS = ("torch", "jax", "sparse")
VALUES = (int, str, hurray.Dtype, hurray.Device)
# Methods whose names have underscores and that people call nevertheless, or ask what they do.
PROTOCOLS = {"__array__", "__dlpack__", "__dlpack_device__", "__hurray__"}


# Those that import hurray gives; importing another one changes how other libraries treat tensors.
MODULES = [hurray, *(v for n in hurray.__all__ if inspect.ismodule(v := getattr(hurray, n)))]


def members_of(cls):
    """(name, descriptor or function) of what a class itself defines and shows."""
    for name, member in vars(cls).items():
        if name.startswith("_") and name not in PROTOCOLS:
            continue
        by_class = isinstance(member, classmethod | staticmethod | types.ClassMethodDescriptorType)
        yield name, getattr(cls, name) if by_class else member


def walk():
    """Name and object of all that is public: modules, functions, classes and their members."""
    seen = set()
    for module in MODULES:
        yield module.__name__, module
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, (types.ModuleType, *VALUES)) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{module.__name__}.{name}", value
            if isinstance(value, type):
                for member_name, member in members_of(value):
                    yield f"{module.__name__}.{name}.{member_name}", member


def is_exception(value):
    return isinstance(value, type) and issubclass(value, BaseException)


PUBLIC = dict(walk())
CALLABLE = [name for name, v in PUBLIC.items() if callable(v) and not is_exception(v)]
EXAMPLES = {
    name: test
    for name, v in PUBLIC.items()
    if (test := doctest.DocTestParser().get_doctest(inspect.getdoc(v) or "", {}, name, None, None))
    and test.examples
}


def test_the_walk_finds_what_there_is():
    assert {
        "hurray",
        "hurray.dtype",
        "hurray.zeros",
        "hurray.from_torch",
        "hurray.Tensor",
        "hurray.Tensor.T",
        "hurray.Tensor.__dlpack__",
        "hurray.Dtype.from_tag",
        "hurray.FileError",
    } <= set(PUBLIC)
    assert len(PUBLIC) > 200


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_documented(name):
    text = inspect.getdoc(PUBLIC[name])
    assert text and text.strip() == text
    assert text[0].isalnum() or text[0] in "'\"("
    assert "--\n\n" not in text  # what separates a signature from the text, when it cannot be read
    width = max(len(line) for line in text.splitlines())
    assert width <= 110, f"{name}: a line of {width} characters"


def test_modules_are_documented():
    for found in pkgutil.iter_modules(hurray.__path__, "hurray."):
        spec = importlib.util.find_spec(found.name)
        if spec.origin.endswith(".py"):
            assert ast.get_docstring(ast.parse(pathlib.Path(spec.origin).read_text())), found.name


@pytest.mark.parametrize("name", [name for name, v in PUBLIC.items() if isinstance(v, type)])
def test_a_class_has_a_docstring_of_its_own(name):
    cls = PUBLIC[name]
    assert all(cls.__doc__ != base.__doc__ for base in cls.__mro__[1:])


# Exceptions apart: one takes what its built-in base takes, which has no signature either.
@pytest.mark.parametrize("name", CALLABLE)
def test_what_can_be_called_has_a_signature(name):
    parameters = inspect.signature(PUBLIC[name]).parameters
    assert not {"args", "kwargs"} & set(parameters)


@pytest.mark.parametrize("name", CALLABLE)
def test_what_can_be_called_has_an_example(name):
    assert name in EXAMPLES


def frameworks_of(name):
    """What the examples of a docstring need besides NumPy and SciPy."""
    code = "".join(example.source for example in EXAMPLES[name].examples)
    return [f for f in FRAMEWORKS if re.search(rf"\b(import |to_|from_){f}\b", code)]


PLAIN = [name for name in EXAMPLES if not frameworks_of(name)]


def run(test):
    said = []
    test.globs = dict(NAMES)
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", PLAIN)
def test_examples_do_what_they_say(name):
    run(EXAMPLES[name])


@pytest.mark.frameworks
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in PLAIN])
def test_examples_with_frameworks_do_what_they_say(name):
    for framework in frameworks_of(name):
        pytest.importorskip(framework)
    run(EXAMPLES[name])


# ---- the guide ----


def test_the_guide_names_everything():
    words = set(re.findall(r"\w+", hurray.__doc__))
    left_out = {
        name
        for name in hurray.__all__
        if name not in words
        and not isinstance(getattr(hurray, name), hurray.Dtype)  # "float32 and its like"
        and name.removesuffix("_like") not in words  # "each with _like"
        and name != "__version__"
    }
    assert left_out == set()


def test_help_begins_with_the_guide():
    text = pydoc.plain(pydoc.render_doc(hurray))
    assert text.index("DESCRIPTION") < text.index("Where to look") < text.index("CLASSES")
    first_page = text[: text.index("PACKAGE CONTENTS")].splitlines()
    assert len(first_page) <= 75
    assert max(len(line) for line in first_page) <= 110
