"""Write the pages of presets and of equivalents: ``python -m docs.make_equivalents``.

The errors of the equivalents are measured now.
"""

from pathlib import Path

import torch

from nerf_posenc.presets.catalog import PRESETS, encoder_of
from tests.equivalents.equivalent import Equivalent
from tests.equivalents.equivalents import EQUIVALENTS, SECTIONS
from tests.equivalents.vectors import source

ENCODERS = Path(__file__).parent / "encoders"

PRESETS_HEAD = """# All presets

`nerf_posenc.preset` makes the encoder of a library or a model by its name. The same is a method of
each encoder, with its types: `RotaryEncoder.preset("flux")`.

```python
from nerf_posenc import find_presets, preset
from nerf_posenc.presets.catalog import PRESETS

print(preset("nerf", 3, 10).out_dim)  # coordinates, bands
print(preset("mae", 768).table((14, 14)).shape)  # width
print(preset("whisper", 384).table(1500).shape)  # width
print([name for name, row in find_presets("dust3r")])
print(preset("flux").axis_dims, PRESETS["flux"].positions((4, 6)).shape)  # of 4 x 6 patches
```

```text
63
torch.Size([14, 14, 768])
torch.Size([1500, 384])
['croco']
(16, 56, 56) torch.Size([24, 3])
```

From a terminal: `python -m nerf_posenc presets qwen`. {count} presets; how far they are from their
libraries' own numbers is on the page of [equivalents](equivalents.md), by preset or by the
arguments. This page is written by `python -m docs.make_equivalents`.

<p><input type="search" id="search-presets" placeholder="Search, as: qwen"
aria-label="Search the presets" style="border: 1px solid; border-radius: 3px; padding: 4px"></p>

| preset | also | encoder | source, and what to watch out for |
|---|---|---|---|
"""
SEARCH = """
<script>
document.getElementById("search-presets").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of document.querySelectorAll("table tbody tr"))
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
});
</script>
"""

HEAD = """# One line for each library

Each line gives the numbers of the library or model on its left. They were computed by running the
library itself (`python -m tools.vectors`; tiny-cuda-nn's from the formulas of its kernels, and
VGGT's by CroCo's code, which it has), and `pytest tests/equivalents` compares every line with them;
this page is written by `python -m docs.make_equivalents` from the same lines. {count} rows.

The errors are the largest differences from the library's numbers, for float32 and float64 inputs.
Where the one in float64 is not near 1e-7, the library has float32 tables or bands: give its own
bands (`bands=library.inv_freq`), and what stays is the rounding of its float32 angles, 4e-3 rad at
position 131,072, which the lines here do not have. Large bands multiply the rounding of float32
coordinates, which the library's numbers in float64 do not have. In the lines `q` is a
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


def row(equivalent: Equivalent) -> str:
    """One row of a table."""
    errors = [f"{equivalent.error(dtype):.0e}" for dtype in (torch.float32, torch.float64)]
    line = equivalent.line.replace("|", "\\|")
    remark = f"; {equivalent.remark}" if equivalent.remark else ""
    return (
        f"| {equivalent.what} | `{line}` | {errors[0]} | {errors[1]} "
        f"| {source(equivalent.vector)}: `{equivalent.vector}`{remark} |"
    )


def presets_page() -> str:
    """The page of presets."""
    rows = []
    for name, preset in PRESETS.items():
        also = ", ".join(f"`{alias}`" for alias in preset.aliases if alias not in PRESETS)
        about = f"{preset.source}. {preset.note}".strip().replace("``", "`").replace("|", "\\|")
        rows.append(f"| `{name}` | {also} | `{encoder_of(name).__name__}` | {about} |\n")
    return PRESETS_HEAD.replace("{count}", str(len(PRESETS))) + "".join(rows) + SEARCH


def main() -> None:
    (ENCODERS / "presets.md").write_text(presets_page(), encoding="utf-8")
    parts = [HEAD.format(count=len(EQUIVALENTS))]
    for title, rows in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        parts.append("| library or model | line | float32 | float64 | numbers |")
        parts.append("|---|---|---|---|---|")
        parts += [row(equivalent) for equivalent in rows]
    (ENCODERS / "equivalents.md").write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
