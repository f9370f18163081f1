"""How a judge is asked for a choice in words, and what such choices mean for the numbers."""

from typing import TypeVar

from ..answers.contract import OutputContract
from ..answers.reply import Unparsable
from ..answers.texts import Option
from ..base.digest import content_digest
from ..base.identity import BINDING, ModelIdentity
from .prompt import Prompt, Text

T = TypeVar("T")
PROBE = Prompt("", (Text("Is ice frozen water? Answer with one word, Yes or No."),))
BEARINGS = Option(("north", "south"))
"""Choices that answer the probe only where the server holds replies to them."""
FIRMER = (
    "\nYour previous reply was none of the choices. Answer with exactly one of the following lines,"
    " in the words of that line. Give no reason, and write nothing else:\n"
)
"""What stands before the choices when they are asked for once more."""


def digest_form() -> str:
    """8 hex digits of the firmer form, for signatures: which words ask decides what is read."""
    return content_digest(FIRMER.encode()).removeprefix("sha256:")[:8]


def read_reply(contract: OutputContract[T], reply: str, *, cut: bool, is_bound: bool) -> T:
    """What a contract reads in a reply.

    Args:
        reply: The text of the reply.
        cut: Whether it ended at the token limit.
        is_bound: Whether the server holds it to the choices of the contract.

    Raises:
        Unparsable: it cannot be read, or is not held to the choices.
    """
    value = contract.parse(reply, cut=cut)
    if is_bound and value != reply.strip():
        raise Unparsable("the server no longer restricts replies to the choices")
    return value


def ask_again(prompt: Prompt, contract: OutputContract[object], problem: Exception) -> Prompt:
    """The prompt that asks once more for a reply that could not be read.

    Choices are asked for in a firmer form, which quotes nothing of the reply. Other contracts say
    what was wrong.

    Args:
        problem: Why the reply could not be read.
    """
    if isinstance(contract, Option):
        return prompt.followed_by(Text(FIRMER), Text("\n".join(contract.options), is_data=True))
    return prompt.followed_by(
        Text(
            "\nYour previous reply could not be read. Reply again, and only in the"
            f" form asked for. What was wrong with it: {problem}"
        )
    )


def describe_sampling(identity: ModelIdentity) -> str:
    """What a judge without token probabilities means for the numbers, in one line; else empty.

    Args:
        identity: The identity of the judge, with how it answers choices.
    """
    if identity.facts.get("choices") != "sampled":
        return ""
    count = int(identity.facts.get("repeats", "1"))
    if count == 1:
        words, more = "one sampled word", "; to average several, set a temperature and `samples`"
    else:
        words, more = f"the mean of {count} sampled words", ""
    if BINDING in identity.facts:
        more += "; the server restricts replies to the choices, so the judge cannot decline"
    return (
        f"no token probabilities: a score of choices is {words} (0, .25, .5, .75 or 1 for five levels);"
        f" do not compare it with judges that report probabilities{more}"
    )
