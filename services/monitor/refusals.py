"""What the public monitor says where it cannot answer: a page, or JSON to those who use the API."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import JSONResponse, Response

from ..pages.render import render

TOO_MUCH = "this needs more time or memory than it gets here; ask less of it"


def refusal(path: str, status: int, title: str, lines: Sequence[str]) -> Response:
    """A refusal of what was asked at a path. It quotes nothing else of the request."""
    if path.startswith(("/api/", "/download/", "/openapi")):
        return JSONResponse({"error": title, "lines": list(lines)}, status_code=status)
    text = render("problem.html", title=title, lines=lines, head="")
    return Response(text, status_code=status, media_type="text/html; charset=utf-8")
