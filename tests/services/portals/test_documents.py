"""Descriptions beside exported tables, of every family, by the validators of their formats."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet
import pytest
import rdflib
from kit.described_logs import CURATOR, LINE, described_messages
from kit.kinds_of_releases import published
from kit.metadata_validators import validated
from kit.monitors import publish
from rdflib import DCAT, DCTERMS, FOAF, RDF, RDFS

from stream_dp.client import PublicLog
from stream_dp.client import open as open_public
from stream_dp.log.message import read_messages
from stream_dp.services.commands.cli import main
from stream_dp.services.portals.description import describe, privacy_facts
from stream_dp.services.portals.documents import DOCUMENTS, described_tables
from stream_dp.services.portals.release_tables import has_series
from stream_dp.study.families import Family, Kind
from stream_dp.study.field_types import is_formula
from stream_dp.study.topics import RELEASES

KIND_OF = {kind.family: kind for kind in reversed(Kind)}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:rdflib")
DDI = "{ddi:codebook:2_5}"
BAD = "bad"  # the folder of the log with bad texts


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By family, and for bad texts, the public log in a file."""
    folder, files = tmp_path_factory.mktemp("logs"), {}
    messages = {
        family.value: list(read_messages(published(kind), RELEASES, "public log"))
        for family, kind in KIND_OF.items()
    }
    for name, sent in {**messages, BAD: described_messages()}.items():
        files[name] = folder / f"{name}-public.db"
        publish(files[name], sent)
    return files


@pytest.fixture(scope="module")
def folders(logs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By log, the folder of a release in CSV; of windows also in Parquet."""
    out = {}
    for name, log in logs.items():
        out[name] = tmp_path_factory.mktemp("out") / name
        release = "pairs" if name == BAD else "answers"
        words = ["export", f"sqlite:{log}", release, str(out[name])]
        assert main([*words, "--format", "csv"]) == 0
    words[-1] = str(out[BAD].with_name("parquet"))
    assert main(words) == 0
    out["parquet"] = Path(words[-1])
    return out


def package_of(folder: Path) -> Any:
    return json.loads((folder / "datapackage.json").read_text("utf-8"))


def test_the_validators_accept_every_family_and_read_every_row(folders: dict[str, Path]) -> None:
    found = validated(list(folders.values()))
    assert len(found) == len(Family) + 2
    for name, folder in folders.items():
        one = found[str(folder)]
        assert one["faults"] == [], name
        if name in (BAD, "parquet"):  # with a curator nothing that is recommended is missing
            assert one["warnings"] == []
        rows: dict[str, int] = {}
        for resource in package_of(folder)["resources"]:
            file = folder / resource["path"]
            if file.suffix == ".csv":
                with file.open(newline="") as lines:
                    rows[resource["name"]] = sum(1 for _ in csv.reader(lines)) - 1
                assert one["tasks"][resource["name"]] == rows[resource["name"]]
            else:
                rows[resource["name"]] = pyarrow.parquet.read_metadata(file).num_rows
        assert one["rows"] == rows, name
        assert all(rows.values())


def test_files_have_their_stated_bytes_and_every_document_is_there(
    folders: dict[str, Path],
) -> None:
    for folder in folders.values():
        names = {resource["path"] for resource in package_of(folder)["resources"]}
        assert {path.name for path in folder.iterdir()} == names | set(DOCUMENTS)
        for resource in package_of(folder)["resources"]:
            data = (folder / resource["path"]).read_bytes()
            assert resource["bytes"] == len(data)
            assert resource["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_columns_have_labels_and_values(logs: dict[str, Path]) -> None:
    """No column of any family is described by its name alone."""
    for family in Family:
        public = open_public(f"sqlite:{logs[family.value]}")
        for table in described_tables(public, "answers", None, lambda table: []):
            for column in table.columns:
                assert column.label != column.name, (table.name, column)
                if column.name == "work":
                    assert column.values == (("no", "no"), ("yes", "yes"))


def test_the_labels_of_values_are_the_declared_ones(folders: dict[str, Path]) -> None:
    label = f"employed {LINE}"[:60]
    panel = package_of(folders[BAD])["resources"][0]["schema"]["fields"]
    assert [field["name"] for field in panel] == ["row", *(f"2021-0{i}" for i in (1, 2, 3, 4))]
    assert panel[1]["constraints"] == {"enum": ["no", "half day", "full"]}
    assert panel[1]["categories"] == [{"value": "full", "label": label}]
    book = ElementTree.parse(folders[BAD] / "ddi.xml")
    values = {
        category.findtext(f"{DDI}catValu"): category.findtext(f"{DDI}labl")
        for category in book.iter(f"{DDI}catgry")
    }
    assert values == {"no": "no", "half day": "half day", "full": label}


def test_every_document_states_the_guarantee(
    folders: dict[str, Path], logs: dict[str, Path]
) -> None:
    """Unit, relation, epsilon, delta, mechanism, and what is not protected."""
    for name, folder in folders.items():
        public = open_public(f"sqlite:{logs.get(name, logs[BAD])}")
        facts = privacy_facts(public.study, [one.certificate for one in public.published])
        privacy = package_of(folder)["privacy"]
        assert privacy["unit"] == "person"
        assert privacy["relation"] == public.study.neighbours
        assert privacy["epsilon"] == float(facts.epsilon_spent) > 0
        assert privacy["epsilon_total"] == float(facts.epsilon_total)
        assert privacy["delta"] == 1e-6
        assert privacy["mechanisms"] == list(facts.mechanisms)
        assert privacy["not_protected"] == list(facts.not_protected)
        assert privacy["invariants"] == facts.invariants
        stated = [
            f"one {facts.unit}, with its whole history",
            *(facts.relation, facts.guarantee, facts.epsilon_spent, facts.epsilon_total),
            *("1/1000000", "; ".join(facts.mechanisms), facts.noise, facts.invariants),
            *facts.not_protected,
        ]
        croissant = json.loads((folder / "croissant.json").read_text("utf-8"))
        properties = [one["value"] for one in croissant["additionalProperty"]]
        notes = ElementTree.parse(folder / "ddi.xml").iter(f"{DDI}notes")
        graph = rdflib.Graph().parse(folder / "dcat.jsonld")
        labels = [str(o) for s in graph.objects(None, DCTERMS.provenance)
                  for o in graph.objects(s, RDFS.label)]  # fmt: skip
        assert set(stated) <= set(properties)
        assert set(stated) <= {note.text for note in notes}
        assert all(any(label.endswith(f": {text}") for label in labels) for text in stated)


def test_dcat_has_what_its_profile_requires(folders: dict[str, Path]) -> None:
    for name, folder in folders.items():
        graph = rdflib.Graph().parse(folder / "dcat.jsonld")
        (dataset,) = graph.subjects(RDF.type, DCAT.Dataset)
        for required in (DCTERMS.title, DCTERMS.description, DCTERMS.identifier):
            assert len(set(graph.objects(dataset, required))) == 1
        files = set(graph.objects(dataset, DCAT.distribution))
        assert len(files) == len(package_of(folder)["resources"])
        for file in files:
            (address,) = graph.objects(file, DCAT.accessURL)
            assert (folder / str(address).rpartition("/")[2]).is_file()
            assert (file, RDF.type, DCAT.Distribution) in graph
        catalogues = set(graph.subjects(RDF.type, DCAT.Catalog))
        assert len(catalogues) == (name in (BAD, "parquet"))
        for catalogue in catalogues:
            (publisher,) = graph.objects(catalogue, DCTERMS.publisher)
            (agent,) = graph.objects(publisher, FOAF.name)
            assert str(agent) == CURATOR["name"]
            assert (catalogue, DCAT.dataset, dataset) in graph
            licences = {str(one) for one in graph.objects(None, DCTERMS.license)}
            assert licences == {"https://spdx.org/licenses/CC-BY-4.0"}


def test_a_codebook_names_every_file_and_variable(folders: dict[str, Path]) -> None:
    for folder in folders.values():
        book = ElementTree.parse(folder / "ddi.xml").getroot()
        assert [part.tag.removeprefix(DDI) for part in book] == [
            *("docDscr", "stdyDscr"),
            *["fileDscr"] * len(package_of(folder)["resources"]),
            "dataDscr",
        ]
        assert book.findtext(f"{DDI}stdyDscr/{DDI}citation/{DDI}titlStmt/{DDI}titl")
        ids = [element.get("ID") for element in book.iter() if element.get("ID")]
        assert len(set(ids)) == len(ids)
        variables: dict[str | None, list[str | None]] = {}
        for variable in book.iter(f"{DDI}var"):
            variables.setdefault(variable.get("files"), []).append(variable.get("name"))
            assert variable.findtext(f"{DDI}labl")
        for file, resource in zip(
            book.iter(f"{DDI}fileDscr"), package_of(folder)["resources"], strict=True
        ):
            fields = [field["name"] for field in resource["schema"]["fields"]]
            assert variables[file.get("ID")] == fields
            assert file.get("URI") == resource["path"]


def test_series_are_all_answers_and_no_cell_is_a_formula(
    folders: dict[str, Path], logs: dict[str, Path]
) -> None:
    for name, folder in folders.items():
        public = open_public(f"sqlite:{logs.get(name, logs[BAD])}")
        if not has_series(public):
            assert name == Family.SIZES.value
            assert not (folder / "series.csv").exists()
            continue
        release = "pairs" if name in (BAD, "parquet") else "answers"
        with (folder / "series.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [*rows[0]][:3] == ["STRUCTURE", "STRUCTURE_ID", "ACTION"]
        assert not any(is_formula(cell) for row in rows for cell in row.values())
        answers = public.answer_table(release).to_pylist()
        # A data set in each period, of which the last is exported.
        if name in (Family.PEOPLE.value, Family.HOUSEHOLDS.value):
            answers = [row for row in answers if row["period"] == "2026-02"]
        expected = {(a["query"], a["measure"], a["period"]): a["value"] for a in answers}
        found = {
            (row["QUERY"], row["MEASURE"], row["TIME_PERIOD"]): float(row["OBS_VALUE"])
            for row in rows
        }
        assert found == pytest.approx(expected)


def test_a_study_without_releases_and_dates_is_described() -> None:
    public = PublicLog(published(Kind.WINDOW))
    public.published.clear()
    study = public.study
    every = study.periods.model_copy(update={"every": "step", "first": "1"})
    public.study = study.model_copy(update={"periods": every})
    description = describe(public, [], [])
    assert (description.periods, description.days, description.published) == (None, None, None)
    for document in DOCUMENTS.values():
        assert document.write(description)
