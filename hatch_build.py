"""What a wheel has that lies elsewhere in the clone."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Scenes(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Put the files of the folder `scenes` into the package that reads them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the folder; an installed clone (version "editable") reads its own."""
        if version != "editable":
            build_data["force_include"]["scenes"] = "nerf_posenc_app/scenes"
