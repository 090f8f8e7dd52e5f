"""Refusals of the public monitor: a page, or JSON for the API."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import JSONResponse, Response

from .render import render

TOO_MUCH = "this needs more time or memory than it gets here; ask less of it"


def refusal(
    path: str,
    status: int,
    title: str,
    lines: Sequence[str],
    root: str = "",
    base: str = "site.html",
) -> Response:
    """A refusal of a request to a path, which quotes nothing else of the request.

    root: the path that the page's links begin with; `path` is without it.
    base: the template that the page extends.
    """
    if path.startswith(("/api/", "/download/", "/figure/", "/metadata", "/openapi")):
        return JSONResponse({"error": title, "lines": list(lines)}, status_code=status)
    text = render("problem.html", root=root, base=base, title=title, lines=lines, head="")
    return Response(text, status_code=status, media_type="text/html; charset=utf-8")
