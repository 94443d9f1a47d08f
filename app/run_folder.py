"""The folder of a run: locked while it is written, whole or without the file that says it is.

```text
RUN/run.json          what was asked, written first: enough to resume the run
RUN/fits/NAME.safetensors   one checkpoint per encoding
RUN/.lock             held by the process that writes
RUN/.partial/         what is being written
RUN/metrics.json      written last: without it the run is not complete
```
"""

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from app.fit_file import SaveError
from app.parsing import UsageError
from app.report.metrics_file import METRICS
from app.terminal import printable
from nerf_posenc.training.checkpoints import partial_path, synchronize

FORMAT = "nerf_posenc run"
VERSION = 1

STATE = "run.json"
_LOCK = ".lock"
_FITS = "fits"
_PARTIAL = ".partial"
_OWN = {STATE, _LOCK, _FITS, _PARTIAL}


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What was asked of a run, so that it can be resumed.

    Attributes:
        arguments: of the command line.
        cwd: folder that its relative paths start from.
        config: the resolved configuration.
        digest: checksum of the data.
        sigma: chosen for ``--sigma auto``; None for none.
        files: images of a run of several; None for other runs.
        is_part: whether the run is part of a run of several images.
    """

    arguments: Sequence[str] = ()
    cwd: str = ""
    config: Any = None
    digest: str = ""
    sigma: float | None = None
    files: Sequence[str] | None = None
    is_part: bool = False


class RunFolder:
    """A run folder that no other run writes to, until it is closed.

    Args:
        path: of the folder, which exists.
        is_joined: whether rank 0 has locked it for all processes of the run.

    Raises:
        UsageError: If another process writes to it.
    """

    def __init__(self, path: Path, *, is_joined: bool = False) -> None:
        self.path = path
        self._lock = FileLock(path / _LOCK)
        if is_joined:
            return
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(f"another run is writing to {path}; name another folder") from None

    @property
    def fits(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / _FITS

    @property
    def metrics(self) -> Path:
        """The file that says that the run is complete."""
        return self.path / METRICS

    def fit_path(self, encoding: str) -> Path:
        """Path of an encoding's checkpoint; its folder is created."""
        try:
            self.fits.mkdir(exist_ok=True)
        except OSError as error:
            raise SaveError(f"cannot write {self.fits}: {error.strerror}") from None
        return self.fits / f"{encoding}.safetensors"

    def begin(self, state: RunState) -> None:
        """Write what was asked.

        Raises:
            OSError: If it cannot be written.
        """
        values = {"format": FORMAT, "version": VERSION, **asdict(state)}
        write_text(self.path / STATE, json.dumps(values, indent=2) + "\n")

    @contextlib.contextmanager
    def publishing(self) -> Iterator[Path]:
        """Give a hidden folder to write to; what is in it then replaces what the run folder had.

        ``metrics.json`` is removed first and moved last.

        Raises:
            SaveError: If anything cannot be written; the checkpoints are kept.
        """
        partial = self.path / _PARTIAL
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            yield partial
            self.metrics.unlink(missing_ok=True)
            for source in sorted(partial.iterdir(), key=lambda file: file.name == METRICS):
                for file in [source, *source.rglob("*")]:
                    synchronize(file)
                target = self.path / source.name
                if target.is_dir():
                    shutil.rmtree(target)
                source.replace(target)
            synchronize(self.path)
        except OSError as error:
            raise SaveError(
                f"cannot write the report to {self.path}: {error.strerror or error}"
            ) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Remove what a process that was killed was about to write."""
        for file in [*self.path.glob(f".{STATE}*"), *self.fits.glob(".*")]:
            file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what an earlier run would be resumed from, and the mark that it is complete."""
        self.metrics.unlink(missing_ok=True)
        (self.path / STATE).unlink(missing_ok=True)
        shutil.rmtree(self.fits, ignore_errors=True)

    def close(self) -> None:
        """Let others write to it; remove it if it contains no result and no part of a fit."""
        with contextlib.suppress(OSError):
            names = {file.name for file in self.path.iterdir()}
            if names <= {*_OWN, f".{STATE}.partial"} and not (
                self.fits.is_dir() and any(self.fits.iterdir())
            ):
                for name in names:
                    path = self.path / name
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                self.path.rmdir()
        self._lock.release()


def write_text(path: Path, text: str) -> None:
    """Write a file, so that at every moment the old or the new one is whole.

    Raises:
        OSError: If it cannot be written.
    """
    partial = partial_path(path)
    partial.write_text(text, encoding="utf-8")
    synchronize(partial)
    partial.replace(path)
    synchronize(path.parent)


@contextlib.contextmanager
def closed_on_error(folder: RunFolder) -> Iterator[None]:
    """Let go of a run folder if what follows fails or is interrupted."""
    try:
        yield
    except BaseException:
        folder.close()
        raise


def create_run_folder(out: Path | None, name: str, *, overwrite: bool = False) -> RunFolder:
    """Create a run folder, never one that contains another run.

    Args:
        out: the folder; None for a new one under ``runs/``.
        name: of the image or scene, for the name of a new folder.
        overwrite: let ``out`` contain files already.

    Raises:
        UsageError: If it cannot be created or written, or already contains files.
    """
    try:
        return _create(out, name, overwrite=overwrite)
    except FileExistsError:
        raise UsageError(f"--out {out} is a file; name a folder") from None
    except (OSError, ValueError) as error:  # A path with a null character is a ValueError.
        folder = "runs" if out is None else out
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write to the folder {folder}: {reason}; use --out") from None


def _create(out: Path | None, name: str, *, overwrite: bool) -> RunFolder:
    if out is None:
        return RunFolder(_new_folder(name))
    out.mkdir(parents=True, exist_ok=True)
    had_lock = (out / _LOCK).exists()
    folder = RunFolder(out)
    # What a process left that was killed before it wrote its first file is nothing.
    others = [file for file in out.iterdir() if file.name not in (_LOCK, f".{STATE}.partial")]
    if others and not overwrite:
        folder._lock.release()
        if not had_lock:
            (out / _LOCK).unlink(missing_ok=True)
        resume = f"; --resume {out} goes on with that run" if (out / STATE).exists() else ""
        raise UsageError(
            f"--out {out} contains files already; name another folder or add --overwrite{resume}"
        )
    folder.clear()
    return folder


def _new_folder(name: str) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    stem = short_name(name)
    folder = Path("runs", f"{stem}-{stamp}")
    for again in range(2, 1000):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
        folder = Path("runs", f"{stem}-{stamp}-{again}")
    return folder


def short_name(name: str) -> str:
    """Name that any file system takes for a part of a folder's name."""
    return printable(name).replace("/", "-").replace("?", "-")[:60]


def open_run_folder(path: Path) -> tuple[RunFolder, RunState]:
    """Open the folder of a run to go on with it.

    Raises:
        UsageError: If it is no run folder, of another version, or another process writes to it.
    """
    file = path / STATE
    try:
        if not file.is_file():
            raise UsageError(f"--resume {path}: there is no run: it has no {STATE}")
        state = _state_from_json(json.loads(file.read_text(encoding="utf-8")))
        folder = RunFolder(path)
        folder.remove_leftovers()
        return folder, state
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"--resume {path}: cannot read {STATE}: {error}") from None


def _state_from_json(values: Any) -> RunState:
    """Check the content of ``run.json``.

    Raises:
        ValueError: If it is of another program or version, or a value of another type.
    """
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    if values.get("version") != VERSION:
        raise ValueError(
            f"it is of version {values.get('version')!r}, and this program reads {VERSION}"
        )
    arguments, files = values.get("arguments", ()), values.get("files")
    for name, texts in (("arguments", arguments), ("files", files or [])):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{name} must be a list of strings")
    cwd, digest, sigma = values.get("cwd"), values.get("digest"), values.get("sigma")
    if not isinstance(cwd, str) or not isinstance(digest, str):
        raise ValueError("cwd and digest must be strings")
    if sigma is not None and not (isinstance(sigma, int | float) and 0 < sigma < float("inf")):
        raise ValueError(f"sigma must be a number above 0; got {sigma!r}")
    return RunState(
        arguments=arguments,
        cwd=cwd,
        config=values.get("config"),
        digest=digest,
        sigma=sigma,
        files=files,
        is_part=values.get("is_part") is True,
    )
