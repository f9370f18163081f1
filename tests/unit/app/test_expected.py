"""Which services a panel file expects, against those that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from editjudge.app.doctor import DEVICE, Services, compare_panels, load_panel_file, service_facts
from editjudge.base.errors import InputError
from editjudge.base.identity import ModelIdentity, ServiceName

DINO, PIQE = map(ServiceName.parse, ("features.dinov2", "quality.piqe"))
SERVED = {DINO: {"name": "features_dinov2/1", "weights": "sha256:aa", "device": "gpu"}}


@pytest.mark.parametrize(
    ("expected", "served", "told"),
    [
        ({}, {}, {}),
        ({DINO: {"name": "features_dinov2/1"}}, SERVED, {}),
        ({DINO: SERVED[DINO]}, SERVED, {}),
        ({DINO: {"weights": "sha256:bb"}}, SERVED, {DINO: "weights sha256:bb is expected, and"}),
        ({DINO: {"name": "features_dinov2/2", "device": "cpu"}}, SERVED, {DINO: "; device cpu"}),
        ({DINO: {"precision": "bf16"}}, SERVED, {DINO: "precision bf16 is expected, and none is"}),
        ({DINO: {}, PIQE: {}}, SERVED, {PIQE: "it is expected, and not served"}),
        ({}, SERVED, {DINO: "it is served, and not expected"}),
        (
            {DINO: {}},
            {DINO: {**SERVED[DINO], "untrained": "yes"}},
            {DINO: "untrained none is expected, and yes is served"},
        ),
        ({DINO: {"untrained": "yes"}}, SERVED, {DINO: "untrained yes is expected, and none"}),
    ],
)
def test_what_is_not_as_expected_is_told(expected: Services, served: Services, told: dict[ServiceName, str]) -> None:
    found = dict(compare_panels(expected, served))
    assert found.keys() == told.keys()
    assert all(told[name] in found[name] for name in told)


def test_what_nobody_tells_on_this_way_is_not_compared() -> None:
    served = {DINO: service_facts(ModelIdentity("features_dinov2/1", {"weights": "sha256:aa"}))}
    assert dict(compare_panels(SERVED, served, {DEVICE})) == {}
    assert "device gpu is expected" in dict(compare_panels(SERVED, served))[DINO]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "this is not a panel file"),
        ("[]", "this is not a panel file"),
        ("{", "this is not a panel file"),
        ('{"dinov2": {}}', "is no service name"),
        ('{"features.dinov2": []}', "features.dinov2: "),
        ('{"features.dinov2": {"device": 1}}', "features.dinov2.device: "),
    ],
)
def test_what_is_no_panel_is_refused_in_a_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "panel.json"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        load_panel_file(file)
    assert str(refused.value).startswith(str(file))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_panel_file(tmp_path / "panel.json")
