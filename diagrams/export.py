"""The model as data: canonical JSON for programs, with a hash that changes exactly when the lifecycle does."""

import hashlib
import json
from typing import Final

from attrs import asdict

from diagrams.model import Diagram

__all__ = ["HASH", "export"]

HASH: Final = "hash"
"""The one key that is not of the model: `sha256:` and 64 hexadecimal digits."""


def export(model: Diagram) -> str:
    """Return the model as one line of canonical JSON, the same in every run and on every machine.

    Canonical means sorted keys, no spaces, and ASCII alone. The keys are the fields of `Diagram` and of what it holds;
    a field without a value is null, and the order in a list is that of the declaration. The hash is that of the same
    canonical text without the key `hash`, so that a reader checks it by taking the key out and writing the rest again.
    """
    plain = asdict(model)
    digest = hashlib.sha256(_canonical(plain).encode("ascii")).hexdigest()
    return _canonical({**plain, HASH: f"sha256:{digest}"}) + "\n"


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
