"""Replace the relative links of a document, in place, with links into the repository on GitHub.

PyPI shows README.md alone, so that nothing relative leads anywhere there.

python docs/builder/absolute_links.py README.md https://github.com/OWNER/NAME v0.2.1
"""

import argparse
from pathlib import Path

import links


def absolute(text: str, address: str, ref: str) -> str:
    """Of a document in the root of the repository. Images are shown as they are, other files on their page."""

    def link(mark: str, words: str, path: str, anchor: str) -> str:
        return f"{mark}[{words}]({address}/{'raw' if mark else 'blob'}/{ref}/{path}{anchor})"

    return links.changed(text, link)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path)
    parser.add_argument("address", help="of the repository")
    parser.add_argument("ref", help="a tag or branch of it")
    given = parser.parse_args()
    text = given.document.read_text(encoding="utf-8")
    given.document.write_text(absolute(text, given.address, given.ref), encoding="utf-8")
