"""Judges a run again without its pictures: of those that judges saw it holds the digests."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from ..base.errors import UnreadError
from ..base.images import RGB, Image, format_path
from ..base.item import Edit
from ..base.verdict import Failure, NoScore, NotApplicable, Score, Verdicts
from ..benchmarks.dataset import Dataset, ItemRef
from ..engine.content_keys import ItemContents, JudgedEdit
from ..engine.judge import Judges, computes_pixels
from ..engine.run_inputs import RunInputs
from ..storage.store import RunStore, StoredEdit

_PromptPicture = tuple[str, str, tuple[int, int]]
"""Name, digest and size of a picture in a prompt."""
Keep = Callable[[JudgedEdit, Verdicts, Mapping[str, str], str | None], Awaitable[None]]
_PIXELS = Failure(error="it rests on pixels, and data and outputs are not at their places")


class _ShownImage(Image):
    """A picture as a judge got it: stored replies are found by its digest; it has no pixels."""

    def __init__(self, name: str, digest: str, size: tuple[int, int]) -> None:
        super().__init__(name, b"", None, media_type="image/png", size=size)
        vars(self)["_digest"] = digest

    @property
    def rgb(self) -> RGB:
        """Refused: nobody knows them."""
        raise UnreadError(self.name, "its pixels are not in the run", "restore the file")


async def replay(inputs: RunInputs, store: RunStore, judges: Judges, keep: Keep) -> None:
    """Judge every edit of a run again, as far as the replies of judges suffice.

    Args:
        judges: They answer from the run alone.
        keep: Receives the new verdicts; what rests on pixels is a failure.
    """
    by_id = inputs.dimensions_by_id
    dimensions = {
        d.id: d
        for d in inputs.dimensions
        if not computes_pixels(d, by_id) and all(role.is_judge for role in inputs.roles([d.id]))
    }
    contents = ItemContents(inputs.dataset, store.file_cache())
    for ref in inputs.dataset.items():
        for stored_edit in store.edits(item=ref.id):
            edit, names = _make_edit(inputs.dataset, contents, store, ref, stored_edit)
            judgement = await judges.judge(
                edit,
                [dimensions[name] for name in names if name in dimensions],
                by_id,
                signatures=inputs.signature_cache,
            )
            verdicts: dict[str, Any] = dict.fromkeys(names, _PIXELS) | {
                name: outcome
                for name, outcome in judgement.outcomes.items()
                if isinstance(outcome, Score | NoScore | Failure | NotApplicable)
            }
            signatures = {name: str(of) for name, of in judgement.signatures.items()}
            await keep(store.judged_edit(stored_edit), verdicts, signatures, judgement.versions)


def _make_edit(
    dataset: Dataset, contents: ItemContents, store: RunStore, ref: ItemRef, edit: StoredEdit
) -> tuple[Edit, list[str]]:
    """Make an edit of the pictures that judges saw; return it and its dimensions with verdicts."""
    records = list(store.verdicts(edit.model, item=ref.id))
    names = [one.dimension for one in records if not isinstance(one.verdict, Failure)]
    prompts = {reply.prompt for one in records for reply in one.replies if reply.prompt}
    pictures = [*chain.from_iterable(_list_pictures(store, prompt) for prompt in prompts)]
    images: dict[str, Image] = {}
    for path in dataset.files(ref):
        content = contents.get_stored(path)
        images[path] = _find(pictures, format_path(path), content.digest.hex() if content else "")
    item, paths = dataset.outline(ref), dataset.files(ref)
    flaws = dict(item.flaws)
    if item.mask is not None:
        flaws["mask"] = _PIXELS
    item = replace(
        item,
        sources=tuple(images[path] for path in paths[: len(item.sources)]),
        target=None if item.target is None else images[paths[-1]],
        mask=None,
        flaws=flaws,
    )
    if edit.digest is None:
        return Edit(item, edit.model, None, edit.missing), names
    others = [one for one in pictures if one[0] not in images]
    name = others[0][0] if len({one[0] for one in others}) == 1 else ""
    output = _find(others, name, edit.digest.removeprefix("sha256:"))
    return Edit(item, edit.model, output), names


def _list_pictures(store: RunStore, prompt: str) -> Iterator[_PromptPicture]:
    stored_prompt = store.ledger.get_prompt(prompt)
    parts: tuple[Mapping[str, Any], ...] = stored_prompt.parts if stored_prompt else ()
    for part in parts:
        if "image" in part:
            width, height = part["size"]
            yield part["name"], part["image"], (width, height)


def _find(pictures: Iterable[_PromptPicture], name: str, digest: str) -> Image:
    """Find a picture by the name or the beginning of the digest of its file."""
    matches = {
        (sent_digest, size)
        for picture, sent_digest, size in pictures
        if picture == name or (digest and sent_digest.startswith(f"sha256:{digest}"))
    }
    if len(matches) != 1:  # no judge saw it, or judges saw it in several sizes
        matches = {(f"sha256:{'0' * 64}", (1, 1))}
    return _ShownImage(name, *matches.pop())
