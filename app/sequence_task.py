"""A sequence as the program's task: fit a system with one encoding, and show it in the report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from app import report
from app.digest import digest_of
from app.fit_settings import FitSettings
from app.report.outputs import REPORT
from app.report.viewer import LivePage
from app.sequence_config import SequenceRunConfig
from app.sequence_fit import fit_system
from app.task import FitControl, early_end
from nerf_posenc.training.loop import FitState
from nerf_posenc.training.system import Passage, SequenceResult, System


class SequenceTask:
    """A system to be fitted to sequences.

    Args:
        system: model and data.
        config: of the run.
    """

    kind = "sequence"

    def __init__(self, system: System, config: SequenceRunConfig) -> None:
        self.system = system
        self.name = system.name
        self.source = system.source
        self.measures = system.measures
        self.config = config

    def summary(self) -> list[str]:
        """Lines that are printed before the first fit."""
        return [f"sequence {self.source}", *self.system.summary()]

    def facts(self) -> dict[str, Any]:
        """Model, and what the data is."""
        return {
            "model": self.system.model,
            "lesson": self.system.lesson,
            "citations": list(self.system.citations),
            "summary": self.system.summary(),
        }

    def digest(self) -> str:
        """Checksum of all data."""
        return digest_of(self.system.data())

    def fits_with(self, encoding: str) -> dict[str, Any]:
        """Learning rate and precision."""
        runtime = self.config.runtime
        precision = "float32" if runtime.precision == "auto" else runtime.precision
        return {"lr": self.config.training.lr, "precision": precision}

    def fit(self, encoding: str, control: FitControl) -> SequenceResult:
        """Fit with one encoding and evaluate on the test data."""

        def show(state: FitState, predict: Callable[[], Passage | None]) -> None:
            if control.viewer is not None:
                control.viewer.show_sequence(encoding, state, predict)

        training, runtime = self.config.training, self.config.runtime
        settings = FitSettings(
            name=encoding,
            steps=training.steps,
            batch_size=control.batch_size or training.batch_size,
            lr=self.system.recipe.lr if training.lr is None else training.lr,
            device=runtime.device,
            seed=training.seed,
            autocast_dtype=torch.bfloat16 if runtime.precision == "bfloat16" else None,
            schedule=self.system.schedule,
            quiet=runtime.quiet,
            stop=control.stop,
            file=control.file,
            halved_batch_size=control.batch_size,
        )
        return fit_system(self.system, encoding, settings, training.num_seeds, on_record=show)

    def open_viewer(self) -> LivePage:
        """Serve a page that shows the fits in progress."""
        return LivePage(self.name, loss_name="training loss")

    def write_report(
        self, folder: Path, results: Sequence[SequenceResult], details: Mapping[str, Any]
    ) -> None:
        """Write the page of a run."""
        title = f"{self.name}, {self.system.model}"
        report.write_sequence_page(
            folder / REPORT,
            title,
            results,
            details,
            measures=self.measures,
            lesson=self.system.lesson,
            citations=self.system.citations,
            notes=self.system.notes(),
        )

    def references(self) -> Sequence[SequenceResult]:
        """Nothing."""
        return ()

    def notes(self, results: Sequence[SequenceResult]) -> Iterator[str]:
        """Remarks that a reader of the table should know."""
        lower = [measure.label for measure in self.measures if not measure.higher_is_better]
        if lower:
            yield f"lower is better for {', '.join(lower)}; higher for all other measures"
        yield from self.system.notes()
        for result in results:
            ended = early_end(result, self.config.training.steps)
            if ended is not None:
                yield ended
            if len(result.by_seed) > 1:
                first = self.measures[0]
                values = [seed[first.name] for seed in result.by_seed]
                chosen = "least training loss" if self.system.recipe.selects_seed else "median"
                yield (
                    f"{result.encoding}: {chosen} of {len(values)} seeds, {first.label} "
                    f"{min(values):.{first.digits}f} to {max(values):.{first.digits}f}"
                )
