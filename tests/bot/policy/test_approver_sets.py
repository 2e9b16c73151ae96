"""Approver sets and on-call schedules: rules, refusals and their text."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.approvals import CHANNEL_SET, NOBODY_SET, ApproverSet, ApproverTable, OnCallSource, SetRule, compute_policy_hash
from bot.policy.on_call import CACHE_SECONDS, MAX_RESPONSE_BYTES, OnCallLookup, OnCallSchedules, OnCallUnknown, fetch_url, parse_on_call
from bot.policy.policy_file import BadPolicy, format_policy, load_policy
from bot.refusal import Refusal
from tests.support.clock import T0, SetClock
from tests.support.inventories import inventory

TABLE = ApproverTable(
    sets={name: ApproverSet(users=("U1",)) for name in ("net", "leads")},
    rules=(
        SetRule(groups=("h100",), risks=("destructive",), sets=("leads",)),
        SetRule(groups=("net",), sets=("net", "leads")),
    ),
)


@pytest.mark.parametrize(
    ("groups", "risk", "expected"),
    [
        (["h100"], "destructive", ("leads",)),
        (["h100"], "disruptive", (CHANNEL_SET,)),
        (["net"], "intrusive", ("net", "leads")),
        (["net", "h100"], "destructive", ("leads",)),
        (["net", "h100"], "disruptive", (NOBODY_SET,)),
        ([], "disruptive", (CHANNEL_SET,)),
    ],
)
def test_the_first_rule_that_fits_says_which_sets_decide(groups: list[str], risk: Any, expected: tuple[str, ...]) -> None:
    assert TABLE.find_sets(groups, risk) == expected


@given(st.lists(st.sampled_from(["h100", "net", "other"]), max_size=4), st.sampled_from(["intrusive", "disruptive", "destructive"]))
def test_an_action_on_several_groups_needs_approvers_of_each(groups: list[str], risk: Any) -> None:
    together = TABLE.find_sets(groups, risk)
    assert together
    assert all(together == (NOBODY_SET,) or set(together) <= set(TABLE.find_sets([group], risk)) for group in groups)


def test_the_policys_hash_is_the_same_without_a_file_and_with_an_empty_table() -> None:
    assert compute_policy_hash([], []) == compute_policy_hash([], [], ApproverTable())
    assert compute_policy_hash([], []) != compute_policy_hash([], [], TABLE)


SITE = inventory(groups={"h100": {"hosts": "gpu-[017-018]"}}, channels=[{"channel": "C0OPS", "kind": "operators"}])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sets: {leads: {users: [anna]}}", "users"),
        ("sets: {leads: {}}", "it has no members"),
        ("sets: {channel: {users: [U1]}}", "is taken"),
        ("sets: {leads: {on_call: [pager]}}", "there is no source 'pager'"),
        ("rules: [{sets: [leads]}]", "there is no set 'leads'"),
        ("rules: [{groups: [h200], sets: [channel]}]", "has no group 'h200'"),
        ("rules: [{sets: []}]", "sets must be a list that is not empty"),
        ("break_glass: [leads]", r"approvers: break_glass was removed: .*Slack user group"),
        ("on_call: {pager: {}}", "name one of"),
        ("on_call: {pager: {webhook: 'http://x'}}", "https"),
        ("on_call: {pager: {webhook: 'https://x', file: /x}}", "name one of"),
        ("hours: {zone: UTC}", r"approvers: hours was removed: .*Slack user group"),
        ("rules: [{when: out_of_hours, sets: [channel]}]", r"approvers.rules.0: when was removed: .*on_call source"),
        ("delegation_hours: 72", r"approvers: delegation_hours was removed: .*Slack user group"),
    ],
)
def test_a_table_that_names_what_is_not_there_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"approvers:\n  {text}\n")
    with pytest.raises(BadPolicy, match=rf"policy\.yaml:2: .*{says}"):
        load_policy(file, SITE)


def test_the_table_is_said_in_words(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "approvers:\n  sets: {leads: {users: [U1], on_call: [pager]}}\n  on_call: {pager: {webhook: 'https://x/?token=secret'}}\n"
        "  rules: [{groups: [h100], risks: [destructive], sets: [leads]}]\n"
    )
    said = format_policy(load_policy(file, SITE))[1:]
    assert said == (
        "set leads: U1, on call by pager",
        "on call by pager: a webhook",
        "destructive on h100: leads decide",
    )


# -- on-call schedules ---------------------------------------------------------------------------------------------------


def told(*users: Any, **more: Any) -> bytes:
    return json.dumps({"users": list(users), **more}).encode()


def test_who_is_on_call_is_read_while_it_counts() -> None:
    assert parse_on_call(told("U1", "W2"), T0) == {"U1", "W2"}
    assert parse_on_call(told("U1", until="2026-05-20T04:00:00Z"), T0) == {"U1"}
    assert parse_on_call(told(), T0) == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"[]", b"{}", b"\xff", b"[" * 50_000, told("anna@example.org"), told(7), told(["U1"]), told(*["U1"] * 51)),
        *(told("U1", until=late) for late in ("2026-05-20T03:10:00Z", "2026-05-21T03:00:00", "tomorrow", None, 7)),
        b" " * (MAX_RESPONSE_BYTES + 1),
    ],
)
def test_any_other_schedule_content_is_unobserved(text: bytes) -> None:
    with pytest.raises(OnCallUnknown):
        parse_on_call(text, T0)


class Answers:
    """A schedule and a user group with set answers."""

    def __init__(self) -> None:
        self.text, self.asked = told("U1"), 0

    async def fetch(self, url: str) -> bytes:
        self.asked += 1
        if not self.text:
            raise OnCallUnknown("away")
        return self.text

    async def list_members(self, group: str) -> frozenset[str]:
        return frozenset({"U9"}) if group == "S1" else frozenset()


def schedules(answers: Answers, clock: SetClock, path: Path | None = None) -> OnCallSchedules:
    sources = {"web": OnCallSource(webhook="https://x"), "group": OnCallSource(user_group="S1"), "file": OnCallSource(file=path)}
    return OnCallSchedules(sources, answers, clock, answers.fetch, clock.stamp)


async def test_a_schedule_is_asked_once_a_minute_and_a_failure_is_remembered_for_none(tmp_path: Path) -> None:
    answers, clock = Answers(), SetClock()
    schedule = schedules(answers, clock)
    assert [await schedule.list_on_call("web") for _ in range(3)] == [{"U1"}] * 3
    assert answers.asked == 1
    answers.text = b""
    assert await schedule.list_on_call("web") == {"U1"}
    clock.go(seconds=CACHE_SECONDS)
    for _ in range(2):
        with pytest.raises(Refusal):
            await schedule.list_on_call("web")
    assert answers.asked == 3
    assert await schedule.list_on_call("group") == {"U9"}


async def test_what_is_remembered_does_not_outlive_what_it_says(tmp_path: Path) -> None:
    answers, clock = Answers(), SetClock()
    answers.text = told("U1", until=(T0 + timedelta(seconds=30)).isoformat())
    schedule = schedules(answers, clock)
    assert await schedule.list_on_call("web") == {"U1"}
    clock.go(seconds=31)
    with pytest.raises(OnCallUnknown):
        await schedule.list_on_call("web")


async def test_a_missing_schedule_file_is_unobserved(tmp_path: Path) -> None:
    file = tmp_path / "on-call.json"
    schedule = schedules(Answers(), SetClock(), file)
    with pytest.raises(OnCallUnknown, match="cannot be read"):
        await schedule.list_on_call("file")
    file.write_bytes(told("U3"))
    assert await schedule.list_on_call("file") == {"U3"}
    with pytest.raises(OnCallUnknown):
        await schedule.list_on_call("nobody")


async def test_who_is_on_call_is_looked_up_by_name_and_an_unreadable_source_says_why(tmp_path: Path) -> None:
    async def get_name(user: str) -> str:
        return {"U1": "Anton"}.get(user, "")

    web, group, file = await OnCallLookup(schedules(Answers(), SetClock(), tmp_path / "none.json"), get_name)()
    assert (web.source, web.people, web.could_not) == ("web", ("Anton",), "")
    assert group.people == ("U9",)
    assert file.people == ()
    assert "cannot be read" in file.could_not


async def test_a_webhook_is_bounded_and_not_followed_elsewhere() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/elsewhere":
                raise web.HTTPFound("/")
            case "/broken":
                return web.Response(status=500)
            case "/large":
                return web.Response(body=b" " * (MAX_RESPONSE_BYTES * 40))
            case _:
                return web.Response(body=told("U1"))

    app = web.Application()
    app.router.add_get("/{any:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        assert await fetch_url(f"{url}/") == told("U1")
        assert MAX_RESPONSE_BYTES < len(await fetch_url(f"{url}/large")) < 3 * MAX_RESPONSE_BYTES
        for path in ("/elsewhere", "/broken"):
            with pytest.raises(OnCallUnknown):
                await fetch_url(url + path)
    finally:
        await runner.cleanup()
    with pytest.raises(OnCallUnknown, match="cannot be reached"):
        await asyncio.wait_for(fetch_url(url), 60)
