"""What an image and its models must be like, checked before anything is fitted."""

from app.config import FieldRunConfig
from app.image_task import ImageTask
from app.parsing import UsageError
from nerf_posenc.images import Image
from nerf_posenc.training import recipes
from nerf_posenc.training.image_model import make_image_model

_MOST_DOUBLED = 4 << 20


def require_small(image: Image, config: FieldRunConfig) -> None:
    """Refuse a large image for an encoding that predicts values between its pixels.

    Raises:
        UsageError: If it has more than ``_MOST_DOUBLED`` pixels.
    """
    num_pixels = image.num_pixels
    doubled = [e for e in config.encodings if recipes.get_recipe(e).is_doubled]
    if doubled and num_pixels > _MOST_DOUBLED:
        raise UsageError(
            f"{doubled[0]} predicts values between the pixels, which takes minutes per megapixel: "
            f"it is for images of up to {_MOST_DOUBLED >> 20} megapixels, and {image.source} has "
            f"{num_pixels / 2**20:.1f} to fit; reduce it by --size, or name other --encodings"
        )


def require_sizes(task: ImageTask) -> None:
    """Refuse a number of parameters that is too small for one of the models.

    Raises:
        UsageError: Saying how many that model needs.
    """
    if task.config.model.parameters is None:
        return
    for encoding in task.config.encodings:
        try:
            make_image_model(task.model(encoding), task.image.resolution)
        except ValueError as error:
            raise UsageError(f"--parameters: {error}") from None
