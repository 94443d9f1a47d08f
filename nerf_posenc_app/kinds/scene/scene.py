"""Scenes: a radiance field that is fitted to posed views, and evaluated on test views."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, TypeVar, cast

import torch
from torch import Tensor, nn

from nerf_posenc.fits import SceneFit, describe_scene_fit, load_fit
from nerf_posenc.metrics.image import Scored, constant_psnr
from nerf_posenc.radiance.base_renderer import Renderer
from nerf_posenc.radiance.build import FieldOptions, get_field, make_renderer
from nerf_posenc.radiance.cameras import Camera
from nerf_posenc.radiance.evaluation import (
    ViewScore,
    evaluate_views,
    render_camera,
    with_refined_poses,
)
from nerf_posenc.radiance.occupancy import visual_hull
from nerf_posenc.radiance.poses import align_poses, exp_se3, orbit_poses
from nerf_posenc.radiance.scene_spaces import SpaceName, space_for
from nerf_posenc.radiance.views import Background, Scene, Views, background_gray
from nerf_posenc.radiance.volume_rendering import visible_depth
from nerf_posenc.training import recipes
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.devices import fastest_dtype
from nerf_posenc.training.recipes import own_encodings
from nerf_posenc_app.crops import PREVIEW_SIDE
from nerf_posenc_app.data.errors import SceneError
from nerf_posenc_app.data.posed.camera_path import open_cameras
from nerf_posenc_app.data.scene_files import open_scene, scene_in_memory
from nerf_posenc_app.data.shipped import shipped
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.coordinates import (
    ABOUT,
    CITATIONS,
    PSNR,
    SSIM,
    doubts_of_flat_fits,
    precision_for,
)
from nerf_posenc_app.kinds.kind import Exportable, Fit, Kind, Problem, Rendered, digest_of
from nerf_posenc_app.kinds.scene.options import SceneConfig, SceneOptions, ViewsOptions
from nerf_posenc_app.kinds.scene.pose_scores import POSITION, ROTATION, notes_on_poses, pose_scores
from nerf_posenc_app.kinds.scene.volume import make_volume
from nerf_posenc_app.options import UsageError
from nerf_posenc_app.terminal import noted, printable, progress_bar, say, sum_up
from nerf_posenc_app.values.blocks import Block, Evaluation, Video, View
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result

if TYPE_CHECKING:
    from typing import Self

    from jaxtyping import Float

_TURNTABLE = 60

# Default number of training steps on a CPU, and that of --field auto.
_SHORT, _LONG = 700, 3000
# Advice for scenes of files, whose poses and boxes are more often wrong than the training.
_CHECK_FIRST = (
    "Check the cameras first: their axes, positions and the box of the scene (in transforms.json: "
    "camera_convention, aabb_scale, scale and offset). "
)
# Options that describe a field, under the same names.
_FIELD_OPTIONS = {field.name for field in fields(FieldOptions)} - {"encoding"}


ViewsConfig = TypeVar("ViewsConfig", bound=ViewsOptions[Never])


class ViewsKind(Kind[ViewsConfig]):
    """Training and test views of a scene."""

    rendered_by = ("size", "scale", "cameras", "turntable")
    about = ABOUT
    citations = CITATIONS
    evaluated_on = "test views"

    def __init__(self, options: ViewsOptions, scene: Scene) -> None:
        self.scene = _with_printable_names(
            replace(scene, test=scene.test.subset(options.test_views))
        )
        # Poses of the files, for comparison with the refined poses.
        self.given_poses = poses = self.scene.train.world_from_camera
        if len(poses) > 1 and bool((poses == poses[:1]).all()):
            raise UsageError(
                f"{scene.source}: all training views have the same pose; find the poses first, for "
                "instance by COLMAP, as --photos of the companion does"
            )
        if options.disturb_poses:
            generator = torch.Generator().manual_seed(options.seed)
            noise = options.disturb_poses * torch.randn(len(poses), 6, generator=generator)
            poses = exp_se3(noise) @ poses
            # Points would reveal the true poses.
            train = replace(self.scene.train, world_from_camera=poses, points=None)
            self.scene = replace(self.scene, train=train)
        self.title, self.source = self.scene.name, self.scene.source
        self.facts = {"size": self.scene.train.size}
        self.notes_on_data = self.scene.notes

    def summary(self, config: ViewsConfig) -> list[str]:
        """Source, size and number of views."""
        width, height = self.scene.train.size
        return [
            f"scene    {self.source}, {width} x {height}",
            f"views    {len(self.scene.train)} to fit, {len(self.scene.test)} to evaluate on",
        ]

    def digest(self) -> str:
        """Checksum of all pixels, cameras and poses, of the values that a fit gets from them."""
        parts: list[Any] = []
        for views in (self.scene.train, self.scene.test):
            shape, every = views.pixels.shape[:3], range(len(views))
            cameras = [_flat(astuple(camera)) for camera in views.cameras]
            tensors = (views.world_from_camera, torch.tensor(cameras, dtype=torch.float64))
            parts += [
                ((*shape, 3), map(partial(views.over, background=0.0), every)),
                (shape, map(views.opacity, every)),
                *((tensor.shape, [tensor]) for tensor in (*tensors, *(views.points or ()))),
                *([] if views.masks is None else [(shape, views.masks.float())]),
            ]
        return digest_of(parts)

    def resolve(self, options: ViewsOptions) -> ViewsConfig:
        """Choose the field, encodings, steps, batches and the background by the views."""
        on_cpu, is_opaque = torch.device(options.device).type == "cpu", self.scene.train.is_opaque
        field, is_auto = options.field, options.field == "auto"
        if field is None or is_auto:
            # The small field cannot show a background.
            is_proposal = is_auto or is_opaque or options.refine_poses or options.exposure
            field = "proposal" if is_proposal else "mlp"
        row = get_field(field)
        encodings = row.default_encodings[-1:] if is_auto else row.default_encodings
        if on_cpu:
            # auto aims at image quality; other fields are used to compare encodings.
            steps = _LONG if is_auto else _SHORT
            # Larger batches have less gradient noise, which halves the pose error.
            is_precise = is_auto and options.refine_poses and options.seconds is None
            batch_size = 4096 if is_precise else 1024
        else:
            steps, batch_size = 5000, row.batch_size
        background: Background = "random" if is_opaque else "white"
        chosen = replace(
            options,
            field=field,
            optimizer="muon" if options.optimizer == "auto" else options.optimizer,
            background=background if options.background == "auto" else options.background,
        )
        size = max(self.scene.train.size)
        return self.with_defaults(
            chosen,
            encodings=encodings,
            steps=steps,
            batch_size=batch_size,
            num_bands=row.num_bands or recipes.default_bands(size),
            sigma=recipes.default_sigma(size),
        )

    def measures(self, config: ViewsConfig) -> Sequence[Measure]:
        """PSNR and SSIM, means over the test views, and errors of poses that are not as given."""
        return (PSNR, SSIM, ROTATION, POSITION) if self._compares_poses(config) else (PSNR, SSIM)

    def _compares_poses(self, config: ViewsConfig) -> bool:
        """Whether poses may differ from those of the files."""
        return config.refine_poses or config.disturb_poses > 0

    def _field(self, name: FitName, config: ViewsConfig) -> FieldOptions:
        """Describe the field of a fit: the options of the same names, and what the views say."""
        train, takes_spaces = self.scene.train, get_field(config.field).takes_spaces
        space: SpaceName = space_for(train) if takes_spaces else "box"
        # The frustum would move with poses that are refined.
        if config.refine_poses and space == "forward-facing":
            space = "contracted"
        chosen = {key: value for key, value in vars(config).items() if key in _FIELD_OPTIONS}
        return FieldOptions(
            name.encoding,
            **chosen,
            resolution=max(train.size),
            space=space,
            num_exposures=len(self.scene.train) if config.exposure else 0,
            num_poses=len(self.scene.train) if config.refine_poses else 0,
        )

    @cached_property
    def _hull(self) -> Tensor:
        """Visual hull, the same for every encoding."""
        return visual_hull(self.scene.train)

    @contextlib.contextmanager
    def _usage_errors(self) -> Iterator[None]:
        """Name the scene in what makes it impossible to fit."""
        try:
            yield
        except CheckpointError:
            raise
        except ValueError as error:
            raise UsageError(f"--{self.name} {self.source}: {error}") from None

    def build(
        self, name: FitName, config: ViewsConfig, generator: torch.Generator
    ) -> tuple[nn.Module, FieldOptions]:
        """A field and its renderer."""
        field = self._field(name, config)
        with self._usage_errors():
            hull = self._hull if field.has_hull else None
        return make_renderer(field, self.scene.train, hull=hull), field

    def _dtype(self, config: ViewsConfig) -> torch.dtype:
        """Type that fields are trained and rendered in."""
        return precision_for(config.precision, torch.device(config.device), is_small=False)

    def problem(self, model: nn.Module, description: FieldOptions, config: ViewsConfig) -> Problem:
        """Batches of rays of all training views."""
        device, renderer = torch.device(config.device), cast(Renderer, model)
        background = cast(Background, config.background)
        gray, dtype = background_gray(background), self._dtype(config)
        lr = config.lr or renderer.default_lr(config.optimizer)
        with self._usage_errors():
            batches = renderer.batches(
                self.scene.train,
                config.batch_size,
                seed=config.seed,
                background=background,
                device=device,
            )
        # A view costs many samples per pixel and gets a quarter of a preview's side. Where test
        # views are is not known while poses are refined.
        preview_views = self.scene.train if config.refine_poses else self.scene.test
        preview = preview_views.subset(1).resized(PREVIEW_SIDE // 4)

        def render_preview() -> Tensor:
            poses, camera = preview_views.world_from_camera, preview.cameras[0]
            pose = (renderer.found_poses(poses) if config.refine_poses else poses)[0]
            return render_camera(renderer, camera, pose, background=gray, autocast_dtype=dtype).rgb

        return Problem(
            draw_batch=batches,
            optimizer=renderer.make_optimizer(config.optimizer, lr),
            description=describe_scene_fit(
                description, self.scene, gray, given_poses=self.given_poses
            ),
            loss=renderer.loss,
            forward=renderer.render_batch,
            after_step=renderer.after_step(batches, autocast_dtype=dtype),
            schedule=renderer.schedule,
            autocast_dtype=dtype,
            captured=renderer.has_fixed_shapes,
            preview=lambda: [render_preview()],
            originals=[preview.over(0, gray)],
            details={
                "title": recipes.get_recipe(description.encoding).title,
                "network": config.field,
                "width": description.layers[0],
                "depth": description.layers[1],
                **{name: getattr(description, name) for name in description.recipe.options_used},
            },
        )

    def evaluate(self, fit: Fit[ViewsConfig]) -> Evaluation:
        """Mean PSNR and SSIM of the test views, the views with their depths, and a turntable.

        Views are rendered in the precision of the training.
        """
        config, renderer = fit.config, cast(Renderer, fit.model)
        gray = background_gray(cast(Background, config.background))
        evaluate = partial(
            evaluate_views, renderer, background=gray, autocast_dtype=self._dtype(config)
        )
        poses = renderer.found_poses(self.scene.train.world_from_camera)
        test, errors, blocks = self.scene.test, dict[str, float](), list[Block]()
        details = dict[str, Any]()
        if self._compares_poses(config):
            errors, curve = pose_scores(poses, self.given_poses)
            blocks = [curve]
        if config.refine_poses or config.disturb_poses:
            aligned = align_poses(self.given_poses, poses)(test.world_from_camera)
            test = replace(test, world_from_camera=aligned)
        if config.refine_poses:
            details["psnr_db_at_aligned_poses"] = _mean(score.psnr for score in evaluate(test))
            test = with_refined_poses(renderer, test, background="white" if gray else "black")
        with progress_bar(f"{fit.name} test views", len(test), "view", quiet=config.quiet) as bar:
            scores = evaluate(test, on_view=partial(bar.update, 1))
            sum_up(bar)
        views = [_view(test, i, score, gray) for i, score in enumerate(scores)]
        moving: list[Block] = []
        remarks: list[str] = []
        with noted(f"turntable of {fit.name}", remarks):
            if config.turntable:
                moving.append(self._turntable(fit, poses, gray))
        return Evaluation(
            {
                PSNR.name: _mean(score.psnr for score in scores),
                SSIM.name: _mean(score.ssim for score in scores),
                **errors,
            },
            [*views, *moving, *blocks],
            remarks=remarks,
            details={
                **details,
                "views": [{"name": s.name, "psnr_db": s.psnr, "ssim": s.ssim} for s in scores],
            },
        )

    def blocks_of_best(self, name: FitName, path: Path, config: ViewsConfig) -> Sequence[Block]:
        """The field on a grid, to be orbited: it takes as long as a short fit."""
        if not config.turntable:
            return ()
        with progress_bar(f"{name} orbit", 1, "field", quiet=config.quiet) as bar:
            fit = load_fit(path, device=config.device, encodings=own_encodings([name.encoding]))
            assert isinstance(fit, SceneFit)
            volume = make_volume(fit.renderer, fit.camera, fit.world_from_camera, fit.background)
            bar.update()
            sum_up(bar, f"{bar.format_dict['elapsed']:.1f} s")
        return (volume,)

    def _turntable(self, fit: Fit[ViewsConfig], found: Tensor, gray: float) -> Video:
        """An orbit around the scene."""
        poses = orbit_poses(found, fit.config.turntable)
        camera, frames = self.scene.train.central_camera, []
        renderer, dtype = cast(Renderer, fit.model), self._dtype(fit.config)
        label, quiet = f"{fit.name} turntable", fit.config.quiet
        with progress_bar(label, len(poses), "frame", quiet=quiet) as bar:
            for pose in poses:
                rendering = render_camera(
                    renderer, camera, pose, background=gray, autocast_dtype=dtype
                )
                frames.append(rendering.rgb)
                bar.update()
            sum_up(bar)
        return Video("Turntable", torch.stack(frames), rate=max(5, len(frames) // 3))

    def notes(self, results: Sequence[Result], config: ViewsConfig) -> Iterator[str | Doubt]:
        """Say how far poses were off, how test views are placed, and name fits without effect."""
        if config.refine_poses or config.disturb_poses:
            yield from notes_on_poses(results, self.scene.train.world_from_camera, self.given_poses)
        gray, test = background_gray(cast(Background, config.background)), self.scene.test
        flat = constant_psnr(
            Scored(test.over(view, gray), None if test.masks is None else test.masks[view])
            for view in range(len(test))
        )
        first = _CHECK_FIRST if Path(self.source).is_dir() else ""
        yield from doubts_of_flat_fits(
            results, flat, config, data="scene", first=first, others="other views"
        )

    @classmethod
    def render(
        cls, fit: Any, path: Path, device: torch.device, given: Mapping[str, Any]
    ) -> Rendered:
        """Render a field from cameras of a file, or around the scene."""
        assert isinstance(fit, SceneFit)
        in_file_units = given["cameras"] is not None
        cameras: Sequence[tuple[Camera, Float[Tensor, "4 4"]]]
        if in_file_units:
            try:
                cameras = open_cameras(given["cameras"], fit.camera)
            except SceneError as error:
                raise UsageError(str(error)) from None
        else:
            poses = orbit_poses(fit.world_from_camera, given["turntable"] or _TURNTABLE)
            cameras = [(fit.camera, pose) for pose in poses]
        cameras = [
            (_resized(camera, given["size"], given["scale"] or 1.0), pose)
            for camera, pose in cameras
        ]
        stem = "view" if len(cameras) == 1 else "path" if in_file_units else "turntable"
        frames = (
            fit.render(
                camera,
                pose,
                in_file_units=in_file_units,
                autocast_dtype=fastest_dtype(device, is_small=False),
            ).rgb
            for camera, pose in cameras
        )
        first = cameras[0][0]
        size = first.width, first.height
        return Rendered(size, f"{path.stem}-{stem}", frames, len(cameras))

    @classmethod
    def exportable(cls, fit: Any) -> Exportable:
        """A module from positions and directions, ``(n, 3)``, to density and RGB."""
        assert isinstance(fit, SceneFit)
        directions = nn.functional.normalize(torch.rand(8, 3), dim=-1)
        inputs = {"positions": torch.rand(8, 3) - 0.5, "directions": directions}
        return Exportable(fit.field, inputs, ["density", "rgb"])


class SceneKind(ViewsKind[SceneConfig]):
    """A folder of posed images, or a built-in scene."""

    name = "scene"
    Options = SceneOptions

    @classmethod
    def open(cls, options: SceneOptions) -> Self:
        """Open the views of a folder, of a built-in scene, or those that Python holds."""
        if isinstance(options.scene, InMemory):
            return cls(options, scene_in_memory(options.scene.values, size=options.size))
        is_built_in = options.scene in shipped("scene") and not Path(options.scene).is_dir()
        if is_built_in and not options.quiet:
            say(f"rendering the built-in scene {options.scene} ...")
        scene = open_scene(options.scene, size=options.size, max_pixels=options.max_pixels)
        return cls(options, scene)


def _mean(values: Iterable[float]) -> float:
    """Mean over views; those without a pixel to score have NaN and are left out."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _view(test: Views, i: int, score: ViewScore, gray: float) -> View:
    """A test view beside its rendering; gray where a mask leaves it out."""
    truth, rgb = test.over(i, gray), score.rendering.rgb
    mask = None if test.masks is None else test.masks[i]
    if mask is not None:
        truth, rgb = (torch.where(mask[..., None], each, 0.5) for each in (truth, rgb))
    return View(score.name, truth, rgb, visible_depth(score.rendering), scored=mask)


def _resized(camera: Camera, longer_side: int | None, scale: float) -> Camera:
    if longer_side is not None:
        scale = longer_side / max(camera.width, camera.height)
    return camera.scaled(scale)


def _flat(values: Any) -> list[float]:
    """Numbers of nested tuples."""
    if isinstance(values, tuple | list):
        return [number for value in values for number in _flat(value)]
    return [float(values)]


def _with_printable_names(scene: Scene) -> Scene:
    def views(part: Views) -> Views:
        return replace(part, names=[printable(name) for name in part.names])

    return replace(
        scene,
        name=printable(scene.name),
        source=printable(scene.source),
        notes=tuple(printable(note) for note in scene.notes),
        train=views(scene.train),
        test=views(scene.test),
    )
