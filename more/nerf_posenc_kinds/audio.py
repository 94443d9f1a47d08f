"""Sounds: a network from time to the samples of one or two channels."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Never

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc.fits import CoordinateFit
from nerf_posenc.metrics.image import psnr_from_mse
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.checkpoints import CheckpointError
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.loop import predict
from nerf_posenc_app.in_memory import InMemory
from nerf_posenc_app.kinds.coordinates import CITATIONS, CoordinateKind, check_encodings
from nerf_posenc_app.kinds.kind import Fit, Problem, RenderedFile, digest_of
from nerf_posenc_app.options import CoordinateOptions, Open, Range, require
from nerf_posenc_app.terminal import printable
from nerf_posenc_app.values.blocks import Curve, Evaluation
from nerf_posenc_app.values.finding import Doubt
from nerf_posenc_app.values.measures import Measure, TrainingScore
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from nerf_posenc_kinds.data.sounds import PHRASE, open_sound, sound_in_memory
from nerf_posenc_kinds.sound_report import Sound, wav_bytes
from nerf_posenc_kinds.spectrogram import snr, snr_by_octave, spectrogram

SNR = Measure(
    "snr_db",
    "SNR",
    "dB",
    2,
    meaning=(
        "10 log10 of the energy of the samples divided by the energy of the error, over all "
        "channels"
    ),
)

_CHUNK = 1 << 15
_PREVIEW_SECONDS = 4.0
# Default parameters of a grid per sample; SIREN's network has 0.64 for its sound by Bach.
_VALUES_PER_SAMPLE = 0.625
_FEWEST_PARAMETERS = 20_000
# Width of the features of a hash grid, of which each of 8 levels has 4.
_GRID_FEATURES = 32
_SILENCE_DB = 3.0
_MAX_RENDERED = 1 << 27


@dataclass(frozen=True, kw_only=True)
class AudioOptions(CoordinateOptions[Open]):
    """Fit a sound without and with an encoding.

    Encodings: none fourier gaussian hash; networks that need no encoding: siren finer gauss
    wire mfn.

      train_fit.py --audio song.wav --duration 5
    """

    audio: Annotated[str, InMemory] = PHRASE
    """WAV, FLAC or OGG file, or phrase, a synthesized melody."""

    duration: Annotated[float | None, Range(0, is_open=True)] = None
    """Fit only the first N seconds (default: the whole sound)."""

    def check(self) -> None:
        """Check ranges, and that the encodings suit a sound."""
        check_encodings(self, "a sound")
        super().check()


AudioConfig = AudioOptions[Never]


class AudioKind(CoordinateKind[AudioConfig]):
    """A sound over time in [-1, 1], scaled so that its peak spans the values in [0, 1]."""

    name = "audio"
    Options = AudioOptions
    rendered_by = ("rate",)
    in_dim = 1
    about = (
        "A sound is a function of time alone, and nearly all of it is high frequencies: a network "
        "on raw time learns silence, and the encoding decides how high a pitch it can learn."
    )
    citations = (
        *CITATIONS,
        "@inproceedings{sitzmann2020siren, title={Implicit Neural Representations with Periodic "
        "Activation Functions}, author={Sitzmann, Vincent and Martel, Julien N. P. and Bergman, "
        "Alexander W. and Lindell, David B. and Wetzstein, Gordon}, booktitle={NeurIPS}, "
        "year={2020}}",
    )

    def __init__(self, options: AudioOptions) -> None:
        if isinstance(options.audio, InMemory):
            self.sound = sound_in_memory(options.audio.values, duration=options.duration)
        else:
            self.sound = open_sound(options.audio, duration=options.duration)
        self.title, self.source = printable(self.sound.name), printable(self.sound.source)
        length, self.out_dim = self.sound.samples.shape
        self.size = (length,)
        self.facts = {"size": self.size, "channels": self.out_dim, "rate": self.sound.rate}
        self.peak = float(self.sound.samples.abs().max())
        if self.peak > 1:
            self.notes_on_data = (
                f"samples reach {self.peak:.3g}, beyond full scale; files store them as 32-bit "
                "floats, and the page reduces the volume of all sounds equally",
            )
        self.times = sample_times(length, length)
        # Batches hold values in [0, 1]: divide the error by the energy of the fitted values.
        power = float((self._scaled(self.sound.samples) - 0.5).square().mean())
        self.training = TrainingScore(SNR, lambda loss: psnr_from_mse(loss / power))

    def model(self, name: FitName, config: AudioConfig) -> CoordinateModel:
        """Describe the model of a fit; one with a hash grid has fewer parameters than samples."""
        model = super().model(name, config)
        if not recipes.encodings_with("num_features", [name.encoding]):
            return model
        most = max(_FEWEST_PARAMETERS, int(_VALUES_PER_SAMPLE * self.sound.samples.numel()))
        widest, depth = model.layers

        def count(width: int) -> int:
            """Parameters of the network, which takes 8 levels of 4 features."""
            inner = (depth - 1) * width * (width + 1)
            return (_GRID_FEATURES + 1) * width + inner + (width + 1) * self.out_dim

        # The network gets at most a quarter of the parameters, and the grid the others.
        suiting = [width for width in range(1, widest + 1) if count(width) <= most // 4]
        width = max(suiting, default=1)
        return replace(model, width=width, num_features=most - count(width))

    def summary(self, config: AudioConfig) -> list[str]:
        """Source, length, and the bands that reach half the sampling rate."""
        channels = {1: "mono", 2: "stereo"}[self.out_dim]
        lines = [
            f"audio    {self.source}, {self.seconds:.2f} s, {self.sound.rate:,} Hz, {channels}"
        ]
        if recipes.encodings_with("num_bands", config.encodings):
            lines.append(
                f"bands    {config.num_bands} reach {self.hertz(config.num_bands):,.0f} Hz; "
                f"{self.enough_bands} reach half the sampling rate, {self.sound.rate // 2:,} Hz"
            )
        return lines

    @property
    def seconds(self) -> float:
        """Length of the sound."""
        return self.size[0] / self.sound.rate

    def hertz(self, num_bands: int) -> float:
        """Frequency of the last band: 2^(L-1) pi per unit, where the sound is two units long."""
        return 2.0 ** (num_bands - 1) / self.seconds

    @property
    def enough_bands(self) -> int:
        """Fewest bands of which the last is no less than half the sampling rate."""
        return max(1, math.ceil(math.log2(self.size[0] / 2)) + 1)

    def digest(self) -> str:
        """Checksum of the samples and their rate."""
        samples = self.sound.samples
        return digest_of([(samples.shape, [samples]), ((self.sound.rate,), [])])

    def resolve(self, options: AudioOptions) -> AudioConfig:
        """Choose encodings, bands, sigma, steps and batches by the number of samples."""
        return self.with_defaults(
            options,
            steps=500,
            batch_size=8192,
            num_bands=self.enough_bands,
            sigma=recipes.default_sigma(self.size[0]),
        )

    def measures(self, config: AudioConfig) -> Sequence[Measure]:
        """Signal-to-noise ratio."""
        return (SNR,)

    def problem(
        self, model: nn.Module, description: CoordinateModel, config: AudioConfig
    ) -> Problem:
        """Batches of shuffled samples."""
        device = torch.device(config.device)
        times, values = self.times[:, None].to(device), self._scaled(self.sound.samples).to(device)
        preview_samples = round(min(self.seconds, _PREVIEW_SECONDS) * self.sound.rate)
        return self.trained(
            model,
            description,
            config,
            ShuffledBatches(times, values, config.batch_size, seed=config.seed),
            facts={"rate": self.sound.rate, "peak": self.peak},
            captured=True,
            preview=lambda: [self._drawn(_played(model, times[:preview_samples], self.peak))],
            originals=[self._drawn(self.sound.samples[:preview_samples])],
        )

    def _scaled(self, samples: Tensor) -> Tensor:
        return 0.5 + 0.5 * samples / self.peak

    def _drawn(self, samples: Tensor) -> Float[Tensor, "height width 3"]:
        image = spectrogram(samples, self.sound.rate, width=256, height=128)
        return image[..., None].expand(-1, -1, 3)

    def evaluate(self, fit: Fit[AudioConfig]) -> Evaluation:
        """Signal-to-noise ratio, also by octave, and the sound."""
        times = self.times[:, None].to(fit.config.device)
        values, truth = _played(fit.model, times, self.peak), self.sound.samples
        by_octave = snr_by_octave(values, truth, self.sound.rate)
        curve = Curve(
            "SNR by octave",
            "frequency (Hz)",
            "SNR (dB)",
            [hertz for hertz, _ in by_octave],
            [ratio for _, ratio in by_octave],
            log_x=True,
            section="Frequency content",
            about=(
                "Signal-to-noise ratio within each octave, up to half the sampling rate; "
                "silence scores 0 dB."
            ),
        )
        sound = Sound(self.title, truth, values, self.sound.rate)
        scores = {SNR.name: snr(values, truth)}
        return Evaluation(scores, [sound, curve])

    def notes(self, results: Sequence[Result], config: AudioConfig) -> Iterator[Doubt]:
        """Name fits that are hardly better than silence."""
        for fit in results:
            if fit.is_complete and fit.scores[SNR.name] < _SILENCE_DB:
                score = fit.scores[SNR.name]
                reason = f"did not learn the sound ({score:.2f} dB; silence scores 0 dB)"
                length = "--steps" if config.seconds is None else "--seconds"
                yield Doubt(fit.name, reason, f"Try more {length}")

    @classmethod
    def render(
        cls, fit: Any, path: Path, device: torch.device, given: Mapping[str, Any]
    ) -> RenderedFile:
        """Render a sound at any sampling rate."""
        assert isinstance(fit, CoordinateFit)
        try:
            fitted_rate, peak = int(fit.facts["rate"]), float(fit.facts["peak"])
            (length,) = fit.size
            require(
                1 <= fitted_rate <= 1_000_000 and 0 < peak < 1e6,
                f"{path} has an invalid rate or peak",
            )
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"{path} contains no fit of a sound") from None
        rate = given["rate"] or fitted_rate
        count = max(1, round(length * rate / fitted_rate))
        require(
            count * fit.options.out_dim <= _MAX_RENDERED,
            f"--rate {rate}: {count:,} samples are too many; give a smaller one",
        )
        times = sample_times(count, length * rate / fitted_rate)[:, None].to(device)
        samples = _played(fit.model, times, peak)

        def write(file: Path) -> None:
            file.write_bytes(wav_bytes(samples, rate))

        return RenderedFile(f"{path.stem}-{rate}Hz", ".wav", write)


def sample_times(count: int, length: int | float) -> Float[Tensor, " count"]:
    """Times of the centers of samples; the whole sound spans [-1, 1].

    Args:
        count: number of samples.
        length: samples of the whole sound, which spans [-1, 1], at the same rate.
    """
    return ((torch.arange(count, dtype=torch.float64) + 0.5) * (2 / length) - 1).float()


@torch.no_grad()
def _played(
    model: nn.Module, times: Float[Tensor, "samples 1"], peak: float
) -> Float[Tensor, "samples channels"]:
    """Samples that a model has, on the CPU."""
    return ((predict(model, times, chunk_size=_CHUNK) - 0.5) * (2 * peak)).cpu()
