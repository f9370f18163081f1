"""Objects against the schemas of Kubernetes; run by the Python of .venv-k8s.

Reads objects as lines of JSON and writes a line for each: null where it is right, what is wrong with
it, or `{"unknown": KIND}` where there is no schema. Warnings are errors.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import kubernetes_validate as schemas

VERSION = "1.37"


def said(thing: dict[str, Any]) -> Any:
    """What the schemas say of an object."""
    try:
        schemas.validate(thing, VERSION, strict=True)
    except schemas.SchemaNotFoundError:
        return {"unknown": f"{thing.get('apiVersion')} {thing.get('kind')}"}
    except (schemas.ValidationError, schemas.InvalidSchemaError, Warning) as error:
        return (
            f"{'.'.join(map(str, getattr(error, 'path', ())))}: {getattr(error, 'message', error)}"
        )
    return None


if __name__ == "__main__":
    warnings.simplefilter("error")
    for line in sys.stdin:
        sys.stdout.write(json.dumps(said(json.loads(line))) + "\n")
