"""The result that the driver stores for a run of the command."""

import json
from bisect import bisect_right
from typing import Final, TypedDict

from fsm.lifecycles.limits import MAX_RESULT_JSON_BYTES

__all__ = ["READ_LIMIT", "RunResult", "result_of"]

READ_LIMIT: Final = MAX_RESULT_JSON_BYTES
"""How many bytes of output are worth reading: a character never takes fewer bytes in JSON than in the output."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class RunResult(TypedDict):
    """How the command ended: a negative exit code names the signal that ended it."""

    exit_code: int
    stdout: str
    truncated: bool


def result_of(exit_code: int, output: bytes, *, truncated: bool = False) -> RunResult:
    """Return the result, its output cut so that the stored JSON stays within the limit.

    What is not UTF-8 is replaced, and so is NUL, which no stored text may hold.
    """
    text = output.decode("utf-8", errors="replace").replace("\0", _REPLACEMENT)
    budget = MAX_RESULT_JSON_BYTES - len(json.dumps({"exit_code": exit_code, "stdout": "", "truncated": False}))
    kept = _longest_prefix(text, budget)
    return {"exit_code": exit_code, "stdout": kept, "truncated": truncated or len(kept) < len(text)}


def _longest_prefix(text: str, budget: int) -> str:
    if len(json.dumps(text)) <= budget:
        return text
    longest = bisect_right(range(len(text)), budget, key=lambda length: len(json.dumps(text[:length]))) - 1
    return text[:longest]
