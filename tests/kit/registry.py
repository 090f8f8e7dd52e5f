"""A schema registry on loopback, with answers that a test chooses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

UNKNOWN = 404, {"error_code": 40403, "message": "Schema not found"}


@dataclass
class Registry:
    """By path, status and body (JSON, or bytes as they are); what was asked for, with headers."""

    url: str = ""
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def give(self, number: int, schema: Any, **more: Any) -> None:
        """Answer with a schema of that id."""
        body = {"schema": json.dumps(schema), **more}
        self.answers[f"/schemas/ids/{number}"] = 200, body

    def give_version(self, subject: str, version: int, schema: Any, **more: Any) -> dict[str, Any]:
        """Answer with a schema of a subject, deleted or not; gives the reference to it."""
        body = {"subject": subject, "version": version, "schema": json.dumps(schema), **more}
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
        self.answers[path] = 200, body
        return {"name": subject, "subject": subject, "version": version}


@contextmanager
def registry() -> Iterator[Registry]:
    """Serves until the block ends."""
    now = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now.asked.append((self.path, dict(self.headers)))
            status, body = now.answers.get(self.path, UNKNOWN)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", f"{now.url}/elsewhere")
            if not isinstance(body, bytes):
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        now.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield now
        finally:
            server.shutdown()
            thread.join()
