"""Serves the dashboard's files from package data, each under a fixed path; no path of a request is used to find a file.

The files are read once. Their headers allow the page to load and run only this listener's own files.
"""

from collections.abc import Iterator
from importlib import resources
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

PAGE_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # After an upgrade the browser must load the new page, since page and stream of one version belong together.
    "cache-control": "no-cache",
}
_MEDIA: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def add_pages(app: FastAPI) -> None:
    """Adds the page at `/` and its other files under `/dashboard/`."""
    page = resources.files(__package__).joinpath("static", "index.html").read_text("utf-8")

    @app.get("/", response_class=HTMLResponse, summary="The dashboard")
    async def dashboard() -> HTMLResponse:
        return HTMLResponse(page, headers=PAGE_HEADERS)

    for name, media, content in _files():
        _add_file(app, name, media, content)


def _files() -> Iterator[tuple[str, str, bytes]]:
    """Yields name, media type and content of each file except the page itself."""
    for entry in sorted(resources.files(__package__).joinpath("static").iterdir(), key=lambda entry: entry.name):
        media = _MEDIA.get(entry.name.rpartition(".")[2])
        if media is not None:
            yield entry.name, media, entry.read_bytes()


def _add_file(app: FastAPI, name: str, media: str, content: bytes) -> None:
    async def file(_request: Request) -> Response:
        return Response(content, media_type=media, headers=PAGE_HEADERS)

    app.add_route(f"/dashboard/{name}", file, methods=["GET"])
