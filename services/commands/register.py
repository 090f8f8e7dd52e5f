"""`stream-dp register`: all studies of a population, and what they cost its people together."""

from __future__ import annotations

import argparse

from pydantic import ValidationError

from stream_dp.errors import UserError
from stream_dp.log.message import START

from ..process.command_output import Output
from ..storage.deployment import Deployment
from ..storage.study_register import (
    Registered,
    StudyCost,
    StudyRegister,
    add_study,
    begin_register,
    read_register,
)


def run(options: argparse.Namespace) -> Output:
    register = _ACTIONS[options.action](options)
    declared, spent = register.population, register.spent
    data = {
        "population": declared.population,
        "unit": declared.unit,
        "neighbours": declared.neighbours,
        "studies": [
            {"study": study.study, "begun": study.begun, "rho": str(study.rho)}
            for study in register.studies
        ],
        "rho_spent": str(spent),
        "rho_total": str(declared.rho),
        "head": register.head,
    }
    lines = [
        f"{declared.population}: {len(register.studies)} studies, one {declared.unit} at a time"
        f" under {declared.neighbours}",
        *(f"{study.study}: {_begun(study)}, rho {study.rho}" for study in register.studies),
        f"together: rho {spent} of {declared.rho}; {declared.rho - spent} is left",
        f"head {register.head}",
    ]
    return Output(data, "\n".join(lines))


def _begun(study: StudyCost) -> str:
    if not study.begun:
        return "not begun"
    return "begun" if study.begun == 1 else f"begun {study.begun} times"


def _begin(options: argparse.Namespace) -> StudyRegister:
    """Writes a new register. Raises UserError for missing or faulty options."""
    if options.study is not None:
        raise UserError("register begin: takes no study; 'register add' does")
    fields = ("population", "unit", "neighbours", "rho")
    declared = {name: getattr(options, name) for name in fields}
    missing = [f"--{name}" for name, value in declared.items() if not value]
    if missing:
        raise UserError(f"register begin: give {', '.join(missing)}")
    try:
        population = Registered(**declared, previous=START)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
        why = fault["msg"].removeprefix("Value error, ")
        if fault["type"].startswith("string_"):
            why = "write one line of at most 200 characters"
        raise UserError(f"register begin: --{fault['loc'][0]}: {why}") from None
    return begin_register(options.register, population)


def _add(options: argparse.Namespace) -> StudyRegister:
    if options.study is None:
        raise UserError("register add: name the study file")
    return add_study(options.register, Deployment.load(options.study).study)


def _check(options: argparse.Namespace) -> StudyRegister:
    register = read_register(options.register, options.head)
    if options.study is not None:
        register.check(Deployment.load(options.study).study)
    return register


_ACTIONS = {"begin": _begin, "add": _add, "check": _check}
