"""A DDI codebook (2.5): the study, its files, its variables and their categories, in XML."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from .description import SOFTWARE, DescribedColumn, DescribedTable, Description, privacy_rows

_NAMESPACE = "ddi:codebook:2_5"
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def codebook(description: Description) -> bytes:
    """The codebook of all tables: a file for each, a variable per column."""
    root = Element("codeBook", {"xmlns": _NAMESPACE, "version": "2.5"})
    _document(root, description)
    _study(root, description)
    for number, table in enumerate(description.tables, 1):
        _file(root, f"F{number}", table)
    variables = _child(root, "dataDscr")
    for number, table in enumerate(description.tables, 1):
        for place, column in enumerate(table.columns, 1):
            _variable(variables, f"V{number}.{place}", f"F{number}", column)
    ElementTree.indent(root, " ")
    written: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return written


def _child(parent: Element, tag: str, text: str = "", /, **attributes: str) -> Element:
    """Adds an element; signs that XML does not have become the replacement character."""
    sound = {key: _NOT_XML.sub("\ufffd", value) for key, value in attributes.items()}
    child = ElementTree.SubElement(parent, tag, sound)
    child.text = _NOT_XML.sub("\ufffd", text) or None
    return child


def _document(root: Element, description: Description) -> None:
    citation = _child(_child(root, "docDscr"), "citation")
    _child(_child(citation, "titlStmt"), "titl", f"Codebook: {description.title}")
    _child(_child(citation, "prodStmt"), "software", SOFTWARE)


def _study(root: Element, description: Description) -> None:
    """Adds the study: curator, subject, privacy and terms of use."""
    study, curator = description.study, description.study.curator
    described = _child(root, "stdyDscr")
    citation = _child(described, "citation")
    title = _child(citation, "titlStmt")
    _child(title, "titl", description.title)
    _child(title, "IDNo", study.hash, agency="stream-dp")
    if curator is not None:
        _child(_child(citation, "rspStmt"), "AuthEnty", curator.name)
        distribution = _child(citation, "distStmt")
        _child(distribution, "distrbtr", curator.name)
        contact = description.contact_address
        if contact is not None and contact.startswith("mailto:"):
            _child(distribution, "contact", curator.name, email=contact.removeprefix("mailto:"))
        elif contact is not None:
            _child(distribution, "contact", curator.name, URI=contact)
    dated = {}
    if description.published is not None:
        dated = {"date": description.published.isoformat()}
    _child(_child(citation, "verStmt"), "version", description.version, **dated)
    _child(citation, "biblCit", description.citation)
    if description.address:
        _child(citation, "holdings", URI=description.address)

    about = _child(described, "stdyInfo")
    subject = _child(about, "subject")
    for word in description.keywords:
        _child(subject, "keyword", word)
    _child(about, "abstract", description.text)
    summary = _child(about, "sumDscr")
    if description.days is not None:
        for event, day in zip(("start", "end"), description.days, strict=True):
            _child(summary, "timePrd", day.isoformat(), event=event, date=day.isoformat())
    if curator is not None and curator.region is not None:
        _child(summary, "geogCover", curator.region)
    _child(summary, "anlyUnit", study.unit)
    _child(summary, "dataKind", "synthetic data and noisy statistics")

    method = _child(described, "method")
    for name, text in privacy_rows(description.privacy):
        _child(method, "notes", text, type="privacy", subject=name)
    use = _child(_child(described, "dataAccs"), "useStmt")
    if description.licence_address is not None:
        _child(use, "conditions", f"Licence: {description.licence_address}")
    if curator is not None and curator.intended_use is not None:
        _child(use, "conditions", f"Intended use: {curator.intended_use}")
    _child(use, "disclaimer", "Synthetic records describe no real person.")


def _file(root: Element, identifier: str, table: DescribedTable) -> None:
    """Adds a table's main file."""
    described = _child(root, "fileDscr", ID=identifier, URI=table.main.path)
    text = _child(described, "fileTxt")
    _child(text, "fileName", table.main.path)
    _child(text, "fileCont", table.title)
    _child(_child(text, "dimensns"), "varQnty", str(len(table.columns)))
    _child(text, "fileType", table.main.media)


def _variable(parent: Element, identifier: str, file: str, column: DescribedColumn) -> None:
    """Adds a column, with the labels of its values. file: the identifier of its file."""
    interval = "contin" if column.type == "number" else "discrete"
    variable = _child(parent, "var", ID=identifier, name=column.name, files=file, intrvl=interval)
    _child(variable, "labl", column.label)
    if column.codes:
        invalid = _child(variable, "invalrng")
        for code in column.codes:
            _child(invalid, "item", VALUE=str(code))
    for value, label in column.values:
        category = _child(variable, "catgry")
        _child(category, "catValu", str(value))
        _child(category, "labl", label)
    _child(variable, "varFormat", type="character" if column.type == "string" else "numeric")
