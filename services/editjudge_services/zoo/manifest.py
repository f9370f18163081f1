"""The manifest: every model there is, where its weights come from, and under which licence.

`manifest.toml` beside this file is the data; here is what it must look like.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import ConfigDict, Field

from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.strict import Strict

from .artefact import Precision
from .recipe import Recipe

Profile: TypeAlias = Literal["lite", "paper"]
Paper: TypeAlias = Literal["i2i", "omni_iie", "co_edit", "gie", "kris"]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Line: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"^\S[^\n]*$")]
_BYTES: Mapping[Precision, int] = {"fp32": 4, "bf16": 2}


class Entry(Strict):
    """One model.

    Attributes:
        name: What the command line calls it.
        service: The service it belongs to, `role.variant`.
        supply: `hub` where it can be pulled; `file` where the user brings the file; `parts`
            where it is put together from other entries.
        hub: Repository on the hub.
        revision: Commit there; a branch where `revision_pinned` is false.
        files: Patterns of the files to pull, or the name of the file to bring.
        parts: Entries by the folder that they become, for `supply = "parts"`.
        subfolder: The folder inside the checkpoint that vLLM is pointed at.
        instructions: Where to get the file, for `supply = "file"`.
        sha256: Digests of files, where known.
        licence: SPDX expression or name.
        restricted: The licence must be accepted before a pull; `restricted_why` says why.
        gated: The hub gives it only to accounts that accepted its terms there.
        parameters: How many the served network has.
        preprocessing: What happens to an image first.
        served_by: What runs it.
        used_by: Benchmarks that use it.
        profiles: Sets that it belongs to: `lite` runs on a CPU, `paper` is what papers use.
        recipe: `module:object`, a mapping from entry to `Recipe`; "" where vLLM serves the
            checkpoint as it is, and for parts of other entries.
        recipe_name: Its name in that mapping, where it is another.
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
    preprocessing: Line
    served_by: Literal["onnx", "transformers", "vllm"]
    used_by: list[Paper]
    profiles: list[Profile]
    recipe: Annotated[str, Field(pattern=r"^$|^[a-z_][\w.]*:[A-Z_]+$")] = ""
    recipe_name: str = ""

    def gib(self, precision: Precision) -> float:
        """What the weights take in memory, GiB; activations and caches come on top."""
        return self.parameters * _BYTES[precision] / 2**30


@cache
def load_manifest() -> Mapping[str, Entry]:
    """Every model there is, by name, in the order of the file."""
    tables = tomllib.loads((Path(__file__).parent / "manifest.toml").read_text(encoding="utf-8"))
    return {name: Entry(name=name, **table) for name, table in tables.items()}


def find_entry(name: str) -> Entry:
    """One model.

    Raises:
        ConfigError: there is none of that name.
    """
    if name in load_manifest():
        return load_manifest()[name]
    near = get_close_matches(name, load_manifest(), n=3, cutoff=0.4)
    mend = f"did you mean {', '.join(near)}?" if near else "see: editjudge models list"
    raise ConfigError(f"there is no model {name!r}", mend)


def profile_entries(profile: Profile) -> list[Entry]:
    """The models of a profile."""
    return [entry for entry in load_manifest().values() if profile in entry.profiles]


def load_recipe(entry: Entry) -> Recipe:
    """What makes and exports a model; its libraries load here.

    Raises:
        ConfigError: there is nothing to export, or no recipe for it yet.
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
        return ConfigError(f"{entry.name} is a part of {', '.join(whole)}", "name that instead")
    return ConfigError(
        f"{entry.name} is served by vLLM from its checkpoint: nothing is exported",
        f"run: editjudge models pull {entry.name}",
    )
