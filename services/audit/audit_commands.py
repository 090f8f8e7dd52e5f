"""`stream-dp audit`: a lower bound on what a release costs, from runs on simulated people.

No log is opened: the noise of an audit hides nobody, and no data is read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tqdm import tqdm

from stream_dp.errors import UserError
from stream_dp.privacy.noise import SystemNoise

from ..commands.options import study_file
from ..process.output import VIOLATION, Output
from ..storage.atomic_files import write_new_file
from ..storage.deployment import Deployment
from .audit import LEAST_RUNS, RUNS, audit


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("release", metavar="RELEASE", help="a release that the study declares")
    help_text = f"runs in each of the two worlds, at least {LEAST_RUNS}; {RUNS} by default"
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help=help_text)
    help_text = "write the result as a statement that the key of [run.signing] signs"
    parser.add_argument("--statement", type=Path, metavar="FILE", help=help_text)


def run(options: argparse.Namespace) -> Output:
    deployment, file = Deployment.load(options.study), options.statement
    study, signer = deployment.study, None
    if file is not None:
        signer = deployment.signing_key("signing")
        if signer is None:
            raise UserError(f"--statement {file}: name the study's key as [run.signing]")
        if file.exists():
            raise UserError(f"--statement {file}: is there already; name a new file")
        if not file.parent.is_dir():
            raise UserError(f"--statement {file}: its folder does not exist; make it first")
    release = study.declared(options.release)
    if release is None:
        names = ", ".join(r.name for r in (*study.releases, *(study.batches or ())))
        raise UserError(f"release '{options.release}': the study declares {names}")
    with tqdm(desc=release.name, total=options.runs, disable=None, leave=False) as bar:

        def progress() -> None:
            bar.update()

        result = audit(study, release, SystemNoise(), runs=options.runs, progress=progress)
    if signer is not None:
        statement = signer.attest(result.statement.payload(study))
        write_new_file(file, statement + "\n", public=True)
    return Output(result.as_dict(), result.text(), VIOLATION if result.violation else 0)
