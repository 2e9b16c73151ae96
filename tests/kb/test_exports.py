"""Exports of other systems are parsed as streams, in every format and encoding, past bad rows."""

import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from kb.exports.files import MAX_ROW_CHARS, UnreadableExport, iter_json_values, open_text
from kb.exports.reader import iter_export_rows
from kb.exports.row import ExportRow, UnreadRow, format_iso_time

TOKEN = "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx"
GITHUB = {
    "number": 7, "title": "NCCL hangs", "body": "rank 3 waits", "user": {"login": "ada"}, "created_at": "2024-03-02T10:00:00Z",
    "html_url": "https://github.com/a/b/issues/7", "comments": [{"user": {"login": "bob"}, "body": "it was the cable"}],
}  # fmt: skip
JIRA = {
    "key": "OPS-4",
    "fields": {
        "summary": "node lost a GPU", "created": "2024-03-02T10:00:00.000+0100", "reporter": {"displayName": "Ada"},
        "description": {"type": "doc", "content": [{"type": "paragraph", "content": [{"type": "text", "text": "Xid 79"}]}]},
        "comment": {"comments": [{"author": {"displayName": "Bob"}, "body": "reseated"}]}, "resolution": {"name": "Replaced"},
    },
}  # fmt: skip


def read(path: Path, **mapped: str) -> tuple[list[ExportRow], list[UnreadRow]]:
    rows = [*iter_export_rows(path, mapped)]
    return [one for one in rows if isinstance(one, ExportRow)], [one for one in rows if isinstance(one, UnreadRow)]


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_issues_of_github_are_read_with_who_said_what(tmp_path: Path) -> None:
    [row], bad = read(written(tmp_path / "issues.json", json.dumps([GITHUB], indent=1)))
    assert (row.id, row.title, row.time, row.url) == ("7", "NCCL hangs", "2024-03-02T10:00:00+00:00", GITHUB["html_url"])
    assert [(one.author, one.text) for one in row.messages] == [("ada", "rank 3 waits"), ("bob", "it was the cable")]
    assert bad == []


def test_jiras_envelope_and_its_formatted_text_are_read(tmp_path: Path) -> None:
    [row], bad = read(written(tmp_path / "jira.json", json.dumps({"startAt": 0, "total": 1, "issues": [JIRA]})))
    assert (row.id, row.time, row.resolution) == ("OPS-4", "2024-03-02T09:00:00+00:00", "Replaced")
    assert [(one.author, one.text) for one in row.messages] == [("Ada", "Xid 79"), ("Bob", "reseated")]
    assert bad == []


def test_a_csv_of_servicenow_and_one_of_jira_with_several_comments(tmp_path: Path) -> None:
    now = "number,short_description,description,opened_at,close_notes\nINC1,GPU gone,lost it,2024-03-02 10:00:00,replaced\n"
    [row], _ = read(written(tmp_path / "now.csv", now))
    assert (row.id, row.title, row.resolution, row.time) == ("INC1", "GPU gone", "replaced", "2024-03-02T10:00:00+00:00")
    jira = 'Issue key;Summary;Created;Comment;Comment\nOPS-1;slow;02/Mar/24 10:00 AM;"02/Mar/24 10:05 AM;bob;a bad link";so it was\n'
    [row], _ = read(written(tmp_path / "jira.csv", jira))
    assert [(one.author, one.text) for one in row.messages] == [("bob", "a bad link"), ("", "so it was")]


def test_half_a_csv_gives_what_is_whole_and_tells_the_line_of_the_rest(tmp_path: Path) -> None:
    rows, bad = read(written(tmp_path / "half.csv", 'id,title,text\n1,a,b\n2,"unfin'))
    assert [one.id for one in rows] == ["1"]
    assert [str(one) for one in bad] == ["half.csv:3: has 2 of 3 columns"]


def test_a_broken_line_takes_no_other_with_it(tmp_path: Path) -> None:
    rows, bad = read(written(tmp_path / "a.jsonl", '{"id": 1, "text": "one"}\n{"id": [[[\n7\n\n{"id": 2, "text": "two"}\n{"id": 3}\n'))
    assert [one.id for one in rows] == ["1", "2"]
    assert [one.where for one in bad] == ["a.jsonl:2", "a.jsonl:3", "a.jsonl:6"]


def test_half_a_json_document_gives_what_is_whole(tmp_path: Path) -> None:
    whole = json.dumps([GITHUB, GITHUB], indent=1)
    rows, bad = read(written(tmp_path / "half.json", whole[:-40]))
    assert len(rows) == 1
    assert [one.why for one in bad] == ["the file ends in the middle of it"]


def test_rows_of_a_diagnosis_data_set_and_columns_that_are_mapped(tmp_path: Path) -> None:
    [row], _ = read(
        written(tmp_path / "a.jsonl", json.dumps({"problemkey": "ECC", "rawtext": "row remap", "function": "ecc", "result": "bad"}))
    )
    assert (row.title, row.text, row.check, row.root_cause) == ("ECC", "ECC\nrow remap\nbad", "ecc", "bad")
    line = json.dumps({"Betreff": "Karte weg", "Ursache": "Kabel"})
    assert read(written(tmp_path / "b.jsonl", line))[1][0].why.startswith("has none of the columns we know: Betreff, Ursache")
    [row], _ = read(tmp_path / "b.jsonl", Betreff="title", Ursache="root_cause")
    assert (row.title, row.root_cause) == ("Karte weg", "Kabel")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    [row], bad = read(written(tmp_path / "a.csv", "id,title,text\r\n1,Lüfter,größer\r\n".encode(encoding)))
    assert (row.title, row.messages[0].text, bad) == ("Lüfter", "größer", [])


def slack_files() -> dict[str, str]:
    day = [
        {"ts": "1709373600.1", "thread_ts": "1709373600.1", "user": "U1", "text": "gpu-3 is gone"},
        {"ts": "1709373700.1", "user": "U1", "subtype": "channel_join", "text": "joined"},
        {"ts": "1709373800.1", "user": "U1", "text": "lunch?"},
        {"ts": "1709373900.1", "user": "U1"},
    ]
    after = [{"ts": "1709460000.1", "thread_ts": "1709373600.1", "user": "U2", "text": f"root cause: a riser. {TOKEN}"}]
    return {
        "users.json": json.dumps([{"id": "U1", "real_name": "Ada"}, {"id": "U2", "name": "bob"}]),
        "channels.json": "[]",
        "ops/2024-03-02.json": json.dumps(day),
        "ops/2024-03-03.json": json.dumps(after),
    }


@pytest.mark.parametrize("packed", [True, False])
def test_threads_of_a_slack_export_are_incidents_across_days(tmp_path: Path, *, packed: bool) -> None:
    path = tmp_path / ("export.zip" if packed else "export")
    if packed:
        with zipfile.ZipFile(path, "w") as made:
            for name, text in slack_files().items():
                made.writestr(name, text)
    else:
        for name, text in slack_files().items():
            written(path / name, text)
    [row], [bad] = read(path)
    assert [one.author for one in row.messages] == ["Ada", "bob"]
    assert row.messages[1].text.startswith("root cause: a riser")
    assert TOKEN not in row.text
    assert row.time == "2024-03-02T10:00:00+00:00"
    assert bad.why == "it has no text"


def test_guides_and_our_own_files_are_read_and_other_files_are_told(tmp_path: Path) -> None:
    written(tmp_path / "wiki" / "mlx.md", "# Which port\nmlx5_1 is the control plane.\n")
    written(tmp_path / "wiki" / "own.yaml", "incidents:\n  - {id: a, title: t, description: d, label: GPU.BUS.Fell_Off}\n")
    written(tmp_path / "wiki" / "logo.svg", "<svg/>")
    rows, bad = read(tmp_path / "wiki")
    assert [(one.title, one.guide, one.label) for one in rows] == [("Which port", True, ""), ("t", False, "GPU.BUS.Fell_Off")]
    assert [one.where for one in bad] == ["wiki/logo.svg"]


def test_an_archive_that_unpacks_to_much_more_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made, made.open("a.jsonl", "w") as file:
        for _ in range(65):
            file.write(bytes(1 << 20))
    with pytest.raises(UnreadableExport, match="200 times its size"):
        read(path)


def test_what_is_no_export_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnreadableExport, match="is not there"):
        read(tmp_path / "none.json")
    with pytest.raises(UnreadableExport, match="no zip"):
        read(written(tmp_path / "a.zip", "PK, but no zip"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableExport, match="neither"):
        read(tmp_path / "pipe")


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    written(tmp_path / "secret.md", "# Not yours\ntext")
    written(tmp_path / "wiki" / "a.md", "# Yours\ntext")
    (tmp_path / "wiki" / "b.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "wiki" / "around").symlink_to(tmp_path / "wiki")
    assert [one.title for one in read(tmp_path / "wiki")[0]] == ["Yours"]


def test_a_row_of_any_length_is_told_and_what_follows_is_read() -> None:
    text = '[{"text": "' + "x" * (MAX_ROW_CHARS + 10) + '"},\n{"text": "a } \\" { b"}]'
    first, second = iter_json_values(open_text(io.BytesIO(text.encode())))
    assert isinstance(first[1], ValueError)
    assert second == (2, {"text": 'a } " { b'})


def test_half_a_character_can_be_written_again(tmp_path: Path) -> None:
    [row], _ = read(written(tmp_path / "a.jsonl", '{"text": "GPU \\ud83d gone", "id": 5}'))
    assert row.text.encode()


@pytest.mark.parametrize("given", ["never", "99999999999999", -1e30, 10**400, None, "2024-13-45", True])
def test_what_is_no_time_is_none(given: object) -> None:
    assert format_iso_time(given) == ""


@pytest.mark.parametrize("column", ["notes", "Notes", "work_notes", "note", "comments"])
def test_notes_of_a_csv_are_what_was_said(tmp_path: Path, column: str) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text(f'id,title,{column}\n1,GPU lost on n1,"Node died overnight. Root cause: GPU fell off the PCIe bus."\n')
    [row] = iter_export_rows(path)
    assert isinstance(row, ExportRow)
    assert "Root cause: GPU fell off the PCIe bus." in row.text
