"""Templates of pages, tables and configurations, which are files of our packages."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def make_templates(package: str | None, *, autoescape: bool = True) -> Environment:
    """Make the environment of a package's templates, which are named by their paths in it.

    Args:
        package: As `__package__` of the module that uses it.
        autoescape: Whether texts are escaped for HTML and XML; otherwise by filters of the caller.
    """
    return Environment(
        loader=PackageLoader(package or "", ""),
        autoescape=autoescape,  # noqa: S701 - without, the caller escapes each text for its own form
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
