"""Write the page of equivalents: ``python -m more.tools.make_equivalents``.

The errors of the equivalents are measured now.
"""

from pathlib import Path

import torch

from more.tools.library_numbers import error, source
from nerf_posenc_audit.catalog.equivalent import Equivalent
from nerf_posenc_audit.catalog.equivalents import EQUIVALENTS, PRESET_ROWS, SECTIONS

PAGE = Path(__file__).parents[1] / "docs" / "equivalents.md"

HEAD = """# One line for each library

Each line gives the numbers of the library or model on its left. They were computed by running the
library itself (`python -m more.tools.vectors`; tiny-cuda-nn's from the formulas of its kernels, and
VGGT's by CroCo's code, which it has; those of `released/` by functions taken out of the libraries,
or by a port of the formula where the version says so). `pytest more/tests/audit` compares every
line with them. This page has the same {count} lines, and is written by
`python -m more.tools.make_equivalents`.

The errors are the largest differences from the library's numbers, for float32 and float64 inputs.
If the float64 error is larger than 1e-7, the library itself computes in float32: pass its own
bands (`frequencies=library.inv_freq`) to match it up to the rounding of its angles,
4e-3 rad at position 131,072. The numbers of `released/` are float32, and those of `encoding/` are
rounded to 7 digits.
Large bands multiply the rounding of float32 coordinates. In the lines `q` is a query, `x`,
`points`, `boxes` and so on are inputs, and `pi` is `math.pi`; `dim`, `shape` and so on are sizes of
the model, and other sizes are those of the numbers, which are small. An encoder with parameters was
given the library's weights.

```python
import torch
from nerf_posenc_attention import ROTARY, RotaryEncoder

rotary = RotaryEncoder.preset("flux")
positions = ROTARY["flux"].positions((4, 6))  # 4 x 6 patches, as the model counts them
queries = torch.randn(1, 24, 24, 128)
print(rotary.rotate(queries, positions).shape)
```

```text
torch.Size([1, 24, 24, 128])
```

`python -m nerf_posenc_audit find qwen` finds lines by the name of a model, and
[`identify`](audit.md) finds the line for numbers that you have.
"""


def row(equivalent: Equivalent, vector: str) -> str:
    """One row of a table."""
    errors = [f"{error(equivalent, dtype):.0e}" for dtype in (torch.float32, torch.float64)]
    line = equivalent.code.replace("|", "\\|")
    remark = f"; {equivalent.remark}" if equivalent.remark else ""
    return (
        f"| {equivalent.what} | `{line}` | {errors[0]} | {errors[1]} "
        f"| {source(vector)}: `{vector}`{remark} |"
    )


def main() -> None:
    """Measure every line, and write the page."""
    parts = [HEAD.format(count=len(EQUIVALENTS))]
    for title, rows in {**SECTIONS, "Presets": PRESET_ROWS}.items():
        parts.append(f"\n## {title}\n")
        parts.append("| library or model | line | float32 | float64 | numbers |")
        parts.append("|---|---|---|---|---|")
        parts += [row(each, each.vector) for each in rows]
    PAGE.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
