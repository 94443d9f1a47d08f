"""One line for each library or model: what it computes, by an encoder of this library."""

from tests.equivalents.attention import RELEASED, ROTARY, SEQUENCES
from tests.equivalents.coordinates import FIELDS, GEOGRAPHY, IMAGES, TIME, WAVES
from tests.equivalents.equivalent import Equivalent

SECTIONS: dict[str, list[Equivalent]] = {
    "Neural fields": FIELDS,
    "Images and boxes": IMAGES,
    "The globe": GEOGRAPHY,
    "Time": TIME,
    "Sequences": SEQUENCES,
    "Directions and other waves": WAVES,
    "Attention: rotary embeddings, biases, cameras": ROTARY,
    "Released configurations and odd sizes": RELEASED,
}
EQUIVALENTS = [equivalent for section in SECTIONS.values() for equivalent in section]
