"""The header of a run: its benchmark, data, outputs, dimensions, judges and settings."""

from datetime import UTC, datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ..base.errors import ConfigError
from ..base.identity import ModelIdentity, ServiceName
from ..base.signature import package_version
from ..prompts.rubrics import FOLDER as RUBRICS


class RunHeader(BaseModel):
    """The header of a run, as it is stored in the run's file.

    Attributes:
        benchmark: The name of the benchmark.
        protocol: The full name of the protocol, for example `kris.paper.1`.
        roots: Folders of the files that the data names by their official paths, by that path.
        judges: Names of the judges that judge.
        rounds: How many rounds each of them judges.
        data: The path of the benchmark's data.
        data_digest: Digest of the data as the last session read it.
        outputs: The folder of outputs by model under test; `ours@2` holds further outputs of `ours`
            for the same items, say of another seed.
        dimensions: Ids of the dimensions.
        single_image: Models under test that take one image only.
        created: When the run began, ISO 8601 in UTC; for people, nothing is ordered by it.
        editjudge: The version of editjudge that wrote the header last.
        settings: The settings that decide which judges answer and how, without secrets.
        identities: Identities of the services by role, as the last session found them.
        not_served: By role, why no session had this service.
        prompts: The user's own prompt templates, text by file name, so that the run can be
            resumed without their folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    benchmark: str
    protocol: str
    data: str
    data_digest: str
    outputs: dict[str, str]
    dimensions: tuple[str, ...]
    created: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    roots: dict[str, str] = {}
    single_image: tuple[str, ...] = ()
    judges: tuple[str, ...] = ("judge",)
    rounds: int = 1
    editjudge: str = Field(default_factory=lambda: package_version("editjudge"))
    settings: dict[str, JsonValue] = {}
    identities: dict[ServiceName, ModelIdentity] = {}
    not_served: dict[ServiceName, str] = {}
    prompts: dict[str, str] = {}

    @property
    def models(self) -> dict[str, tuple[str, ...]]:
        """The models under test, each with the names of its outputs: `ours`, `ours@2`, `ours@3`."""
        models: dict[str, tuple[str, ...]] = {}
        for name in self.outputs:
            model, at, number = name.rpartition("@")
            model = model if at and number.isdecimal() and model in self.outputs else name
            models[model] = (*models.get(model, ()), name)
        return models

    @property
    def model_of(self) -> dict[str, str]:
        """The model of each entry of `outputs`."""
        return {name: model for model, names in self.models.items() for name in names}

    def find_outputs(self, model: str) -> tuple[str, ...]:
        """Find the names of the outputs of a model; `ours@1` and `ours@2` stand for one alone.

        Returns:
            Nothing where the run has no such model.
        """
        name = model if model in self.outputs else model.removesuffix("@1")
        return self.models.get(model) or (name,) * (name in self.outputs)

    def join(self, later: Self, where: str, fix: str = "") -> Self:
        """Make the header of this run extended by the outputs and dimensions of a later header.

        `data_digest` and the folders of present outputs stay as they are: they change only once the
        items and outputs were compared, in the transaction that stores the comparison.

        Args:
            later: The header of the session that resumes the run, or of another run to add.
            where: The run's folder, for messages.
            fix: The fix that errors name; by default to give another folder.

        Raises:
            ConfigError: the benchmark, protocol, judges, rounds or prompts differ.
        """
        for name in ("benchmark", "protocol", "judges", "rounds"):
            mine, other = getattr(self, name), getattr(later, name)
            if isinstance(mine, tuple):
                mine, other = ", ".join(mine), ", ".join(other)
            if mine != other:
                raise ConfigError(f"{where} has {name} {mine}, not {other}", fix or "give another folder for this run")
        if differ := self._find_changed_prompts(later):
            raise ConfigError(
                f"{where} was judged with other prompts: {', '.join(differ)}",
                fix or "leave --prompts and --rubric out to use its prompts, or give another folder",
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

    def _find_changed_prompts(self, later: Self) -> list[str]:
        """Find the prompt files that differ; a rubric in one header only does not differ."""
        mine, others = self.prompts, later.prompts
        one_sided = {name for name in mine.keys() ^ others.keys() if name.startswith(f"{RUBRICS}/")}
        files = sorted({**mine, **others}.keys() - one_sided)
        return [name for name in files if mine.get(name) != others.get(name)]
