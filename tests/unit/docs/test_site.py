"""The pages as the site shows them: lists and commands are rendered, links have titles, nothing comes from another host."""

import re
import runpy
from functools import cache
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from markdown import Markdown
from markdown_it import MarkdownIt
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

DOCS = Path("docs")
PAGES = sorted(DOCS.rglob("*.md"))
GUIDES = [page for page in PAGES if "adr" not in page.parts]
SETTINGS: dict[str, Any] = yaml.load(Path("mkdocs.yml").read_text(), yaml.BaseLoader)
_COMMAND = re.compile(r"(?:\$ )?(?:kubectl|slackwater|make|helm|docker|curl|git|pip|uv|pipx|python|export|cd) [\w./-]+(?: |$)")


class Tags(HTMLParser):
    """Counts the elements of a page, and keeps the text with which each paragraph begins."""

    KEPT = frozenset({"li", "ol", "ul", "pre", "table", "tr", "h1", "h2", "h3", "blockquote"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.begins: list[str] = []
        self._open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        if tag in self.KEPT:
            self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_data(self, data: str) -> None:
        if self._open in {"p", "li"} and data.strip():
            self.begins.append(data.lstrip())
        self._open = ""


@cache
def as_the_site(text: str) -> Tags:
    names, settings = [], {}
    for each in SETTINGS["markdown_extensions"]:
        name = each if isinstance(each, str) else next(iter(each))
        names.append(name)
        if not isinstance(each, str):
            settings[name] = {key: value == "true" for key, value in each[name].items()}
    return Tags(Markdown(extensions=names, extension_configs=settings).convert(text))


def as_a_forge(text: str) -> Tags:
    return Tags(MarkdownIt("commonmark").enable("table").render(text))


@pytest.mark.parametrize("pages", [GUIDES, sorted(set(PAGES) - set(GUIDES))], ids=["pages", "decisions"])
def test_a_page_has_the_same_lists_commands_and_tables_on_the_site_as_on_a_forge(pages: list[Path]) -> None:
    """Where it has not: put an empty line before a list, four spaces before what belongs to an item, and fence code."""
    assert len(pages) > 20
    texts = {page: page.read_text() for page in pages}
    assert {
        str(page): (site, forge)
        for page, text in texts.items()
        if (site := as_the_site(text).counts) != (forge := as_a_forge(text).counts)
    } == {}


def test_no_paragraph_begins_with_a_command() -> None:
    found = [(page.name, text) for page in GUIDES for text in as_the_site(page.read_text()).begins if _COMMAND.match(text)]
    assert found == []
    assert _COMMAND.match(as_the_site("text\n\n   slackwater dumpstate -o json\n").begins[1]), "three spaces are no code"


def test_the_text_of_a_link_to_a_page_is_a_title() -> None:
    links = [(page.name, text) for page in GUIDES for text in re.findall(r"\[([^\]]*\.md)\]\(", page.read_text())]
    assert links == []


def test_a_site_that_loads_from_another_host_is_refused(tmp_path: Path) -> None:
    hook = runpy.run_path(str(DOCS / "selfcontained.py"))
    loads, on_post_build = hook["loads"], hook["on_post_build"]
    (tmp_path / "bundle.js").write_text('fetch("https://unpkg.com/mermaid");\n//# sourceMappingURL=bundle.js.map\n')
    (tmp_path / "bundle.js.map").touch()
    (tmp_path / "page.html").write_text('<a href="https://example.org/">elsewhere</a><script src="assets/bundle.js"></script>')
    settings = MkDocsConfig()
    settings.site_dir = str(tmp_path)
    on_post_build(settings)
    assert (tmp_path / "bundle.js").read_text() == 'fetch("/mermaid");\n'
    assert not (tmp_path / "bundle.js.map").exists()
    for name, text in {
        "font.html": '<link href="https://fonts.example/x.css" rel="stylesheet">',
        "script.html": '<script async src="//cdn.example/x.js"></script>',
        "image.html": '<img alt="" src=https://example.org/x.png>',
        "font.css": "@font-face { src: url('https://fonts.example/x.woff') }",
    }.items():
        (tmp_path / name).write_text(text)
        assert len(list(loads(tmp_path))) == 1, name
        with pytest.raises(PluginError, match=name):
            on_post_build(settings)
        (tmp_path / name).unlink()


@pytest.mark.parametrize("document", sorted(Path("openapi").glob("*.yaml")), ids=lambda path: path.stem)
def test_each_listener_has_a_page_with_all_that_it_answers(document: Path) -> None:
    """`make site` renders it: a link to a schema that is not there fails the build."""
    hook = runpy.run_path(str(DOCS / "openapi_pages.py"))
    described = yaml.safe_load(document.read_text())
    text: str = hook["page"](described)
    headings = set(re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    methods = {f"{method.upper()} {path}" for path, each in described["paths"].items() for method in each}
    schemas = described["components"]["schemas"]
    assert headings == {described["info"]["title"], "Schemas", *methods, *schemas}
    fields = [field for schema in schemas.values() for field in schema.get("properties", ())]
    assert [field for field in fields if f"| `{field}` |" not in text] == []
    assert len(fields) > 10
    codes = {code for each in described["paths"].values() for one in each.values() for code in one["responses"]}
    assert [code for code in codes if f"| `{code}` |" not in text] == []
    assert f"api/{document.stem}.md" in Path("mkdocs.yml").read_text()


def test_what_the_page_of_a_listener_cannot_show_fails_the_build() -> None:
    page = runpy.run_path(str(DOCS / "openapi_pages.py"))["page"]
    document = {"info": {"title": "t", "description": "d"}, "servers": [], "paths": {}}
    with pytest.raises(PluginError, match="schema Odd: not is not known"):
        page({**document, "components": {"schemas": {"Odd": {"not": {}}}}})
    with pytest.raises(PluginError, match="oneOf is not known"):
        page({**document, "components": {"schemas": {"Odd": {"properties": {"a": {"oneOf": []}}}}}})


@pytest.mark.parametrize("drawing", sorted((DOCS / "pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_no_text_of_a_drawing_is_cut_or_overlaps_another(drawing: Path) -> None:
    """By the width of a wide font, 0.6 of its size a letter."""
    space = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(drawing).getroot()
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    assert root.find(f"{space}title") is not None
    boxes = []
    for text in root.iter(f"{space}text"):
        size, words = float(text.get("font-size", "13")), text.text or ""
        x, y, long = float(text.get("x", "0")), float(text.get("y", "0")), 0.6 * size * len(words)
        left = {"start": x, "middle": x - long / 2, "end": x - long}[text.get("text-anchor", "start")]
        boxes.append((words, left, y - size * 0.8, left + long, y + size * 0.2))
    assert len(boxes) > 5
    assert [
        words for words, left, top, right, bottom in boxes if left < 4 or top < 4 or right > width - 4 or bottom > height - 4
    ] == []
    assert [
        (one[0], other[0])
        for one, other in combinations(boxes, 2)
        if one[1] < other[3] and other[1] < one[3] and one[2] < other[4] and other[2] < one[4]
    ] == []
