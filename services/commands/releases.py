"""`stream-dp releases`: lists what has been published."""

from __future__ import annotations

import argparse
from typing import Any

from stream_dp.release.data_sets import BatchCertificate
from stream_dp.release.published import keep_none

from ..deployment import open_public
from ..options import public_source
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    public_source(parser)


def run(options: argparse.Namespace) -> Output:
    public, _ = open_public(options.source, keep_none)
    study = public.study
    listed: list[dict[str, Any]] = [
        {
            "release": certificate.release,
            "period": certificate.period,
            "kind": certificate.kind,
            "rows": certificate.people
            if isinstance(certificate, BatchCertificate)
            else certificate.rows,
            "rho": str(certificate.rho),
            "rho_spent": str(certificate.rho_spent),
            "epsilon_spent": certificate.epsilon_spent,
            "hash": release.message.hash,
        }
        for release in public.published
        for certificate in [release.certificate]
    ]
    data = {"study": study.name, "study_hash": study.hash, "releases": listed, "head": public.head}
    lines = [f"{'release':<20} {'period':<10} {'rows':>9} {'rho':>12} {'eps so far':>10}  hash"]
    lines += [
        f"{x['release']:<20} {x['period']:<10} {x['rows']:>9} {float(r.certificate.rho):>12.6g} "
        f"{float(x['epsilon_spent']):>10.3f}  {x['hash'][:16]}"
        for x, r in zip(listed, public.published, strict=True)
    ]
    words = " ".join(study.description.split())
    about = f"study {study.name}" + (f": {words}" if words else "")
    return Output(data, "\n".join([about, *lines, f"head {public.head}"]))
