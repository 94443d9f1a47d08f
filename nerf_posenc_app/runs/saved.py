"""Files of a run, and how they are read back with every value checked.

```text
RUN/run.json                what was asked, written first: enough to resume the run
RUN/data/OPTION.safetensors data that Python held, for a resumed run
RUN/fits/NAME.safetensors   one checkpoint per fit
RUN/metrics.json            written last: without it the run is not complete
```
"""

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nerf_posenc.training.checkpoints import (
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
    write_text,
)
from nerf_posenc_app.json_values import as_json, from_json, read_json
from nerf_posenc_app.options import PROGRAM
from nerf_posenc_app.own_encodings import OwnFile
from nerf_posenc_app.report.images import read_run_image
from nerf_posenc_app.report.page import SECTIONS
from nerf_posenc_app.report.tables import PER_FIT, gain
from nerf_posenc_app.terminal import print_to_stderr
from nerf_posenc_app.values.blocks import Block, Evaluation, Video, View
from nerf_posenc_app.values.finding import Finding
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName, block_files
from nerf_posenc_app.values.results import Point, Result

METRICS = "metrics.json"
STATE = "run.json"
FITS = "fits"
DATA = "data"
FIT_SUFFIX = ".safetensors"

FORMAT = "nerf_posenc run"
VERSION = 3


class SaveError(Exception):
    """A fit or a run folder cannot be written; the message says why."""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Options and versions that a run was started with, so that it can be resumed.

    Attributes:
        kind: name of the kind of data.
        options: options as they were given.
        in_memory: names of the options that hold data of Python, which is in the folder ``data``.
        own_encodings: files of the user's own encodings, by the name of the encoding.
        command: the command line, or the call of `fit`, for people to read.
        cwd: folder that relative paths start from.
        config: the resolved configuration.
        fits: names of all fits.
        digest: checksum of the data.
        token: part of the names of files in progress.
        versions: versions of what the run was begun with.
    """

    kind: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    in_memory: Sequence[str] = ()
    own_encodings: Mapping[str, OwnFile] = field(default_factory=dict)
    command: str = ""
    cwd: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    fits: Sequence[str] = ()
    digest: str = ""
    token: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def write_state(path: Path, state: RunState, token: str) -> None:
    """Write what was asked of a run.

    Raises:
        OSError: If it cannot be written.
    """
    values = {"format": FORMAT, "version": VERSION, **asdict(state), "token": token}
    write_text(path, json.dumps(values, indent=2) + "\n", token=token)


def read_state(file: Path) -> RunState:
    """Read what was asked of a run.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is of another program or version, or a value is of another type.
    """
    values = read_json(file)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    _require_version(values)
    state: RunState = from_json(RunState, values, STATE)
    if not (state.token.isalnum() and 8 <= len(state.token) <= 64):
        raise ValueError("its token was not written by this program")
    return state


def _require_version(values: Mapping[str, Any]) -> None:
    """Check that this version of the program wrote a file.

    Raises:
        ValueError: Naming the version that wrote it.
    """
    if values.get("version") != VERSION:
        versions = values.get("versions")
        writer = versions.get("nerf_posenc") if isinstance(versions, dict) else None
        raise ValueError(
            f"nerf_posenc {writer or 'of an unknown version'} wrote it in version "
            f"{values.get('version')!r} of its format, and this program reads version {VERSION}"
        )


class FitFile:
    """Where one fit is saved.

    Args:
        path: file of the checkpoint; its folder exists.
        seconds: time between two saves.
        token: part of the names of files in progress, which only their run knows.
    """

    def __init__(self, path: Path, *, seconds: float = 60.0, token: str = "") -> None:
        self.path, self.seconds = path, seconds
        self._token = token
        self._saved_at = time.monotonic()
        self._has_warned = False

    def read(self) -> dict[str, Any] | None:
        """Read what was saved; None if nothing was.

        Raises:
            CheckpointError: If the file is damaged or of another version.
            OSError: If it cannot be read.
        """
        return load_checkpoint(self.path) if self.path.exists() else None

    def summary(self) -> dict[str, Any]:
        """Header of a checkpoint, without its tensors; empty if it cannot be read."""
        try:
            return load_checkpoint(self.path, with_tensors=False)
        except (OSError, CheckpointError):
            return {}

    def saved_steps(self) -> tuple[int, int] | None:
        """Steps taken and steps in all of the saved fit; None if nothing was saved."""
        fit = self.summary().get("fit")
        if not isinstance(fit, dict):
            return None
        taken, whole = fit.get("step"), fit.get("num_steps")
        return (taken, whole) if isinstance(taken, int) and isinstance(whole, int) else None

    def is_complete(self) -> bool:
        """Whether a fit with all its steps was saved."""
        steps = self.saved_steps()
        return steps is not None and steps[0] == steps[1]

    def saved_batch_size(self) -> int | None:
        """Batch size of the saved fit, if it is not the run's."""
        batch_size = self.summary().get("halved_batch_size")
        return batch_size if isinstance(batch_size, int) and batch_size > 0 else None

    def write(self, values: Mapping[str, Any]) -> None:
        """Save the fit.

        Raises:
            SaveError: If it cannot be written; what was saved before is kept.
        """
        try:
            save_checkpoint(self.path, values, token=self._token)
        except OSError as error:
            reason = error.strerror or error
            raise SaveError(f"cannot write {self.path}: {reason}") from None
        finally:
            self._saved_at = time.monotonic()

    def write_if_due(self, values: Callable[[], Mapping[str, Any]]) -> None:
        """Save a fit in progress if the last save was long enough ago; warn once if that fails."""
        if time.monotonic() - self._saved_at < self.seconds:
            return
        try:
            self.write(values())
        except SaveError as error:
            if not self._has_warned:
                print_to_stderr(f"{PROGRAM}: warning: {error}; the fit goes on")
            self._has_warned = True


@dataclass(frozen=True)
class Data:
    """Facts of a run about its data.

    Attributes:
        kind: name of the kind.
        title: name of the data.
        about: lesson of a comparison of encodings on such data.
        citations: BibTeX.
        evaluated_on: part of the data that scores are of; empty for all of it.
        size: its size, if it has one.
    """

    kind: str
    title: str
    about: str = ""
    evaluated_on: str = ""
    citations: Sequence[str] = ()
    size: Sequence[int] = ()


@dataclass(frozen=True)
class Metrics:
    """Records of a complete run.

    Attributes:
        command: command line of the run.
        data: facts about the fitted data.
        training: measure of the training curves.
        measures: columns of the table.
        config: configuration of the run.
        all_fits: names of all fits of the run, also of those that failed.
        versions: versions of what the run was made with.
        fits: results and references; their views are read by `read_views`.
        finding: best fit of the run, its verdict and its qualifications.
    """

    command: str
    data: Data
    training: Measure
    measures: Sequence[Measure]
    config: Mapping[str, Any]
    versions: Mapping[str, Any]
    all_fits: Sequence[str] = ()
    fits: Sequence[Result] = field(default_factory=list)
    finding: Finding | None = None

    @property
    def sentence(self) -> str | None:
        """Headline of the run; None if no fit has a score."""
        return None if self.finding is None else self.finding.sentence

    def complete_fits(self) -> dict[str, Result]:
        """Fits that took all their steps, or all their seconds, by name."""
        fits = [fit for fit in self.fits if not fit.is_reference]
        return {fit.label: fit for fit in fits if fit.is_complete}


def write_metrics(
    path: Path,
    run: Mapping[str, Any],
    results: Sequence[Result],
    *,
    measures: Sequence[Measure],
    training: Measure,
    finding: Finding | None = None,
) -> None:
    """Write all results, their histories and the description of the run as JSON.

    Args:
        path: file to write.
        run: configuration and versions that reproduce the run.
        results: the fits and references.
        measures: columns of the table.
        training: measure of the training curves.
        finding: best fit of the run, its verdict and its qualifications.
    """
    first = measures[0]
    gain_name = "gain_db" if first.name.endswith("_db") else "gain"
    fits = [
        {
            "name": result.label,
            "encoding": result.name.encoding,
            "swept": dict([result.name.swept] if result.name.swept else []),
            "is_reference": result.is_reference,
            "is_complete": result.is_complete,
            "parameters": result.parameters,
            **result.scores,
            "seconds": result.seconds,
            "steps": result.steps,
            gain_name: gain(result, results, first),
            "history": [
                {"step": point.step, "seconds": point.seconds, training.name: point.score}
                for point in result.history
            ],
            "by_seed": result.evaluation.by_seed,
            "remarks": result.evaluation.remarks,
            **{
                f"{name}_titles": [block.title for block in result.blocks(kind)]
                for name, kind in _blocks(are_files=True).items()
            },
            **{name: result.blocks(kind) for name, kind in _blocks(are_files=False).items()},
            **result.details,
        }
        for result in results
    ]
    definitions = {
        **{measure.name: measure.meaning for measure in measures},
        "history": "mean over the batches of the steps since the previous point",
    }
    values = {
        "format": FORMAT,
        "version": VERSION,
        **run,
        "training": training,
        "definitions": definitions,
        "measures": measures,
        "finding": finding,
        "fits": fits,
    }
    text = json.dumps(as_json(values), indent=2, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_metrics(folder: Path) -> Metrics:
    """Read the ``metrics.json`` of a run folder, trusting nothing in it.

    Raises:
        OSError: If it cannot be read.
        ValueError: If a value is missing, of another type, out of its range, or a name that could
            lead out of the run folder.
    """
    file = folder / METRICS
    if not file.is_file():
        if not folder.is_dir():
            raise ValueError(f"there is no folder {folder}")
        if any(folder.glob(f"*/{METRICS}")):
            raise ValueError("it is a folder of runs: give the folders in it")
        resume = "; continue it with --resume" if (folder / STATE).is_file() else ""
        raise ValueError(f"it has no {METRICS}: the run is not complete{resume}")
    values = from_json(dict[str, Any], read_json(file), METRICS)
    _require_version(values)
    entries = from_json(list[dict[str, Any]], values.pop("fits", None), "fits")
    run: Metrics = from_json(Metrics, values, METRICS)
    if not run.measures or any(not 0 <= measure.digits <= 10 for measure in run.measures):
        raise ValueError("it has no measures, or one of more than 10 digits")
    fits = [_read_fit(entry, run) for entry in entries]
    names = {fit.label for fit in fits}
    if not fits or len(names) < len(fits):
        raise ValueError("it has no fits, or two of one name")
    return Metrics(**{**vars(run), "fits": fits})


def _blocks(*, are_files: bool) -> Mapping[str, type]:
    """Types of the blocks that are saved as files, or by their fields in ``metrics.json``."""
    shown = {"view": View, "video": Video} if are_files else {}
    rows = {name: row for name, row in SECTIONS.items() if row.is_saved}
    named = {n: row.block for n, row in rows.items() if (row.write is not None) == are_files}
    return shown | named


def _read_fit(entry: Mapping[str, Any], run: Metrics) -> Result:
    def read(kind: Any, name: str, default: Any = None) -> Any:
        return from_json(kind, entry.get(name, default), name)

    records = read(list[dict[str, Any]], "history")
    blocks: list[Any] = []
    for key, kind in _blocks(are_files=False).items():
        blocks += read(list[kind], key, [])  # type: ignore[valid-type]
    scores = {m.name: read(float, m.name) for m in run.measures if m.name in entry}
    if run.measures[0].name not in scores:
        raise ValueError(f"a fit has no {run.measures[0].name}")
    swept = read(dict[str, float], "swept", {})
    name = FitName(read(str, "encoding"), next(iter(swept.items()), None))
    return Result(
        name=name,
        parameters=read(int, "parameters"),
        seconds=read(float, "seconds"),
        steps=read(int, "steps"),
        evaluation=Evaluation(
            scores,
            blocks,
            by_seed=read(list[dict[str, float]], "by_seed", []),
            remarks=read(list[str], "remarks", []),
        ),
        history=[
            Point(
                from_json(int, record.get("step"), "step"),
                from_json(float, record.get("seconds"), "seconds"),
                from_json(float, record.get(run.training.name), run.training.name),
            )
            for record in records
        ],
        details={
            **{f"{n}_titles": read(list[str], f"{n}_titles", []) for n in _blocks(are_files=True)},
            **{name: entry.get(name) for name in PER_FIT},
        },
        is_reference=read(bool, "is_reference", False),
        is_complete=read(bool, "is_complete"),
    )


def read_views(folder: Path, fit: Result, limit: int) -> list[View]:
    """Read the first images of a fit back.

    Raises:
        ValueError: If an image is missing or damaged.
    """
    titles = fit.details["view_titles"]
    views = []
    files = zip(titles, block_files(len(titles)), strict=True)
    for title, (original, pattern) in itertools.islice(files, limit):
        file = pattern.format(fit.name.stem)
        truth, image = read_run_image(folder, original), read_run_image(folder, file)
        if image.shape != truth.shape:
            raise ValueError(f"{file} and {original} differ in size")
        views.append(View(title, truth, image))
    return views


def read_file_blocks(folder: Path, fit: Result) -> list[Block]:
    """Read the blocks of a fit back that are files, other than images and videos.

    Raises:
        ValueError: If one is missing or damaged.
    """
    return [
        block
        for name, section in SECTIONS.items()
        if section.read is not None
        for block in section.read(folder, fit, fit.details[f"{name}_titles"])
    ]


def video_file(folder: Path, stem: str, max_bytes: int = 16 << 20) -> Path | None:
    """A video of a run folder, if it is there and not too large for a page."""
    for suffix in (".mp4", ".webp"):
        file = (folder / (stem + suffix)).resolve()
        inside = file.is_relative_to(folder.resolve()) and file.is_file()
        if inside and file.stat().st_size <= max_bytes:
            return file
    return None
