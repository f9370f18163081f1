"""Everything editjudge raises.

::

    EditjudgeError                 one line for people: what is wrong, and the fix
    ├── InputError                 something the caller gave (exit 2)
    │   ├── ImageError             a file, bytes or array that is not one still picture
    │   │   └── UnreadError        a file that could not be read just now
    │   └── TextError              an instruction or target text
    ├── ConfigError                editjudge.toml, EDITJUDGE_* or a flag (exit 2)
    ├── MissingExtra               an optional dependency is not installed (exit 2)
    ├── StackError                 the local stack does not start, or runs already (exit 1)
    ├── StoreError                 a run's file is damaged, or its disk is full (exit 1)
    └── ServiceError               a judge service did not answer as its contract says
        ├── Unreachable            the connection was lost                   retry can help
        │   └── NoConnection       there was none: nothing was asked         retry can help
        ├── Overload               the server has no room now                retry can help
        │   └── RateLimit          the caller's limit is reached             retry can help
        ├── DeadlineExceeded         no answer in time
        ├── OutOfTime              no answer while anybody waited for it
        ├── Rejection              the server rejects this very input
        │   └── FieldRefused       it does not take a field of the request
        ├── NoModel                the endpoint has no such model
        ├── NoAccess               the key or token is missing, wrong or without rights
        ├── WrongModel             another model answered than the one asked for
        ├── LogprobsUnavailable    the server reports no probabilities
        ├── CostLimit              the next call would pass the run's `max_cost`
        └── BadReply               the reply breaks the role's contract

A `ServiceError` never becomes a number: scorers let it pass, and it is stored as
`Failure`. `Abstention` is no error: a service's typed "there is no value for this input".
"""

import json
from collections.abc import Mapping
from importlib.metadata import distribution
from typing import Any, ClassVar, Self
from urllib.parse import unquote, urlsplit


class EditjudgeError(Exception):
    """Base of all errors.

    Attributes:
        message: What is wrong, naming the input or service.
        fix: What to do about it; empty when the message says it.
        exit_code: What the command line exits with.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickles by default would call the class with the message alone, which most do not take.
        return _unpickle, (type(self), self.args), vars(self)


def _unpickle(kind: type[EditjudgeError], args: tuple[Any, ...]) -> EditjudgeError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class InputError(EditjudgeError):
    """Something the caller gave cannot be judged.

    Attributes:
        name: The input as the caller named it (a path, `--instruction`, …).
        reason: What is wrong with it.
    """

    exit_code = 2

    def __init__(self, name: str, reason: str, fix: str = "") -> None:
        super().__init__(f"{name}: {reason}", fix)
        self.name = name
        self.reason = reason


class ImageError(InputError):
    """Not one still picture within the limits of `editjudge.base.images`."""


class UnreadError(ImageError):
    """A file that cannot be read at the moment, so its content is not known."""


class TextError(InputError):
    """An instruction or target text that no judge could read as meant."""


class ConfigError(EditjudgeError):
    """A setting that is missing, malformed or contradicts another."""

    exit_code = 2


class MissingExtra(EditjudgeError):
    """A feature whose optional dependencies are not installed."""

    exit_code = 2

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs packages that are not installed", f"run: {_install_command(extra)}")
        self.extra = extra


def _install_command(extra: str) -> str:
    """The command that adds an extra to this copy, from where it came: index, checkout or file."""
    origin = json.loads(distribution("editjudge").read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    if not url:
        return f'pip install "editjudge[{extra}]"'
    if origin.get("dir_info", {}).get("editable"):
        return f'pip install -e "{unquote(urlsplit(url).path)}[{extra}]"'
    prefix = f"{vcs['vcs']}+" if (vcs := origin.get("vcs_info")) else ""
    return f'pip install "editjudge[{extra}] @ {prefix}{url}"'


class StackError(EditjudgeError):
    """The local stack could not be started or stopped."""


class StoreError(EditjudgeError):
    """A ledger or run cannot be read or written any more: disk full, file damaged."""


class ServiceError(EditjudgeError):
    """A judge service did not answer as its contract says.

    Attributes:
        service: The role and variant that was asked, for example `ocr.ppocr`.
        endpoint: Where it was asked, for example `grpc://127.0.0.1:8001`.
        model: The name of the model there.
        attempts: How often it was asked before giving up.
        retry_after: Seconds that the server asks to wait; None where it does not say.
        since: When the first attempt failed, by the event loop's clock; None until it gave up.
        retryable: Whether asking again later can help.
    """

    retryable: ClassVar[bool] = False

    def __init__(
        self,
        detail: str,
        *,
        service: str,
        endpoint: str = "",
        model: str = "",
        attempts: int = 1,
        retry_after: float | None = None,
    ) -> None:
        self.detail = detail
        self.service = service
        self.endpoint = endpoint
        self.model = model
        self.attempts = attempts
        self.retry_after = retry_after
        self.since: float | None = None
        super().__init__(self._format_message())

    def gave_up(self, attempts: int, since: float) -> None:
        """Note how many attempts were made, and when the first one failed."""
        if attempts > 1:
            self.attempts = attempts
        self.since = since
        self.message = self._format_message()
        self.args = (self.message,)

    def _format_message(self) -> str:
        where = f" at {self.endpoint}" if self.endpoint else ""
        tries = f" after {self.attempts} attempts" if self.attempts > 1 else ""
        return f"{self.service}{where}: {self.detail}{tries}"


class Unreachable(ServiceError):
    """No connection, or the connection was lost before the reply."""

    retryable = True


class NoConnection(Unreachable):
    """No connection could be made, so no call was sent."""


class Overload(ServiceError):
    """The server rejected the call because it has no room for it now."""

    retryable = True


class RateLimit(Overload):
    """The caller has reached a limit of calls or tokens; it lasts longer than a lack of room."""


class DeadlineExceeded(ServiceError):
    """No reply within the deadline, retries included."""


class OutOfTime(ServiceError):
    """No reply for as long as the caller waits: the server had less time than is usual."""

    @classmethod
    def of(cls, error: ServiceError) -> Self:
        """Make the error of an attempt that the caller's deadline cut."""
        return cls(
            "no answer within the caller's deadline",
            service=error.service,
            endpoint=error.endpoint,
            model=error.model,
            attempts=error.attempts,
        )


class Rejection(ServiceError):
    """The server rejects this very input; asking again cannot help."""


class FieldRefused(Rejection):
    """The server does not take a field of the request; another form may be accepted.

    Attributes:
        field: The setting that the field comes from; see `panel.transport.RequestForm`.
    """

    field: str = ""


class NoModel(ServiceError):
    """The endpoint does not serve the model."""


class NoAccess(ServiceError):
    """The key or token is missing, wrong or without rights."""


class WrongModel(ServiceError):
    """Another model answered than the one asked for: its scores are not the judge's."""


class ModelExchanged(WrongModel):
    """A server has got another model under the same name while it was asked."""

    retryable = True


class LogprobsUnavailable(ServiceError):
    """The server reports no token probabilities, so an answer can only be sampled."""


class CostLimit(ServiceError):
    """The next call would pass the run's `max_cost`."""


class BadReply(ServiceError):
    """The reply breaks the contract of the role (name, type, shape, range)."""


class Abstention(Exception):
    """A judge's answer that there is no value for this input.

    Attributes:
        kind: One of `editjudge.base.verdict.NoScoreKind`.
        reason: One line for people.
        evidence: What else there is to say, as JSON.
        calls: Keys of the calls that it rests on, in the order in which they were made.
    """

    def __init__(
        self, kind: str, reason: str, evidence: Mapping[str, object] | None = None, calls: tuple[str, ...] = ()
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.evidence = dict(evidence or {})
        self.calls = calls


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group that concurrent tasks raised."""
    first = group.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first
