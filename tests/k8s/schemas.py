"""Objects against the schemas of Kubernetes; run by the Python of .venv-k8s.

Reads objects as lines of JSON and writes a line for each: null where it is right, what is wrong
with it, or `{"unknown": KIND}` where there is no schema. Warnings are errors. Folders as arguments
have CustomResourceDefinitions, whose schemas are asked too; what a later one defines counts.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate as schemas
import yaml

VERSION = "1.37"


def load_definitions(folder: Path) -> dict[tuple[str, str], Any]:
    """The schemas of a folder, by version and kind; strict, as those of Kubernetes are here."""
    found = {}
    for file in sorted(folder.rglob("*.y*ml")):
        for thing in yaml.safe_load_all(file.read_text()):
            if thing and thing.get("kind") == "CustomResourceDefinition":
                spec = thing["spec"]
                for version in spec["versions"]:
                    key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
                    found[key] = strict(version["schema"]["openAPIV3Schema"], top=True)
    return found


def strict(schema: Any, *, top: bool = False) -> Any:
    """A schema that refuses fields that it does not name."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema:
        closed["properties"] = {k: strict(v) for k, v in schema["properties"].items()}
        kept = schema.get("x-kubernetes-preserve-unknown-fields")
        if top:
            closed["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}}
        if not kept and "additionalProperties" not in schema and "type" in schema:
            closed["additionalProperties"] = False
    return closed


def check_object(thing: dict[str, Any], further: Mapping[tuple[str, str], Any]) -> Any:
    """What the schemas say of an object."""
    kind = str(thing.get("apiVersion")), str(thing.get("kind"))
    try:
        if kind in further:
            jsonschema.validate(thing, further[kind])
        else:
            schemas.validate(thing, VERSION, strict=True)
    except schemas.SchemaNotFoundError:
        return {"unknown": " ".join(kind)}
    except (jsonschema.ValidationError, schemas.ValidationError, schemas.InvalidSchemaError, Warning) as error:
        where = ".".join(map(str, getattr(error, "path", ())))
        return f"{where}: {getattr(error, 'message', error)}"
    return None


if __name__ == "__main__":
    warnings.simplefilter("error")
    given = {key: one for each in sys.argv[1:] for key, one in load_definitions(Path(each)).items()}
    for line in sys.stdin:
        sys.stdout.write(json.dumps(check_object(json.loads(line), given)) + "\n")
