"""Write the page of presets: ``python -m docs.make_presets``."""

from pathlib import Path

from nerf_posenc.presets import FOURIER, GRID, SEQUENCE

PAGE = Path(__file__).parent / "encoders" / "presets.md"
TABLES = {
    "FourierEncoder: coordinates": FOURIER,
    "GridSinusoidalEncoder: patches of images and volumes": GRID,
    "SinusoidalEncoder: positions and timesteps": SEQUENCE,
}
COLUMNS = "| name | also | source, and what to watch out for |\n|---|---|---|\n"
HEAD = """# Presets of other libraries

`preset` makes the encoder of a library or a model, column for column and in its own units. Names
are found in any case, with any dashes, underscores or spaces. An unknown name gets the nearest
ones.

```python
from nerf_posenc import preset

print(preset("NeRF PyTorch", 3, 10).out_dim)  # coordinates, bands
print(preset("mae", 768).table((14, 14)).shape)  # width
print(preset("whisper", 384).table(1500).shape)  # width
```

```text
63
torch.Size([14, 14, 768])
torch.Size([1500, 384])
```

Arguments by name change what a preset sets: `preset("nerf", 3, 10, include_input=None)`. Rotary
embeddings of language and vision models, and lines for what is no preset, are in the companion:
[One line for each library](../../more/docs/equivalents.md).

This page is written by `python -m docs.make_presets`.
"""


def page() -> str:
    """The page with one table for each encoder."""
    parts = [HEAD]
    for title, table in TABLES.items():
        parts.append(
            f"\n## {title}\n\n| name | also | source, and what to watch out for |\n|---|---|---|\n"
        )
        for name, row in table.items():
            note = " ".join(f"{row.source}. {row.note}".replace("``", "`").split())
            parts.append(f"| `{name}` | {', '.join(row.aliases)} | {note} |\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
