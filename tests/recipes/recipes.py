"""One line for each library or model: what it computes, by an encoder of this library."""

from tests.recipes.attention import RELEASED, ROTARY, SEQUENCES
from tests.recipes.coordinates import FIELDS, GEOGRAPHY, IMAGES, TIME, WAVES
from tests.recipes.recipe import Recipe

SECTIONS: dict[str, list[Recipe]] = {
    "Neural fields": FIELDS,
    "Images and boxes": IMAGES,
    "The globe": GEOGRAPHY,
    "Time": TIME,
    "Sequences": SEQUENCES,
    "Directions and other waves": WAVES,
    "Attention: rotary embeddings, biases, cameras": ROTARY,
    "Released configurations and odd sizes": RELEASED,
}
RECIPES = [recipe for section in SECTIONS.values() for recipe in section]
