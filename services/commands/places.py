"""`stream-dp places`: checks and sends the table of places and their regions."""

from __future__ import annotations

import argparse

from stream_dp.errors import UserError

from ..intake.options import file_form
from ..intake.place_files import read_places
from ..intake.table_topic import send_table
from ..process.command_output import Output
from ..storage.deployment import Deployment


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if deployment.study.places is None:
        raise UserError(f"{options.study}: declares no [places], so there is nothing to send")
    table = read_places(deployment.study, options.places, options.place, file_form(options))
    was_sent = send_table(deployment, table)
    place_count, region_count = int(table.place_counts.sum()), len(table.regions)
    data = {"confidential": True, "places": place_count, "regions": region_count, "sent": was_sent}
    notice = "" if was_sent else "; the same table is there already, and nothing was sent"
    level = table.columns[-1]
    text = f"CONFIDENTIAL\n{place_count} places in {region_count} regions of '{level}'{notice}"
    return Output(data, text)
