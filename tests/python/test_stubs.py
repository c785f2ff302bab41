"""The type stub of the extension says what is there, no more and no less."""

from __future__ import annotations

import ast
import inspect
import pathlib

import pytest

import hurray
from hurray import _core

STUB = pathlib.Path(hurray.__file__).with_name("_core.pyi")
TREE = ast.parse(STUB.read_text())


def defined_names(body):
    """Names that statements of a stub define: functions, classes, annotated variables."""
    names = set()
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
    return names


def is_public(name):
    return not name.startswith("_")


CLASSES = {node.name: node for node in TREE.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}
PUBLIC_CLASSES = [name for name in CLASSES if is_public(name)]


def test_the_package_is_typed():
    assert pathlib.Path(hurray.__file__).with_name("py.typed").is_file()


def test_the_stub_names_what_the_module_has():
    stub = {name for name in defined_names(TREE.body) if is_public(name)}
    runtime = {name for name in vars(_core) if is_public(name)}
    assert stub == runtime
    assert isinstance(_core.__version__, str)


@pytest.mark.parametrize("name", PUBLIC_CLASSES)
def test_the_stub_of_a_class_names_its_attributes(name):
    stub = defined_names(CLASSES[name].body)
    runtime = vars(getattr(_core, name))
    assert {n for n in stub if is_public(n)} == {n for n in runtime if is_public(n)}


@pytest.mark.parametrize("name", PUBLIC_CLASSES)
def test_what_the_stub_of_a_class_names_is_there(name):
    # The buffer protocol is a Python method from 3.12 on only.
    absent = {n for n in defined_names(CLASSES[name].body) if not hasattr(getattr(_core, name), n)}
    assert absent <= {"__buffer__"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stub_of_a_function_has_its_parameters(name):
    arguments = FUNCTIONS[name].args
    stub = [a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
    assert stub == list(inspect.signature(getattr(_core, name)).parameters)
