"""Templates of pages: self-contained HTML files without network requests."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from nerf_posenc_app.json_values import as_json
from nerf_posenc_app.report.palette import NUM_COLORS, NUM_STYLES, PAGE_DARK, PAGE_LIGHT, RAMP

# The environment caches compiled templates.
_ENVIRONMENT = Environment(
    loader=PackageLoader("nerf_posenc_app.report", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def own_template(source: str) -> Template:
    """A partial of a kind of another distribution, with text escaped as on all pages.

    Args:
        source: macros ``style()``, ``section(content)`` and ``script(content)`` in Jinja's
            language.
    """
    return _ENVIRONMENT.from_string(source)


def render(template: str, run: Mapping[str, Any], **values: Any) -> str:
    """Render a page.

    Args:
        template: its file.
        run: command, configuration and versions that reproduce the run.
        **values: values of the template; text is escaped.
    """
    details = {key: value for key, value in run.items() if key != "command"}
    return _ENVIRONMENT.get_template(template).render(
        date=datetime.now(UTC).date().isoformat(),
        light=PAGE_LIGHT,
        dark=PAGE_DARK,
        num_colors=NUM_COLORS,
        num_styles=NUM_STYLES,
        ramp=RAMP,
        command=run.get("command", ""),
        details=json.dumps(as_json(details), indent=2, allow_nan=False),
        **values,
    )
