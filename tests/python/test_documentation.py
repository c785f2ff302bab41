"""The Python in README.md and docs/ runs, block after block, each page in a namespace of its own."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FRAMEWORKS = ("torch", "jax", "cupy", "dask", "distributed")


def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def frameworks_of(page):
    """What the blocks of a page need besides NumPy, SciPy and ml_dtypes."""
    code = "\n".join(blocks_of(page))
    return [name for name in FRAMEWORKS if re.search(rf"\b(import |to_|from_){name}\b", code)]


def parameter_of(page):
    marks = [pytest.mark.frameworks] if frameworks_of(page) else []
    return pytest.param(page, marks=marks, id=page.name)


def test_there_are_pages_with_code():
    assert sum(len(blocks_of(page)) for page in PAGES) >= 20


@pytest.mark.parametrize("page", [parameter_of(page) for page in PAGES])
def test_the_code_of_a_page_runs(page):
    for name in frameworks_of(page):
        pytest.importorskip(name)
    namespace = {"__name__": "documentation"}
    for number, code in enumerate(blocks_of(page)):
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)


def anchors_of(page):
    """What links to the headings of a page say behind the #."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for path, anchor in re.findall(
        r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")
    ):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {path}"
        if anchor:
            assert anchor in anchors_of(target), f"{page.name} links to {path}#{anchor}"
