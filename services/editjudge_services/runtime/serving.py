"""How a model is served: by how many instances, in which precision, on which device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, cast, get_args

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from editjudge.base.errors import ConfigError
from editjudge.base.parse import first_problem
from editjudge.base.strict import Strict

from ..zoo.artefact import Artefact, Precision, load_artefact


class Serving(Strict):
    """How one model is served.

    Attributes:
        instances: Copies of it, on each GPU where it runs on GPUs.
        precision: Which export is loaded.
        device: `auto` takes every GPU that Triton sees, where the model can run on one.
    """

    instances: Annotated[int, Field(ge=1, le=64)] = 1
    precision: Precision = "fp32"
    device: Literal["auto", "cpu", "gpu"] = "auto"


_Table = TypeAdapter(dict[str, Serving])


def read_table(file: Path) -> dict[str, Serving]:
    """What a server is to serve: a JSON object from model to `Serving`.

    Raises:
        ConfigError: it cannot be read, has no model, or a value that cannot be used.
    """
    try:
        table = _Table.validate_json(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}", "give another file") from error
    except ValidationError as error:
        where, message = first_problem(error)
        mend = 'write {"MODEL": {"instances": 1, "precision": "fp32", "device": "auto"}}'
        raise ConfigError(f"{file}: {where or 'the table'}: {message}", mend) from error
    if not table:
        raise ConfigError(f"{file}: there is no model in it", "name one at least")
    return table


DEVICE = "device"
"""The parameter of a `config.pbtxt` that says `gpu` where a model must not run elsewhere: Triton's
own kind of an instance is the same for `auto`. No identity holds it."""


def is_for_gpu(parameters: Mapping[str, str]) -> bool:
    """Whether a model is to run on a GPU, and nowhere else.

    Args:
        parameters: The parameters of its `config.pbtxt`.
    """
    return parameters.get(DEVICE) == "gpu"


def stay_on_device(instance: Mapping[str, str], parameters: Mapping[str, str]) -> None:
    """Keep this process to the device that Triton gave to its instance.

    To be called before anything uses CUDA. An instance on a CPU sees no GPU.

    Args:
        placed: What Triton hands over at the start of an instance.
        parameters: The parameters of its `config.pbtxt`.
    """
    if is_for_gpu(parameters):
        os.environ["EDITJUDGE_ONNX_DEVICE"] = "cuda"
    if instance.get("model_instance_kind") == "GPU":
        device = int(instance["model_instance_device_id"])
        visible_gpus = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
        os.environ["CUDA_VISIBLE_DEVICES"] = visible_gpus[device] if visible_gpus else str(device)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ.setdefault("EDITJUDGE_ONNX_DEVICE", "cpu")


class Variables(BaseSettings):
    """Settings of a service in variables of one prefix."""

    model_config = SettingsConfigDict(extra="ignore")

    @classmethod
    def read(cls, prefix: str) -> Self:
        """Read them.

        Raises:
            ConfigError: a variable has a value that cannot be used.
        """
        try:
            return cls(_env_prefix=prefix)  # type: ignore[call-arg]
        except ValidationError as error:
            name, message = first_problem(error)
            raise ConfigError(f"{prefix}{name.upper()}: {message}") from error


def load_declared_artefact(entry: str, parameters: Mapping[str, str]) -> Artefact:
    """The exported model that a `config.pbtxt` declares.

    Args:
        entry: Name in the manifest.
        parameters: The parameters of the configuration: `precision` (fp32 where absent) and
            `weights`, the digest.

    Raises:
        RuntimeError: it is not installed, or its files are not the declared ones.
    """
    precision = parameters.get("precision", "fp32")
    if precision not in get_args(Precision):
        raise RuntimeError(f"{entry}: no such precision as {precision!r}")
    try:
        artefact = load_artefact(entry, cast("Precision", precision))
        if artefact is None:
            raise RuntimeError(
                f"{entry} in {precision} is not installed; run: editjudge models export {entry}"
            )
        artefact.verify()
    except ConfigError as error:
        raise RuntimeError(str(error)) from error
    declared_weights, actual = (
        parameters.get("weights", "none declared"),
        artefact.identity["weights"],
    )
    if actual != declared_weights:
        raise RuntimeError(
            f"{entry} in {precision} has weights {actual}, but its configuration declares"
            f" {declared_weights}; stop the stack and start it again to serve what is installed"
        )
    return artefact
