"""What came from an address when it was first used, for files of which no digest is known.

Trust on first use: what comes first is believed and said so; what comes later must be the same, byte by byte.
"""

import json
import re
from pathlib import Path

from oodbench.data.store import data_folder
from oodbench.errors import UserError
from oodbench.files import claim, write_text

SHA256 = re.compile("[0-9a-f]{64}")


def trusted_file() -> Path:
    return data_folder() / "trusted.json"


def trusted(address: str) -> str | None:
    """The sha256 of what came from an address; None if nothing has yet."""
    return _read().get(address)


def trust(address: str, sha256: str, instead: bool) -> bool:
    """Remember what came, for every process: whether it was the first; `instead` of what came before, if that differs.

    UserError if another process has trusted something else in the meantime.
    """
    with claim(trusted_file().with_suffix(".lock"), wait=True):
        known = _read()
        before = known.get(address)
        if before not in (None, sha256) and not instead:
            raise UserError(f"{address} has brought two files, of sha256 {before} and {sha256}; try again")
        if before != sha256:
            write_text(trusted_file(), json.dumps({**known, address: sha256}, indent=1, sort_keys=True) + "\n")
        return before is None


def _read() -> dict[str, str]:
    path = trusted_file()
    try:
        known = json.loads(path.read_bytes())
        if isinstance(known, dict) and all(isinstance(each, str) and SHA256.fullmatch(each) for each in known.values()):
            return known
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}; fix its permissions") from None
    except (ValueError, RecursionError):
        pass
    raise UserError(f"'{path}' is damaged; fix it, or delete it to trust again what comes first from each address")
