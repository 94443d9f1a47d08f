"""Train the four language models that the article runs: ``python -m docs.make_article_models``.

Writes docs/article/models.json: the weights as float32 in base64, by the order of ``shapes``, and
windows of text that no model has seen, the help topics held out. It needs the companion, and takes
two minutes.
"""

import base64
import json
import sys
import tempfile
from pathlib import Path

import torch

import train_fit
from nerf_posenc_sequences import load_models, open_sequence
from nerf_posenc_sequences.data.topics import open_topics
from nerf_posenc_sequences.system import SystemOptions

OUTPUT = Path(__file__).parent / "article" / "models.json"
ENCODINGS = ("none", "sinusoidal", "rotary", "alibi")
WIDTH, DEPTH, HEADS, CONTEXT, STEPS = 32, 1, 4, 64, 1500
NUM_WINDOWS, LENGTH = 8, 512


def main() -> None:
    options = SystemOptions(model="causal", width=WIDTH, depth=DEPTH, heads=HEADS, context=CONTEXT)
    system = open_sequence("topics", options)
    shape = ["--width", WIDTH, "--depth", DEPTH, "--heads", HEADS, "--context", CONTEXT]
    command = ["--task", "topics", "--model", "causal", *shape, "--steps", STEPS]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        arguments = [*command, "--encodings", *ENCODINGS, "--video", 0, "--out", run]
        if train_fit.main([str(argument) for argument in arguments]):
            sys.exit("the fits did not end well")
        states = {
            name: load_models(run / "fits" / f"{name}.safetensors", system)[0].state_dict()
            for name in ENCODINGS
        }
    text = "\n".join(open_topics().test)
    starts = torch.linspace(0, len(text) - LENGTH - 1, NUM_WINDOWS).long().tolist()
    content = {
        "alphabet": "".join(system.alphabet),
        "heads": HEADS,
        "context": CONTEXT,
        "windows": [text[start : start + LENGTH + 1] for start in starts],
        "shapes": {name: list(value.shape) for name, value in states["none"].items()},
        "weights": {
            encoding: base64.b64encode(
                torch.cat([state[name].flatten() for name in states["none"]]).numpy().tobytes()
            ).decode()
            for encoding, state in states.items()
        },
    }
    OUTPUT.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {OUTPUT}: {OUTPUT.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
