"""Templates of pages, tables and configurations, which are files of our packages."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def make_templates(package: str | None) -> Environment:
    """Make the environment of a package's templates, which are named by their paths in it.

    Texts are escaped for HTML and XML.

    Args:
        package: As `__package__` of the module that uses it.
    """
    return Environment(
        loader=PackageLoader(package or "", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
