"""`stream-dp monitor`: a web application over a public log, or for the operator of a study."""

from __future__ import annotations

import argparse
from contextlib import ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stream_dp.errors import UserError, missing_extra
from stream_dp.log import public_log
from stream_dp.log.log import Missing

from ..process.access import listen_address
from ..process.command_output import Output, say

if TYPE_CHECKING:
    from .client_limits import Application


def run(options: argparse.Namespace) -> Output:
    if not options.operator and (options.token_file or options.proxy_header):
        raise UserError("monitor: --token-file and --proxy-header are for --operator")
    if options.operator and _of_one_log(options):
        raise UserError("monitor: --key, --head, --statement and --map are for a public log")
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise missing_extra("monitor: needs FastAPI and uvicorn", "monitor")
    from .serving import serve

    with ExitStack() as stack:
        begin = _operator if options.operator else _public
        application, title, link = begin(options, stack)
        host, _ = listen_address(options.listen)
        shown = f"[{host}]" if ":" in host else host
        serve(
            application,
            options.listen,
            lambda port: say(f"{title}: http://{shown}:{port}{link}"),
            _names(options),
        )
    return Output({"ended": True}, "")


def _of_one_log(options: argparse.Namespace) -> bool:
    return bool(options.key or options.head or options.statement or options.map)


def _names(options: argparse.Namespace) -> list[str]:
    """The declared names of the host. Raises UserError for an address without a name."""
    url = options.url
    host = urlsplit(url).hostname if url.startswith(("https://", "http://")) else None
    if url and host is None:
        raise UserError(f"--url {url}: write it as https://HOST")
    return [name for name in (host, *options.hosts.split(",")) if name]


def _operator(options: argparse.Namespace, _: ExitStack) -> tuple[Application, str, str]:
    """The operator's application, its title, and the path of the link that lets the operator in."""
    from ..process.access import operator_access
    from ..storage.deployment import Deployment  # the public monitor must not load it
    from .operator import operator_monitor
    from .operator_facts import Overview, Watch
    from .serving import operator_studies, study_files

    study = Path(options.sources[0])
    several = len(options.sources) > 1 or study.is_dir()
    studies = study_files(options.sources)
    if not several:
        Deployment.load(study)
    host, _port = listen_address(options.listen)
    access = operator_access(host, options.token_file, options.proxy_header)
    once = "; the link works once" if access.once else ""
    if several:
        overview = Overview(studies)
        overview.start()
        title = f"operator's monitor of {len(studies)} studies{once}"
        return operator_studies(studies, access, overview), title, access.link
    watch = Watch(study)
    watch.start()
    return (
        operator_monitor(study, access, watch),
        f"operator's monitor of {study}{once}",
        access.link,
    )


def _public(options: argparse.Namespace, stack: ExitStack) -> tuple[Application, str, str]:
    """Follows public logs until the end of `stack`."""
    from .catalogue import is_folder, public_catalogue, public_sources, study_url
    from .follower import Follower
    from .public_front import public_monitor
    from .region_map import read_outlines
    from .serving import PublicProcess, public_zygote

    sources = public_sources(options.sources)
    several = len(options.sources) > 1 or is_folder(options.sources[0])
    if several and _of_one_log(options):
        raise UserError("monitor: --key, --head, --statement and --map are for one public log")
    if options.map:
        read_outlines(options.map)  # so that a wrong file is refused at once
    listen_address(options.listen)
    _names(options)
    url = options.url.rstrip("/")
    zygote = public_zygote()
    stack.callback(zygote.stop)

    def followed(source: str, url: str) -> Follower:
        served = {"key": options.key, "head": options.head, "url": url}
        files = {"outlines": options.map, "statements": options.statement}
        begin = partial(PublicProcess, zygote, source, **files, **served)
        follower = Follower(lambda: public_log(source), begin)
        follower.start()
        stack.callback(follower.stop)
        return follower

    if several:
        followers = {n: followed(source, study_url(url, n)) for n, source in sources.items()}
        return public_catalogue(followers, url), f"monitor of {len(followers)} studies", ""
    (source,) = sources.values()
    with suppress(Missing):  # nothing is published yet: the page says so, until something is
        public_log(source).close()
    return public_monitor(followed(source, url), urlsplit(url).path), f"monitor of {source}", ""
