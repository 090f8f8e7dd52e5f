"""`stream-dp monitor`: a web application over a public log, or for the operator of a study."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.log.log import Missing
from stream_dp.log.open_public import public_log

from ..process.addresses import listen_address
from ..process.output import Output, say

_EXTRA = "monitor: needs FastAPI and uvicorn; pip install 'stream-dp[monitor]'"


def options(parser: argparse.ArgumentParser) -> None:
    help_text = "a public log such as sqlite:FILE or kafka://host:port/prefix"
    help_text += "; with --operator a study file"
    parser.add_argument("source", metavar="PUBLIC|STUDY.toml", help=help_text)
    help_text = "the operator's pages of a study (confidential), with its close, retry and abandon"
    parser.add_argument("--operator", action="store_true", help=help_text)
    help_text = "operator: a file with a token that clients give; needed beyond the loopback"
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=help_text)
    help_text = "operator: the header in which a proxy names the user that it has let in"
    parser.add_argument("--proxy-header", metavar="NAME", help=help_text)
    help_text = "where pages are served; 127.0.0.1:8080 by default"
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8080", help=help_text)


def run(options: argparse.Namespace) -> Output:
    if options.operator:
        _run_operator(options)
    elif options.token_file or options.proxy_header:
        raise UserError("monitor: --token-file and --proxy-header are for --operator")
    else:
        _run_public(options)
    return Output({"ended": True}, "")


def _run_operator(options: argparse.Namespace) -> None:
    try:
        from ..monitor.access import access_for
        from ..monitor.operator import operator_monitor
        from ..monitor.operator_facts import Watch
        from ..monitor.serving import serve
    except ImportError:
        raise UserError(_EXTRA) from None
    from ..deployment import Deployment  # the public monitor must not load it

    study = Path(options.source)
    Deployment.load(study)
    host, _ = listen_address(options.listen)
    access = access_for(host, _token(options.token_file), options.proxy_header)
    watch = Watch(study)
    watch.start()
    serve(
        operator_monitor(study, access, watch),
        options.listen,
        lambda port: say(f"operator's monitor of {study}: http://{_shown(host)}:{port}"),
    )


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UserError(f"--token-file: {path} cannot be read") from None


def _run_public(options: argparse.Namespace) -> None:
    try:
        from ..monitor.follower import Follower
        from ..monitor.front import public_monitor
        from ..monitor.public_process import PublicProcess
        from ..monitor.serving import serve
    except ImportError:
        raise UserError(_EXTRA) from None
    source: str = options.source
    if ":" not in source:
        raise UserError(
            f"{source}: name a public log, sqlite:FILE or kafka://host:port/prefix; a study file"
            " has the confidential log too, which this process must not open"
        )
    with suppress(Missing):  # nothing is published yet: the page says so, until something is
        public_log(source).close()
    host, _ = listen_address(options.listen)
    follower = Follower(lambda: public_log(source), lambda: PublicProcess(source))
    follower.start()
    try:
        serve(
            public_monitor(follower),
            options.listen,
            lambda port: say(f"monitor of {source}: http://{_shown(host)}:{port}"),
        )
    finally:
        follower.stop()


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
