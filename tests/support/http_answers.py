"""A small HTTP server that answers everything alike, for commands that ask a running service."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def answering(
    body: bytes, *, status: int = 200, at: str = "", tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Its URL, and paths and bodies of what it is asked. `at`: any other path is 404."""
    asked: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.rfile.read(int(self.headers.get("Content-Length", 0)))))
            self.send_response(status if self.path == at or not at else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join(10)
