# SPDX-License-Identifier: Apache-2.0
"""Checks built documentation: all that its pages link to and show is there, and nothing is loaded from the network.

python scripts/docs.py build/docs      # `make docs` runs it; prints a line for each fault, and fails if there is one

Zensical checks links from one page's source to another's, but no pictures, and no links to anything that does not end in .md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "source": "src"}
"""Elements whose files the browser loads with the page, and the attribute that names the file."""


class Page(HTMLParser):
    """A page's anchors, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value for name, value in attrs if value is not None}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        elif tag in LOADED and LOADED[tag] in attributes:
            self.loads.append(attributes[LOADED[tag]])


def faults(site: Path) -> Iterator[tuple[str, str]]:
    """Yields page and fault of each link that leads nowhere, and of each file that is missing or comes from the network."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = str(path.relative_to(site.resolve()))
        if name == "404.html":  # its links begin at the server's root
            continue
        for link in page.links + page.loads:
            if urlsplit(link).scheme or link.startswith("//"):
                if link in page.loads:
                    yield name, f"loads {link} from the network"
                continue
            file, anchor = urldefrag(link)
            target = (path.parent / unquote(file)).resolve() if file else path
            if not target.is_file():
                yield name, f"{link}: no such file"
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                yield name, f"{link}: no such anchor"


def main() -> int:
    if len(sys.argv) != 2:
        print("give the folder of the built documentation: python scripts/docs.py build/docs", file=sys.stderr)
        return 2
    site = Path(sys.argv[1])
    if not (site / "index.html").is_file():
        print(f"{site}: no index.html: build the documentation first (make docs)", file=sys.stderr)
        return 2
    page_faults = list(faults(site))
    for page, fault in page_faults:
        print(f"{page}: {fault}", file=sys.stderr)
    return 1 if page_faults else 0


if __name__ == "__main__":
    sys.exit(main())
