"""What dimensions compute on fixed edits: what is asked for each, and what becomes of it.

Judges and specialists answer by a digest of all that they are sent, so that whatever is asked
otherwise is answered otherwise. Nothing here looks at a signature.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image as Pil

from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.base.errors import Abstention, ServiceError
from editjudge.base.images import decode, load_image, load_mask
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import Outcome, Score, Verdict, make_failure, make_no_score
from editjudge.benchmarks.benchmark import Rules
from editjudge.benchmarks.dimension import Reading
from editjudge.engine.outcomes import Circumstances
from editjudge.panel.calls import MemoryReplies, Reply
from editjudge.panel.context import NO_CALLER, CallContext
from editjudge.panel.prompt import Picture, Prompt
from editjudge.panel.transport import Sampling
from editjudge.scorers.scorer import Scorer

from ...fakes.transport import PanelStandIn, ScriptedTransport, read_prompt, scripted_judge, spread, text_reply
from ...golden.cases import Case
from ...golden.services import _answer_in_words, _spread, fill_schema, number

Said: TypeAlias = tuple[str, frozenset[str]]
"""An outcome as text, and digests of all that was sent for it."""


def edits(case: Case, folder: Path) -> list[Edit]:
    """Edits of a case's items, of the kinds of `_outputs`; with masks of all and of nothing."""
    made = case.make(folder)
    roots = dict(pair.split("=", 1) for pair in made.more[1::2])
    dataset = ResolvedSpec(
        RunSpec(benchmark=case.benchmark, data=made.data, roots=roots)  # type: ignore[arg-type]
    ).dataset
    items = [dataset.load(ref) for ref in dataset.items()]
    # What some switches ask for and small data does not tell.
    masked = next((item for item in items if item.mask), None)
    for share in (0, 1) if masked is not None and masked.mask is not None else ():
        mask = load_mask(np.full(masked.mask.region.shape, bool(share)))
        items.append(replace(masked, id=f"mask of {share}", mask=mask))
    # Where pictures are large only the first item has every kind.
    large = items[0].sources[0].rgb.size > 20_000
    return [
        Edit(item, "m", load_image(pixels, kind))
        for number, item in enumerate(items)
        for place, (kind, pixels) in enumerate(_outputs(item))
        if not large or number == 0 or place == number % 3
    ]


def _outputs(item: Item) -> Iterator[tuple[str, np.ndarray | bytes]]:
    pixels = item.sources[0].rgb
    height, width = pixels.shape[:2]
    rng = np.random.default_rng(width)
    yield "noisy", pixels // 2 + rng.integers(0, 90, pixels.shape, dtype=np.uint8)
    yield "moved", np.roll(pixels, (3, 5), (0, 1))
    rolled = Pil.fromarray(np.roll(pixels, (6, 9), (0, 1)))
    yield "squeezed", np.asarray(rolled.resize((width, max(8, height * 3 // 4))))
    yield "equal", pixels
    # A third of its size, which no plausible alignment undoes.
    small = Pil.new("RGB", (width, height), (90, 120, 60))
    small.paste(Pil.fromarray(pixels).resize((max(8, width // 3), max(8, height // 3))), (2, 3))
    yield "small", np.asarray(small)
    # In the middle of a square canvas.
    side = max(width, height)
    canvas = Pil.new("RGB", (side, side), "white")
    canvas.paste(Pil.fromarray(pixels // 2 + 64), ((side - width) // 2, (side - height) // 2))
    yield "on a canvas", np.asarray(canvas)
    # Half of it transparent, with other colours under that.
    clear = Pil.fromarray(np.flipud(pixels)).convert("RGBA")
    clear.paste((10, 200, 30, 0), (0, 0, width // 2, height))
    buffer = io.BytesIO()
    clear.save(buffer, "PNG")
    yield "half clear", buffer.getvalue()


class OwnReplies(MemoryReplies):
    """Replies of its own, and facts that are kept elsewhere."""

    def __init__(self, facts: MemoryReplies) -> None:
        super().__init__()
        self.get_fact, self.put_fact = facts.get_fact, facts.put_fact  # type: ignore[method-assign]


class Recorder(PanelStandIn, ScriptedTransport):
    """A judge and all specialists, who answer by a digest of what they are sent.

    Args:
        facts: What was found out about the judge; what is missing it is asked for.

    Attributes:
        sent: What they were sent, by digest.
    """

    def __init__(self, facts: MemoryReplies) -> None:
        super().__init__("")
        self.sent: set[str] = set()
        self.scripted = scripted_judge(self, ledger=OwnReplies(facts))

    def judge(self, service: str) -> Any:
        return self.scripted.with_context(self.context)

    async def choose(self, prompt: Prompt, choices: tuple[str, ...], context: CallContext = NO_CALLER) -> Reply:
        text, seed = read_prompt(prompt), self._seed(prompt, choices)
        shares = _spread(text, seed)
        shares = {name: shares.get(name, 0.0) for name in choices}
        outside = seed % 8 / 16
        return spread(shares, outside, self.model)

    async def complete(self, prompt: Prompt, sampling: Sampling, context: CallContext = NO_CALLER) -> Reply:
        schema = sampling.schema
        seed = self._seed(prompt, schema, sampling.seed)
        answer = _answer_in_words(read_prompt(prompt), seed) if schema is None else fill_schema(schema, seed, "")
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return text_reply(text, self.model)

    def _seed(self, prompt: Prompt, *form: object) -> int:
        parts = [
            one.digest if isinstance(one, Picture) else one.text for one in prompt.parts
        ]  # fmt: skip
        return self._record([prompt.system, parts, form])

    async def call(self, service: str, inputs: Mapping[str, bytes], parameters: Any = None) -> dict[str, Any]:
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in inputs.items()}
        seed = self._record([service, digests, parameters])
        role = service.partition(".")[0]
        values = np.array([1 + (seed >> 5 * index) % 32 for index in range(3)], np.float64)
        return {
            "EMBEDDING": values,
            "DISTANCE": values[:1] / 33,
            "SCORE": values[:1] / 33,
            "CONFIDENCE": values[:1] / 33,
            "TEXT": (b"NEW 1", b"NEW", b"now 1", b"")[seed % 4],
            "MASK": _mask(inputs["IMAGE"], seed) if role == "segmenter" else b"",
        }

    def _record(self, what: Any) -> int:
        text = json.dumps(what, sort_keys=True, default=str)
        self.sent.add(hashlib.sha256(text.encode()).hexdigest()[:16])
        return number(text)


def _mask(image: bytes, seed: int) -> bytes:
    """A half of the picture; nothing in one of three edits."""
    height, width = decode(image)[0].shape[:2]
    if seed % 3 == 0:
        return b""
    mask = np.zeros((height, width), bool)
    mask[:, : width // 2] = True
    buffer = io.BytesIO()
    Pil.fromarray(mask if seed % 2 else ~mask).save(buffer, "PNG")
    return buffer.getvalue()


class Computation:
    """What dimensions compute; each way of judging judges an edit once, whatever rules ask for it.

    Args:
        every: All rules that are compared.
    """

    def __init__(self, edits: list[Edit], every: Iterable[Rules]) -> None:
        self._edits = edits
        self._fields: defaultdict[Scorer, set[str]] = defaultdict(set)
        for rules in every:
            for reading in (one for d in rules.dimensions for one in d.readings):
                self._fields[reading.scorer].add(reading.field)
        self._facts: MemoryReplies | None = None
        self._said: dict[tuple[Scorer, str, int], tuple[Verdict | None, frozenset[str]]] = {}

    async def by_dimension(self, rules: Rules) -> dict[str, object]:
        """By id all that its outcome rests on, on every edit: a value that can be compared.

        That is what its readings give, also on items that it does not apply to itself, its
        outcome, and the same of its parts.
        """
        each = [await self._on(index, rules) for index in range(len(self._edits))]
        computed: dict[str, object] = {}
        for dimension in rules.dimensions:
            name, parts = dimension.id, dimension.operands
            own = tuple(one[name] for one in each)
            computed[name] = own, tuple(computed[part] for part in parts)
        return computed

    async def _on(self, index: int, rules: Rules) -> dict[str, tuple[str, tuple[Said, ...]]]:
        readings: dict[Scorer, dict[str, Verdict]] = {}
        said: dict[str, tuple[Said, ...]] = {}
        for dimension in rules.dimensions:
            own: list[Said] = []
            for reading in dimension.readings:
                verdict, sent = await self._read(reading, index)
                own.append((_describe(verdict), sent))
                if verdict is not None:
                    readings.setdefault(reading.scorer, {})[reading.field] = verdict
            said[dimension.id] = tuple(own)
        outcomes = Circumstances(self._edits[index].item, readings=readings).decide(rules.dimensions)
        return {name: (_describe(outcome), said[name]) for name, outcome in outcomes.items()}

    async def _read(self, reading: Reading, index: int) -> tuple[Verdict | None, frozenset[str]]:
        """What a reading gives, and what was sent for it; None where the item lacks its input."""
        scorer = reading.scorer
        if (scorer, reading.field, index) not in self._said:
            # What asks nobody makes all its fields at once: alignments take long.
            together = [reading.field] if scorer.roles else sorted(self._fields[scorer])
            together = [one for one in together if not self._lacks(one, index)] or [reading.field]
            panel = await self._new_panel()
            said = await self._score(scorer, index, frozenset(together), panel)
            for field in {*together, reading.field}:
                self._said[scorer, field, index] = said.get(field), frozenset(panel.sent)
        return self._said[scorer, reading.field, index]

    async def _new_panel(self) -> Recorder:
        """One that was sent nothing. How its judge takes choices was found out once, alike for every scorer."""
        if self._facts is None:
            self._facts = MemoryReplies()
            await Recorder(self._facts).scripted.settle()
        return Recorder(self._facts)

    def _lacks(self, field: str, index: int) -> bool:
        return "outside" in field and self._edits[index].item.mask is None

    async def _score(
        self, scorer: Scorer, index: int, fields: frozenset[str], panel: Recorder
    ) -> Mapping[str, Verdict]:
        try:
            return await scorer.score(self._edits[index], panel, fields)  # type: ignore[arg-type]
        except Abstention as abstained:
            return dict.fromkeys(fields, make_no_score(abstained))
        except ServiceError as error:
            return dict.fromkeys(fields, make_failure(error))
        except Exception:  # noqa: BLE001 - the item lacks what the scorer needs
            return {}


def _describe(outcome: Outcome | None) -> str:
    if isinstance(outcome, Score):
        return f"{outcome.value!r}{' imputed' * outcome.imputed}"
    return "" if outcome is None else f"{outcome.status} {getattr(outcome, 'kind', '')}"
