"""Signatures as version 3 wrote them: for its migration only.

They named neither the field that is read nor the function that derives, held the versions of
packages, and had no numbers of implementations, all of which were 1. What they did not say is here
as it was; nothing is looked up in today's rules, so that a later change of these changes nothing.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

VERDICTS = """CREATE TABLE verdicts (
    edit INTEGER NOT NULL REFERENCES edits (id),
    dimension INTEGER NOT NULL REFERENCES texts (id),
    status INTEGER NOT NULL,
    signature INTEGER NOT NULL REFERENCES texts (id),
    value REAL,
    kind INTEGER,
    detail BLOB,
    PRIMARY KEY (edit, dimension)
) WITHOUT ROWID"""
"""The table of verdicts."""
_PACKAGES = ("editjudge", "numpy", "opencv-python-headless", "pillow", "rapidfuzz")
_IN_SHORT = re.compile(r"(\w+)(?:\.\w+)?\.(\d+)")

# The field by way of judging, where all its dimensions read the same one.
_FIELDS = {
    **dict.fromkeys(("quality", "five_level", "yes_no", "question_list"), "score"),
    **dict.fromkeys(("multiple_choice", "fact_check"), "correct"),
    "region_similarity": "score",
    "text_content": "accuracy",
    "subject_similarity": "subject",
    "reachable": "reachable",
}
# The field by dimension, where it is not the last part of its name.
_FIELD_OF = {
    "kris.visual_consistency": "consistency_score",
    "kris.visual_quality": "quality_score",
    "kris.instruction_following": "instruction_score",
    "kris.knowledge_plausibility": "knowledge_score",
    "i2i.se.text_content_style_accuracy": "style_score",
    "i2i.me.text_content_style_accuracy": "style_score",
    "co_edit.lpips.kept": "outside",
    "gie.clip": "outside",
    "gie.clip_whole": "whole",
}
# What a derived dimension called its own readings, by way of judging.
_OPERANDS = {
    "rubric": {"kris": "knowledge_score", "i2i": "style"},
    "released_rubric": {"kris": "knowledge_score"},
    "text_content": {"i2i": "content"},
    "yes_no": {"i2i": "count"},
}
_METRICS = {"mse": ("mse",), "psnr": ("mse", "psnr_from_mse"), "ssim": ("ssim",)}
_GATE = "Gated.1(above=2.0,by=kris.instruction_following,otherwise=1.0,part=knowledge_score)"
_CAP = "Capped.1(by=co_edit.edit_completeness,fn=product.1)"
_WEIGHTS = {
    "co_edit.editing_accuracy": 1.0,
    "co_edit.over_editing": 0.2,
    "co_edit.editing_plausibility": 0.4,
    "co_edit.visual_naturalness": 0.3,
    "co_edit.detail_realism": 0.3,
    "co_edit.visual_artifact": 0.2,
    "co_edit.color_lighting_fidelity": 0.2,
    "co_edit.non_edited_semantic_preservation": 0.4,
    "co_edit.non_edited_detail_preservation": 0.6,
    "co_edit.semantic_identity_preservation": 1.0,
    "co_edit.visual_identity_preservation": 1.0,
    "co_edit.edit_completeness": 0.5,
    "co_edit.image_quality": 0.2,
    "co_edit.non_edited_preservation": 0.1,
    "co_edit.identity_preservation": 0.2,
}


def carried(signatures: Iterable[str], protocol: str) -> dict[str, tuple[str, str]]:
    """Signatures of one run in the form of version 4, each with the versions that were in it.

    A part whose signature is not among them keeps its old digest: what is derived from it is
    derived anew, which takes no call.

    Args:
        protocol: The run's, in full.
    """
    old = {_digest(text): text for text in signatures}
    made: dict[str, str] = {}

    def new(digest: str) -> str:
        if digest not in made:
            fields = dict(field.partition(":")[::2] for field in old[digest].split("|"))
            parts = [d for d in fields.get("parts", "").split("+") if d]
            known = [_digest(new(part)) if part in old else part for part in parts]
            made[digest] = _Signed(fields, known, protocol).text
        return made[digest]

    return {text: (new(digest), _versions(text)) for digest, text in old.items()}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _versions(text: str) -> str:
    fields = dict(field.partition(":")[::2] for field in text.split("|"))
    return "|".join(f"{name}:{fields[name]}" for name in _PACKAGES if name in fields)


@dataclass(frozen=True)
class _Signed:
    """One signature.

    Attributes:
        fields: As they were.
        parts: Digests of its parts' new signatures, in their order.
        protocol: Of the run.
    """

    fields: Mapping[str, str]
    parts: list[str]
    protocol: str

    @property
    def text(self) -> str:
        """In the form of version 4; what cannot be told so merely loses its versions."""
        left = {k: v for k, v in self.fields.items() if k not in _PACKAGES}
        told = ("dimension", "protocol", "variant", "of", "parts")
        roles = {key: value for key, value in left.items() if "." in key}
        scorers = [key for key in left if key not in told and key not in roles]
        reads = {scorer: self._reading(scorer) for scorer in scorers}
        formula = self._formula
        if None in reads.values() or not (formula or len(reads) == 1):
            return _joined(left)
        match = _IN_SHORT.match(left.get("protocol", ""))
        by = sorted({name for scorer in scorers for name in self._rests_on(scorer)})
        return _joined(
            {
                "dimension": left["dimension"],
                "protocol": f"{match[1]}.{match[2]}" if match else left.get("protocol", ""),
                **(self._derived(formula, reads) if formula else self._read(reads)),
                "by": "+".join(by),
                **roles,
            }
        )

    @property
    def _dimension(self) -> str:
        """Its id without the round."""
        return self.fields.get("dimension", "").partition("@")[0]

    def _read(self, reads: Mapping[str, str | None]) -> dict[str, str]:
        (reading,) = reads.values()
        return {"variant": self.fields.get("variant", ""), "reads": reading or ""}

    def _derived(self, formula: str, reads: Mapping[str, str | None]) -> dict[str, str]:
        ids = [name for name in self.fields.get("of", "").split("+") if name]
        names = ids if self._is_mean_of_rounds else [name.partition("@")[0] for name in ids]
        benchmark = self._dimension.partition(".")[0]
        return {
            "formula": formula,
            "complete": "yes" if formula in {_CAP, "product.1", "styled_text.1"} else "",
            "parts": "+".join(f"{n}={d}" for n, d in zip(names, self.parts, strict=True)),
            **{f"part.{_OPERANDS[s][benchmark]}": one or "" for s, one in reads.items()},
        }

    @property
    def _is_mean_of_rounds(self) -> bool:
        return self.fields.get("variant", "").endswith(".mean") and "@" in self.fields.get("of", "")

    @property
    def _formula(self) -> str:
        """What its function is; empty for a reading."""
        dimension, variant = self._dimension, self.fields.get("variant", "")
        if self._is_mean_of_rounds or dimension == "kris.average":
            return "mean.1"
        if dimension == "kris.knowledge_plausibility" and "of" in self.fields:
            return _GATE
        if dimension.endswith(".text_content_style_accuracy"):
            return "styled_text.1"
        if dimension == "i2i.me.subject_extraction_composition":
            return "product.1"
        if dimension.startswith("co_edit.") and "of" in self.fields:
            kind, _, which = variant.partition(".")
            known = {"to10": f"{which}.1", "capped": _CAP, "geometric": self._weighted(which)}
            return known.get(kind, "")
        return ""

    def _weighted(self, which: str) -> str:
        ids = [name.partition("@")[0] for name in self.fields["of"].split("+")]
        weights = {name: _WEIGHTS.get(name.removesuffix(".capped"), 0.0) for name in ids}
        if which == "uniform":
            weights = dict.fromkeys(weights, 1.0)
        total = math.fsum(weights.values()) or 1.0
        shares = ";".join(f"{name}={weights[name] / total:.12g}" for name in sorted(weights))
        return f"WeightedGeometricMean.1(weights={shares})"

    def _reading(self, scorer: str) -> str | None:
        """What is read, of the field that is read; None where that is not known."""
        field = self._field(scorer)
        return field and f"{scorer}.{field}({self.fields[scorer]})"

    def _field(self, scorer: str) -> str | None:
        dimension = self._dimension
        benchmark, _, name = dimension.partition(".")
        last = name.rpartition(".")[2]
        if scorer == "pixels" and benchmark == "core":
            return f"{name.partition('.')[0].removeprefix('aligned_')}.{last}"
        if scorer == "pixels":
            return f"{name}.{self._region_of_pixels if name in {'mse', 'psnr'} else 'outside'}"
        if scorer == "blacked_out_ssim":
            return "outside"
        if benchmark not in {"core", "co_edit", "gie", "i2i", "kris", "omni_iie"}:
            return None
        return _FIELDS.get(scorer) or _FIELD_OF.get(dimension, last)

    @property
    def _region_of_pixels(self) -> str:
        """Of MSE and PSNR in GIE-Bench: by a switch that signatures did not name."""
        switch, official = "unmasked_pixels", ".official." in self.protocol
        changed = f"-{switch}" if official else f"+{switch}"
        is_on = (changed in re.findall(r"[+-]\w+", self.protocol)) != official
        return "whole" if is_on else "outside"

    def _rests_on(self, scorer: str) -> tuple[str, ...]:
        """The implementations behind a reading, the way of judging among them."""
        field, spec = self._field(scorer) or "", self.fields[scorer]
        metric, _, region = field.rpartition(".")
        masked = () if region == "whole" else ("load_mask",)
        names: tuple[str, ...] = ()
        match scorer:
            case "pixels":
                aligned = "aligned=True" in spec
                resized = () if aligned and "as_is=True" in spec else ("fitted",)
                align = ("align",) if aligned else ()
                names = ("decode", *align, *resized, *masked, *_METRICS.get(metric, ()))
            case "blacked_out_ssim":
                names = ("decode", "squashed", "load_mask", "ssim_blacked_out")
            case "squared_pixels":
                names = ("decode", "squared", *_METRICS.get(field, ()))
            case "region_share":
                names = ("load_mask",)
            case "region_lpips" | "region_clip":
                names = ("decode", "squared", *masked)
            case "feature_similarity" if masked:
                names = masked if "side=0" in spec else ("decode", "squashed", *masked)
            case "lpips":
                names = ("decode", "fitted", *masked)
            case "subject_similarity":
                names = ("decode", "fitted", "load_mask")
            case "text_content":
                names = ("text_accuracy",)
        return tuple(map(self._numbered, (scorer, *names)))

    def _numbered(self, name: str) -> str:
        package = "opencv-python-headless"
        major = self.fields.get(package, "").partition(".")[0]
        return f"{name}.1({package} {major})" if name == "align" else f"{name}.1"


def _joined(fields: Mapping[str, str]) -> str:
    return "|".join(f"{key}:{value}" for key, value in fields.items() if value)
