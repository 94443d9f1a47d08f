"""The code in the documentation runs, and its pictures and links are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_runs(block: str) -> None:
    # Blocks of one page build on the imports of its first.
    names = "import torch\nfrom nerf_posenc import *\n"
    exec(compile(names + block, "documentation", "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_preset_is_listed_on_its_page() -> None:
    from nerf_posenc import GRID_PRESETS, PRESETS

    fourier = (ROOT / "docs/encoders/fourier.md").read_text(encoding="utf-8")
    sequence = (ROOT / "docs/encoders/sequence.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in fourier for name in PRESETS)
    assert all(f"`{name}`" in sequence for name in GRID_PRESETS)
