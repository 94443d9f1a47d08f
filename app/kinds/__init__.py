"""The kinds of data that the program fits; no other part of it names them."""

from collections.abc import MutableMapping
from typing import Any

from app.kinds.align import AlignKind
from app.kinds.audio import AudioKind
from app.kinds.clip import ClipKind
from app.kinds.image.image import ImageKind
from app.kinds.kind import Kind
from app.kinds.photos import PhotosKind
from app.kinds.scan.scan import ScanKind
from app.kinds.scene import SceneKind
from app.kinds.sequence import SequenceKind
from app.kinds.shape import ShapeKind
from app.kinds.volume import VolumeKind

KINDS: MutableMapping[str, type[Kind[Any]]] = {
    kind.name: kind
    for kind in (
        ImageKind,
        SceneKind,
        PhotosKind,
        SequenceKind,
        AudioKind,
        ShapeKind,
        ScanKind,
        VolumeKind,
        AlignKind,
        ClipKind,
    )
}
"""Kinds by name; the first is that of a command line that names none."""
