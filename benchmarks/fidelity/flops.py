"""Keeps oodbench/running/flops.json: what the networks of the shipped suites compute of one image, forward.

python benchmarks/fidelity/flops.py             # what is not listed or has changed; status 1 if anything
python benchmarks/fidelity/flops.py --write     # lists it
"""

import argparse
import json
import sys

from oodbench.config import suite as suites
from oodbench.data import counting
from oodbench.files import write_text
from oodbench.running import costs, network_size


def counted() -> dict[str, int]:
    """Of every suite and preset, by network and input; without those that do not take images as large as noted."""
    found = {}
    for name in suites.suite_files():
        for preset in (None, *suites.load(name).contents.presets):
            suite = suites.load(name, preset)
            choice, (channels, side) = suite.contents.network, counting.image_shape(suite)
            kind = costs.network_kind(choice, channels, side)
            if kind not in found and side == choice.options.get("side", side):
                found[kind] = network_size.flops(choice, channels, side)
    return dict(sorted(found.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="list what was counted")
    given = parser.parse_args()
    now = counted()
    if given.write:
        write_text(costs.FLOPS, json.dumps(now, indent=1) + "\n")
        print(f"wrote {costs.FLOPS.name}: {len(now)} networks")
        return 0
    listed = json.loads(costs.FLOPS.read_text(encoding="utf-8"))
    changed = [kind for kind in {**listed, **now} if listed.get(kind) != now.get(kind)]
    for kind in changed:
        print(f"{kind}: {listed.get(kind, 'not')} listed, {now.get(kind, 'none')} counted")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
