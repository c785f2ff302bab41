"""What `import hurray` gives, and what it does not need."""

from __future__ import annotations

import doctest
import importlib.metadata
import subprocess
import sys

import pytest

import hurray

OPTIONAL = ["numpy", "torch", "jax", "scipy", "sparse", "ml_dtypes", "cupy", "dask", "distributed"]

# Modules for one library each, which appear in the package when somebody imports them.
GLUE = {"cli", "dask", "dask_worker", "multiprocessing"}


def test_every_public_name_is_there_and_listed_once():
    assert len(set(hurray.__all__)) == len(hurray.__all__)
    assert all(hasattr(hurray, name) for name in hurray.__all__)
    public = {name for name in dir(hurray) if not name.startswith("_")} - GLUE
    assert public <= {*hurray.__all__, "aio"}  # a module that is loaded when it is asked for


def test_the_version_is_that_of_the_distribution():
    assert hurray.__version__ == importlib.metadata.version("hurray")


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_importing_hurray_imports_none_of_the_others():
    assert run(f"import sys, hurray; print([n for n in {OPTIONAL} if n in sys.modules])") == "[]"


# Of the standard library: what takes longer to import than hurray.
SLOW = ["typing", "re", "enum", "functools", "contextlib", "threading", "collections", "inspect"]


def test_importing_hurray_imports_nothing_slow():
    code = "import sys; before = {*sys.modules}; import hurray; print({*sys.modules} - before)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path}; {code}"]
    new = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert [name for name in SLOW if f"'{name}'" in new] == []


def test_names_are_there_however_they_are_asked_for():
    names = sorted({*hurray.__all__, "aio"})
    assert run(f"import hurray; print({{*{names}}} - {{*dir(hurray)}})") == "set()"
    run(f"import hurray; assert all(getattr(hurray, n) is getattr(hurray, n) for n in {names})")
    run(f"from hurray import {', '.join(names)}; import hurray; assert hurray.aio is aio")
    run("from hurray import *; import hurray; assert open is hurray.open")


def test_no_other_name_is_there():
    with pytest.raises(AttributeError, match=r"^module 'hurray' has no attribute 'lode'$"):
        _ = hurray.lode


BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL})); import hurray; "


def test_hurray_works_without_the_others():
    code = "t = hurray.Tensor(bytes(16), hurray.float32, (2, 2)); print(t.shape, t.descriptor.size)"
    assert run(BLOCKED + code) == "(2, 2) 4"


def test_a_tensor_shows_itself_without_numpy():
    shown = run(BLOCKED + "print(repr(hurray.zeros((2,), dtype=hurray.float32)))")
    device = "hurray.Device(kind='cpu', device_id=0, memory_class='standard')"
    assert shown == f"hurray.Tensor(shape=(2,), dtype=float32, device={device})"


def test_the_guide_in_the_docstring_is_true():
    pytest.importorskip("numpy")
    (guide,) = doctest.DocTestFinder(recurse=False).find(hurray, "hurray")
    failed, attempted = doctest.DocTestRunner().run(guide)
    assert attempted >= 6
    assert failed == 0
