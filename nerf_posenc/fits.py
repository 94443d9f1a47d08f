"""Fits that were saved, given back as models to be queried and rendered.

```python
from nerf_posenc.fits import load_fit

fit = load_fit("runs/cat/fits/fourier.safetensors")
rgb = fit.render(4096)  # (height, width, 3), values in [0, 1]
```
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.core.encoder import Encoder, require_counts
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import render_camera
from nerf_posenc.radiance.fields import RadianceField
from nerf_posenc.radiance.recipes import FieldOptions, renderer_for
from nerf_posenc.radiance.views import Scene
from nerf_posenc.radiance.volume_rendering import Rendering
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint
from nerf_posenc.training.image_model import ImageModel, make_image_model
from nerf_posenc.training.loop import predict

# A model of so many parameters is built whatever a file says of it.
_HARMLESS = 1 << 20

Window = tuple[int | float, int | float, int | float, int | float]
"""Left, top, width and height of a part of an image, in its pixels."""


@dataclass(frozen=True)
class ImageFit:
    """A fitted image: a function from coordinates to RGB.

    Attributes:
        encoder: of the coordinates (x, y): x right, y down, the longer side spanning [-1, 1].
        network: from the features to RGB, sRGB in [0, 1] up to small overshoots.
        options: of the model.
        size: width and height of the image that was fitted, in pixels.
        step: steps taken.
        num_steps: length of the whole fit.
    """

    encoder: Encoder
    network: nn.Module
    options: ImageModel
    size: tuple[int, int]
    step: int
    num_steps: int

    @property
    def model(self) -> nn.Sequential:
        """The encoder and the network."""
        return nn.Sequential(self.encoder, self.network)

    @torch.no_grad()
    def __call__(self, coordinates: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 3"]:
        """RGB at coordinates, in chunks; the result is on the model's device."""
        device = next(self.network.parameters()).device
        chunk_size = 2048 if device.type == "cpu" else 1 << 18
        rows = predict(self.model, coordinates.reshape(-1, 2).to(device), chunk_size=chunk_size)
        return rows.reshape(*coordinates.shape[:-1], 3)

    def render(
        self, size: int | None = None, *, window: Window | None = None
    ) -> Float[Tensor, "height width 3"]:
        """Render the image or a part of it at any resolution.

        Args:
            size: pixels along the longer side of the result; None for one per fitted pixel.
            window: the part, in pixels of the fitted image; None for all of it.

        Returns:
            Values in [0, 1], on the CPU.

        Raises:
            ValueError: If the size is below 1, or the window is empty or not in the image.
        """
        return torch.cat(list(self.strips(size, window=window)))

    def rendered_size(
        self, size: int | None = None, *, window: Window | None = None
    ) -> tuple[int, int]:
        """Width and height of what `render` gives, with the same arguments and errors."""
        _, _, width, height = self._window(window)
        scale = 1.0 if size is None else size / max(width, height)
        if scale * max(width, height) < 1:
            raise ValueError(f"size must be 1 or more; got {size}")
        return max(1, round(width * scale)), max(1, round(height * scale))

    def strips(
        self, size: int | None = None, *, window: Window | None = None, num_pixels: int = 1 << 20
    ) -> Iterator[Float[Tensor, "_rows width 3"]]:
        """Render from top to bottom in strips of about so many pixels; see `render`."""
        columns, rows = self.rendered_size(size, window=window)
        left, top, width, height = self._window(window)
        unit = 2 / max(self.size)
        x = left + (torch.arange(columns, dtype=torch.float64) + 0.5) * (width / columns)
        y = top + (torch.arange(rows, dtype=torch.float64) + 0.5) * (height / rows)
        x, y = (x - self.size[0] / 2) * unit, (y - self.size[1] / 2) * unit
        for part in y.split(max(1, num_pixels // columns)):
            grid = torch.stack(torch.meshgrid(x, part, indexing="xy"), dim=-1).float()
            yield self(grid).clamp(0, 1).cpu()

    def _window(self, window: Window | None) -> Window:
        if window is None:
            return 0.0, 0.0, float(self.size[0]), float(self.size[1])
        left, top, width, height = window
        inside = left >= 0 and top >= 0 and width > 0 and height > 0
        if not (inside and left + width <= self.size[0] and top + height <= self.size[1]):
            raise ValueError(
                "the window (left, top, width, height) must lie in the image of "
                f"{self.size[0]} x {self.size[1]} pixels; got {window}"
            )
        return window


@dataclass(frozen=True)
class SceneFit:
    """A fitted radiance field with its renderer.

    Attributes:
        renderer: from rays to a rendering, in coordinates in which the scene lies in [-1, 1]^3.
        options: of the field.
        camera: of the training views.
        world_from_camera: poses of the training views, in the coordinates of the renderer.
        background: gray value of the background.
        center: where the origin lies, in units of the scene's file.
        scale: length of one unit, in units of the scene's file.
        step: steps taken.
        num_steps: length of the whole fit.
    """

    renderer: nn.Module
    options: FieldOptions
    camera: Camera
    world_from_camera: Float[Tensor, "views 4 4"]
    background: float
    center: tuple[float, float, float]
    scale: float
    step: int
    num_steps: int

    @property
    def field(self) -> RadianceField:
        """The radiance field, the last one if there are a coarse and a fine one."""
        return [m for m in self.renderer.modules() if isinstance(m, RadianceField)][-1]

    def render(
        self, camera: Camera, world_from_camera: Float[Tensor, "4 4"], *, in_file_units: bool = True
    ) -> Rendering:
        """Render a camera, in chunks; the result is on the CPU, ``(height, width, ...)``.

        Args:
            camera: of any size.
            world_from_camera: its pose, OpenGL axes: x right, y up, looking down -z.
            in_file_units: whether the pose is in the units and axes of the scene's file, as in its
                ``transforms.json``, or in those of the renderer.
        """
        pose = world_from_camera.clone()
        if in_file_units:
            pose[:3, 3] = (pose[:3, 3] - pose.new_tensor(self.center)) / self.scale
        return render_camera(self.renderer, camera, pose, background=self.background)


def describe_image_fit(
    options: ImageModel, resolution: int, size: tuple[int, int]
) -> dict[str, Any]:
    """Plain values from which `load_fit` rebuilds the model of an image.

    Args:
        options: of the model.
        resolution: fitted pixels along the longer side.
        size: width and height of the whole image in pixels.
    """
    return {
        "kind": "image",
        "options": asdict(options),
        "resolution": resolution,
        "size": list(size),
    }


def describe_scene_fit(options: FieldOptions, scene: Scene, background: float) -> dict[str, Any]:
    """Plain values and tensors from which `load_fit` rebuilds a radiance field.

    Args:
        options: of the field.
        scene: with the training views.
        background: gray value.
    """
    return {
        "kind": "scene",
        "options": asdict(options),
        "resolution": max(scene.train.size),
        "camera": asdict(scene.train.cameras[0]),
        "world_from_camera": scene.train.world_from_camera,
        "background": background,
        "center": list(scene.center),
        "scale": scene.scale,
    }


def load_fit(path: str | Path, *, device: torch.device | str = "cpu") -> ImageFit | SceneFit:
    """Load a fit that ``train_fit.py`` saved, complete or in progress.

    A fit that averages its weights gets the average.

    Args:
        path: ``RUN/fits/NAME.safetensors``.
        device: where to put the model.

    Raises:
        CheckpointError: If the file is damaged, of another program or version, or no fit.
        FileNotFoundError: If there is none.
        ImportError: If safetensors is not installed.
    """
    path = Path(path)
    saved = load_checkpoint(path)
    try:
        model, fit = saved["model"], saved["fit"]
        if model["kind"] not in ("image", "scene"):
            raise ValueError(f"it is of a {model['kind']}, and must be of an image or a scene")
        weights = fit["model"] if saved["ema"] is None else _averaged(saved["ema"])
        require_counts(resolution=model["resolution"])
        if model["kind"] == "image":
            return _image_fit(model, fit, weights, torch.device(device))
        return _scene_fit(model, fit, weights, torch.device(device))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(
            f"{path} contains no fit that can be loaded ({type(error).__name__}: {reason})"
        ) from None


def _averaged(ema: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the module within torch's ``AveragedModel``."""
    return {n.removeprefix("module."): v for n, v in ema.items() if n.startswith("module.")}


def _require_plausible(
    width: int,
    depth: int,
    num_bands: int,
    weights: Mapping[str, Tensor],
    num_parameters: int | None = None,
) -> None:
    """Refuse a model that cannot have these weights, before memory is spent on it.

    Raises:
        ValueError: Saying which number is implausible.
    """
    most = max(_HARMLESS, sum(tensor.numel() for tensor in weights.values()))
    for name, number in {"width": width, "depth": depth, "num_bands": num_bands}.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
            raise ValueError(f"{name} is {number!r}, which {most} weights cannot have")
    # A grid is bounded by the resolution, whatever its number of parameters is to be.
    has_grid = any(name.endswith(".table") for name in weights)
    if num_parameters is not None and not has_grid and not 1 <= num_parameters <= 8 * most:
        raise ValueError(f"num_parameters is {num_parameters!r}, for at most {most} weights")
    if width * width * (depth - 1) > most:
        raise ValueError(f"{depth} layers of {width} units do not have {most} weights")


def _image_fit(
    model: Mapping[str, Any],
    fit: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    device: torch.device,
) -> ImageFit:
    options = ImageModel(**model["options"])
    layers = options.width, options.depth
    _require_plausible(*layers, options.num_bands, weights, options.num_parameters)
    encoder, network = make_image_model(options, int(model["resolution"]))
    nn.Sequential(encoder, network).load_state_dict(weights)
    width, height = (int(side) for side in model["size"])
    require_counts(width=width, height=height)
    steps = int(fit["step"]), int(fit["num_steps"])
    return ImageFit(encoder.to(device), network.to(device), options, (width, height), *steps)


def _scene_fit(
    model: Mapping[str, Any],
    fit: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    device: torch.device,
) -> SceneFit:
    options = FieldOptions(**model["options"])
    _require_plausible(*options.layers, options.num_bands, weights)
    renderer = renderer_for(options, int(model["resolution"]))
    renderer.load_state_dict(weights)
    values = dict(model["camera"])
    values["distortion"] = tuple(values["distortion"])
    x, y, z = (float(v) for v in model["center"])
    return SceneFit(
        renderer.to(device),
        options,
        Camera(**values),
        model["world_from_camera"],
        float(model["background"]),
        (x, y, z),
        float(model["scale"]),
        int(fit["step"]),
        int(fit["num_steps"]),
    )
