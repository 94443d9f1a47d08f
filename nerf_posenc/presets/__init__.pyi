from nerf_posenc.presets.fourier import FOURIER as FOURIER
from nerf_posenc.presets.grid import GRID as GRID
from nerf_posenc.presets.row import Preset as Preset
from nerf_posenc.presets.row import PresetTable as PresetTable
from nerf_posenc.presets.sequence import SEQUENCE as SEQUENCE

__all__: list[str]
