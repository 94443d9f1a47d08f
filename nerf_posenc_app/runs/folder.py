"""The folder of a run: locked while it is written, whole or without the file that says it is.

`saved` says what lies in it. Besides that there are

```text
RUN/.lock                   held by the process that writes
RUN/.TOKEN.partial          what is being written; only the run knows its token
```

Nothing in the folder is followed if it is a link, and nothing is removed but what the run has made.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nerf_posenc.training.checkpoints import synchronize, write_text
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.json_values import as_json
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.runs.saved import (
    DATA,
    FIT_SUFFIX,
    FITS,
    FORMAT,
    METRICS,
    STATE,
    VERSION,
    FitFile,
    RunState,
    SaveError,
    read_state,
)
from nerf_posenc_app.terminal import print_to_stderr, printable, quoted
from nerf_posenc_app.values.names import FitName

REPORT = "report.html"
_LOCK = ".lock"


class RunFolder:
    """A run folder that no other run writes to, until it is closed.

    Args:
        path: the folder, which exists.
        token: part of the names of files in progress.
        is_new: whether it was created for this run, and may be removed if it stays empty.

    Raises:
        UsageError: If another process writes to it, or a part of it is a link.
    """

    def __init__(self, path: Path, *, token: str = "", is_new: bool = False) -> None:
        self.path, self.token = path, token or secrets.token_hex(8)
        self.fits, self.metrics, self._is_new = path / FITS, path / METRICS, is_new
        for name in (FITS, DATA, STATE, METRICS, _LOCK):
            if (path / name).is_symlink():
                raise UsageError(f"{path / name} is a link, which no run follows; remove it")
        self._lock: int | None = _locked(path / _LOCK)

    def subfolder(self, *parts: str) -> Path:
        """Create a folder in this one, through no link.

        Raises:
            OSError: If it cannot be created.
            SaveError: If a part of it is a link.
        """
        folder = self.path
        for part in parts:
            folder = folder / part
            if folder.is_symlink():
                raise SaveError(f"{folder} is a link, which no run follows; remove it")
            folder.mkdir(exist_ok=True)
        return folder

    def fit_file(self, name: FitName, seconds: float) -> FitFile:
        """Where a fit is saved every so many seconds; its folder is created.

        Raises:
            SaveError: If it cannot be created, or something else has its name.
        """
        path = self.fits / f"{name.stem}{FIT_SUFFIX}"
        try:
            self.subfolder(FITS)
        except OSError as error:
            raise SaveError(f"cannot write {self.fits}: {error.strerror}") from None
        if path.is_symlink() or path.is_dir():
            raise SaveError(f"{path} is no file of this run; remove it")
        return FitFile(path, seconds, self.token)

    def begin(self, state: RunState, held: Mapping[str, InMemory]) -> None:
        """Write what was asked.

        Args:
            state: options and versions that the run was started with.
            held: data that Python holds, by the name of the option.

        Raises:
            OSError: If it cannot be written.
        """
        for name, data in held.items():
            data.save(self.subfolder(DATA), name)
        state = replace(state, token=self.token)
        values = {"format": FORMAT, "version": VERSION, **as_json(state)}
        write_text(self.path / STATE, json.dumps(values, indent=2) + "\n", token=self.token)

    @contextlib.contextmanager
    def publishing(self) -> Iterator[Path]:
        """Give a hidden folder to write to; each file in it then replaces that of the run folder.

        ``metrics.json`` is removed first and moved last.

        Raises:
            SaveError: If anything cannot be written; the checkpoints are kept.
        """
        partial = self.path / f".{self.token}.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            yield partial
            self.metrics.unlink(missing_ok=True)
            files = [file for file in partial.rglob("*") if file.is_file()]
            for file in sorted(files, key=lambda file: file.name == METRICS):
                synchronize(file)
                *folders, name = file.relative_to(partial).parts
                file.replace(self.subfolder(*folders) / name)
            synchronize(self.path)
        except OSError as error:
            raise SaveError(
                f"cannot write the report to {self.path}: {error.strerror or error}"
            ) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Remove what a process of this run left that was killed while it wrote."""
        shutil.rmtree(self.path / f".{self.token}.partial", ignore_errors=True)
        for folder in (self.path, self.fits):
            for file in folder.glob(f".{self.token}.partial.*"):
                file.unlink()

    def clear(self, names: Sequence[FitName]) -> None:
        """Remove the checkpoints that an earlier run left under ``--overwrite``.

        Args:
            names: fits of the new run, whose files are removed even if unreadable.
        """
        stems = {name.stem for name in names}
        for file in self.fits.glob(f"*{FIT_SUFFIX}"):
            is_file = file.is_file() and not file.is_symlink()
            if is_file and (file.stem in stems or FitFile(file).progress()):
                file.unlink()

    def close(self) -> None:
        """Let others write to it; remove a new folder without a result or a part of a fit."""
        with contextlib.suppress(OSError):
            if self._is_new:
                self.remove_leftovers()
                if self.fits.is_dir():
                    self.fits.rmdir()
                if {file.name for file in self.path.iterdir()} <= {STATE, DATA, _LOCK}:
                    shutil.rmtree(self.path)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(path: Path) -> int:
    """Lock a file until its descriptor is closed, or the process ends in whatever way.

    Raises:
        OSError: If the file cannot be created.
        UsageError: If another process has locked it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            os.close(descriptor)
            raise UsageError(
                f"another run is writing to {path.parent}; name another folder"
            ) from None
        print_to_stderr(
            f"warning: {path.parent} cannot be locked ({error.strerror}); let no other run write "
            "to it"
        )
    return descriptor


def create_run_folder(out: Path | None, title: str, *, overwrite: bool = False) -> RunFolder:
    """Create a run folder, never one that contains another run.

    Args:
        out: the folder; None for a new one under ``runs/``.
        title: name of the data, for the name of a new folder.
        overwrite: whether ``out`` may contain files already.

    Raises:
        UsageError: If it cannot be created or written, or already contains files.
    """
    try:
        if out is None:
            return RunFolder(_new_folder(title), is_new=True)
        out = out.expanduser()
        is_new = not out.exists()
        out.mkdir(parents=True, exist_ok=True)
        # Files left by a process that was killed before its first save do not count.
        others = {f.name for f in out.iterdir() if not f.name.endswith(f".partial.{STATE}")}
        others -= {_LOCK}
        if others and not overwrite:
            resume = f"; --resume {quoted(out)} continues that run" if STATE in others else ""
            raise UsageError(
                f"--out {out} contains files already; name another folder or add --overwrite"
                f"{resume}"
            )
        folder = RunFolder(out, is_new=is_new or not others)
        # The run is incomplete until it has written these files again.
        folder.metrics.unlink(missing_ok=True)
        (out / STATE).unlink(missing_ok=True)
        return folder
    except FileExistsError:
        raise UsageError(f"--out {out} is a file; name a folder") from None
    # A path with a null character is a ValueError, one of an unknown user a RuntimeError.
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot write to the folder {out or 'runs'}: {reason}; use --out"
        ) from None


def _new_folder(title: str) -> Path:
    stem = f"{short_name(title)}-{time.strftime('%Y%m%d-%H%M%S')}"
    for end in ("", *(f"-{again}" for again in range(2, 1000))):
        with contextlib.suppress(FileExistsError):
            folder = Path("runs", stem + end)
            folder.mkdir(parents=True)
            return folder
    raise FileExistsError(f"runs/{stem} and 998 others exist")


def short_name(name: str) -> str:
    """Name that any file system takes for a part of a folder's name."""
    # Windows allows none of these characters.
    plain = re.sub(r'[\\/:*?"<>|]', "-", printable(name))
    # A name that begins with a dash reads as an option, one with a dot is hidden.
    plain = plain.lstrip("-.") or "run"
    # File systems limit bytes: emoji have four each.
    return plain.encode()[:60].decode(errors="ignore")


def open_run_folder(path: Path) -> tuple[RunFolder, RunState]:
    """Open the folder of a run to go on with it.

    Raises:
        UsageError: If it is no run folder, of another version, or another process writes to it.
    """
    file = path / STATE
    try:
        if not file.is_file():
            raise UsageError(f"--resume {path}: this is not a run folder: it has no {STATE}")
        state = read_state(file)
        folder = RunFolder(path, token=state.token)
        folder.remove_leftovers()
        return folder, state
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--resume {path}: cannot read {STATE}: {error}") from None
