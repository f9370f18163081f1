"""A run in a folder, for tests."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from editjudge.base.file_states import FileState
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.base.verdict import Failure, NoScore, Score, Verdict
from editjudge.engine.content_keys import ItemContent, JudgedEdit
from editjudge.engine.run_header import RunHeader
from editjudge.panel.calls import Call, Reply, Usage
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.store import RunStore

HEADER = RunHeader(
    benchmark="core",
    protocol="core.1",
    data="/data/core",
    data_digest="sha256:1",
    outputs={"alpha": "/outputs/alpha"},
    dimensions=("core.a", "core.b"),
    settings={"concurrency": 32},
    identities={ServiceName("quality", "piqe"): ModelIdentity("quality_piqe/1")},
)
CONTENT = ItemContent(bytes(range(16)))
SIGNATURES = {"core.a": "dimension:core.a|v:1", "core.b": "dimension:core.b|v:1"}


def header(**changed: Any) -> RunHeader:
    """The header with other fields."""
    return HEADER.model_copy(update=changed)


def digest(text: str) -> str:
    """Of a text, as of an image."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def put(
    store: RunStore,
    item: str,
    verdicts: dict[str, Verdict],
    model: str = "alpha",
    signatures: dict[str, str] | None = None,
    output: str = "",
    content: ItemContent | None = None,
) -> int:
    """Keep an edit with its verdicts; its number."""
    seen = FileState(bytes(8), digest(output or model + item))
    edit = JudgedEdit(item, model, seen, None, content)
    store.save_edit_now(edit, verdicts, signatures or SIGNATURES)
    kept = store.edit(item, model)
    return kept.id if kept else 0


def make_run(folder: Path, **items: dict[str, Verdict]) -> Path:
    """A run with these verdicts of model alpha, closed."""
    with RunStore.open(folder, HEADER) as store:
        for item, verdicts in items.items():
            put(store, item, verdicts)
    return folder


def ask(number: int = 0, text: str = "Is it?") -> Call:
    """A call to a judge."""
    return Call("judge", Prompt("", (Text(text),)), {"choices": ["Yes", "No"]}, number)


def reply(text: str = "Yes", cost: float | None = None) -> Reply:
    """What the judge said."""
    return Reply({"text": text, "finish": "stop"}, "judge-1", Usage(10, 4, 1), cost)


def make_score(value: float, **evidence: Any) -> Score:
    """A number."""
    return Score(value=value, evidence=evidence)


UNREAD = NoScore(kind="unparsable", reason="no JSON", evidence={"reply": "I think\u2028…"})
LOST = Failure(error="quality.piqe at grpc://a:1: lost", retryable=True)
