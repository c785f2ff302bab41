"""The Python in README.md and docs/ runs, block after block, each page in a namespace of its own."""

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FRAMEWORKS = ("torch", "jax", "cupy")


def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def missing_frameworks(code):
    """What a block needs and this environment does not have."""
    wanted = [name for name in FRAMEWORKS if re.search(rf"\b{name}\b", code)]
    return [name for name in wanted if importlib.util.find_spec(name) is None]


def test_there_are_pages_with_code():
    assert sum(len(blocks_of(page)) for page in PAGES) >= 7


@pytest.mark.frameworks
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page):
    missing = missing_frameworks("\n".join(blocks_of(page)))
    if missing:
        pytest.skip(f"{page.name} uses {', '.join(missing)}, not installed here")
    namespace = {"__name__": "documentation"}
    for number, code in enumerate(blocks_of(page)):
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
