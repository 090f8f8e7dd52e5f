"""`stream-dp releases`: lists the published releases."""

from __future__ import annotations

import argparse

from stream_dp.json_object import Json
from stream_dp.release.public_reader import keep_none

from ..process.command_output import Output
from ..storage.deployment import open_pinned


def run(options: argparse.Namespace) -> Output:
    public, _ = open_pinned(options, keep_none)
    study = public.study
    listed: list[Json] = [
        {
            "release": certificate.release,
            "period": certificate.period,
            "kind": certificate.kind,
            "rows": certificate.published_rows,
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
    description = " ".join(study.description.split())
    heading = f"study {study.name}" + (f": {description}" if description else "")
    return Output(data, "\n".join([heading, *lines, f"head {public.head}"]))
