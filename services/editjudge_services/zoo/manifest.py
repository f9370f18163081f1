"""The manifest: every model there is, where its weights come from, and under which licence.

`manifest.toml` beside this file is the data; here is what it must look like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from editjudge.base.contracts import CONTRACTS
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.parse import parse_toml

from .artefact import Precision
from .recipe import Recipe

Profile: TypeAlias = Literal["lite", "paper"]
Paper: TypeAlias = Literal["i2i", "omni_iie", "co_edit", "gie", "kris"]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Line: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"^\S[^\n]*$")]
PROFILES: tuple[Profile, ...] = ("lite", "paper")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BYTES: Mapping[Precision, int] = {"fp32": 4, "fp16": 2, "bf16": 2}


class Entry(BaseModel):
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
        prompts: sha256 of the official prompts by file name; the user supplies the files.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    service: Annotated[str, Field(pattern=r"^[a-z]+\.[a-z0-9_]+$")]
    supply: Literal["hub", "file", "parts"]
    hub: Annotated[str, Field(pattern=r"^$|^[\w.-]+/[\w.-]+$")] = ""
    revision: str = ""
    revision_pinned: bool = False
    files: list[Line] = []
    parts: dict[str, str] = {}
    subfolder: str = ""
    instructions: str = ""
    sha256: dict[str, Sha256] = {}
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
    prompts: dict[str, Sha256] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for wrong, why in self._contradictions():
            if wrong:
                raise ValueError(why)
        return self

    def _contradictions(self) -> tuple[tuple[bool, str], ...]:
        role = self.service.partition(".")[0]
        paths = (*self.files, *self.sha256, *self.parts, *self.prompts, self.subfolder)
        named = all(any(fnmatchcase(n, p) for p in self.files) for n in self.sha256)
        by_supply = {
            "hub": self._hub_contradictions,
            "file": self._file_contradictions,
            "parts": self._parts_contradictions,
        }
        return (
            (role not in CONTRACTS, f"service: there is no role {role!r}"),
            (any(map(_escapes, paths)), "files: a path leaves the checkpoint's folder"),
            (self.restricted != bool(self.restricted_why), "restricted: needs a reason"),
            (bool(self.recipe) and self.served_by == "vllm", "recipe: vLLM needs none"),
            (bool(self.recipe_name) and not self.recipe, "recipe_name: needs a recipe"),
            (bool(self.prompts) and self.served_by != "vllm", "prompts: only with vLLM"),
            (not named, "sha256: names a file that is not among `files`"),
            *by_supply[self.supply](),
        )

    def _hub_contradictions(self) -> tuple[tuple[bool, str], ...]:
        pinned = _COMMIT.fullmatch(self.revision) is not None
        return (
            (not self.hub or not self.revision, "supply: `hub` needs hub and revision"),
            (not self.files, "supply: `hub` needs files"),
            (self.revision_pinned != pinned, "revision_pinned: must say if revision is a commit"),
            (bool(self.instructions or self.parts), "supply: `hub` has no instructions or parts"),
        )

    def _file_contradictions(self) -> tuple[tuple[bool, str], ...]:
        return (
            (bool(self.hub or self.revision or self.gated), "supply: `file` has no hub"),
            (not self.instructions, "supply: `file` needs instructions"),
            (len(self.files) != 1, "supply: `file` means one file"),
            (list(self.sha256) != self.files, "supply: `file` needs the file's digest"),
        )

    def _parts_contradictions(self) -> tuple[tuple[bool, str], ...]:
        other = self.hub or self.revision or self.gated or self.files or self.instructions
        return (
            (not self.parts, "supply: `parts` needs parts"),
            (bool(other), "supply: `parts` has nothing of its own"),
        )

    def gib(self, precision: Precision) -> float:
        """What the weights take in memory, GiB; activations and caches come on top."""
        return self.parameters * _BYTES[precision] / 2**30


def parse(text: str) -> dict[str, Entry]:
    """The entries of a manifest, by name.

    Raises:
        ConfigError: it is no TOML, or an entry is not as `Entry` describes it.
    """
    try:
        tables = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"manifest.toml: {error}") from error
    entries = {name: _entry(name, table) for name, table in tables.items()}
    parts = {part for entry in entries.values() for part in entry.parts.values()}
    for name in parts:
        if name not in entries or entries[name].supply != "hub":
            raise ConfigError(f"manifest.toml: {name} is a part, and no entry from the hub")
    for name, entry in entries.items():
        if not entry.recipe and entry.served_by != "vllm" and name not in parts:
            raise ConfigError(f"manifest.toml: {name}: recipe: there is none")
    return entries


@cache
def manifest() -> Mapping[str, Entry]:
    """Every model there is, by name, in the order of the file."""
    return parse((Path(__file__).parent / "manifest.toml").read_text(encoding="utf-8"))


def find(name: str) -> Entry:
    """One model.

    Raises:
        ConfigError: there is none of that name.
    """
    if name in manifest():
        return manifest()[name]
    near = get_close_matches(name, manifest(), n=3, cutoff=0.4)
    mend = f"did you mean {', '.join(near)}?" if near else "see: editjudge models list"
    raise ConfigError(f"there is no model {name!r}", mend)


def members(profile: Profile) -> list[Entry]:
    """The models of a profile."""
    return [entry for entry in manifest().values() if profile in entry.profiles]


def recipe_of(entry: Entry) -> Recipe:
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
        recipes = getattr(import_module(module), attribute, {})
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise MissingExtra(f"exporting {entry.name}", "export") from error
        recipes = {}
    name = entry.recipe_name or entry.name
    if name not in recipes:
        raise ConfigError(f"this version of editjudge has no recipe for {entry.name}")
    return cast("Recipe", recipes[name])


def _nothing_to_export(entry: Entry) -> ConfigError:
    whole = [other.name for other in manifest().values() if entry.name in other.parts.values()]
    if whole:
        return ConfigError(f"{entry.name} is a part of {', '.join(whole)}", "name that instead")
    return ConfigError(
        f"{entry.name} is served by vLLM from its checkpoint: nothing is exported",
        f"run: editjudge models pull {entry.name}",
    )


def _entry(name: str, table: object) -> Entry:
    if not isinstance(table, dict):
        raise ConfigError(f"manifest.toml: {name} is not a table")
    try:
        return Entry.model_validate({**table, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"manifest.toml: {name}: {where or 'entry'}: {first['msg']}") from error


def _escapes(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.is_absolute() or ".." in parts.parts
