"""The manifest: every model, the source of its weights, and its licence.

The data is `manifest.toml` beside this file; this module has its schema.
"""

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import ConfigDict, Field

from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.strict import Strict
from editjudge.base.text import suggest_name

from .artefact import Precision
from .recipe import Recipe

Profile: TypeAlias = Literal["lite", "paper"]
Paper: TypeAlias = Literal["i2i", "omni_iie", "co_edit", "gie", "kris"]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Line: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"^\S[^\n]*$")]
_BYTES: Mapping[Precision, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


class Entry(Strict):
    """One model of the manifest.

    Attributes:
        name: Name on the command line.
        service: Its service, `role.variant`.
        supply: `hub` where it can be pulled; `file` where the user brings the file; `parts`
            where it consists of other entries.
        hub: Repository on the hub.
        revision: Commit there; a branch where `revision_pinned` is false.
        files: Patterns of the files to pull, or the name of the file to import.
        parts: Entries by their folder in the checkpoint, for `supply = "parts"`.
        subfolder: Folder inside the checkpoint that vLLM serves.
        instructions: How to get the file, for `supply = "file"`.
        sha256: Digests of files, as far as they are published.
        licence: SPDX expression or name.
        restricted: The licence must be accepted before a pull; `restricted_why` says why.
        gated: The hub serves it only to accounts that accepted its terms there.
        parameters: Number of parameters of the served network.
        checkpoint_mib: MiB of the checkpoint, where that is more than `parameters` in fp32.
        preprocessing: How images are prepared.
        served_by: Library that runs it.
        used_by: Benchmarks that use it.
        profiles: Sets that it belongs to: `lite` runs on a CPU, `paper` is what papers use.
        recipe: `module:object`, a mapping from entry to `Recipe`; "" where vLLM serves the
            checkpoint as it is, and for parts of other entries.
        recipe_name: Its name in that mapping, if different.
    """

    model_config = ConfigDict(strict=True)
    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    service: Annotated[str, Field(pattern=r"^[a-z]+\.[a-z0-9_]+$")]
    supply: Literal["hub", "file", "parts"]
    hub: Annotated[str, Field(pattern=r"^$|^[\w.-]+/[\w.-]+$")] = ""
    revision: str = ""
    revision_pinned: bool = False
    files: list[Line] = Field(default_factory=list)
    parts: dict[str, str] = Field(default_factory=dict)
    subfolder: str = ""
    instructions: str = ""
    sha256: dict[str, Sha256] = Field(default_factory=dict)
    licence: Line
    restricted: bool = False
    restricted_why: str = ""
    gated: bool = False
    parameters: Annotated[int, Field(gt=0)]
    checkpoint_mib: Annotated[int, Field(ge=0)] = 0
    preprocessing: Line
    served_by: Literal["onnx", "transformers", "vllm"]
    used_by: list[Paper]
    profiles: list[Profile]
    recipe: Annotated[str, Field(pattern=r"^$|^[a-z_][\w.]*:[A-Z_]+$")] = ""
    recipe_name: str = ""

    def has_file(self, name: str) -> bool:
        """Whether a path in the repository belongs to the checkpoint."""
        return any(fnmatchcase(name, pattern) for pattern in self.files)

    def gib(self, precision: Precision) -> float:
        """Return the memory of the weights in GiB, without activations and caches."""
        return self.parameters * _BYTES[precision] / 2**30


@cache
def load_manifest() -> Mapping[str, Entry]:
    """Load all models by name, in the order of the file."""
    tables = tomllib.loads((Path(__file__).parent / "manifest.toml").read_text(encoding="utf-8"))
    return {name: Entry(name=name, **table) for name, table in tables.items()}


def find_entry(name: str) -> Entry:
    """Find a model by name.

    Raises:
        ConfigError: the manifest has no such name.
    """
    if name in load_manifest():
        return load_manifest()[name]
    fix = suggest_name(name, load_manifest(), "see: editjudge models list")
    raise ConfigError(f"there is no model {name!r}", fix)


def profile_entries(profile: Profile) -> list[Entry]:
    """Return the models of a profile."""
    return [entry for entry in load_manifest().values() if profile in entry.profiles]


def load_recipe(entry: Entry) -> Recipe:
    """Load the recipe that makes and exports a model, with its libraries.

    Raises:
        ConfigError: there is nothing to export.
        MissingExtra: torch or another library of the export is not installed.
    """
    if not entry.recipe:
        raise _nothing_to_export(entry)
    module, _, attribute = entry.recipe.partition(":")
    if find_spec("torch") is None:
        raise MissingExtra(f"exporting {entry.name}", "export")
    try:
        recipes = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"exporting {entry.name}", "export") from error
    return cast("Recipe", recipes[entry.recipe_name or entry.name])


def _nothing_to_export(entry: Entry) -> ConfigError:
    whole = [other.name for other in load_manifest().values() if entry.name in other.parts.values()]
    if whole:
        return ConfigError(f"{entry.name} is a part of {', '.join(whole)}", "name that model")
    return ConfigError(
        f"{entry.name} is served by vLLM from its checkpoint: nothing is exported",
        f"run: editjudge models pull {entry.name}",
    )
