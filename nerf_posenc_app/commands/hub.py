"""``train_fit.py export RUN --hub``: a fit as a folder of the Hugging Face Hub."""

import re
import textwrap
from pathlib import Path

from nerf_posenc.fits import CoordinateFit, SceneFit
from nerf_posenc.training.checkpoints import replacing_files
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.runs.saved import Metrics
from nerf_posenc_app.terminal import printable

_CARD = """---
library_name: nerf_posenc
tags: [positional-encoding, fourier-features, implicit-neural-representation]
---

# {title}, fitted by {name}

A small network and its encoding of coordinates, which are this {kind}{size}: a function that can be
asked at any coordinate in [-1, 1].

```python
from nerf_posenc.fits.hub import HubModel

model = HubModel.from_pretrained("PATH OR NAME")
```

{finding}{table}
Fitted by

{command}

with nerf_posenc {version}.
"""


def write_hub_folder(
    name: str, fit: CoordinateFit | SceneFit, metrics: Metrics | None, out: Path
) -> None:
    """Write ``model.safetensors``, ``config.json`` and a model card.

    Args:
        name: name of the fit.
        fit: the fit.
        metrics: metrics of its run, for the card; None if the run is not complete.
        out: folder to write to.

    Raises:
        ImportError: If huggingface_hub is not installed.
        OSError: If the folder cannot be written.
        UsageError: If the fit is none of coordinates.
    """
    from nerf_posenc.fits.hub import HubModel

    if not isinstance(fit, CoordinateFit):
        raise UsageError("--hub is for networks on coordinates; this is a radiance field")
    with replacing_files(out) as partial:
        if metrics is not None:
            # Written before the weights, since a missing card would be replaced by an empty one.
            (partial / "README.md").write_text(_card(name, metrics), encoding="utf-8")
        HubModel.of(fit).save_pretrained(partial)


def _card(name: str, metrics: Metrics) -> str:
    """Model card of the Hub: the scores of the fit beside those of all others of the run."""
    measures, data = metrics.measures, metrics.data
    heads = ["encoding", *(_text(measure.label) for measure in measures)]
    rows = [
        [
            _text(fit.label),
            *(f"{fit.scores.get(m.name, float('nan')):.{m.digits}f}" for m in measures),
        ]
        for fit in metrics.fits
    ]
    lines = [heads, ["---"] * len(heads), *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return _CARD.format(
        title=_text(data.title),
        name=_text(name),
        kind=_text(data.kind),
        size=f" of {' x '.join(map(str, data.size))} samples" if data.size else "",
        finding=f"{_text(metrics.sentence)}.\n\n" if metrics.sentence else "",
        table=table,
        # Indented, since a fence in the text would end a fenced block.
        command=textwrap.indent("\n".join(map(printable, metrics.command.split("\n"))), " " * 4),
        version=_text(metrics.versions.get("nerf_posenc", "")),
    )


def _text(text: str) -> str:
    """Text that Markdown shows as it is, and in one line."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&$-])", r"\\\1", printable(text))
