"""Fits of coordinates on the Hugging Face Hub: ``save_pretrained`` and ``from_pretrained``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, nn

from nerf_posenc.fits import CoordinateFit, ImageFit
from nerf_posenc.plugins import how_to_install
from nerf_posenc.training.coordinate_model import CoordinateModel, make_coordinate_model

if TYPE_CHECKING:
    from jaxtyping import Float

try:
    from huggingface_hub import PyTorchModelHubMixin, hf_hub_download
    from safetensors.torch import load_model
except ImportError:
    raise ImportError(
        f"nerf_posenc.fits.hub needs huggingface_hub: {how_to_install('hub')}"
    ) from None

SAFETENSORS = "model.safetensors"
_REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w.-]+")


class HubModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="nerf_posenc",
    tags=["positional-encoding", "fourier-features", "implicit-neural-representation"],
):
    """A fitted image, sound, shape, clip or slice as a model of the Hub.

    ``HubModel.of(load_fit(path)).save_pretrained(folder)`` writes ``model.safetensors`` and
    ``config.json``; ``HubModel.from_pretrained(folder_or_name)`` reads them. Load what you trust:
    the configuration says how large a network is built.

    Args:
        kind: kind of the data, such as ``"image"``.
        options: plain values of a `CoordinateModel`.
        size: samples that were fitted along each axis.
        step: steps taken.
        num_steps: length of the whole fit.
        facts: further values that the data needs to be given back.

    Raises:
        ValueError: If the options make no model.
    """

    def __init__(
        self,
        kind: str,
        options: Mapping[str, Any],
        size: Sequence[int],
        step: int = 0,
        num_steps: int = 0,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._options = CoordinateModel(**options)
        self.encoder, self.network = make_coordinate_model(self._options)
        self._kind, self._size, self._facts = kind, tuple(size), dict(facts or {})
        self._steps = step, num_steps

    @classmethod
    def of(cls, fit: CoordinateFit) -> "HubModel":
        """Make the model of a fit; it shares the fit's weights."""
        kind = "image" if isinstance(fit, ImageFit) else "coordinates"
        model = cls(
            kind=kind,
            options=asdict(fit.options),
            size=list(fit.size),
            step=fit.step,
            num_steps=fit.num_steps,
            facts=dict(fit.facts),
        )
        model.encoder, model.network = fit.encoder, fit.network
        return model

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Load a folder that ``save_pretrained`` wrote, or a repository of the Hub.

        Weights are read from safetensors alone.

        Args:
            pretrained_model_name_or_path: the folder, or ``"OWNER/NAME"`` of a repository.
            **options: ``revision``, ``cache_dir``, ``token`` and others of huggingface_hub.

        Raises:
            FileNotFoundError: If there is no such folder and the name is none of a repository, or
                there is no ``model.safetensors``.
        """
        name = str(pretrained_model_name_or_path)
        is_name = isinstance(pretrained_model_name_or_path, str) and _REPOSITORY.fullmatch(name)
        if not Path(name).is_dir() and not is_name:
            raise FileNotFoundError(
                f"there is no folder {name}; a repository of the Hub is named OWNER/NAME"
            )
        made: Self = super().from_pretrained(name, **options)
        return made

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        **arguments: Any,
    ) -> Self:
        # Overridden, since the mixin unpickles weights of a repository without safetensors.
        file = Path(model_id, SAFETENSORS)
        if not Path(model_id).is_dir():
            downloaded = hf_hub_download(
                model_id,
                SAFETENSORS,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
            )
            file = Path(downloaded)
        if not file.is_file():
            raise FileNotFoundError(f"{model_id} has no {SAFETENSORS}; other files are not loaded")
        model = cls(**arguments)
        load_model(model, file)
        return model

    def forward(self, coordinates: Float[Tensor, "*batch in_dim"]) -> Float[Tensor, "*batch out"]:
        """Values at coordinates, of which the longest axis of the data spans [-1, 1]."""
        values: Tensor = self.network(self.encoder(coordinates))
        return values

    @property
    def fit(self) -> CoordinateFit:
        """The fit, which renders images at any size."""
        made = ImageFit if self._kind == "image" else CoordinateFit
        return made(
            self.encoder, self.network, self._options, self._size, *self._steps, self._facts
        )
