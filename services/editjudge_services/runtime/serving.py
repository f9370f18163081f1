"""How a model is served: its number of instances, precision, device and variables."""

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
        instances: The number of copies; on GPUs, of each GPU.
        precision: The precision whose export is loaded.
        device: `auto` uses every GPU that Triton sees, where the model can run on one; `tensorrt`
            is a GPU with TensorRT's engines.
    """

    instances: Annotated[int, Field(ge=1, le=64)] = 1
    precision: Precision = "fp32"
    device: Literal["auto", "cpu", "gpu", "tensorrt"] = "auto"


_Table = TypeAdapter(dict[str, Serving])


def read_table(file: Path) -> dict[str, Serving]:
    """Read a table of models: a JSON object from a model's name to a `Serving`.

    Raises:
        ConfigError: the file cannot be read, has no model, or has a value that cannot be used.
    """
    try:
        table = _Table.validate_json(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}", "give another file") from error
    except ValidationError as error:
        where, message = first_problem(error)
        fix = 'write {"MODEL": {"instances": 1, "precision": "fp32", "device": "auto"}}'
        raise ConfigError(f"{file}: {where or 'the table'}: {message}", fix) from error
    if not table:
        raise ConfigError(f"{file}: the table has no model", "name at least one")
    return table


DEVICE = "device"
"""The parameter of a `config.pbtxt` that says `gpu` or `tensorrt` where a model must not run
elsewhere: Triton's own kind of an instance is the same for `auto`. No identity holds it."""


def is_for_gpu(parameters: Mapping[str, str]) -> bool:
    """Whether a model must run on a GPU.

    Args:
        parameters: The parameters of its `config.pbtxt`.
    """
    return parameters.get(DEVICE) in {"gpu", "tensorrt"}


def stay_on_device(instance: Mapping[str, str], parameters: Mapping[str, str]) -> None:
    """Restrict this process to the device that Triton assigned to its instance.

    Call it before anything uses CUDA. It sets environment variables; an instance on the CPU gets
    no GPU at all.

    Args:
        instance: The arguments that Triton passes to `initialize`.
        parameters: The parameters of the model's `config.pbtxt`.
    """
    if is_for_gpu(parameters):
        os.environ["EDITJUDGE_ONNX_DEVICE"] = "cuda" if parameters[DEVICE] == "gpu" else "tensorrt"
    if instance.get("model_instance_kind") == "GPU":
        device = int(instance["model_instance_device_id"])
        visible_gpus = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
        os.environ["CUDA_VISIBLE_DEVICES"] = visible_gpus[device] if visible_gpus else str(device)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ.setdefault("EDITJUDGE_ONNX_DEVICE", "cpu")


class Variables(BaseSettings):
    """Settings of a service, read from environment variables with a common prefix."""

    model_config = SettingsConfigDict(extra="ignore")

    @classmethod
    def read(cls, prefix: str) -> Self:
        """Read the variables that begin with a prefix.

        Raises:
            ConfigError: a variable has a value that cannot be used.
        """
        try:
            return cls(_env_prefix=prefix)  # type: ignore[call-arg]
        except ValidationError as error:
            name, message = first_problem(error)
            raise ConfigError(f"{prefix}{name.upper()}: {message}") from error


def load_declared_artefact(entry: str, parameters: Mapping[str, str]) -> Artefact:
    """Find the exported model that a `config.pbtxt` declares, and verify its files.

    Raises:
        ConfigError: the export is not installed, or its files are not the declared ones.
    """
    artefact = find_declared_artefact(entry, parameters)
    artefact.verify()
    return artefact


def find_declared_artefact(entry: str, parameters: Mapping[str, str]) -> Artefact:
    """Find the record of the exported model that a `config.pbtxt` declares.

    Args:
        entry: Name in the manifest.
        parameters: The parameters of the configuration: `precision` (fp32 where absent) and
            `weights`, the digest.

    Raises:
        ConfigError: the export is not installed, or is another one.
    """
    precision = parameters.get("precision", "fp32")
    if precision not in get_args(Precision):
        raise ConfigError(f"{entry}: no such precision as {precision!r}")
    artefact = load_artefact(entry, cast("Precision", precision))
    if artefact is None:
        raise ConfigError(f"{entry} in {precision} is not installed", f"run: editjudge models export {entry}")
    declaration = parameters.get("weights", "none declared")
    if (actual := artefact.identity["weights"]) != declaration:
        raise ConfigError(
            f"{entry} in {precision} has weights {actual}, but its configuration declares {declaration}",
            "stop the stack and start it again to serve what is installed",
        )
    return artefact
