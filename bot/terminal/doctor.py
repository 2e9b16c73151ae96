"""`rackmedic doctor`: tries every part for real and says how to mend what fails. Looks only; changes nothing."""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from bot.run.retention import GB, last_time
from bot.run.site import BadSite, site_checks, site_folder, site_skus, site_taxonomy
from bot.run.world import WallClock
from bot.settings import PREFIX, Settings
from bot.slack.installation import NotInstalled, SlackAway, installation
from bot.store.ledger_keys import has_key, ledger_key, older_keys
from bot.store.store import Store, StoreUnavailable, WrongStoreVersion, open_store
from bot.store.version import STORE_VERSION
from bot.terminal.edge import tell
from bot.terminal.examination.channels import channel_findings
from bot.terminal.examination.finding import Finding, State, findings_table
from bot.terminal.examination.hosts import host_findings
from bot.terminal.examination.links import alert_findings, intake_findings, provider_findings
from bot.terminal.examination.policy import policy_findings
from bot.terminal.examination.schedulers import scheduler_findings
from bot.terminal.examination.trackers import tracker_findings
from bot.terminal.paper import paper
from tools.inventory.hosts import BadInventory, Inventory
from tools.inventory.ranges import BadRange
from tools.inventory.sources.open import open_inventory
from tools.ledger.book import Book
from tools.ledger.record import StoreDown
from tools.retention import DAY, kept
from tools.ssh.client import Limits, Ssh

LEAST_FREE = 64 << 20
"""Bytes; evidence of a few incidents."""


async def examine(settings: Settings, hosts: str, *, as_json: bool) -> int:
    """Try everything at once, print, and return 1 when something must be mended."""
    findings = await examined(settings, hosts)
    if as_json:
        tell(json.dumps({"schema": 1, "items": [asdict(finding) for finding in findings]}))
    else:
        paper().print(findings_table(findings))
    return int(any(finding.state == "fail" for finding in findings))


async def examined(settings: Settings, hosts: str = "") -> list[Finding]:
    """Every part tried, all at once; `hosts` narrows which of them."""
    looks: list[Callable[[], Awaitable[list[Finding]]]] = [
        lambda: _store(settings),
        lambda: _slack(settings),
        lambda: _knowledge(settings),
        lambda: _model(settings),
        lambda: provider_findings(settings),
        lambda: tracker_findings(settings),
        lambda: _hosts(settings, hosts),
        lambda: asyncio.to_thread(retention_findings, settings, time.time()),
    ]
    return [finding for rows in await asyncio.gather(*(look() for look in looks)) for finding in rows]


async def _store(settings: Settings) -> list[Finding]:
    try:
        store = await open_store(settings.redis_url or None, settings.data_dir)
        try:
            return await _kept_in(store, settings)
        finally:
            await store.aclose()
    except WrongStoreVersion as why:
        return [Finding("redis", "fail", why.says, why.mend)]
    except (StoreUnavailable, StoreDown) as why:
        return [Finding("redis", "fail", str(why), f"start it or change {PREFIX}REDIS_URL")]


async def _kept_in(store: Store, settings: Settings) -> list[Finding]:
    durability = await store.durability()
    state: State = "ok" if durability.survives else "warn"
    mend = "; ".join(durability.problems) or ("" if durability.survives else "apt-get install redis-server, see deploy/redis.conf")
    return [
        Finding("redis", state, f"{store.describe()}, store version {STORE_VERSION}", mend),
        await _ledger_keys(settings, store),
    ]


async def _ledger_keys(settings: Settings, store: Store) -> Finding:
    """Which keys sign the ledger by their ids, and what is not over and signed with an earlier one. Makes no key where there is none yet."""
    if not has_key(settings):
        return Finding("ledger key", "off", "none yet: the first start makes one", f"set {PREFIX}LEDGER_KEY where several machines run it")
    book = Book(store.redis, ledger_key(settings), WallClock(), older_keys=older_keys(settings))
    state, use = await book.key_state(), await book.keys()
    says = "; ".join(
        [
            f"{use.current} signs",
            f"earlier ones: {', '.join(use.older)}" if use.older else "no earlier one",
            *([f"signed with an earlier one: {len(use.waiting)} to be proposed anew, {len(use.running)} that run"] if use.older else []),
        ]
    )
    if state == "strange":
        strange = f"{says}; the newest entry of the audit log has none of them"
        return Finding("ledger key", "fail", strange, f"give it the others' key: {PREFIX}LEDGER_KEY")
    if state == "earlier" or use.waiting:
        return Finding("ledger key", "fail", f"{says}; the change is not through", "rackmedic ledger rotate")
    return Finding("ledger key", "ok", says)


async def _slack(settings: Settings) -> list[Finding]:
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        return [Finding("slack", "off", "no bot token", f"set {PREFIX}SLACK_BOT_TOKEN and {PREFIX}SLACK_APP_TOKEN to serve")]
    try:
        app = await installation(token, settings.slack_api_url)
    except NotInstalled as why:
        return [Finding("slack", "fail", f"Slack says {why}", "reinstall the app and copy its tokens")]
    except SlackAway as why:
        return [Finding("slack", "fail", str(why), "check the network path or proxy")]
    if app.lacking:
        lacking = f"scopes missing: {' '.join(app.lacking)}"
        return [Finding("slack", "fail", lacking, "update the app from `rackmedic manifest` and reinstall it")]
    how = f"events over HTTP on port {settings.http_port}" if settings.slack_signing_secret else "Socket Mode"
    return [Finding("slack", "ok", f"{app.user} in {app.team}, {how}")]


async def _knowledge(settings: Settings) -> list[Finding]:
    """The built-in files and the site's own, of each kind."""
    kb_dir = settings.kb_dir
    return [
        *_read("taxonomy", lambda: f"{len(site_taxonomy(kb_dir).leaves)} labels", site_folder(kb_dir, "taxonomy")),
        *_read("checks", lambda: f"{len(site_checks(settings))} checks", site_folder(kb_dir, "checks")),
        *_read("sku", lambda: f"{len(site_skus(kb_dir))} profiles of machines", site_folder(kb_dir, "sku")),
    ]


def _read(part: str, says: Callable[[], str], own: tuple[Path, ...]) -> list[Finding]:
    try:
        return [Finding(part, "ok", says() + "".join(f", {folder} included" for folder in own))]
    except BadSite as why:
        return [Finding(part, "fail", problem, "mend the file; nothing of it is used until then") for problem in why.problems]


def not_keeping(folder: Path) -> str:
    """Why evidence cannot be kept there; empty where it can. Nothing is written: a folder that is not there yet goes by the one above it."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir():
        return f"{there} is no folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return "we may not write there"
    free = shutil.disk_usage(there).free
    return f"its disk is full: {free >> 20} MB left" if free < LEAST_FREE else ""


def retention_findings(settings: Settings, now: float) -> list[Finding]:
    """How much evidence is kept, within which bounds, and whether it is cleared by itself."""
    if why := not_keeping(settings.evidence_dir):
        mend = "incidents are diagnosed all the same, and nothing of them is kept; running processes take it up again by themselves"
        return [Finding("evidence", "fail", f"{settings.evidence_dir}: {why}", f"make room or mend the folder: {mend}")]
    there, done = kept(settings.evidence_dir), last_time(settings.data_dir)
    if there.oldest is None:
        return [Finding("evidence", "ok", f"none yet in {settings.evidence_dir}")]
    days, size = (now - there.oldest) / DAY, there.bytes / GB
    bounds = f"{size:.2f} GB of at most {settings.evidence_gb:g}, the oldest {days:.0f} days of at most {settings.evidence_days:g}"
    says = f"{there.outputs} outputs, {bounds}"
    if size <= settings.evidence_gb and days <= settings.evidence_days + 1:
        return [Finding("evidence", "ok", says)]
    if done is None or now - done.at > DAY:
        return [
            Finding("evidence", "warn", f"{says}; not cleared for a day", "`rackmedic serve` clears it every hour: see whether it runs")
        ]
    cited = f"{says}; open incidents cite {done.cited / GB:.2f} GB"
    return [Finding("evidence", "warn", cited, f"close them, or raise {PREFIX}EVIDENCE_GB")]


async def _model(settings: Settings) -> list[Finding]:
    key = settings.model_api_key.get_secret_value()
    if not key and not settings.model_url:
        return [Finding("model", "off", "none: the engine decides alone", f"set {PREFIX}MODEL_URL and {PREFIX}MODEL_API_KEY to add one")]
    import aiohttp

    url = (settings.model_url or "https://api.openai.com/v1").rstrip("/") + "/models"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http,
            http.get(url, headers={"Authorization": f"Bearer {key}"}) as answer,
        ):
            if answer.status < 400:
                return [Finding("model", "ok", f"{settings.model_name} at {url}")]
            return [Finding("model", "fail", f"{url} answers {answer.status}", f"check {PREFIX}MODEL_API_KEY and {PREFIX}MODEL_URL")]
    except (aiohttp.ClientError, TimeoutError) as why:
        return [
            Finding("model", "fail", f"{url}: {why or 'no answer in 10 s'}", f"check {PREFIX}MODEL_URL; incidents end without it meanwhile")
        ]


async def _hosts(settings: Settings, hosts: str) -> list[Finding]:
    if settings.inventory is None:
        return [Finding("inventory", "off", "none", f"set {PREFIX}INVENTORY")]
    try:
        inventory = await open_inventory(settings.inventory, Ssh)
        names = [host.name for host in inventory.pick(hosts)] if hosts else list(inventory.hosts)
    except BadInventory as why:
        return [Finding("inventory", "fail", problem, f"mend {why.source}") for problem in why.problems]
    except BadRange as why:
        return [Finding("inventory", "fail", str(why), "name hosts of the inventory with --hosts")]
    return [
        *intake_findings(settings, inventory),
        *await alert_findings(settings, inventory),
        *await policy_findings(settings, inventory),
        Finding("inventory", "ok", f"{len(inventory.hosts)} hosts, {len(inventory.channels)} channels"),
        *await channel_findings(settings, inventory),
        *await _reach(settings, inventory, names),
    ]


async def _reach(settings: Settings, inventory: Inventory, names: list[str]) -> list[Finding]:
    """The hosts, then what schedules jobs on them."""
    ssh = Ssh(inventory, Limits(settings.ssh_sessions, per_bastion=settings.ssh_per_bastion))
    try:
        return [*await host_findings(ssh, inventory, names), *await scheduler_findings(ssh, inventory, names)]
    finally:
        await ssh.aclose()
