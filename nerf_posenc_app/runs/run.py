"""One run: the same fit with one encoding after the other, scored and written."""

import contextlib
import os
import platform
import shlex
import shutil
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nerf_posenc
from nerf_posenc.training.devices import describe
from nerf_posenc.training.recipes import OwnEncoding, own_encodings
from nerf_posenc_app.json_values import as_json
from nerf_posenc_app.kinds.kind import Fit, Kind
from nerf_posenc_app.options import PROGRAM, CommonConfig, CommonOptions, UsageError, command_words
from nerf_posenc_app.report.outputs import write_report
from nerf_posenc_app.report.page import About
from nerf_posenc_app.report.tables import fitted_line, table
from nerf_posenc_app.runs.folder import REPORT, RunFolder
from nerf_posenc_app.runs.notes import notes_on, too_short
from nerf_posenc_app.runs.saved import METRICS, FitFile, RunState, SaveError, write_metrics
from nerf_posenc_app.runs.stop import Stop, Stopped
from nerf_posenc_app.runs.train import (
    Session,
    Watcher,
    begin_fit,
    failure_reason,
    print_ending,
    result_of,
    training,
)
from nerf_posenc_app.terminal import first_line, noted, print_to_stderr, printable, quoted, say
from nerf_posenc_app.values.finding import Doubt, Finding, find
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result, over_seeds


@dataclass(frozen=True)
class Context:
    """State that the runs of one command share.

    Attributes:
        command: the command line, or the call of `fit`, for people to read.
        stop: request of a signal to end the fit or the run.
        cwd: folder that relative paths start from.
        resumed: state of the run that is resumed; None for a new one.
    """

    command: str
    stop: Stop
    cwd: str = field(default_factory=os.getcwd)
    resumed: RunState | None = None


@dataclass
class Run:
    """Opened data with its configuration and its run folder.

    Attributes:
        kind: the data.
        options: options as they were given.
        config: configuration of the run, complete.
        folder: folder of the run, created.
        context: state that the runs of one command share.
        names: all fits of the run, in the order of its table.
        results: results of the fits so far, without those that failed.
        originals: the true images of the fits' previews.
        references: results of what needs no training.
        watchers: functions that log the fits in progress, such as the TensorBoard log.
        digest: checksum of the data.
    """

    kind: Kind[Any]
    options: CommonOptions
    config: CommonConfig
    folder: RunFolder
    context: Context
    names: Sequence[FitName]
    results: list[Result] = field(default_factory=list)
    originals: Sequence[Tensor] = ()
    references: list[Result] = field(default_factory=list)
    watchers: Sequence[Watcher] = ()
    digest: str = ""
    # References that could not be computed and fits that failed, and why.
    _missing: list[str] = field(default_factory=list, init=False)

    def fit_file(self, name: FitName) -> FitFile:
        """Where a fit is saved."""
        return self.folder.fit_file(name, self.config.save_every)

    def names_to_fit(self) -> Sequence[FitName]:
        """Names of the fits; those that were complete before are only evaluated, and come last."""
        return sorted(self.names, key=lambda name: self.fit_file(name).is_complete)

    @contextlib.contextmanager
    def failures_reported(self, name: FitName) -> Iterator[None]:
        """Catch an error that ends one fit, and print its reason; the run continues.

        Code of the user's or of another distribution may raise anything, also to end Python.

        Args:
            name: name of the fit.
        """
        own = name.encoding if isinstance(name.encoding, OwnEncoding) else None
        # Code that changes the modes of torch fails the fits after it, too.
        is_ours = type(self.kind).__module__.startswith("nerf_posenc")
        is_ours = is_ours and not own_encodings(each.encoding for each in self.names)
        foreign = own.path if own is not None else None if is_ours else ""
        try:
            yield
        except (KeyboardInterrupt, Stopped, SaveError, UsageError):
            raise
        except BaseException as error:
            reason = failure_reason(error, foreign=foreign)
            print_to_stderr(f"{PROGRAM}: error: {name}: {reason}")
            self._missing.append(f"{name} could not be fitted: {printable(reason)}")

    def build(self, name: FitName) -> Fit[Any]:
        """Build the model of a fit, with its batches, its loss and its optimizer."""
        config = self.config
        saved = self.fit_file(name).progress()
        if saved is not None:
            of = f" of {saved.num_steps}" if config.seconds is None else ""
            is_over = config.seconds is None and saved.step == saved.num_steps
            how = "was fitted before" if is_over else f"continues at step {saved.step}{of}"
            config.log(f"{name} {how}")
        return begin_fit(self.kind, name, config)

    @contextlib.contextmanager
    def training(self, fit: Fit[Any]) -> Iterator[Session]:
        """Surround the steps of a fit, which go on from its file; see `runs.train.training`.

        Raises:
            SaveError: If the fit cannot be saved.
            Stopped: If the run was asked to end.
        """
        with training(
            fit,
            self.context.stop,
            score=self.kind.training,
            file=self.fit_file(fit.name),
            watchers=self.watchers,
        ) as session:
            yield session
        self.originals = fit.problem.originals

    def evaluate(self, fit: Fit[Any]) -> Result:
        """Score a fit on the test data, and print its first score."""
        result = result_of(self.kind, fit)
        self.results.append(result)
        self._say_if_stopped(result)
        print_ending(result, self.kind.measures(self.config)[0], self.config)
        return result

    def _say_if_stopped(self, result: Result) -> None:
        config = self.config
        if result.is_complete:
            return
        of = f" of {config.steps}" if config.seconds is None else ""
        folder = self.context.stop.folder or self.folder.path
        names = self.names[self.names.index(result.name) + 1 :]
        later = [name for name in names if not self.fit_file(name).is_complete]
        goes_on = f"goes on with {', '.join(map(str, later))}; " if later else ""
        config.log(
            f"stopped {result.name} at step {result.steps}{of}; {goes_on}press again to quit; "
            f"resume with: {resume_command(folder, self.context.stop.encodings)}"
        )

    def compute_references(self) -> None:
        """Compute what the fits are compared with, before anything is trained.

        A reference may not exist for some data, such as triangles between pixels of one column.
        """
        for name, compute in self.kind.references(self.config).items():
            try:
                self.references.append(compute())
            except Exception as error:
                self._missing.append(f"no {name} to compare with: {first_line(error)}")

    def write_report(self) -> bool:
        """Write the page and the metrics, and print the table.

        Returns:
            Whether every encoding was fitted.

        Raises:
            SaveError: If the run folder cannot be written.
        """
        kind, config = self.kind, self.config
        results = sorted(self.results, key=lambda result: self.names.index(result.name))
        if not results:
            return False
        is_whole = len(results) == len(self.names)
        results = over_seeds(results)
        all_results = [*results, *self.references]
        notes, found = list(self._missing), list[str | Doubt]()
        with noted("notes on the results", notes):
            found += notes_on(kind, config, results, all_results)
        notes += [note for note in found if isinstance(note, str)]
        doubts = [note for note in found if isinstance(note, Doubt)]
        measures = kind.measures(config)
        declared = {measure.name for measure in measures}
        for result in all_results:
            assert set(result.scores) == declared, (result.label, set(result.scores), declared)
        length = too_short(kind, config)
        finding = find(all_results, measures[0], doubts, length)
        if finding is not None:
            # That fits were too short is said by the sentence itself.
            notes = [*finding.qualifications[length is not None :], *notes]
            all_results = self._with_blocks_of_best(all_results, finding, notes)
        about = About(
            title=f"{kind.title}, {kind.evaluated_on}" if kind.evaluated_on else kind.title,
            measures=measures,
            training=kind.training.measure,
            finding=finding,
            run=_run_details(self),
            lead=kind.about,
            notes=[*kind.notes_on_data, *notes],
            citations=kind.citations,
        )
        with self.folder.publishing() as folder:
            # The scores are written first; the report and its images can be made again from them.
            write_metrics(folder / METRICS, about, all_results)
            figures = config.figures
            notes += write_report(
                folder, about, all_results, self.originals, figures=figures, report=REPORT
            )
        notes.append(f"fits: {fitted_line(all_results, about.run)}")
        self._print_table(all_results, about, notes)
        return is_whole

    def _with_blocks_of_best(
        self, shown: Sequence[Result], finding: Finding, notes: list[str]
    ) -> list[Result]:
        fits = [result for result in shown if not result.is_reference]
        best = next(r for label in finding.sides[::-1] for r in fits if r.label == label)
        blocks = list(best.evaluation.blocks)
        with noted(f"further views of {best.label}", notes):
            path = self.fit_file(best.name).path
            blocks += self.kind.blocks_of_best(best.name, path, self.config)
        changed = replace(best, evaluation=replace(best.evaluation, blocks=blocks))
        return [changed if result is best else result for result in shown]

    def _print_table(self, shown: Sequence[Result], about: About, notes: Sequence[str]) -> None:
        config = self.config
        if not config.quiet:
            said = [] if about.finding is None else [about.finding.sentence]
            say("", *table(shown, about.measures).split("\n"), "", *said)
        for note in notes:
            config.log(f"note: {note}")
        report = self.folder.path / REPORT
        to_open = f"; open {quoted(report)}" if report.is_file() else ""
        config.log(f"wrote {quoted(self.folder.path)}/{to_open}")
        if config.open and to_open and not webbrowser.open(report.resolve().as_uri()):
            print_to_stderr("note: --open found no browser")


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    return {
        "nerf_posenc": nerf_posenc.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def _run_details(prepared: Run) -> dict[str, Any]:
    """Everything that reproduces a run: command, configuration, data and versions."""
    kind, config = prepared.kind, replace(prepared.config, out=prepared.folder.path)
    details = {
        "command": prepared.context.command,
        "config": config,
        "data": {
            "kind": kind.name,
            "title": kind.title,
            "source": kind.source,
            "about": kind.about,
            "evaluated_on": kind.evaluated_on,
            "citations": list(kind.citations),
            "digest": prepared.digest,
            **kind.facts,
        },
        "device": describe(torch.device(config.device)),
        "versions": versions(),
    }
    printable_details: dict[str, Any] = _with_printable_text(as_json(details))
    return printable_details


def _with_printable_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_printable_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_printable_text(item) for item in value]
    return printable(value) if isinstance(value, str) else value


def resume_command(folder: Path, encodings: Sequence[str] = ()) -> str:
    """Command that goes on with a run, in this terminal.

    Args:
        folder: run folder.
        encodings: its encodings of files of the user's.
    """
    names = ("python", "python3")
    python = next((n for n in names if shutil.which(n) == sys.executable), sys.executable)
    named = ["--encodings", *encodings] if encodings else []
    return shlex.join([*command_words(python), "--resume", str(folder), *named])
