"""The identity of a judge: the facts on which its replies depend."""

import json
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from ..answers.texts import Option
from ..base.config import JudgeEndpoint
from ..base.identity import BINDING, ModelIdentity
from .choices import IN_WORDS
from .transport import JudgeModel, RequestForm, format_limit

_DATE = re.compile(r"[-@](\d{4}-\d\d-\d\d|\d{8}|\d{4})")
NO_SCHEMA = "none"
"""The fact `schema` of a judge whose server refuses schemas, so that no reply is held to one."""


def make_model_identity(model: JudgeModel) -> ModelIdentity:
    """The identity of a model at a server, without how it is asked."""
    return _without_empty(model.name, _list_facts(model))


def make_judge_identity(
    model: JudgeModel, settings: JudgeEndpoint, form: RequestForm | None, facts: Mapping[str, str]
) -> ModelIdentity:
    """The identity of a judge.

    Args:
        model: The model that its servers have.
        settings: Its settings.
        form: What its servers take of a request; None while it is not known. The identity then
            lacks what depends on it.
        facts: How choices are scored (`choices`), the rule by which images are made smaller
            (`images`), and the dated name of the model (`snapshot`); empty where not known.
    """
    method = facts["choices"]
    effective = (form or RequestForm()).apply(settings)
    temperature = effective.temperature
    facts = {
        **_list_facts(model),
        **facts,
        "transport": urlsplit(effective.url).scheme.removesuffix("s"),
        "choices": "sampled" if method == "bound" else method,
        BINDING: "choices" if method == "bound" else "",
        # Sampled choices are replies in words. How they are read and asked for again is signed by
        # the scorers that ask for choices (`words`, `again`): nothing else depends on it.
        "reads": f"{Option.name}.{Option.parser}" if method in IN_WORDS else "",
        "max_tokens": format_limit(effective.max_tokens),
        "extra": json.dumps(effective.extra, sort_keys=True) if effective.extra else "",
        "image_detail": effective.image_detail or "",
        "repeats": str(effective.samples),
        "untrained": "yes" if "untrained" in model.name else "",
    }
    if form is not None:
        facts["temperature"] = temperature if isinstance(temperature, str) else f"{temperature:g}"
        facts["seed"] = str(effective.seed)
        facts["schema"] = NO_SCHEMA if "schema" in form.left_out else ""
    return _without_empty(model.name, facts)


def find_snapshot(name: str, reply_name: str) -> str:
    """The name in a reply, if it is the one that was asked for with a date; else empty."""
    is_dated = reply_name.startswith(name) and _DATE.fullmatch(reply_name.removeprefix(name))
    return reply_name if is_dated else ""


def describe_call_identity(identity: ModelIdentity) -> str:
    """The part of a judge's identity on which a single reply depends; calls are stored under it.

    It leaves out how choices are scored, which is found out by a call, how a sampled reply is
    parsed, and how many replies are averaged, since each of them is a call of its own.
    """
    return str(identity.without("choices", BINDING, "reads", "repeats"))


def _list_facts(model: JudgeModel) -> dict[str, str]:
    """The facts that identify a model; its folder on the server is not among them."""
    portable = {name: fact for name, fact in model.facts.items() if not fact.startswith("/")}
    return portable | {"server": model.server}


def _without_empty(name: str, facts: dict[str, str]) -> ModelIdentity:
    return ModelIdentity(name, {key: fact for key, fact in facts.items() if fact})
