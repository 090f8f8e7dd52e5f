"""`stream-dp monitor`: a web application over a public log, or for the operator of a study."""

from __future__ import annotations

import argparse

from stream_dp.client import public_log
from stream_dp.errors import UserError

from ..addresses import listen_address
from ..output import Output, say

_EXTRA = "monitor: needs FastAPI and uvicorn; pip install 'stream-dp[monitor]'"


def options(parser: argparse.ArgumentParser) -> None:
    words = "a public log such as sqlite:FILE or kafka://host:port/prefix"
    parser.add_argument("source", metavar="PUBLIC", help=words)
    words = "where pages are served; 127.0.0.1:8080 by default"
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8080", help=words)


def run(options: argparse.Namespace) -> Output:
    try:
        from ..monitor.public import public_monitor
        from ..monitor.serving import serve
        from ..monitor.state import PublicReader
        from ..monitor.views import prepare
    except ImportError:
        raise UserError(_EXTRA) from None
    source: str = options.source
    if ":" not in source:
        raise UserError(
            f"{source}: name a public log, sqlite:FILE or kafka://host:port/prefix; a study file"
            " has the confidential log too, which this process must not open"
        )
    public_log(source).close()
    host, _ = listen_address(options.listen)
    reader = PublicReader(lambda: public_log(source), prepare)
    reader.start()
    try:
        serve(
            public_monitor(reader, lambda: public_log(source)),
            options.listen,
            lambda port: say(f"monitor of {source}: http://{_shown(host)}:{port}"),
        )
    finally:
        reader.stop()
    return Output({"ended": True}, "")


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
