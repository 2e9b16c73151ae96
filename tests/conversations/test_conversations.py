"""The replies played through the CLI match the table, and no chatter causes checks on hosts."""

import pytest

from tests.conversations.table import TABLE, groups, line, play_all, table, with_model


async def test_the_table_is_what_happens_and_no_host_is_asked_without_need() -> None:
    rows = await play_all(groups())
    assert [row.text for row in rows if row.ran and not row.may_look] == []
    assert table(rows, with_model()) == TABLE.read_text(), "renew it: python -m tests.conversations.table"


def test_the_replies_are_of_three_voices_and_more_than_three_languages() -> None:
    assert sum(len(group["replies"]) for group in groups()) == 120
    assert {group["voice"] for group in groups()} == {"oncall", "customer", "manager"}
    assert len({group.get("language", "en") for group in groups()}) >= 3


@pytest.mark.tier1
async def test_a_quarter_of_the_replies_is_answered_as_the_table_says() -> None:
    rows, lines, by_model = await play_all(groups()[::4]), set(TABLE.read_text().splitlines()), with_model()
    assert len(rows) >= 30
    assert [row.text for row in rows if line(row, by_model.get(row.text)) not in lines] == []
