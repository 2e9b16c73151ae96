"""The stand-in trackers refuse what the real ones do: every rule is broken once over HTTP, and our own requests break
none.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bot.inbound import build_signed_headers, parse_webhook_key
from bot.trackers.ticket_draft import DraftSection, TrackerDraft, render_adf
from bot.trackers.tracker_kinds import KINDS
from tests.bot.trackers.test_courier import DRAFT, post
from tests.support.clock import SetClock
from tests.support.tracker_rules import RULES
from tests.support.trackers import KEY, ROUTING, StandInTracker, stand_in

JIRA = {"Authorization": aiohttp.encode_basic_auth("bot@acme.example", "secret-token")}
SNOW = {"Authorization": aiohttp.encode_basic_auth("bot", "secret-token")}
GITHUB, PAGERDUTY = {"Authorization": "Bearer secret-token"}, {"Authorization": "Token token=secret-token"}
WRONG = {"Authorization": "Bearer wrong"}
DOCUMENT = render_adf(DRAFT, "m")
ISSUE = {"project": {"key": "OPS"}, "issuetype": {"name": "Task"}, "summary": "s", "description": DOCUMENT, "labels": ["a"]}
ALERT = {"summary": "s", "source": "gpu-003", "severity": "error"}
EVENT = {"routing_key": ROUTING, "event_action": "trigger", "dedup_key": "k", "payload": ALERT}
ROW = {"short_description": "s", "description": "d", "correlation_id": "c"}


@dataclass
class Answered:
    status: int
    data: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class At:
    """A stand-in tracker and a client."""

    theirs: StandInTracker
    http: aiohttp.ClientSession

    async def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answered:
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        async with self.http.request(method, f"{self.theirs.url}{path}", data=raw, headers=dict(headers or {})) as answer:
            said = await answer.read()
            return Answered(
                answer.status, json.loads(said) if said else None, {name.lower(): value for name, value in answer.headers.items()}
            )

    async def jira(self, **fields: Any) -> Answered:
        return await self.ask("POST", "/rest/api/3/issue", {"fields": {**ISSUE, **fields}}, JIRA)

    async def github(self, **fields: Any) -> Answered:
        return await self.ask("POST", "/repos/acme/ops/issues", {"title": "t", "body": "b", **fields}, GITHUB)

    async def event(self, **fields: Any) -> Answered:
        return await self.ask("POST", "/v2/enqueue", {**EVENT, **fields})

    async def alert(self, **fields: Any) -> Answered:
        return await self.event(payload={**ALERT, **fields})

    async def row(self, **fields: Any) -> Answered:
        return await self.ask("POST", "/api/now/table/incident", {**ROW, **fields}, SNOW)

    async def hook(self, seconds: float = 0, key: str = KEY, id_: str = "msg_12345678") -> Answered:
        body = json.dumps({"type": "rackmedic.ticket.opened", "data": {"title": "t"}}).encode()
        at = self.theirs.clock.now()
        return await self.ask(
            "POST",
            "/hook",
            body,
            build_signed_headers(parse_webhook_key(key), id_, at.fromtimestamp(at.timestamp() + seconds, at.tzinfo), body),
        )

    async def while_(self, rule: str, asked: Callable[[], Awaitable[Answered]]) -> Answered:
        self.theirs.now.add(rule)
        return await asked()

    async def over(self, rule: str, asked: Callable[[], Awaitable[Answered]]) -> Answered:
        self.theirs.fails = [rule]
        return await asked()

    async def unread(self, made: Answered, path: str, headers: Mapping[str, str]) -> Answered:
        """Fetch a ticket's comments after one was added that our account may not read."""
        [ticket] = self.theirs.tickets
        self.theirs.write(ticket, "x")
        self.theirs.closed_to_us = True
        return await self.ask("GET", path, None, headers)


Try = Callable[[At], Awaitable[Answered]]
JOURNAL = "/api/now/table/sys_journal_field?sysparm_query=element_id=" + "0" * 32 + "^x&sysparm_limit=5"

# a request that breaks only this rule
BROKEN: Mapping[str, Try] = {
    "jira.auth": lambda at: at.ask("GET", "/rest/api/3/issue/1", None, WRONG),
    "jira.summary_missing": lambda at: at.jira(summary=""),
    "jira.summary_long": lambda at: at.jira(summary="x" * 256),
    "jira.summary_lines": lambda at: at.jira(summary="a\nb"),
    "jira.description": lambda at: at.jira(description="a text"),
    "jira.text_empty": lambda at: at.jira(description={"type": "doc", "content": [{"type": "text", "text": ""}]}),
    "jira.description_long": lambda at: at.jira(description={"type": "doc", "content": [{"type": "text", "text": "x" * 32_768}]}),
    "jira.project": lambda at: at.jira(project={"key": "NONE"}),
    "jira.type": lambda at: at.jira(issuetype={"name": "Incident"}),
    "jira.field": lambda at: at.jira(customfield_1="x"),
    "jira.label": lambda at: at.jira(labels=["two words"]),
    "jira.issue": lambda at: at.ask("GET", "/rest/api/3/issue/404", None, JIRA),
    "jira.search_old": lambda at: at.ask("POST", "/rest/api/3/search", {"jql": 'project = "OPS"'}, JIRA),
    "jira.search_unbounded": lambda at: at.ask("POST", "/rest/api/3/search/jql", {"jql": "ORDER BY created"}, JIRA),
    "jira.limit": lambda at: at.over("jira.limit", at.jira),
    "jira.comments": lambda at: _then(at, at.jira, "/rest/api/3/issue/10000/comment", JIRA),
    "github.agent": lambda at: at.ask("GET", "/repos/acme/ops", None, {**GITHUB, "User-Agent": ""}),
    "github.auth": lambda at: at.ask("GET", "/repos/acme/ops", None, WRONG),
    "github.hidden": lambda at: at.ask("GET", "/repos/acme/secret", None, GITHUB),
    "github.rights": lambda at: at.while_("github.rights", at.github),
    "github.title": lambda at: at.github(title=""),
    "github.title_long": lambda at: at.github(title="x" * 257),
    "github.body_long": lambda at: at.github(body="x" * 65_537),
    "github.issues_off": lambda at: at.while_("github.issues_off", at.github),
    "github.limit": lambda at: at.over("github.limit", at.github),
    "github.secondary": lambda at: at.over("github.secondary", at.github),
    "pagerduty.key": lambda at: at.event(routing_key="short"),
    "pagerduty.key_unknown": lambda at: at.event(routing_key="x" * 32),
    "pagerduty.action": lambda at: at.event(event_action="open"),
    "pagerduty.summary": lambda at: at.alert(summary=""),
    "pagerduty.source": lambda at: at.alert(source=""),
    "pagerduty.severity": lambda at: at.alert(severity="bad"),
    "pagerduty.summary_long": lambda at: at.alert(summary="x" * 1025),
    "pagerduty.dedup_long": lambda at: at.event(dedup_key="x" * 256),
    "pagerduty.limit": lambda at: at.over("pagerduty.limit", at.event),
    "pagerduty.token": lambda at: at.ask("GET", "/incidents", None, WRONG),
    "pagerduty.denied": lambda at: _then(at, at.event, "/incidents/P7/notes", PAGERDUTY),
    "pagerduty.rest_limit": lambda at: at.while_("pagerduty.rest_limit", lambda: at.ask("GET", "/incidents", None, PAGERDUTY)),
    "servicenow.auth": lambda at: at.ask("GET", "/api/now/table/incident", None, WRONG),
    "servicenow.rights": lambda at: at.while_("servicenow.rights", lambda: at.ask("GET", JOURNAL, None, SNOW)),
    "servicenow.table": lambda at: at.ask("GET", "/api/now/table/nowhere", None, SNOW),
    "servicenow.record": lambda at: at.ask("GET", "/api/now/table/incident/" + "f" * 32, None, SNOW),
    "servicenow.policy": lambda at: at.while_("servicenow.policy", at.row),
    "servicenow.limit": lambda at: at.over("servicenow.limit", at.row),
    "webhook.signature": lambda at: at.hook(key="whsec_" + "QUJD" * 12),
    "webhook.late": lambda at: at.hook(seconds=-301),
    "webhook.limit": lambda at: at.over("webhook.limit", at.hook),
}


async def _then(at: At, made: Callable[[], Awaitable[Answered]], path: str, headers: Mapping[str, str]) -> Answered:
    return await at.unread(await made(), path, headers)


async def _search_fields(at: At) -> None:
    await at.jira(labels=["mark"])
    for fields in ([], ["status"]):
        [found] = (await at.ask("POST", "/rest/api/3/search/jql", {"jql": 'labels = "mark"', "fields": fields}, JIRA)).data["issues"]
        assert set(found.get("fields", {})) == set(fields)


async def _labels(at: At) -> None:
    at.theirs.now.add("github.labels")
    made = await at.github(labels=["gpu"])
    assert (made.status, made.data["labels"]) == (201, [])


async def _unchanged(at: At) -> None:
    await at.github()
    etag = (await at.ask("GET", "/repos/acme/ops/issues/1", None, GITHUB)).headers["etag"]
    assert (await at.ask("GET", "/repos/acme/ops/issues/1", None, {**GITHUB, "If-None-Match": etag})).status == 304
    at.theirs.write("1", "x")
    assert (await at.ask("GET", "/repos/acme/ops/issues/1", None, {**GITHUB, "If-None-Match": etag})).status == 200


async def _pages(at: At) -> None:
    await at.github()
    for text in "abc":
        at.theirs.write("1", text)
    pages = [await at.ask("GET", f"/repos/acme/ops/issues/1/comments?per_page=2&page={page}", None, GITHUB) for page in (1, 2, 3)]
    assert [[row["body"] for row in page.data] for page in pages] == [["a", "b"], ["c"], []]


async def _accepted(at: At) -> None:
    assert ((await at.event()).status, (await at.event(event_action="acknowledge")).status) == (202, 202)


async def _same_key(at: At) -> None:
    for _ in range(2):
        await at.event()
    assert at.theirs.made == 1
    await at.event(event_action="resolve")
    await at.event()
    assert (at.theirs.made, at.theirs.tickets["k"]["state"]) == (2, "triggered")


async def _unknown_field(at: At) -> None:
    made = await at.row(u_nowhere="x")
    assert (made.status, "u_nowhere" in made.data["result"]) == (201, False)


async def _hidden_rows(at: At) -> None:
    answer = await _then(at, at.row, JOURNAL, SNOW)
    assert (answer.status, answer.data["result"], answer.headers["x-total-count"]) == (200, [], "1")


async def _same_id(at: At) -> None:
    assert ((await at.hook()).status, (await at.hook()).status, at.theirs.made) == (200, 200, 1)


# rules that refuse nothing: a test of each behaviour
BEHAVES: Mapping[str, Callable[[At], Awaitable[None]]] = {
    "jira.search_fields": _search_fields,
    "github.labels": _labels,
    "github.unchanged": _unchanged,
    "github.comments": _pages,
    "pagerduty.accepted": _accepted,
    "pagerduty.same_key": _same_key,
    "servicenow.unknown_field": _unknown_field,
    "servicenow.hidden_rows": _hidden_rows,
    "webhook.same_id": _same_id,
}


def test_every_rule_is_tried_and_says_where_it_is_written() -> None:
    assert {rule for rule, row in RULES.items() if row.body is not None} == BROKEN.keys()
    assert {rule for rule, row in RULES.items() if row.body is None} == BEHAVES.keys()
    assert [
        rule for rule, row in RULES.items() if not row.source.startswith(("https://", "http://")) or rule.split(".")[0] not in KINDS
    ] == []


@pytest.mark.parametrize("rule", BROKEN)
async def test_what_breaks_a_rule_is_refused_as_they_refuse_it(rule: str) -> None:
    async with stand_in(SetClock()) as theirs, aiohttp.ClientSession() as http:
        answer, row = await BROKEN[rule](At(theirs, http)), RULES[rule]
        assert (answer.status, answer.data) == (row.status, row.body)
        assert [name for name in row.headers if name.lower() not in answer.headers] == []


@pytest.mark.parametrize("rule", BEHAVES)
async def test_what_refuses_nothing_is_as_they_do_it(rule: str) -> None:
    async with stand_in(SetClock()) as theirs, aiohttp.ClientSession() as http:
        await BEHAVES[rule](At(theirs, http))


async def test_what_breaks_no_rule_is_taken() -> None:
    async with stand_in(SetClock()) as theirs, aiohttp.ClientSession() as http:
        at = At(theirs, http)
        assert [(await one()).status for one in (at.jira, at.github, at.event, at.row, at.hook)] == [201, 201, 202, 201, 200]


async def test_several_broken_at_once_are_said_together() -> None:
    async with stand_in(SetClock()) as theirs, aiohttp.ClientSession() as http:
        at = At(theirs, http)
        assert set((await at.jira(summary="", labels=["two words"])).data["errors"]) == {"summary", "labels"}
        assert len((await at.github(title="", body="x" * 65_537)).data["errors"]) == 2
        assert len((await at.alert(source="", severity="bad")).data["errors"]) == 2


LARGEST = TrackerDraft(
    incident="inc-5a17e0",
    title="é" * 2000,
    sections=tuple(DraftSection(head=f"Part {n}", lines=("<&>`" * 60,) * 12, printed=True) for n in range(3)),
    hosts=tuple(f"gpu-{n:03}" for n in range(64)),
)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_largest_draft_breaks_none(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        digest = await at.outbox.save_draft(at.name, LARGEST.to_stored_bytes())
        await at.outbox.queue_draft(at.name, digest, "U1", once=True)
        await at.sweep()
        assert (at.theirs.made, (await at.row()).refused) == (1, "")


@pytest.mark.parametrize(
    ("kind", "rule", "says"),
    [
        ("github", "github.rights", "Issues: read and write"),
        ("github", "github.issues_off", "switched off"),
        ("servicenow", "servicenow.policy", "Data Policy Exception"),
    ],
)
async def test_what_is_not_allowed_says_how_to_mend_it(tmp_path: Path, kind: str, rule: str, says: str) -> None:
    async with post(tmp_path, kind) as at:
        at.theirs.now.add(rule)
        await at.click()
        await at.sweep()
        assert says in (await at.row()).refused


@pytest.mark.parametrize(
    ("kind", "rule", "wait"), [("github", "github.limit", 30), ("github", "github.secondary", 60), ("jira", "jira.limit", 30)]
)
async def test_a_limit_is_waited_for_as_long_as_they_say(tmp_path: Path, kind: str, rule: str, wait: int) -> None:
    async with post(tmp_path, kind) as at:
        at.theirs.fails = [rule]
        await at.click()
        await at.sweep()
        assert await at.sweep(seconds=wait - 1) == 0
        assert await at.sweep(seconds=2) == 1


async def test_pagerdutys_limit_is_waited_for_in_its_own_words(tmp_path: Path) -> None:
    async with post(tmp_path, "pagerduty") as at:
        await at.click()
        await at.sweep()
        at.theirs.now.add("pagerduty.rest_limit")
        await at.sweep(seconds=6)
        assert "Rate Limit Exceeded" in (await at.row()).trouble
        at.theirs.now.clear()
        assert await at.sweep(seconds=29) == 0
        assert await at.sweep(seconds=2) == 1
