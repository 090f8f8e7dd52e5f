"""`new`, `check`, and words that no command understands: every mistake in a clear line."""

from fractions import Fraction

import pytest
from trial import STUDY, write

from stream_dp.services.commands import cli
from stream_dp.services.storage.deployment import Deployment

# new, check


def test_new_writes_a_study_that_can_be_checked(tmp_path, stream_dp, as_json):
    path = tmp_path / "mine.toml"
    assert f"stream-dp check {path}" in stream_dp("new", path)
    assert "who is protected: one household" in stream_dp("check", path)
    output = as_json("check", path)
    assert Fraction(output["rho_planned"]) == Fraction(output["rho_total"])
    assert as_json("new", tmp_path / "other.toml") == {"written": str(tmp_path / "other.toml")}


def test_new_writes_a_study_for_a_broker(tmp_path, stream_dp, as_json):
    path = tmp_path / "office.toml"
    stream_dp("new", path, "--kafka", "broker.test:9093")
    assert as_json("check", path)["study"] == "office"
    run = Deployment.load(path).run
    assert (run.log, run.public) == (
        "kafka://broker.test:9093/office",
        "kafka://broker.test:9093/office-public",
    )
    stream_dp("new", tmp_path / "b.toml", "--kafka")
    assert Deployment.load(tmp_path / "b.toml").run.log == "kafka://localhost:9092/b"


def test_new_overwrites_nothing(tmp_path, stream_dp):
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    assert "is there already; nothing was written" in stream_dp("new", path, code=2)
    assert path.read_text() == "precious"
    assert "cannot be written" in stream_dp("new", tmp_path / "no" / "where.toml", code=2)


def test_check_prints_the_plan_and_writes_nothing(study, stream_dp, as_json):
    text = stream_dp("check", study)
    words = ("study poverty: 3 periods, 2021-01 to 2021-03", "one household", "eps = ", "60")
    for word in (*words, "of households, +-", "pairs (window): share 1/2, rho = 0.5"):
        assert word in text
    assert "total rho: 3/4 = 0.75" in stream_dp("check", study, "--long")
    assert "3/4" not in text
    output = as_json("check", study)
    assert output["study"] == "poverty"
    assert [r["name"] for r in output["releases"]] == ["pairs", "months"]
    assert Fraction(output["rho_planned"]) == Fraction(3, 4)
    assert {p.name for p in study.parent.iterdir()} == {"study.toml", "reports.csv"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rho = 1\n", "rho = 0.1\n", "more than study.rho"),
        ('neighbours = "replace_one"\n', "", "study.neighbours: is required"),
        ("width = 2", "width = 9", "releases[1].width: 9 periods is over the horizon of 3"),
        ("[run]", "[runs]", "runs: unknown section"),
        ("[study]", "[study", "not a TOML file"),
        ("size = 60", "size = -1", "study.population"),
    ],
)
def test_faults_of_a_study_file_are_reported(tmp_path, stream_dp, old, new, message):
    path = write(tmp_path, STUDY.replace(old, new))
    err = stream_dp("check", path, code=2)
    assert message in err
    assert all(line.startswith(f"stream-dp: {path}: ") for line in err.splitlines())


@pytest.mark.parametrize("key", ["log", "public"])
@pytest.mark.parametrize(
    "url",
    [
        "postgres://me:secret@host/db",
        "kafka:host:9092/x",
        "kafka://me:secret@host:9092/x",
        "kafka://host:9092",
        "sqlite:",
        "file:x.db",
        "secret.db",
    ],
)
@pytest.mark.parametrize(
    "words", [["check"], ["send", "reports.csv"], ["status"], ["evaluate", "x"]]
)
def test_a_log_of_another_kind_is_refused_by_every_command(tmp_path, stream_dp, key, url, words):
    old = {"log": "sqlite:poverty.db", "public": "sqlite:public.db"}[key]
    path = write(tmp_path, STUDY.replace(old, url))
    message = stream_dp(words[0], path, *words[1:], code=2)
    assert message.startswith(f"stream-dp: {path}: run.{key}: log '")
    assert message.endswith("write it as sqlite:FILE or kafka://host:port/prefix\n")
    assert "secret@" not in message


def test_several_faults_are_reported_at_once(tmp_path, stream_dp):
    path = write(tmp_path, STUDY.replace("width = 2", "width = 9").replace("size = 60", ""))
    assert len(stream_dp("check", path, code=2).splitlines()) == 2


# Mistakes in what is typed.


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loud"], "COMMAND"),
        (["nothing"], "invalid choice: 'nothing'"),
        (["check"], "STUDY.toml"),
        (["check", "a.toml", "b.toml"], "unrecognized arguments: b.toml"),
        (["check", "a.toml", "--loud"], "unrecognized arguments: --loud"),
        (["send", "a.toml"], "FILE"),
        (["close", "a.toml"], "PERIOD"),
        (["export", "a.toml", "r"], "OUT"),
        (["evaluate", "a.toml", "t.csv", "--repetitions", "many"], "invalid int value: 'many'"),
        (["estimate", "a.toml", "r", "q", "--share", "--count"], "not allowed with"),
    ],
)
def test_wrong_words_are_refused_with_the_way_to_help(stream_dp, words, message):
    err = stream_dp(*words, code=2)
    assert message in err
    assert "--help" in err
    assert len(err.splitlines()) == 1


STUDY_COMMANDS = [
    ["check"],
    ["plan"],
    ["send", "reports.csv"],
    ["close", "2021-01"],
    ["run", "--until-idle"],
    ["status"],
    ["rejected"],
    ["releases"],
    ["export", "pairs", "out.csv"],
    ["estimate", "pairs", "pattern 1"],
    ["verify"],
    ["evaluate", "reports.csv"],
]


@pytest.mark.parametrize("words", STUDY_COMMANDS, ids=lambda w: w[0])
def test_a_study_file_that_is_not_there(tmp_path, stream_dp, words):
    path = tmp_path / "none.toml"
    err = stream_dp(words[0], path, *words[1:], code=2)
    assert f"{path}: no such file; 'stream-dp new {path}' writes one" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", STUDY_COMMANDS, ids=lambda w: w[0])
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"= 1", b"[study]\n", b""])
def test_a_file_that_is_no_study(tmp_path, stream_dp, words, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    stream_dp(words[0], path, *words[1:], code=2)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize("deep", ["[" * 5000 + "]" * 5000, "{a=" * 5000 + "1" + "}" * 5000])
def test_a_file_that_is_nested_too_deeply(tmp_path, stream_dp, deep):
    path = tmp_path / "deep.toml"
    path.write_text(f"x = {deep}\n")
    assert "inside of each other too deeply" in stream_dp("check", path, code=2)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["send", "--help"]])
def test_help_and_version(capsys, words):
    with pytest.raises(SystemExit) as leaving:
        cli.main(words)
    assert leaving.value.code == 0
    assert "stream-dp" in capsys.readouterr().out
