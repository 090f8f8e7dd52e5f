"""Studies of real panels: their commands, and answers against the truth."""

import csv
import json
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.parquet

from stream_dp.services.commands import cli
from stream_dp.services.storage.deployment import open_public

PANELS = Path(__file__).parents[3] / "shared" / "data" / "panels"
Z = 8.0  # noise is the system's: no sound study is ever that many standard errors off


class PanelStudy:
    """A study on a panel: its commands, and the panel itself as lists of text."""

    def __init__(self, folder, panel, text):
        self.table, self.folder = PANELS / panel, folder
        self.study = folder / "study.toml"
        self.study.write_text(text)
        with self.table.open(newline="") as file:
            rows = list(csv.reader(file))
        self.columns = rows[0][1:]
        self.truth = np.array([row[1:] for row in rows[1:]])
        self._asked = set()

    @cached_property
    def public(self):
        """The public log, opened once when all is published."""
        return open_public(str(self.study))[0]

    def do(self, *words, capsys=None):
        code = cli.main([str(w) for w in words])
        assert code == 0

    def ask(self, capsys, *words):
        capsys.readouterr()
        self.do(*words, "--json")
        return json.loads(capsys.readouterr().out)

    def publish(self, labels, *layout):
        """Send the panel, close every period, run to the end."""
        names = ",".join(f"{c}={x}" for c, x in zip(self.columns, labels, strict=True))
        self.do("send", self.study, self.table, *layout, "--columns", names)
        self.do("close", self.study, labels[-1], "--yes")
        self.do("run", self.study, "--until-idle")

    def check(self, capsys, release, query, *, period, expected, people, share=True):
        """Compares an estimate with the truth, as a count and as a share of all people."""
        count = self.answer(capsys, release, query, period, measure="count")
        assert count["standard_error"] > 0
        assert abs(count["value"] - expected) <= Z * count["standard_error"], query
        if share:
            of_all = query if query.startswith("total") else f"{query} among everybody"
            answer = self.answer(capsys, release, of_all, period, measure="share")
            assert abs(answer["value"] - expected / people) <= Z * answer["standard_error"], query
        return count

    def answer(self, capsys, release, query, period, measure):
        """An answer; the first of each release and measure is the command's, too."""
        found = self.public.answer(release, query, period, count=measure == "count").as_dict()
        answer = json.loads(json.dumps(found))
        if (release, measure) not in self._asked:
            self._asked.add((release, measure))
            words = ["estimate", self.study, release, query, "--period", period, f"--{measure}"]
            assert self.ask(capsys, *words) == answer
        return answer

    def accounted(self, capsys, **expected):
        cells = self.ask(capsys, "status", self.study)["cells_at_last_cut"]
        zero = {"received": 0, "accepted": 0, "superseded": 0, "rejected": {}, "pending": 0}
        assert cells == {**zero, **expected}

    def panels_only_grow(self, capsys, release, first, labels):
        """The exported panel of a period is a prefix of the last, with the same rows."""
        out, last = self.folder / "panel.parquet", len(labels)
        tables = []
        for i in sorted({first, (first + last) // 2, last - 1, last}):
            self.do("export", self.study, release, out, "--period", labels[i - 1])
            tables.append(pyarrow.parquet.read_table(out))
            assert tables[-1].column_names == ["row", *labels[:i]]
        for earlier in tables[:-1]:
            assert earlier.equals(tables[-1].select(earlier.column_names))
        return tables[-1]
