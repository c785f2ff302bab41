"""What holds for all tests: they collect garbage often, and should not pay for what is none."""

import gc


def pytest_collection_finish() -> None:
    """What the imports of the tests made stays to the end. PyTorch, JAX and their like come with a
    million objects, which every gc.collect() would look through; frozen, it need not."""
    gc.collect()
    gc.freeze()
