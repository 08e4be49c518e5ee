"""Keeps oodbench/identity.lock: which code is known to give the numbers of which version; and oodbench/cards.json.

python benchmarks/fidelity/identity.py                     # what is not listed; status 1 if anything
python benchmarks/fidelity/identity.py --same              # lists it: numbers are unchanged, as raw_scores.py has shown
python benchmarks/fidelity/identity.py --raise trainer/irm # numbers change: a new version, results are made anew
"""

import argparse
import sys

from oodbench.config import identity, shipped
from oodbench.config.registry import Registry

HEADER = """\
# The code that numbers depend on: component, version, digests of code known to give the numbers of that version.
# Whoever changes a component raises its version or, where raw scores stay the same to the bit, lists the new digest:
# see benchmarks/fidelity/identity.py. Results are keyed by the version.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same", action="store_true", help="list the digests of today's code under their versions")
    parser.add_argument("--raise", dest="raised", action="append", default=[], metavar="NAME", help="a new version")
    given = parser.parse_args()
    locked = identity.lock() if identity.LOCK.exists() else {}
    today, cards = identity.shipped(), shipped.written(Registry().cards.values())
    unlisted = [name for name, digest in today.items() if name not in locked or digest not in locked[name].digests]
    lines = []
    for name, digest in sorted(today.items()):
        version = locked[name].version if name in locked else 1
        digests = sorted(locked[name].digests) if name in locked else []
        if name in given.raised:
            version, digests = version + 1, [digest]
        elif name in unlisted and given.same:
            digests = [*digests, digest]
        lines.append(" ".join([name, str(version), *digests]))
    for name in unlisted:
        print(f"{name}: the digest {today[name]} is not listed")
    for name in sorted(locked.keys() - today.keys()):
        print(f"{name}: is listed and does not exist")
    is_stale = not shipped.FACTS.exists() or shipped.FACTS.read_text(encoding="utf-8") != cards
    if is_stale:
        print(f"{shipped.FACTS.name}: does not say what the method files say")
    if given.same or given.raised:
        shipped.FACTS.write_text(cards, encoding="utf-8")
        identity.LOCK.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
        print(f"wrote {identity.LOCK.name}: {len(lines)} components")
        return 0
    return 1 if unlisted or is_stale or locked.keys() - today.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
