"""What there is to fit: pictures, from files or bundled samples."""

from scenes.images import SAMPLES as SAMPLES
from scenes.images import Picture as Picture
from scenes.images import SceneError as SceneError
from scenes.images import open_picture as open_picture
