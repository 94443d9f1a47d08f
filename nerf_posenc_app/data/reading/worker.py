"""One process that reads files of any format, within limits.

Decoders trust what a file claims: a PNG of 3 MB may inflate to 3 GB, a damaged model may hang. So
they run in a process that may take so much memory and time of the processor and no more, whatever a
file says. It answers through a pipe, and is started anew after it died. Limits grow only with the
bytes that lie on the disk:

* memory: 2 GB, and 8 times the largest file, 30 times of a model; pixels take half of it at most;
* time of the processor: 8 s, and 2 s for each megabyte, for all files of a scene together; and ten
  times as long by the clock, and a minute, where a disk does not answer.

Run as a script, this module is that process. Windows has no such limits, and macOS none of memory.
"""

import atexit
import importlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

if __name__ == "__main__":
    # The packages without what they import themselves: torch alone takes seconds and 500 MB.
    for _name, _up in (("nerf_posenc_app", 2), ("nerf_posenc_app.data", 1)):
        sys.modules[_name] = types.ModuleType(_name)
        sys.modules[_name].__path__ = [str(Path(__file__).parents[_up])]

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.reading.record import Decoded

_BYTES = 2 << 30
_IMAGE_BYTES_PER_BYTE = 8
_MODEL_BYTES_PER_BYTE = 30
_SECONDS = 8.0
_SECONDS_PER_BYTE = 2e-6
# Wall-clock limit: seconds, and a factor per second of processor time.
_PATIENCE = 60.0
_SLOWER = 10.0
# Bytes per write.
_WRITTEN = 1 << 22


class Allowance:
    """Limits on reading some files.

    Attributes:
        size: bytes that the files occupy; a sparse file is no large one, a file counts once.
        num_bytes: bytes of memory, for one at a time.
        seconds: seconds of the processor, what is left of it for all together.
    """

    def __init__(self, files: Iterable[Path], bytes_per_byte: int = _IMAGE_BYTES_PER_BYTE) -> None:
        sizes = {}
        # A broken link raises an error when it is read.
        for file in filter(Path.is_file, files):
            about = file.stat()
            occupied = 512 * getattr(about, "st_blocks", about.st_size)
            sizes[about.st_dev, about.st_ino] = min(about.st_size, occupied)
        self.size = sum(sizes.values())
        self.num_bytes = _BYTES + bytes_per_byte * max(sizes.values(), default=0)
        self.seconds = _SECONDS + _SECONDS_PER_BYTE * self.size


def read_file(reader: str, path: Path, *arguments: Any, allowance: Allowance | None = None) -> Any:
    """Call a function that reads a file, in the process and within its limits.

    Args:
        reader: the function as ``"package.module:name"``, of any distribution. It is called with
            the path and the arguments, and raises `SceneError` for what it cannot read.
        path: regular file, or folder whose files the function reads.
        arguments: further arguments, of the types that JSON has.
        allowance: limits that reading other files shares; None for limits of its own.

    Returns:
        What the function returns: arrays, values that JSON has, or a tuple of both.

    Raises:
        SceneError: If there is no such file, or it cannot be read within the limits.
    """
    if allowance is None:
        try:
            files = list(path.glob("*")) if path.is_dir() else [path]
            is_file = any(file.is_file() for file in files)
        except (OSError, ValueError):  # A name that is too long, or has a null.
            is_file = False
        if not is_file:
            raise SceneError(f"there is no file {path}")
        allowance = Allowance(files)
    return _WORKER.ask(reader, path, list(arguments), allowance)


def read_image(path: Path, max_pixels: int, *, allowance: Allowance | None = None) -> Decoded:
    """Read the pixels of an image, as `decoding.read_pixels` does.

    Raises:
        SceneError: If the file cannot be read within the limits.
    """
    if not path.is_file():
        raise SceneError(f"{path} is not a regular file")
    values, opacity, has_value, facts = read_file(
        "nerf_posenc_app.data.reading.decoding:read_pixels", path, max_pixels, allowance=allowance
    )
    return Decoded(
        values, opacity, has_value, facts["is_light"], facts["orientation"], tuple(facts["dropped"])
    )


def read_model(folder: Path) -> tuple[dict[str, Any], npt.NDArray[np.float64]]:
    """Read a COLMAP model as `nerf_posenc_app.data.posed.colmap_reader.read_model` does.

    Raises:
        SceneError: If it cannot be read within the limits.
    """
    files = [file for file in folder.iterdir() if not file.is_dir()]
    for file in files:
        # Nothing waits for a pipe.
        if not file.is_file():
            raise SceneError(f"{file} is not a regular file")
    allowance = Allowance(files, _MODEL_BYTES_PER_BYTE)
    model: tuple[dict[str, Any], npt.NDArray[np.float64]] = read_file(
        "nerf_posenc_app.data.posed.colmap_reader:read_model", folder, allowance=allowance
    )
    return model


class _Worker:
    """The process, seen from the program."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self._stop)

    def ask(self, reader: str, path: Path, arguments: list[Any], allowance: Allowance) -> Any:
        """Send a request; return what comes back."""
        limits = [allowance.seconds, allowance.num_bytes]
        request = [os.getcwd(), reader, str(path), arguments, *limits]
        with self._lock:
            # A file system that does not answer, or a decoder that waits, uses no processor.
            clock = threading.Timer(_PATIENCE + _SLOWER * max(0, allowance.seconds), self._kill)
            clock.daemon = True
            try:
                clock.start()
            except RuntimeError as error:  # The system allows no more threads.
                raise SceneError(f"cannot read {path}: {error}") from None
            try:
                answer, arrays = self._exchange(request)
            except OSError as error:
                self._stop()
                raise SceneError(
                    f"cannot read {path}: the process that reads files: {error.strerror}"
                ) from None
            except BaseException:  # An answer that was not read to its end would be the next one's.
                self._stop()
                raise
            finally:
                clock.cancel()
            if "limit" in answer:
                self._stop()
        if "refused" in answer:
            raise SceneError(answer["refused"])
        if "limit" in answer:
            limit = answer["limit"].format(allowance.seconds, allowance.num_bytes / 1e9)
            raise SceneError(
                f"cannot read {path}: {limit} for {allowance.size / 1e6:.2g} MB of files; reduce "
                "it, or save it again"
            )
        allowance.seconds -= answer["seconds"]
        # Arrays take the places that their shapes were sent in.
        rest = iter(arrays)
        items = [next(rest) if is_array else value for is_array, value in answer["items"]]
        return tuple(items) if answer["is_tuple"] else items[0]

    def _exchange(self, request: list[Any]) -> tuple[dict[str, Any], list[npt.NDArray[Any]]]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [_python(), __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the program alone.
                # The worker has the same module path as this process.
                env={
                    **os.environ,
                    "OPENBLAS_NUM_THREADS": "1",
                    "PYTHONPATH": os.pathsep.join(str(path) for path in sys.path if path),
                },
            )
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps(request).encode() + b"\n")
        requests.flush()
        line = answers.readline()
        if not line:
            is_late = self._process.wait() == -getattr(signal, "SIGXCPU", 0)
            late, crash = "it takes more than {0:.0f} s of the processor", "its decoder crashed"
            return {"limit": late if is_late else crash}, []
        answer = json.loads(line)
        arrays = []
        for shape, dtype in answer.get("arrays", []):
            arrays.append(np.empty(shape, np.dtype(dtype)))
            rest = arrays[-1].data.cast("B") if arrays[-1].size else memoryview(b"")
            while rest:
                count = answers.readinto(rest)  # type: ignore[attr-defined]
                if not count:
                    return {"limit": "its decoder crashed"}, []
                rest = rest[count:]
        return answer, arrays

    def _kill(self) -> None:
        """End the process, and what it has started."""
        process = self._process
        if process is not None and process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()

    def _stop(self) -> None:
        self._kill()
        if self._process is not None:
            with self._process:
                pass
            self._process = None


def _python() -> str:
    """Interpreter for the process: a program that embeds Python is none itself.

    Raises:
        OSError: If there is none.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    here = Path(sys.executable or "")
    if here.stem.lower().startswith(("python", "pypy")):
        return sys.executable
    beside = [Path(sys.prefix, "bin", each) for each in (name, "python3")]
    beside += [Path(sys.prefix, "python.exe")]
    found = next((str(file) for file in beside if file.is_file()), None) or shutil.which(name)
    if found is None:
        raise OSError(2, f"found no {name}; sys.executable is {sys.executable!r}")
    return found


_WORKER = _Worker()


def _limit(seconds: float, num_bytes: int) -> None:
    """Let this process take so much more time of the processor and memory than it has so far."""
    try:
        import resource
    except ImportError:  # Windows.
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds))
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmSize:"))
        _lower(resource.RLIMIT_AS, (int(line.split()[1]) << 10) + num_bytes)


def _lower(kind: int, limit: int) -> None:
    """Set a limit, or leave it where this machine has a lower one."""
    import resource

    _, hard = resource.getrlimit(kind)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (limit, hard))


def _called(reader: str, path: Path, arguments: list[Any]) -> Any:
    """Result of a function that is named as ``"package.module:name"``."""
    module, _, name = reader.partition(":")
    return getattr(importlib.import_module(module), name)(path, *arguments)


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are no more: a line of JSON, and then the bytes of arrays."""
    for line in requests:
        folder, reader, path, arguments, seconds, num_bytes = json.loads(line)
        os.chdir(folder)  # Messages name the path as it was given.
        _limit(seconds, num_bytes)
        start = time.process_time()
        arrays: list[npt.NDArray[Any]] = []
        answer: dict[str, Any]
        try:
            result = _called(reader, Path(path), arguments)
            items = list(result) if isinstance(result, tuple) else [result]
            arrays = [item for item in items if isinstance(item, np.ndarray)]
            if sum(array.nbytes for array in arrays) > num_bytes // 2:
                raise MemoryError
            answer = {
                "is_tuple": isinstance(result, tuple),
                "items": [
                    (True, None) if isinstance(item, np.ndarray) else (False, item)
                    for item in items
                ],
                "arrays": [(array.shape, array.dtype.str) for array in arrays],
            }
        except SceneError as error:
            answer, arrays = {"refused": str(error)}, []
        except ImportError as error:
            answer, arrays = {"refused": f"cannot read {path}: {error}"}, []
        except MemoryError:
            answer, arrays = {"limit": "it takes more than {1:.1f} GB of memory"}, []
        answer["seconds"] = time.process_time() - start
        answers.write(json.dumps(answer).encode() + b"\n")
        for array in arrays:
            # Some rows at a time: a mapped or transposed array is not held a second time.
            rows = max(1, _WRITTEN * len(array) // max(1, array.nbytes))
            for first in range(0, len(array), rows):
                answers.write(np.ascontiguousarray(array[first : first + rows]).data)
        answers.flush()


if __name__ == "__main__":
    # Output of libraries must not mix with the answers.
    _pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _serve(sys.stdin.buffer, _pipe)
