"""How a judge has to be asked, found out by two short questions before any reply is stored.

Both are questions of common knowledge. What they show is part of the judge's identity, so it is
kept: a server that changes its habits later gives errors, and no numbers of another kind.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from ..base.config import JudgeEndpoint
from ..base.errors import Abstention, FieldRefused, Rejection
from .calls import Reply
from .choices import ChoiceDistribution, Method
from .context import CallContext
from .pool import EndpointPool
from .prompt import Prompt
from .replica import Replica
from .transport import MAX_TOKENS, RequestForm, Sampling, Transport
from .words import BEARINGS, PROBE


def make_request(
    settings: JudgeEndpoint, form: RequestForm, schema: Mapping[str, Any] | None, *, repeat: int, limit: int
) -> dict[str, Any]:
    """The form of a call that is answered in words: its schema and how the reply is sampled.

    Args:
        settings: The settings of the judge.
        form: What its servers take.
        schema: What the reply has to follow.
        repeat: Index among calls that are otherwise equal; each has a seed of its own.
        limit: Limit of the reply's tokens.
    """
    effective = form.apply(settings)
    sampling = {
        "temperature": None if isinstance(effective.temperature, str) else effective.temperature,
        "top_p": 1.0,
        "max_tokens": limit,
        "seed": None if effective.seed is None else effective.seed + repeat,
    }
    return {"schema": None if "schema" in form.left_out else schema, "sampling": sampling}


async def complete(transport: Transport, prompt: Prompt, request: Mapping[str, Any], context: CallContext) -> Reply:
    """Make a call of the form that `make_request` makes."""
    return await transport.complete(prompt, Sampling(**request["sampling"], schema=request["schema"]), context)


async def probe_logprobs(
    pool: EndpointPool[Transport], context: CallContext, check_model: Callable[[str], None]
) -> Method:
    """Find out how the servers report the probabilities of choices.

    Raises:
        LogprobsUnavailable: they report none.
        ServiceError: see `editjudge.base.errors`.
    """
    try:
        reply = await pool.run(lambda server: server.choose(PROBE, ("Yes", "No"), context), terms=context.terms)
    except Abstention:
        return "top_logprobs"
    context.require_budget().count_calls(reply.usage)
    if reply.abstains:
        return "top_logprobs"  # it lists tokens, but none of them begins an answer
    check_model(reply.model)
    return ChoiceDistribution(**reply.content).method


def takes_all(servers: Iterable[Replica[Transport]]) -> bool:
    """Whether servers take every field of a request, so that a rejection is not about the form."""
    return all(server.target.takes_all for server in servers)


async def probe_form(
    pool: EndpointPool[Transport], settings: JudgeEndpoint, context: CallContext, check_model: Callable[[str], None]
) -> tuple[Method, RequestForm]:
    """Find out whether the servers hold replies to choices, and what of a request they take.

    They are asked for a choice that answers nothing: only a server that holds replies to choices
    gives it. What they refuse of the request is left out, until there is a reply.

    Raises:
        ServiceError: see `editjudge.base.errors`.
    """
    form = RequestForm()
    while True:
        limit = settings.max_tokens or MAX_TOKENS
        request = make_request(settings, form, BEARINGS.schema, repeat=0, limit=limit)
        ask = partial(complete, prompt=PROBE, request=request, context=context)
        try:
            reply = await pool.run(ask, terms=context.terms)
        except FieldRefused as error:
            form = form.without(error.field)
        except Rejection:
            # It may be about the schema, in words that nobody has listed.
            if takes_all(pool.replicas) or request["schema"] is None:
                return "sampled", form
            form = form.without("schema")
        except Abstention:
            return "sampled", form
        else:
            context.require_budget().count_calls(reply.usage)
            if reply.abstains:
                return "sampled", form
            check_model(reply.model)
            text = reply.content["text"].strip()
            is_bound = request["schema"] is not None and text in BEARINGS.options
            return "bound" if is_bound else "sampled", form
