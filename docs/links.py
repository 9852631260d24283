"""mkdocs hook: pages link to files of the repository that are no pages (manifests, OpenAPI, CONTRIBUTING).

Flows through: the links of a page -> copies of those files in the site under `repository/`, and links that lead there. A
link to a file that does not exist stays as it is, and fails the build. Deliberately absent: links between
pages, which mkdocs checks itself.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)((?:#[^)\s]*)?)\)")
_ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what any page links to."""
    for page in list(files.documentation_pages()):
        for found in _LINK.finditer(page.content_string):
            outside = _outside(page.src_uri, found[1])
            path = _ROOT / outside if outside else None
            if path is not None and path.is_file() and files.get_file_from_path(_copy(outside)) is None:
                files.append(File.generated(config, _copy(outside), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Sends those links to the copies; headings stay out of it, as the copies are text."""

    def moved(found: re.Match[str]) -> str:
        outside = _outside(page.file.src_uri, found[1])
        if not outside or files.get_file_from_path(_copy(outside)) is None:
            return found[0]
        here = posixpath.dirname(page.file.src_uri)
        return f"]({posixpath.relpath(_copy(outside), here or '.')})"

    return _LINK.sub(moved, markdown)


def _outside(source: str, link: str) -> str:
    """The path in the repository of what is linked, or nothing where it is a page."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), link))
    return "" if path.startswith(("docs/", "..")) else path


def _copy(outside: str) -> str:
    # Another name than a page's, or mkdocs would make a page of it, whose links lead elsewhere.
    return f"repository/{outside}.txt"
