"""`stream-dp groups` and `stream-dp places`: check and send tables beside reports."""

from __future__ import annotations

import argparse
from dataclasses import replace

from stream_dp.errors import UserError

from ..intake.options import file_form, roster_tables
from ..intake.place_files import read_places
from ..intake.roster_files import read_roster
from ..intake.table_topic import send_table
from ..process.command_output import Output
from ..storage.deployment import Deployment


def send_groups(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if deployment.study.groups is None:
        raise UserError(f"{options.study}: declares no [groups], so there is nothing to send")
    tables = replace(roster_tables(options), form=file_form(options))
    roster = read_roster(deployment.study, tables)
    groups, people = len(roster.sizes), len(roster.persons)
    text = f"{groups} groups, {people} members"
    return _sent(send_table(deployment, roster), text, groups=groups, members=people)


def send_places(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if deployment.study.places is None:
        raise UserError(f"{options.study}: declares no [places], so there is nothing to send")
    table = read_places(deployment.study, options.places, options.place, file_form(options))
    places, regions = int(table.place_counts.sum()), len(table.regions)
    text = f"{places} places in {regions} regions of '{table.columns[-1]}'"
    return _sent(send_table(deployment, table), text, places=places, regions=regions)


def _sent(sent: bool, text: str, **counts: int) -> Output:
    notice = "" if sent else "; the same table is there already, and nothing was sent"
    data = {"confidential": True, **counts, "sent": sent}
    return Output(data, f"CONFIDENTIAL\n{text}{notice}")
