"""`stream-dp groups`: checks and sends the tables of groups and their members."""

from __future__ import annotations

import argparse
from dataclasses import replace

from stream_dp.errors import UserError

from ..intake.options import (
    file_form,
    roster_tables,
)
from ..intake.roster_files import read_roster
from ..intake.table_topic import send_table
from ..process.command_output import Output
from ..storage.deployment import Deployment


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    if deployment.study.groups is None:
        raise UserError(f"{options.study}: declares no [groups], so there is nothing to send")
    tables = replace(roster_tables(options), form=file_form(options))
    roster = read_roster(deployment.study, tables)
    was_sent = send_table(deployment, roster)
    groups, people = len(roster.sizes), len(roster.persons)
    data = {"confidential": True, "groups": groups, "members": people, "sent": was_sent}
    notice = "" if was_sent else "; the same table is there already, and nothing was sent"
    return Output(data, f"CONFIDENTIAL\n{groups} groups, {people} members{notice}")
