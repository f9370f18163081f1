"""What a change of values does to objects: what is refused, and what does not follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .chart import Object, label
from .rules import SERVING, names, start_seconds


def unchangeable(before: Sequence[Object], after: Sequence[Object]) -> Iterator[str]:
    """What an upgrade from some objects to others is refused for."""
    for kind, fields in (
        ("Job", ("template", "completions", "podFailurePolicy", "backoffLimitPerIndex")),
        ("ResourceClaimTemplate", ("spec",)),
        ("StatefulSet", ("volumeClaimTemplates", "serviceName", "selector")),
        ("Deployment", ("selector",)),
    ):
        later = names(after, kind)
        for name, one in names(before, kind).items():
            for field in fields if name in later else ():
                if one["spec"].get(field) != later[name]["spec"].get(field):
                    yield f"{label(one)}: its {field} cannot be changed"


def weights_seconds(things: Sequence[Object], server: Object) -> int:
    """How long the Job of the weights may take that a server waits for; 0 without one."""
    if "weights" not in {volume["name"] for volume in server["template"]["spec"]["volumes"]}:
        return 0
    jobs = (one for name, one in names(things, "Job").items() if "-weights-" in name)
    return max((int(one["spec"]["activeDeadlineSeconds"]) for one in jobs), default=0)


def find_unfollowed(before: Sequence[Object], after: Sequence[Object]) -> Iterator[str]:
    """What values say anew, and pods of some objects do not see."""
    maps = [names(each, "ConfigMap") for each in (before, after)]
    for kind in SERVING:
        earlier, later = names(before, kind), names(after, kind)
        for name in sorted(earlier.keys() & later.keys()):
            specs = [earlier[name]["spec"], later[name]["spec"]]
            pods = [spec["template"] for spec in specs]
            read = [v["configMap"]["name"] for v in pods[1]["spec"]["volumes"] if "configMap" in v]
            texts = [[each[m]["data"] for m in read if m in each] for each in maps]
            abouts = [each["metadata"].get("annotations") for each in pods]
            if texts[0] != texts[1] and abouts[0] == abouts[1]:
                yield f"{kind} {name}: its settings change, and its pods do not"
            waits = {
                spec.get("progressDeadlineSeconds", 600) - weights_seconds(each, spec)
                for spec, each in zip(specs, (before, after), strict=True)
            }
            if len(waits) > len({start_seconds(each) for each in pods}):
                yield f"{kind} {name}: its rollout waits otherwise, and its start probe does not"
