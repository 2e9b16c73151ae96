"""A ticket from a tenant's own RackMedic opens one incident in that tenant's operators' channel, and none of it is
trusted.
"""

import json
import shutil
from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis

from bot.incidents.dispatch.inbox import Inbox
from bot.provider.ticket_documents import TicketStore, load_or_create_site_salt
from bot.provider.ticket_importer import NoOperatorChannel, TicketImporter, find_operator_channel
from bot.provider.ticket_threads import TicketThreads
from bot.provider.wire_messages import TicketAnswer
from bot.slack.posted_messages import PostedCards
from graph.incident.visibility import list_visible_hosts
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, Origin
from graph.ticket_export.received_ticket import MAX_IGNORED_FIELDS, parse_ticket
from tests.support.clock import SetClock
from tests.support.fakes_bot import OPS, TEAM, Behind, slack_side
from tests.support.inventories import inventory
from tests.support.terminal import rackmedic
from tests.support.tickets import SAID

SITE = inventory(
    groups={"acme": {"hosts": "gpu-[017-018]", "tenant": "acme"}, "globex": {"hosts": "gpu-[019-020]", "tenant": "globex"}},
    channels=[{"channel": OPS, "kind": "operators"}],
)
needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="NO redis-server ON PATH: apt-get install redis-server")


def arrivals(redis: FakeAsyncRedis) -> TicketImporter:
    return TicketImporter(Inbox(redis, SetClock()), TicketStore(redis), SITE, SetClock())


async def test_a_ticket_opens_one_incident_that_sees_that_customers_hosts_and_no_others() -> None:
    redis = FakeAsyncRedis()
    at = arrivals(redis)
    first, again = await at.import_ticket("acme", SAID), await at.import_ticket("acme", SAID)
    assert (first.opened, again.again, again.incident) == (True, True, first.incident)
    [item] = await at.inbox.list_waiting(first.incident)
    assert (item.kind, item.text, item.data["hosts"]) == ("mention", SAID.said[0].text, "gpu-[017-018]")
    assert item.data[SIDE_KEY] == TENANT_SIDE, "it is of their share"
    origin = await at.inbox.get_origin(first.incident)
    assert origin is not None
    assert (origin.channel, origin.tenant, origin.thread_ts) == (OPS, "acme", "")
    assert list_visible_hosts(SITE, origin) == ("gpu-017", "gpu-018")


async def test_written_anew_without_news_it_is_the_same_and_with_news_it_is_a_reply() -> None:
    at = arrivals(FakeAsyncRedis())
    first = await at.import_ticket("acme", SAID)
    same = await at.import_ticket("acme", SAID.model_copy(update={"made": SAID.made.replace(hour=9)}))
    news = await at.import_ticket("acme", SAID.model_copy(update={"left_out": 3}))
    assert (same.again, news.again, news.incident) == (True, False, first.incident)
    assert [item.kind for item in await at.inbox.list_waiting(first.incident)] == ["mention", "reply"]


async def test_two_customers_with_the_same_ticket_id_are_two() -> None:
    at = arrivals(FakeAsyncRedis())
    ours, theirs = await at.import_ticket("acme", SAID), await at.import_ticket("globex", SAID)
    assert ours.incident != theirs.incident


async def test_a_stranger_has_no_place() -> None:
    with pytest.raises(NoOperatorChannel, match="initech"):
        await arrivals(FakeAsyncRedis()).import_ticket("initech", SAID)
    assert find_operator_channel(SITE, "globex") == OPS


async def test_the_document_lives_as_long_as_its_incident() -> None:
    redis = FakeAsyncRedis()
    at = arrivals(redis)
    came = await at.import_ticket("acme", SAID)
    assert await redis.ttl("rm:ticket:acme/inc-a1") == -1
    assert b"rm:ticket:acme/inc-a1" in await redis.smembers(f"rm:incident:{{{came.incident}}}:threads")
    assert await at.book.load_document("acme/inc-a1") == SAID


async def test_the_salt_of_a_site_is_made_once() -> None:
    redis = FakeAsyncRedis()
    assert await load_or_create_site_salt(redis) == await load_or_create_site_salt(redis)


async def begun(bot: Behind) -> tuple[TicketThreads, str]:
    async def elsewhere(item: InboxItem) -> Origin | None:
        return await bot.inbox.get_origin(item.incident)

    book = TicketStore(bot.redis)
    threads = TicketThreads(bot.context.client, PostedCards(bot.redis), bot.inbox, bot.context.people, book, elsewhere)
    came = await TicketImporter(bot.inbox, book, SITE, bot.context.clock).import_ticket("acme", SAID)
    return threads, came.incident


async def test_its_thread_is_begun_once_quotes_what_they_say_and_is_a_thread_of_the_incident() -> None:
    async with slack_side() as bot:
        threads, incident = await begun(bot)
        [item] = await bot.inbox.list_waiting(incident)
        first, again = await threads.resolve_thread(item), await threads.resolve_thread(item)
        assert first is not None
        assert first == again
        assert await bot.inbox.find_incident(TEAM, OPS, first.thread_ts) == incident
        [root] = [row for row in bot.slack.messages(OPS) if row.get("bot_id")]
        shown = json.dumps(root["blocks"], ensure_ascii=False)
        assert all(
            word in shown
            for word in ("acme's own RackMedic", "~0123456789ab hangs", "GPU.BUS.Fallen_Off_Bus", "Xid 79", "hints, not proof")
        )


async def test_a_thread_begun_before_a_crash_is_found() -> None:
    async with slack_side() as bot:
        threads, incident = await begun(bot)
        [item] = await bot.inbox.list_waiting(incident)
        first = await threads.resolve_thread(item)
        assert first is not None
        await PostedCards(bot.redis).set(incident, "root", "posting")
        await bot.inbox.set_origin(incident, first.model_copy(update={"thread_ts": ""}))
        assert (await threads.resolve_thread(item)) == first
        assert len([row for row in bot.slack.messages(OPS) if row.get("bot_id")]) == 1


def site(folder: Path) -> dict[str, str]:
    rows = {"groups": {"acme": {"hosts": "gpu-[017-018]", "tenant": "acme"}}, "channels": [{"channel": OPS, "kind": "operators"}]}
    (folder / "inventory.yaml").write_text(json.dumps(rows))
    return {"RACKMEDIC_DATA_DIR": str(folder / "data"), "RACKMEDIC_INVENTORY": str(folder / "inventory.yaml")}


@needs_redis
def test_a_file_is_imported_once_from_the_terminal(tmp_path: Path) -> None:
    environ, file = site(tmp_path), tmp_path / "ticket.json"
    file.write_bytes(SAID.to_canonical_bytes())
    first = json.loads(rackmedic("ticket", "import", str(file), "--json", environ=environ).stdout)
    again = json.loads(rackmedic("ticket", "import", str(file), "--json", environ=environ).stdout)
    assert (first["schema"], first["opened"], first["facts"]) == (1, True, 1)
    assert (again["again"], again["incident"]) == (True, first["incident"])


def test_a_file_that_is_no_ticket_is_refused_by_its_field_and_the_preview_opens_nothing(tmp_path: Path) -> None:
    environ, file = site(tmp_path), tmp_path / "ticket.json"
    file.write_text('{"format": "rackmedic-ticket/2"}')
    refused = rackmedic("ticket", "import", str(file), environ=environ)
    assert refused.returncode == 1
    assert "format: version 2 is not known" in refused.stderr
    file.write_text(json.dumps({**json.loads(SAID.to_canonical_bytes()), "colour": "red"}))
    shown = rackmedic("ticket", "import", str(file), "--preview", environ=environ)
    assert "GPU.BUS.Fallen_Off_Bus" in shown.stdout
    assert "skipped, not known to this version: colour" in shown.stderr
    assert not (tmp_path / "data").exists()


def test_field_names_of_a_strangers_file_reach_no_terminal_as_they_are_and_are_few() -> None:
    names = {f"\x1b]0;owned\x07\x1b[2J\u202e{number}": 1 for number in range(500)}
    read = parse_ticket(json.dumps({**json.loads(SAID.to_canonical_bytes()), **names, "long" * 100: 1}).encode())
    assert len(read.ignored) == MAX_IGNORED_FIELDS
    assert not [name for name in read.ignored if len(name) > 120 or not name.isprintable()]
    TicketAnswer(ticket="inc-1", state="received", ignored=read.ignored)


@needs_redis
def test_an_unknown_incident_is_not_exported(tmp_path: Path) -> None:
    ran = rackmedic("ticket", "export", "inc-none", "-", environ=site(tmp_path))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no such incident" in ran.stderr


def test_the_help_teaches() -> None:
    said = " ".join(rackmedic("ticket", "export", "--help").stdout.split())
    assert "--preview" in said
    assert "signatures" in said
