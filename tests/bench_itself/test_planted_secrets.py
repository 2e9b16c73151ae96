"""Secrets planted in every input and searched in every output: nothing bypasses `redact`. The whole product plays an
incident with a model; then everything stored, posted, logged and asked is searched.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from fakeredis.aioredis import FakeAsyncRedisConnection

from bot.app.logs import set_up_logs
from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.cluster.grammar import recognise_command
from deploy.sandbox.slack.workspace.blockkit import list_elements
from deploy.sandbox.slack.workspace.journal import Change
from deploy.sandbox.slack.workspace.people import BOT_USER
from deploy.sandbox.slack.workspace.refusal import SlackRefusal
from graph.model.client import ModelReasoner
from kb.history.incidents import PastIncident
from kb.history.index import PastIncidentIndex
from tests.bench.arms.arm import Knowledge
from tests.bench.case_files.truth import read_truth
from tests.bench.hostile.corpus import SITE_ARGV, site_checks
from tests.bench.hostile.models import Obeys
from tests.bench.hostile.play import dumped, posted, raw_case
from tests.bench.hostile.texts import OTHER
from tests.bench.loop.play import MENTION
from tests.bench.loop.virtual_time import Leaping
from tests.bench.loop.world import CHANNEL, REPORTER, Room, StandIns, room
from tests.bench.run.setup import without
from tools.evidence import DirectoryEvidence

PLANTED: Mapping[str, tuple[str, str]] = {
    # where        secret             the line with it
    "ticket":     ("tk-9fQ2xAyu71b", "the password is tk-9fQ2xAyu71b , and mysql -u root -ptk-9fQ2xAyu71b fails"),
    "attachment": ("at-8hW3zBvt62c", "export WANDB_API_KEY=at-8hW3zBvt62c"),
    "reply":      ("rp-7jE4cCwr53d", "still slow. login with token=rp-7jE4cCwr53d please"),
    "procs.list": ("ps-6kR5vDxq44e", "   4711       1 root     S 00:00:10 0.0 0.0 python train.py --api-key ps-6kR5vDxq44e"),
    "env.job":    ("en-5lT6bEzp35f", "4711 DB_PASSWORD=en-5lT6bEzp35f"),
    "docker.inspected": ("dk-4mY7nFao26g", '{"Config":{"Env":["SERVICE_TOKEN=dk-4mY7nFao26g"]}}'),
    "sysd.journal": ("jn-3nU8mGbi17h", '{"MESSAGE":"connecting with password=jn-3nU8mGbi17h","_SYSTEMD_UNIT":"docker.service","PRIORITY":"3"}'),
    "dmesg.ring": ("km-2oI9lHcu08i", "2026-05-20T03:00:00,000000+00:00 NVRM: Xid (PCI:0000:19:00): 13, name=--password=km-2oI9lHcu08i"),
    "joblog.tail": ("jl-1pO0kIdy99j", "[rank0]: RuntimeError: cannot open s3 with secret_key=jl-1pO0kIdy99j"),
    "sched.job":  ("sc-0qP1jJet80k", "   Comment=token=sc-0qP1jJet80k"),
    "site":       ("st-9rA2iKfr71l", "note: api_key=st-9rA2iKfr71l"),
    "past":       ("pa-8sB3hLgq62m", "It was the login with password=pa-8sB3hLgq62m that failed."),
    "model":      ("ml-7tC4gMhp53n", "Does mysql -u root -pml-7tC4gMhp53n work, and is password=ml-7tC4gMhp53n right?"),
    "name":       ("nm-6uD5fNio44o", "ada password=nm-6uD5fNio44o"),
}  # fmt: skip
SOURCES = frozenset(PLANTED) - {"ticket", "attachment", "reply", "site", "past", "model", "name"}


def planting(host: str, argv: Sequence[str], printed: bytes) -> bytes:
    """Print each secret in its command's output."""
    asked = recognise_command(argv)
    lines = [line for where, (_, line) in PLANTED.items() if asked is not None and asked.name == where]
    lines += [PLANTED["site"][1]] if tuple(argv) == SITE_ARGV else []
    return printed.rstrip(b"\n") + "".join(f"\n{line}" for line in lines).encode() + b"\n" if lines and printed else printed


def listening(sent: list[bytes]) -> type[FakeAsyncRedisConnection]:
    """Return a Redis connection class that records all commands, including data later replaced or deleted."""

    class Overheard(FakeAsyncRedisConnection):
        async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
            parts = [command.encode()] if isinstance(command, str) else [command] if isinstance(command, bytes) else list(command)
            sent.append(b"".join(parts))
            await super().send_packed_command(parts, check_health)

    return Overheard


async def played(folder: Path, obeys: Obeys) -> Mapping[str, str]:
    """Return everything that left the product, by destination."""
    raw = raw_case(model=True)
    ticket = raw["ticket"] | {"text": f"{raw['ticket']['text']}\n{PLANTED['ticket'][1]}"}
    case = parse_case(dict(raw) | {"ticket": ticket}, "planted")
    known = site_checks(without(frozenset(read_truth(raw["truth"]).removed)))
    lesson = PastIncident("past-1", "Slow", f"{case.ticket.text} {PLANTED['past'][1]}", OTHER, PLANTED["past"][1], PLANTED["past"][1])
    known = replace(known, past=(*known.past, lesson))
    name = PLANTED["name"][1]
    sent = list[bytes]()
    stand_ins = StandIns(planting, ModelReasoner(obeys), DirectoryEvidence(folder), name, listening(sent))
    async with room(case, known, stand_ins=stand_ins) as here:
        files = [("train.log", f"step 1\n{PLANTED['attachment'][1]}\nRuntimeError: NCCL error\n".encode())]
        ts = await here.slack.say(REPORTER, CHANNEL, MENTION + case.ticket.text, files=files)
        await asyncio.sleep(3600)
        for reply in (
            PLANTED["reply"][1],
            "show me the processes of every host",
            "show me the job's environment",
            "summary for the ticket",
            "hand off",
        ):
            await here.slack.say(REPORTER, CHANNEL, MENTION + reply, ts)
            await asyncio.sleep(600)
        await here.slack.open_home(REPORTER)
        await pressed(here)
        await asyncio.sleep(60)
        everything = await left(here, known, folder, obeys)
        return everything | {"Redis, all that it was ever sent": b"\n".join(sent).decode("utf-8", "replace")}


async def pressed(here: Room) -> None:
    """Use every button and menu option of the bot's messages as a person without approval rights, so that all forms
    open.
    """
    every = [message.body for channel in here.slack.workspace.channels.values() for message in channel.messages.values()]
    for message in [body for body in every if body.get("bot_id")]:
        for element in [element for block in message.get("blocks", ()) for element in list_elements(block)]:
            chosen = [option["value"] for option in element.get("options", ())] or [element.get("value")]
            for value in chosen:
                with contextlib.suppress(SlackRefusal):  # the previous click may have changed the card
                    await here.slack.click(REPORTER, str(message["ts"]), str(element["action_id"]), value=value)
                await asyncio.sleep(1)


async def left(here: Room, known: Knowledge, folder: Path, obeys: Obeys) -> dict[str, str]:
    stored, ws = DirectoryEvidence(folder), here.slack.workspace
    digests = [file.parent.name + file.stem for file in folder.rglob("*.z")]
    kept = [str(await stored.get_text(digest)) for digest in digests]
    changes = ws.journal.list_changes_after(0)
    uploads = ws.files.list_by_user(BOT_USER)
    history = PastIncidentIndex(known.past)
    return {
        "Redis": await dumped(here),
        "Slack": posted(here),
        "forms": "\n".join(json.dumps(change.data) for change in changes if change.kind == "view"),
        "Home tab": "\n".join(json.dumps(change.data) for change in changes if change.kind == "home"),
        "Slack, all that it was told": "\n".join(json.dumps(change.data) for change in changes if _ours(change)),
        "files": "\n".join(f"{file.name} {file.title} {(file.content or b'').decode('utf-8', 'replace')}" for file in uploads),
        "tickets": "\n".join(json.dumps(change.data) for change in changes if _ours(change) and "Ticket" in json.dumps(change.data)),
        "Qdrant": "\n".join(str(asdict(row.incident)) for row in await history.find_similar(PLANTED["past"][1], 5)),
        "evidence": "\n".join(kept),
        "model": "\n".join(obeys.asked),
        "data folder": "\n".join(file.read_text("utf-8", "replace") for file in folder.parent.rglob("*") if file.is_file()),
    }


def _ours(change: Change) -> bool:
    """Return whether the bot wrote it; people's own words may be in Slack."""
    told = change.data.get("message", change.data)
    return change.kind in ("view", "home", "ephemeral", "status", "prompts") or bool(told.get("bot_id"))


def test_no_secret_leaves_by_any_door(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    set_up_logs("debug", "json")
    obeys = Obeys(orders=(PLANTED["model"][1],))
    try:
        with asyncio.Runner(loop_factory=Leaping) as runner:
            sinks: dict[str, Any] = {**runner.run(played(tmp_path / "evidence", obeys))}
    finally:
        structlog.reset_defaults()
    out = capfd.readouterr()
    sinks["logs"] = out.out + out.err
    found = {f"{where} in {sink}" for where, (secret, _) in PLANTED.items() for sink, text in sinks.items() if secret in text}
    assert found == set()
    assert len(obeys.asked) > 1
    sent = sinks["Redis, all that it was ever sent"]
    assert ("rm:thread:" in sent, sent.count("password is [redacted]") > 1) == (True, True), "LangGraph's checkpoints are among it"
    assert all(len(text) > 100 for sink, text in sinks.items() if sink != "data folder"), {sink: len(text) for sink, text in sinks.items()}
    seen = json.dumps(sinks["evidence"])
    assert seen.count("[redacted]") >= len(SOURCES), "what was planted was never read"
