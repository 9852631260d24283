"""mkdocs hook: the built site loads nothing from another host, so it works offline and tells nobody who reads it.

Flows through: the files of the site. The theme's script names hosts of things that we do not use (diagrams, an old browser's
polyfill, a forge's counters); these names are removed. Anything else that a page, a style or a script would load from
elsewhere fails the build. Links that a reader may follow are no loads.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

#: Hosts that the theme's scripts would ask, each with its scheme.
_UNUSED = re.compile(r"https://(?:unpkg\.com|api\.github\.com|gitlab\.com)")
_SOURCE_MAP = re.compile(r"\n?(?://# sourceMappingURL=\S+|/\*# sourceMappingURL=\S+ \*/)")
_LOADS = {
    ".html": re.compile(r"<(?:script|img|iframe|source|video|audio|link)\b[^>]*\s(?:src|href)=[\"']?(?:https?:)?//[^>]*"),
    ".css": re.compile(r"(?:@import\s+|url\()[\"']?(?:https?:)?//[^\s\"')]+"),
    ".js": re.compile(r"https?://(?:unpkg\.com|api\.github\.com|gitlab\.com|cdn\.[\w.-]+|fonts\.[\w.-]+)"),
}


def on_post_build(config: MkDocsConfig) -> None:
    """Removes unused hosts; raises `PluginError` if something would still be loaded from elsewhere."""
    site = Path(config.site_dir)
    for path in sorted(site.rglob("*.map")):
        path.unlink()
    for path in (*site.rglob("*.js"), *site.rglob("*.css")):
        text = path.read_text("utf-8")
        cleaned = _SOURCE_MAP.sub("", _UNUSED.sub("", text) if path.suffix == ".js" else text)
        if cleaned != text:
            path.write_text(cleaned, "utf-8")
    if found := list(loads(site)):
        raise PluginError("the site would load from another host: " + "; ".join(found))


def loads(site: Path) -> Iterator[str]:
    """What files of the site would load from another host."""
    for path in sorted(site.rglob("*")):
        if (pattern := _LOADS.get(path.suffix)) is not None:
            for match in pattern.finditer(path.read_text("utf-8")):
                yield f"{path.relative_to(site)}: {match[0][:120]}"
