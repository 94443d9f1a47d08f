"""What all tests share: the fixtures of the product's tests."""

from tests.conftest import _no_figures as _no_figures
from tests.conftest import _seeded as _seeded
from tests.conftest import figures as figures
from tests.conftest import no_hull as no_hull
from tests.conftest import no_report as no_report
from tests.conftest import own_folder as own_folder
from tests.conftest import unchecked as unchecked
