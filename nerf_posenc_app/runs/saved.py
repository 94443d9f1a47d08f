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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nerf_posenc.training.checkpoints import load_checkpoint, save_checkpoint
from nerf_posenc_app.json_values import as_json, from_json, read_json
from nerf_posenc_app.options import PROGRAM
from nerf_posenc_app.own_encodings import OwnFile
from nerf_posenc_app.report.images import read_run_image, run_file
from nerf_posenc_app.report.page import SECTIONS, About
from nerf_posenc_app.report.tables import PER_FIT, gain
from nerf_posenc_app.terminal import print_to_stderr
from nerf_posenc_app.values.blocks import Block, Video, View
from nerf_posenc_app.values.finding import Finding
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import block_files
from nerf_posenc_app.values.results import Result

METRICS = "metrics.json"
STATE = "run.json"
FITS = "fits"
DATA = "data"
FIT_SUFFIX = ".safetensors"

# Fields of a `Result` that an entry of ``metrics.json`` has under the same names.
_PLAIN = ("seconds", "parameters", "steps", "is_reference", "is_complete")

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
        facts: findings about the data, as those of ``--bands auto``.
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
    facts: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    token: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def read_state(file: Path) -> RunState:
    """Read what was asked of a run.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is of another program or version, or a value is of another type.
    """
    state: RunState = from_json(RunState, _values(file), STATE)
    if not (state.token.isalnum() and 8 <= len(state.token) <= 64):
        raise ValueError("its token was not written by this program")
    return state


def _values(file: Path) -> dict[str, Any]:
    """Values of a JSON file that this version of the program wrote.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is damaged, or of another program or version.
    """
    if file.is_symlink():
        raise ValueError(f"{file.name} is a link, which no run folder has")
    values: dict[str, Any] = from_json(dict[str, Any], read_json(file), file.name)
    if values.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    if values.get("version") != VERSION:
        versions = values.get("versions")
        writer = versions.get("nerf_posenc") if isinstance(versions, dict) else None
        raise ValueError(
            f"nerf_posenc {writer or 'of an unknown version'} wrote it in version "
            f"{values.get('version')!r} of its format, and this program reads version {VERSION}"
        )
    return values


@dataclass(frozen=True)
class Progress:
    """How far a saved fit is.

    Attributes:
        step: steps taken.
        num_steps: steps in all.
    """

    step: int
    num_steps: int


@dataclass
class FitFile:
    """Where one fit is saved.

    Attributes:
        path: file of the checkpoint; its folder exists.
        seconds: time between two saves.
        token: part of the names of files in progress, which only their run knows.
    """

    path: Path
    seconds: float = 60.0
    token: str = ""
    _saved_at: float = field(default_factory=time.monotonic, init=False)
    _has_warned: bool = field(default=False, init=False)

    def progress(self) -> Progress | None:
        """How far the saved fit is; None if nothing was saved, or it cannot be read."""
        try:
            saved = load_checkpoint(self.path, with_tensors=False)
            progress: Progress = from_json(Progress, {**saved["fit"], **saved}, "fit")
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return progress

    @property
    def is_complete(self) -> bool:
        """Whether a fit with all its steps was saved."""
        progress = self.progress()
        return progress is not None and progress.step == progress.num_steps

    def write(self, values: Mapping[str, Any]) -> None:
        """Save the fit.

        Raises:
            SaveError: If it cannot be written; what was saved before is kept.
        """
        try:
            save_checkpoint(self.path, values, token=self.token)
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
        digest: checksum of all that is fitted and evaluated.
    """

    kind: str
    title: str
    about: str = ""
    evaluated_on: str = ""
    citations: Sequence[str] = ()
    size: Sequence[int] = ()
    digest: str = ""


@dataclass(frozen=True)
class Metrics:
    """Records of a complete run.

    Attributes:
        command: command line of the run.
        data: facts about the fitted data.
        training: measure of the training curves.
        measures: columns of the table.
        config: configuration of the run.
        versions: versions of what the run was made with.
        device: what it was computed on.
        fits: results and references; their views are read by `read_views`.
        finding: best fit of the run, its verdict and its qualifications.
    """

    command: str
    data: Data
    training: Measure
    measures: Sequence[Measure]
    config: Mapping[str, Any]
    versions: Mapping[str, Any]
    device: str = ""
    fits: Sequence[Result] = field(default_factory=list)
    finding: Finding | None = None

    def complete_fits(self) -> dict[str, Result]:
        """Fits that took all their steps, or all their seconds, by name."""
        fits = [fit for fit in self.fits if not fit.is_reference]
        return {fit.label: fit for fit in fits if fit.is_complete}


def write_metrics(path: Path, about: About, results: Sequence[Result]) -> None:
    """Write all results, their histories and the description of the run as JSON.

    Args:
        path: file to write.
        about: configuration and versions that reproduce the run, its measures and its finding.
        results: the fits and references.
    """
    measures, training, first = about.measures, about.training, about.measures[0]
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
                {
                    **{"step": point.step, "seconds": point.seconds, training.name: point.score},
                    **({"deviation": point.deviation} if point.deviation else {}),
                }
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
    values = {
        "format": FORMAT,
        "version": VERSION,
        **about.run,
        "training": training,
        "measures": measures,
        "finding": about.finding,
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
        resume = "; continue it with --resume" if (folder / STATE).is_file() else ""
        raise ValueError(f"it has no {METRICS}: the run is not complete{resume}")
    values = _values(file)
    entries = from_json(list[dict[str, Any]], values.pop("fits", None), "fits")
    run: Metrics = from_json(Metrics, values, METRICS)
    if not run.measures or any(not 0 <= measure.digits <= 10 for measure in run.measures):
        raise ValueError("it has no measures, or one of more than 10 digits")
    fits = [_read_fit(entry, run) for entry in entries]
    if not fits or len({fit.label for fit in fits}) < len(fits):
        raise ValueError("it has no fits, or two of one name")
    return replace(run, fits=fits)


def _blocks(*, are_files: bool) -> Mapping[str, type]:
    """Types of the blocks that are saved as files, or by their fields in ``metrics.json``."""
    shown = {"view": View, "video": Video} if are_files else {}
    rows = {name: row for name, row in SECTIONS.items() if row.is_saved}
    named = {n: row.block for n, row in rows.items() if (row.write is not None) == are_files}
    return shown | named


def _read_fit(entry: Mapping[str, Any], run: Metrics) -> Result:
    first, score = run.measures[0].name, run.training.name
    if first not in entry:
        raise ValueError(f"a fit has no {first}")
    swept = from_json(dict[str, Any], entry.get("swept", {}), "swept")
    titles = [f"{name}_titles" for name in _blocks(are_files=True)]
    values = {
        **{key: entry[key] for key in _PLAIN if key in entry},
        "name": {"encoding": entry.get("encoding"), "swept": next(map(list, swept.items()), None)},
        "evaluation": {
            "scores": {m.name: entry[m.name] for m in run.measures if m.name in entry},
            **{key: entry[key] for key in ("by_seed", "remarks") if key in entry},
        },
        "history": [
            {**point, "score": point.get(score)}
            for point in from_json(list[dict[str, Any]], entry.get("history"), "history")
        ],
        "details": {
            **{key: from_json(list[str], entry.get(key, []), key) for key in titles},
            **{key: entry.get(key) for key in PER_FIT},
        },
    }
    fit: Result = from_json(Result, values, "fits")
    blocks = [
        block
        for key, kind in _blocks(are_files=False).items()
        for block in from_json(list[kind], entry.get(key, []), key)  # type: ignore[valid-type]
    ]
    return replace(fit, evaluation=replace(fit.evaluation, blocks=blocks))


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
    files = (run_file(folder, stem + suffix) for suffix in (".mp4", ".webp"))
    return next((file for file in files if file and file.stat().st_size <= max_bytes), None)
