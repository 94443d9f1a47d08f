"""Further images by name, from the files that scikit-image's wheel bundles."""

import importlib.util
from pathlib import Path

from scenes.image_files import Sample


def _sample(file: str, source: str) -> Sample:
    spec = importlib.util.find_spec("skimage")
    assert spec is not None
    assert spec.origin is not None
    return Sample(Path(spec.origin).parent / "data" / file, f"scikit-image: {file}; {source}")


astronaut = _sample("astronaut.png", "NASA, public domain")
coffee = _sample("coffee.png", "Rachel Michetti, CC0")
hubble = _sample("hubble_deep_field.jpg", "NASA, public domain")
motorcycle = _sample("motorcycle_left.png", "Middlebury stereo 2014, CC0")
retina = _sample("retina.jpg", "Hakan Eren Ucar, CC0")
rocket = _sample("rocket.jpg", "SpaceX, CC0")
