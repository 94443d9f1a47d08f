"""Shapes: a network from points to the signed distance of a triangle mesh."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Never

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc.training.batches import ShuffledRows
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.loop import ShownLoss, predict
from nerf_posenc_app.kinds.coordinates import CITATIONS, CoordinateKind, check_encodings
from nerf_posenc_app.kinds.kind import Fit, Problem, digest_of
from nerf_posenc_app.options import CoordinateOptions, Open, Range
from nerf_posenc_app.terminal import printable, progress_bar, sum_up
from nerf_posenc_app.values.blocks import Evaluation, View
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure, TrainingScore
from nerf_posenc_app.values.results import Result
from nerf_posenc_kinds.data.meshes import BRICK, open_shape
from nerf_posenc_kinds.data.surfaces import shaded_view, surface_mesh

IOU = Measure(
    "iou",
    "IoU",
    "%",
    2,
    meaning="Intersection over union of the insides of the fit and of the mesh, over 2^19 random "
    "points of the mesh's box",
)
CHAMFER = Measure(
    "chamfer",
    "chamfer",
    "1e-3",
    3,
    higher_is_better=False,
    meaning=(
        "Mean of the distances from the fit's surface to the mesh and from the mesh to that "
        "surface, in thousandths of a unit; the longest side of the mesh is 1.6 units"
    ),
)
NORMALS = Measure(
    "normal_error_deg",
    "normals",
    "deg",
    2,
    higher_is_better=False,
    meaning="Mean angle between the fit's gradient and the mesh's normal, over its surface",
)

# Points that batches are drawn from: half uniform in the cube, half near the surface.
_POOL = 1 << 19
# Standard deviations of the distances near the surface, for one half of those points each.
_NEAR = (0.04, 0.008)
# Points in the mesh's box by which the insides are compared: an IoU of 90% is known to 0.1%.
_SCORED = 1 << 19
# Points of the surface by which distances and normals are compared.
_SURFACE_POINTS = 20_000
# Nodes along each axis of the marching cubes whose surface is scored.
_NODES = 128
# The network's outputs lie in (0, 1), where 0.5 is the surface.
_SPAN = 4.0
# Added to distances before relative errors are computed.
_FLOOR = 0.01
_CHUNK = 1 << 14
_AZIMUTHS = {"front": 0.5, "back": 0.5 + math.pi}
# Sides of the images on the page, and of the previews while it trains, in pixels.
_SLICE_SIDE = 192
_VIEW_SIDE = 192
_PREVIEW_SIDE = 96


@dataclass(frozen=True, kw_only=True)
class ShapeOptions(CoordinateOptions[Open]):
    """Fit a mesh's signed distance without and with an encoding.

    Encodings: none fourier gaussian hash; networks that need no encoding: siren finer gauss
    wire mfn.

      train_fit.py --shape bunny.ply
    """

    shape: str = BRICK
    """OBJ, PLY, STL, OFF or GLB file, or brick, a built-in toy brick."""

    eikonal: Annotated[float, Range(0)] = 0.0
    """Weight of the eikonal loss (|gradient| - 1)^2 at the points of each batch; 0 turns it
    off."""

    def check(self) -> None:
        """Check ranges, and that the encodings suit a shape."""
        check_encodings(self, "a shape")
        super().check()


ShapeConfig = ShapeOptions[Never]


class ShapeKind(CoordinateKind[ShapeConfig]):
    """A mesh whose longest side spans [-0.8, 0.8], and its signed distance in [-1, 1]^3."""

    name = "shape"
    Options = ShapeOptions
    training = TrainingScore(
        Measure("relative_error", "error of distances", "%", 1, higher_is_better=False),
        lambda loss: 100 * loss,
    )
    in_dim = 3
    about = (
        "The signed distance says how far a point is from the surface, and on which side. A "
        "network on raw coordinates finds a smooth body; edges and fine parts need an encoding."
    )
    citations = (
        *CITATIONS,
        "@article{muller2022instant, title={Instant Neural Graphics Primitives with a "
        'Multiresolution Hash Encoding}, author={M{\\"u}ller, Thomas and Evans, Alex and Schied, '
        "Christoph and Keller, Alexander}, journal={ACM Trans. Graph.}, year={2022}}",
    )
    # Nodes along each axis of a grid at its maximum resolution.
    size = (160, 160, 160)

    def __init__(self, options: ShapeOptions) -> None:
        self.shape = open_shape(options.shape)
        self.title, self.source = printable(self.shape.name), printable(self.shape.source)
        self.facts = {"triangles": len(self.shape.faces), "is_closed": self.shape.is_closed}
        self.notes_on_data = self.shape.notes
        generator = torch.Generator().manual_seed(options.seed)
        surface, _ = self.shape.sample_surface(_POOL // 2, generator)
        spread = torch.tensor(_NEAR).repeat_interleave(_POOL // 4)[:, None]
        near = surface + spread * torch.randn(surface.shape, generator=generator)
        uniform = 2 * torch.rand(_POOL // 2, 3, generator=generator) - 1
        self.points = torch.cat([near.clamp(-1, 1), uniform])
        self.distances, _ = self.shape.distance(self.points)

    def summary(self, config: ShapeConfig) -> list[str]:
        """Source and size of the mesh, and what it is sampled at."""
        kind = "closed" if self.shape.is_closed else "with holes"
        return [
            f"shape    {self.source}, {len(self.shape.faces):,} triangles, {kind}",
            f"points   {_POOL:,} of known distance, half of them near the surface",
        ]

    def digest(self) -> str:
        """Checksum of the mesh and of the points with their distances."""
        tensors = (self.shape.vertices, self.points, self.distances)
        placed = torch.tensor([self.shape.scale, *self.shape.center], dtype=torch.float64)
        return digest_of((tensor.shape, [tensor]) for tensor in (*tensors, placed))

    def resolve(self, options: ShapeOptions) -> ShapeConfig:
        """Choose encodings, bands, sigma, steps and batches."""
        return self.with_defaults(options, steps=300, batch_size=8192, num_bands=7, sigma=4.0)

    def measures(self, config: ShapeConfig) -> Sequence[Measure]:
        """Volume, surface and normals."""
        return (IOU, CHAMFER, NORMALS)

    def problem(
        self, model: nn.Module, description: CoordinateModel, config: ShapeConfig
    ) -> Problem:
        """Batches of points; the error is relative to the distance, as in instant-NGP."""
        device = torch.device(config.device)
        points, distances = self.points.to(device), self.distances.to(device)
        rows = ShuffledRows(len(points), config.batch_size, seed=config.seed, device=device)

        def draw(step: int) -> tuple[Tensor, Tensor]:
            chosen = rows(step)
            return points[chosen], distances[chosen]

        def forward(batch: Tensor) -> tuple[Tensor, Tensor]:
            if config.eikonal == 0:
                return _distance(model, batch), batch.new_ones(1)
            batch = batch.detach().requires_grad_()
            distances = _distance(model, batch)
            (slopes,) = torch.autograd.grad(distances.sum(), batch, create_graph=True)
            return distances, slopes.norm(dim=-1)

        def loss(output: tuple[Tensor, Tensor], truth: Tensor) -> ShownLoss:
            distances, slopes = output
            relative = ((distances - truth).abs() / (truth.abs() + _FLOOR)).mean()
            return ShownLoss(relative + config.eikonal * (slopes - 1).square().mean(), relative)

        shape = self.shape
        return self.trained(
            model,
            description,
            config,
            draw,
            loss=loss,
            forward=forward,
            captured=True,
            facts={"center": list(shape.center), "scale": shape.scale},
            preview=lambda: [
                shaded_view(queried(model), _AZIMUTHS["front"], side=_PREVIEW_SIDE, device=device)
            ],
            originals=[self._preview],
        )

    def _truth(self, points: Tensor) -> Tensor:
        return self.shape.distance(points)[0]

    def evaluate(self, fit: Fit[ShapeConfig]) -> Evaluation:
        """Scores, and views of the surface and of a slice of the distance."""
        device = torch.device(fit.config.device)
        query = queried(fit.model)
        views = []
        parts, quiet = 1 + len(_AZIMUTHS), fit.config.quiet
        with progress_bar(f"{fit.name} evaluation", parts, "part", quiet=quiet) as bar:
            scores = self._scores(query, fit.model, device, fit.config.seed)
            bar.update()
            for (name, azimuth), truth in zip(_AZIMUTHS.items(), self._views, strict=True):
                shaded = shaded_view(query, azimuth, side=_VIEW_SIDE, device=device)
                views.append(View(f"{self.title}, {name}", truth, shaded))
                bar.update()
            sum_up(bar)
        axis = (torch.arange(_SLICE_SIDE) + 0.5) * (2 / _SLICE_SIDE) - 1
        y, x = torch.meshgrid(-axis, axis, indexing="ij")
        points = torch.stack([x, y, torch.zeros_like(x)], dim=-1).view(-1, 3)
        truth, found = (
            _contours(f(p)) for f, p in ((self._truth, points), (query, points.to(device)))
        )
        views.append(
            View(f"{self.title}, distance in the plane z = 0", truth, found, is_section=True)
        )
        return Evaluation(scores, views)

    @cached_property
    def _preview(self) -> Tensor:
        return shaded_view(self._truth, _AZIMUTHS["front"], side=_PREVIEW_SIDE)

    @cached_property
    def _views(self) -> list[Tensor]:
        azimuths = _AZIMUTHS.values()
        return [shaded_view(self._truth, azimuth, side=_VIEW_SIDE) for azimuth in azimuths]

    def _scores(
        self, query: Callable[[Tensor], Tensor], model: nn.Module, device: torch.device, seed: int
    ) -> dict[str, float]:
        # Points that are not in the training pool, which is drawn with the seed itself.
        generator = torch.Generator().manual_seed(seed + 1)
        low, high = self.shape.vertices.amin(0), self.shape.vertices.amax(0)
        points = low + (high - low) * torch.rand(_SCORED, 3, generator=generator)
        inside, truth = query(points.to(device)).cpu() < 0, self._truth(points) < 0
        union = int((inside | truth).sum())
        iou = 100 * int((inside & truth).sum()) / union if union else math.nan
        surface, normals = self.shape.sample_surface(_SURFACE_POINTS, generator)
        placed = surface.clone().to(device).requires_grad_()
        with torch.enable_grad():
            (slopes,) = torch.autograd.grad(_distance(model, placed).sum(), placed)
        cosines = F.cosine_similarity(slopes.cpu(), normals, dim=-1).clamp(-1, 1)
        degrees = float(cosines.arccos().rad2deg().mean())
        vertices, faces = surface_mesh(lambda x: query(x.to(device)), _NODES)
        if not len(faces):
            return {IOU.name: iou, CHAMFER.name: math.nan, NORMALS.name: degrees}
        other = replace(self.shape, vertices=vertices, faces=faces)
        there, _ = self.shape.distance(other.sample_surface(_SURFACE_POINTS, generator)[0])
        back, _ = other.distance(surface)
        chamfer = 500 * float(there.abs().mean() + back.abs().mean())
        return {IOU.name: iou, CHAMFER.name: chamfer, NORMALS.name: degrees}

    def notes(self, results: Sequence[Result], config: ShapeConfig) -> Iterator[Doubt]:
        """Name fits that have no surface."""
        length = "--steps" if config.seconds is None else "--seconds"
        for fit in results:
            if math.isnan(fit.scores[CHAMFER.name]):
                yield Doubt(fit.name, "has no surface", f"Try more {length}")


def _distance(model: nn.Module, points: Float[Tensor, "n 3"]) -> Float[Tensor, "n 1"]:
    """Signed distance that a model has, in float32."""
    values: Tensor = model(points).float()
    return (values - 0.5) * _SPAN


def queried(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The signed distance of a model, in chunks and without gradients."""

    def query(points: Tensor) -> Tensor:
        return (predict(model, points, chunk_size=_CHUNK) - 0.5) * _SPAN

    return query


def _contours(distance: Float[Tensor, "pixels 1"]) -> Float[Tensor, "side side 3"]:
    """Lines of equal distance, every 0.1 units: blue inside, orange outside, black surface."""
    values = distance.cpu()
    side = math.isqrt(len(values))
    inside, outside = torch.tensor([0.35, 0.55, 0.85]), torch.tensor([0.9, 0.6, 0.3])
    color = torch.where(values < 0, inside, outside)
    fade = torch.exp(-4 * values.abs())
    phase = (values / 0.1).frac().abs()
    line = 0.82 + 0.18 * (2 * phase - 1).abs().square()
    shaded = (color * (1 - fade) + fade) * line
    edge = (1 - values.abs() / 0.012).clamp(0, 1)
    return (shaded * (1 - edge)).clamp(0, 1).view(side, side, 3)
