"""Write the pages of presets and of equivalents: ``python -m docs.make_equivalents``.

The errors of the equivalents are measured now.
"""

from pathlib import Path

import torch

from docs.library_numbers import error, source
from nerf_posenc.catalog.equivalent import Equivalent
from nerf_posenc.catalog.equivalents import EQUIVALENTS, PRESET_ROWS, SECTIONS
from nerf_posenc.catalog.index import index
from nerf_posenc.catalog.presets import PRESETS

ENCODERS = Path(__file__).parent / "encoders"

PRESETS_HEAD = """# Find an encoding by name

One index of the presets, of lines for other models, and of the classes: by the name of a model or a
library.

```python
from nerf_posenc import find_encodings, preset
from nerf_posenc.catalog.presets import PRESETS

print(find_encodings("dust3r")[0].line)
print(preset("nerf", 3, 10).out_dim)  # coordinates, bands
print(preset("mae", 768).table((14, 14)).shape)  # width
print(preset("whisper", 384).table(1500).shape)  # width
print(preset("flux").axis_dims, PRESETS["flux"].positions((4, 6)).shape)  # of 4 x 6 patches
```

```text
preset("croco")
63
torch.Size([14, 14, 768])
torch.Size([1500, 384])
(16, 56, 56) torch.Size([24, 3])
```

From a terminal: `python -m nerf_posenc find qwen`. `preset("flux")` is
`RotaryEncoder.preset("flux")`, whose types an editor knows. {count} presets; how far they are from
their libraries' own numbers is on the page of [equivalents](equivalents.md). In the lines
`points`, `lonlat` and so on are inputs, `dim`, `shape` and so on are sizes of the model,
`matrix` and `table` are what a checkpoint has, and `pi` is `math.pi`. This page is
written by `python -m docs.make_equivalents`.

<p><input type="search" id="search-presets" placeholder="Search, as: qwen"
aria-label="Search the index" style="border: 1px solid; border-radius: 3px; padding: 4px"></p>

| name | also | line | source, and what to watch out for |
|---|---|---|---|
"""
# The ranking of `nerf_posenc.catalog.index`: whole words of names, of the text, then parts of them.
SEARCH = """
<script>
document.getElementById("search-presets").addEventListener("input", (event) => {
  const words = (text) => text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  const wanted = words(event.target.value).join("");
  const contains = (list, whole) => list.some((_, first) => {
    let joined = "";
    for (const word of list.slice(first)) {
      joined += word;
      if (joined === wanted || (!whole && joined.startsWith(wanted))) return true;
      if (joined.length >= wanted.length) return false;
    }
    return false;
  });
  const body = document.querySelector("table tbody");
  const rank = (row) => {
    const cells = [...row.cells].map((cell) => cell.textContent);
    const names = [cells[0], ...cells[1].split(",")].map(words);
    if (names.some((list) => list.join("") === wanted)) return 0;
    const texts = [names, [words(cells[3])]];
    for (const whole of [true, false])
      for (const [i, lists] of texts.entries())
        if (lists.some((list) => contains(list, whole))) return (whole ? 1 : 3) + i;
    return 5;
  };
  const rows = [...body.rows];
  rows.forEach((row, i) => (row.dataset.order ??= i));
  const ranked = rows.map((row) => [wanted ? rank(row) : 0, +row.dataset.order, row]);
  const best = Math.min(...ranked.map(([place]) => place));
  ranked.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  for (const [place, , row] of ranked) {
    row.hidden = place > Math.min(4, Math.max(best, 3));
    body.append(row);
  }
});
</script>
"""

HEAD = """# One line for each library

Each line gives the numbers of the library or model on its left. They were computed by running the
library itself (`python -m more.tools.vectors`; tiny-cuda-nn's from the formulas of its kernels, and
VGGT's by CroCo's code, which it has; those of `released/` by functions taken out of the libraries,
or by a port of the formula where the version says so). `pytest tests/equivalents` compares every
line with them. This page has the same {count} lines; `python -m docs.make_equivalents` writes it.

The errors are the largest differences from the library's numbers, for float32 and float64 inputs.
If the float64 error is larger than 1e-7, the library itself computes in float32: pass its own
bands (`bands=library.inv_freq`) to match it up to the rounding of its angles, 4e-3 rad at position
131,072. The numbers of `released/` are float32, and those of `encoding/` are rounded to 7 digits.
Large bands multiply the rounding of float32 coordinates. In the lines `q` is a query, `x`,
`points`, `boxes` and so on are inputs, and `pi` is `math.pi`; `dim`, `shape` and so on are sizes of
the model, and other sizes are those of the numbers, which are small. An encoder with parameters was
given the library's weights.

```python
from nerf_posenc import RotaryEncoder
from nerf_posenc.presets import ROTARY
import torch

rotary = RotaryEncoder.preset("flux")
positions = ROTARY["flux"].positions((4, 6))  # 4 x 6 patches, as the model counts them
queries = torch.randn(1, 24, 24, 128)
print(rotary.rotate(queries, positions).shape)
```

```text
torch.Size([1, 24, 24, 128])
```

[`identify`](../../more/docs/audit.md) of the companion finds the line for numbers that you have.
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


def presets_page() -> str:
    """The page of the index."""
    rows = []
    for found in index():
        also = ", ".join(found.also)
        about = " ".join(found.about.replace("``", "`").replace("|", "\\|").split())
        # Of a class, the first sentence.
        if found.line.startswith("from "):
            about = about.partition(". ")[0]
        line = found.line.replace("|", "\\|")
        rows.append(f"| {found.name} | {also} | `{line}` | {about} |\n")
    return PRESETS_HEAD.replace("{count}", str(len(PRESETS))) + "".join(rows) + SEARCH


def main() -> None:
    (ENCODERS / "presets.md").write_text(presets_page(), encoding="utf-8")
    parts = [HEAD.format(count=sum(bool(each.vector) for each in EQUIVALENTS))]
    for title, rows in {**SECTIONS, "Presets": PRESET_ROWS}.items():
        parts.append(f"\n## {title}\n")
        parts.append("| library or model | line | float32 | float64 | numbers |")
        parts.append("|---|---|---|---|---|")
        parts += [row(each, each.vector) for each in rows if each.vector]
    (ENCODERS / "equivalents.md").write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
