"""Images of a folder, found by the names that its other files give them.

Files that other programs wrote name images as they were there: with backslashes, in another case or
Unicode form, with the suffix from before a conversion, in ``images`` where only ``images_4`` or
``input`` was kept. Such names are understood, and what was found under another one is said.
"""

import itertools
import os
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.image_files import IMAGE_SUFFIXES, images_in
from nerf_posenc_app.data.inside import path_inside

# Image folders of nerfstudio, COLMAP and 3D Gaussian splatting, also reduced by factors.
_IMAGE_FOLDERS = ("images", "input", "images_2", "images_4", "images_8")
# Beginnings of the names of folders that hold other files of the views, or other views.
_OF_OTHERS = ("mask", "depth", "normal", "train", "val", "test")
# Maximum number of names in a message.
_LISTED = 4


def image_folder(folder: Path) -> Path:
    """The folder of a scene's images: ``images``, or the first of those that stand in for it."""
    for name in _IMAGE_FOLDERS:
        if (images := path_inside(folder, name)).is_dir():
            return images
    raise SceneError(f"there is no folder {folder / 'images'} with the images; {_content(folder)}")


class ImageFinder:
    """Finds the images of one folder by their names.

    Attributes:
        missing: names of images that were not found.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing: list[str] = []
        self._found: dict[str, Path] = {}
        self._renamed: dict[str, Path] = {}
        self._listings: dict[Path, tuple[dict[str, Path], dict[str, list[Path]]]] = {}

    def find(self, name: str) -> Path | None:
        """Find an image by its name, with or without suffix, and note it; None if there is none.

        Raises:
            SceneError: If the name leads out of the folder.
        """
        path = self.locate(name, in_other_folder=True)
        if path is None:
            self.missing.append(name)
            return None
        inner = path.relative_to(os.path.abspath(self.folder))
        if not (self.folder / name).is_file() and inner.with_suffix("") != Path(name):
            self._renamed[name] = inner
        self._found[name] = path
        return path

    def locate(self, name: str, *, in_other_folder: bool = False) -> Path | None:
        """Find an image as `find` does, without noting it.

        Args:
            name: name of the image.
            in_other_folder: whether to look into a folder that the name does not say.

        Raises:
            SceneError: If the name leads out of the folder.
        """
        outside = None
        try:
            if (path := path_inside(self.folder, name)).is_file():
                return path
        except SceneError as error:
            outside = error
        lookups = [self._near, self._of_another_machine]
        lookups += [self._in_only_folder] if in_other_folder else []
        for look in lookups:
            if (near := look(name)) is not None:
                return path_inside(self.folder, str(near.relative_to(self.folder)))
        if outside is not None:
            raise outside
        return None

    def _of_another_machine(self, name: str) -> Path | None:
        parts = PurePosixPath(name.replace("\\", "/")).parts
        tails = ("/".join(parts[-count:]) for count in (2, 1) if len(parts) > count)
        return next((near for tail in tails if (near := self._near(tail)) is not None), None)

    def _in_only_folder(self, name: str) -> Path | None:
        """Image in the only folder that has its name, where there is none of the stated name."""
        path = PurePosixPath(name.replace("\\", "/"))
        parts = [part for part in path.parts if part != ".."]
        folders = self._listing(self.folder)[0]
        if not parts or (len(parts) > 1 and name_key(parts[-2]) in folders):
            return None
        is_of_machine = path.is_absolute() or ":" in parts[0]
        tail = "/".join(parts[-1:] if is_of_machine else parts[1:] or parts)
        inner = [n for n in folders if n[0] != "." and not n.startswith(_OF_OTHERS)]
        found = [near for n in inner if (near := self._near(f"{n}/{tail}")) is not None]
        # Stand-ins of one folder are found under each of their names.
        return found[0] if len(set(found)) == 1 else None

    def _near(self, name: str) -> Path | None:
        first, *rest = PurePosixPath(unquote(name.replace("\\", "/"))).parts or ("",)
        others = _IMAGE_FOLDERS if rest and first in _IMAGE_FOLDERS else ()
        for start in dict.fromkeys((first, *others)):
            directory: Path | None = self.folder
            *folders, last = (start, *rest)
            for each in folders:
                directory = directory and self._listing(directory)[0].get(name_key(each))
            if directory is None:
                continue
            files, stems = self._listing(directory)
            has_suffix = PurePosixPath(last).suffix.lower() in IMAGE_SUFFIXES
            candidates = files.get(name_key(last))
            if candidates is not None and candidates.is_file():
                return candidates
            found_stems = stems.get(name_key(PurePosixPath(last).stem if has_suffix else last), [])
            # Two files that differ only in their suffix are ambiguous.
            if len(found_stems) == 1 or (found_stems and not has_suffix):
                return found_stems[0]
        return None

    def _listing(self, directory: Path) -> tuple[dict[str, Path], dict[str, list[Path]]]:
        """Contents of a directory: files by name, and images by name without suffix."""
        if directory not in self._listings:
            files: dict[str, Path] = {}
            stems: dict[str, list[Path]] = {}
            for file in sorted(directory.iterdir()) if directory.is_dir() else ():
                files.setdefault(name_key(file.name), file)
            for file in sorted(files.values(), key=lambda file: _rank(file)):
                if _rank(file) < len(IMAGE_SUFFIXES) and file.name[0] != ".":
                    stems.setdefault(name_key(file.stem), []).append(file)
            self._listings[directory] = files, stems
        return self._listings[directory]

    def nothing_found(self) -> str:
        """Where the first image was looked for, and what lies there."""
        name = PurePosixPath(self.missing[0].replace("\\", "/"))
        lowest = self.folder
        for part in name.parts[:-1]:
            lowest = lowest / part if (lowest / part).is_dir() else lowest
        return f"the first one, {self.missing[0]}, is not in {self.folder}: {_content(lowest)}"

    def notes(self, source: str) -> list[str]:
        """Remarks: images that are missing, that have other names, and that have no pose."""
        notes = []
        count = len(self.missing) + len(self._found)
        if self.missing:
            what = listed(self.missing)
            notes.append(
                f"{len(self.missing)} of the {count} images of {source} are missing: {what}"
            )
        if self._renamed:
            name, path = next(iter(self._renamed.items()))
            notes.append(
                f"{len(self._renamed)} images have other names than in {source}, such as {path} "
                f"for {name}"
            )
        used = set(self._found.values())
        folders = dict.fromkeys(path.parent for path in used)
        extra = [file for folder in folders for file in images_in(folder) if file not in used]
        # Masks, normals and depths of a view begin with its name.
        stems = {path.stem for path in used}
        unposed = [
            file.name
            for file in extra
            if not any(file.stem[:i] in stems for i, c in enumerate(file.stem) if c in "_.-")
        ]
        masks = [f.name for f in extra if f.stem.removesuffix("_mask") in stems - {f.stem}]
        if masks:
            notes.append(f"not read: {listed(masks)}; put masks into masks/, named as their images")
        if unposed:
            notes.append(
                f"{len(unposed)} images beside those of {source} have no pose: {listed(unposed)}"
            )
        return notes


def listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(name[:80] for name in names[:_LISTED]) + more


def _content(folder: Path) -> str:
    names = sorted(f.name for f in itertools.islice(folder.iterdir(), 10_000) if f.name[0] != ".")
    return f"{folder} contains {listed(names) or 'nothing'}"


def name_key(name: str) -> str:
    """A name without what file systems tell apart: case, and composed or decomposed letters."""
    return unicodedata.normalize("NFC", name).casefold()


def _rank(file: Path) -> int:
    suffix = file.suffix.lower()
    return IMAGE_SUFFIXES.index(suffix) if suffix in IMAGE_SUFFIXES else len(IMAGE_SUFFIXES)


def not_read(values: Iterable[dict[str, object]], known: frozenset[str]) -> list[str]:
    """A remark that names the keys of a file that are not read; none if there are none."""
    unknown = list(dict.fromkeys(key for each in values for key in each if key not in known))
    return [f"not read: {listed(unknown)}"] if unknown else []
