"""Write the table of recipes, with the errors measured now: ``python -m docs.make_recipes``."""

from pathlib import Path

import torch

from tests.recipes.recipe import Recipe
from tests.recipes.recipes import RECIPES, SECTIONS
from tests.recipes.vectors import source

PAGE = Path(__file__).parent / "encoders" / "recipes.md"

HEAD = """# One line for each library

Each line gives the numbers of the library or model on its left. They were computed by running the
library itself (`python -m tools.vectors`; tiny-cuda-nn's from the formulas of its kernels, and
VGGT's by CroCo's code, which it has), and `pytest tests/recipes` compares every line with them;
this page is written by `python -m docs.make_recipes` from the same lines. {count} rows.

The errors are the largest differences from the library's numbers, for float32 and float64 inputs.
Where the one in float64 is not near 1e-7, the library has float32 tables or bands: give its own
bands (`bands=library.inv_freq`) to have its numbers to the bit. Large bands multiply the rounding
of float32 coordinates, which the library's numbers in float64 do not have. In the lines `q` is a
query, `x`, `points`, `boxes` and so on are inputs, `pi` is `math.pi`, and an `encoder` was given
the library's weights.

```python
from nerf_posenc import RotaryEncoder, identify
from nerf_posenc.presets import ROTARY
import torch

rotary = RotaryEncoder.preset("flux")
positions = ROTARY["flux"].positions((4, 6))  # 4 x 6 patches, as the model counts them
queries = torch.randn(1, 24, 24, 128)
rotated = rotary.rotate(queries, positions)

# Which one is it? Give a query before and after, one head of one sequence.
best = identify(rotated[0, 0], before=queries[0, 0], shape=(4, 6))[0]
print(best.name, best.is_exact)
print(best.line)
```

```text
flux True
RotaryEncoder.preset("flux").rotate(before, ROTARY["flux"].positions((4, 6)))
```
"""


def row(recipe: Recipe) -> str:
    """One row of a table."""
    errors = [f"{recipe.error(dtype):.0e}" for dtype in (torch.float32, torch.float64)]
    line = recipe.line.replace("|", "\\|")
    remark = f"; {recipe.remark}" if recipe.remark else ""
    return (
        f"| {recipe.what} | `{line}` | {errors[0]} | {errors[1]} | {source(recipe.vector)}: "
        f"`{recipe.vector}`{remark} |"
    )


def main() -> None:
    parts = [HEAD.format(count=len(RECIPES))]
    for title, rows in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        parts.append("| library or model | line | float32 | float64 | numbers |")
        parts.append("|---|---|---|---|---|")
        parts += [row(recipe) for recipe in rows]
    PAGE.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
