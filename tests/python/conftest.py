"""What holds for all tests: they collect garbage often, and should not pay for what is none."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def what_was_imported_is_no_garbage() -> Iterator[None]:
    """PyTorch, JAX and their like come with a million objects that stay to the end, and which every
    gc.collect() would look through. What is there before the tests of a file is frozen."""
    gc.collect()
    gc.freeze()
    yield
