"""Exact translations of numbers and dates by encoding, of the Transformer and of ConvS2S.

    python -m benchmarks.translation [--model transformer conv] [--encodings none both ...]
        [--steps N] [--seeds N] [--beam N] [--threads N]

Every encoding of a model is fitted with the same seeds; with several, the figures are medians, and
the spread of exact translations is beside them. Seconds are those of training all seeds. Rows are
printed as they come.
"""

import argparse

import torch
from app.fit_settings import FitSettings
from app.sequence_fit import fit_system

from benchmarks.timing import machine
from sequences.data.numbers import make_numbers
from sequences.system import SequenceResult, SystemOptions
from sequences.systems.translation import TranslationSystem

_HEADINGS = ("exact", "BLEU", "longer", "bits", "seconds", "steps")
_COLUMNS = ("exact_percent", "bleu", "exact_longer_percent", "bits_per_symbol")


def fitted(
    system: TranslationSystem, encoding: str, *, steps: int | None, num_seeds: int
) -> SequenceResult:
    """Fit with one encoding."""
    recipe = system.recipe
    settings = FitSettings(
        name=encoding,
        steps=recipe.steps if steps is None else steps,
        batch_size=recipe.batch_size,
        lr=recipe.lr,
        device=torch.device("cpu"),
        schedule=system.schedule,
    )
    return fit_system(system, encoding, settings, num_seeds)


def shown(result: SequenceResult) -> str:
    """A row of the table."""
    exact, bleu, longer, bits = (result.scores[name] for name in _COLUMNS)
    each = [seed["exact_percent"] for seed in result.by_seed]
    spread = f"   {min(each):.1f} to {max(each):.1f}" if len(each) > 1 else ""
    return (
        f"{result.encoding:<12}{exact:8.1f}{bleu:8.1f}{longer:8.1f}{bits:8.3f}"
        f"{result.seconds:9.0f}{result.steps:7,}{spread}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    models = ["transformer", "conv"]
    parser.add_argument("--model", nargs="+", choices=models, default=models)
    parser.add_argument("--encodings", nargs="+", help="the system's default ones if not given")
    parser.add_argument("--steps", type=int, help="the system's own if not given")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--beam", type=int, default=1, help="width of the beam search")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pairs = make_numbers()
    print(machine(), flush=True)
    for model in options.model:
        system = TranslationSystem(pairs, SystemOptions(model=model, beam=options.beam))
        print("", *system.summary(), sep="\n")
        widths = (8, 8, 8, 8, 9, 7)
        head = "".join(f"{name:>{w}}" for name, w in zip(_HEADINGS, widths, strict=True))
        print(f"{'encoding':<12}{head}", flush=True)
        for encoding in options.encodings or system.default_encodings:
            if encoding not in system.encodings:
                parser.error(f"--model {model} takes {', '.join(system.encodings)}")
            result = fitted(system, encoding, steps=options.steps, num_seeds=options.seeds)
            print(shown(result), flush=True)


if __name__ == "__main__":
    main()
