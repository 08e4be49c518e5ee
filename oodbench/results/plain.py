"""Values that a result file can hold: numbers, texts, lists and mappings, as they will be read back. No torch."""

import json
from typing import Any

import msgspec

from oodbench.errors import UserError


def as_plain(values: Any, name: str) -> Any:
    """A mapping or a list as its file will give it back, or a UserError about the first value that no file can hold."""
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else None
    if inner is not None:
        for key, value in list(inner):
            _stored(value, f"{name}[{key!r}]")
    return _stored(values, name)


def _stored(value: Any, name: str) -> Any:
    try:
        return msgspec.json.decode(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        reason = " ".join(str(error).split())[:100]
        raise UserError(
            f"{name[:100]} cannot be written to a result ({reason}); write finite numbers, texts, lists and mappings"
        ) from None
