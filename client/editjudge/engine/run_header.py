"""What a run is about."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ..base.errors import ConfigError
from ..base.identity import ModelIdentity, ServiceName
from ..base.signature import package_version
from ..prompts.rubrics import FOLDER as RUBRICS


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class RunHeader(BaseModel):
    """What a run is about.

    Attributes:
        benchmark: Its name.
        protocol: In full, for example `kris.paper.1`.
        roots: Where files lie that the data names by their official paths.
        judges: Names of the judges that judge.
        rounds: In how many rounds each does.
        data: Where the benchmark's data lies.
        data_digest: Of what was read there, by the last session.
        outputs: Folder of outputs by model under test.
        dimensions: Ids.
        single_image: Models under test that take one image only.
        created: ISO 8601, UTC; for people, nothing is ordered by it.
        editjudge: Version that wrote it last.
        settings: Without secrets.
        identities: Of the services, by role; those of the last session.
        not_served: Why there was none, by role, for those that no session had.
        prompts: Templates of one's own, texts by file: with them a run goes on anywhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    benchmark: str
    protocol: str
    data: str
    data_digest: str
    outputs: dict[str, str]
    dimensions: tuple[str, ...]
    created: str = Field(default_factory=_now)
    roots: dict[str, str] = {}
    single_image: tuple[str, ...] = ()
    judges: tuple[str, ...] = ("judge",)
    rounds: int = 1
    editjudge: str = Field(default_factory=lambda: package_version("editjudge"))
    settings: dict[str, JsonValue] = {}
    identities: dict[ServiceName, ModelIdentity] = {}
    not_served: dict[ServiceName, str] = {}
    prompts: dict[str, str] = {}

    def join(self, later: RunHeader, where: str, mend: str = "") -> RunHeader:
        """The header of a run that goes on with another header's outputs and dimensions.

        What its items were, and where outputs lie, stays as it is until both were compared.

        Args:
            where: The run that this is the header of.
            mend: What to do where the other is about something else; by default another folder.

        Raises:
            ConfigError: the other is about something else; names what.
        """
        for name in ("benchmark", "protocol", "judges", "rounds"):
            mine, other = getattr(self, name), getattr(later, name)
            if isinstance(mine, tuple):
                mine, other = ", ".join(mine), ", ".join(other)
            if mine != other:
                raise ConfigError(
                    f"{where} has {name} {mine}, not {other}",
                    mend or "give another folder for this run",
                )
        if differ := self._asked_otherwise(later):
            raise ConfigError(
                f"{where} asks in other words than these: {', '.join(differ)}",
                mend
                or "leave --prompts and --rubric out to go on in its words, or give another folder",
            )
        identities = {**self.identities, **later.identities}
        absent = {**self.not_served, **later.not_served}
        return later.model_copy(
            update={
                "created": self.created,
                "data_digest": self.data_digest,
                "outputs": {**self.outputs, **later.outputs, **self.outputs},
                "single_image": tuple(dict.fromkeys((*self.single_image, *later.single_image))),
                "dimensions": tuple(dict.fromkeys((*self.dimensions, *later.dimensions))),
                "prompts": {**self.prompts, **later.prompts},
                "identities": identities,
                "not_served": {r: why for r, why in absent.items() if r not in identities},
            }
        )

    def _asked_otherwise(self, later: RunHeader) -> list[str]:
        """The files of prompts that differ; a rubric that only one has is a dimension more."""
        mine, others = self.prompts, later.prompts
        one_sided = {name for name in mine.keys() ^ others.keys() if name.startswith(f"{RUBRICS}/")}
        files = sorted({**mine, **others}.keys() - one_sided)
        return [name for name in files if mine.get(name) != others.get(name)]
