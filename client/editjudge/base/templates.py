"""Templates of pages, tables and configurations, which are files of our packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def make_templates(package: str | None) -> Environment:
    """Make the environment of a package's templates, which are named by their paths in it.

    Texts are escaped for HTML and XML.

    Args:
        package: As `__package__` of the module that uses it.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package or "", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
