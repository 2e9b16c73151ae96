"""`rackmedic doctor`: test every part. Read-only."""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from bot.app.diagnosis_runtime import WallClock
from bot.app.retention import GB, load_last_run
from bot.app.site_files import BadSite, find_site_folder, load_all_checks, load_site_skus, load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.doctor.finding import Finding, FindingState, render_findings_table
from bot.cli.doctor.hosts import check_hosts, check_schedulers
from bot.cli.doctor.integrations import check_alerts, check_channels, check_intake, check_provider_link, check_trackers
from bot.cli.doctor.policy import check_policy
from bot.cli.safe_console import open_table_console
from bot.settings import ENV_PREFIX, Settings
from bot.slack.installation import NotInstalled, SlackUnreachable, check_installation
from bot.store.ledger_signing_keys import has_ledger_key, load_ledger_key, load_older_keys
from bot.store.store import STORE_VERSION, Store, StoreUnavailable, WrongStoreVersion, open_store
from tools.evidence import DAY_SECONDS, measure_evidence
from tools.inventory.host_ranges import BadRange
from tools.inventory.inventory import BadInventory, Inventory
from tools.inventory.sources.loader import open_inventory
from tools.ledger.reader import LedgerReader
from tools.ledger.record import StoreDown
from tools.ssh.client import SshLimits, SshTransport

MIN_FREE_BYTES = 64 << 20  # evidence of a few incidents


async def run_doctor(settings: Settings, hosts: str, *, as_json: bool) -> int:
    """Print all findings; return 1 if anything failed."""
    findings = await collect_findings(settings, hosts)
    if as_json:
        print_text(json.dumps({"schema": 1, "items": [asdict(finding) for finding in findings]}))
    else:
        open_table_console().print(render_findings_table(findings))
    return int(any(finding.state == "fail" for finding in findings))


async def collect_findings(settings: Settings, hosts: str = "") -> list[Finding]:
    """Check every part concurrently, on `hosts` or all."""
    probes: list[Callable[[], Awaitable[list[Finding]]]] = [
        lambda: _check_store(settings),
        lambda: _check_slack(settings),
        lambda: _check_knowledge(settings),
        lambda: _check_model(settings),
        lambda: check_provider_link(settings),
        lambda: check_trackers(settings),
        lambda: _check_inventory(settings, hosts),
        lambda: asyncio.to_thread(check_retention, settings, time.time()),
    ]
    return [finding for rows in await asyncio.gather(*(look() for look in probes)) for finding in rows]


async def _check_store(settings: Settings) -> list[Finding]:
    try:
        store = await open_store(settings.redis_url or None, settings.data_dir)
        try:
            return await _check_durability(store, settings)
        finally:
            await store.aclose()
    except WrongStoreVersion as error:
        return [Finding("redis", "fail", error.says, error.mend)]
    except (StoreUnavailable, StoreDown) as error:
        return [Finding("redis", "fail", str(error), f"start it or change {ENV_PREFIX}REDIS_URL")]


async def _check_durability(store: Store, settings: Settings) -> list[Finding]:
    durability = await store.get_durability()
    state: FindingState = "ok" if durability.is_durable else "warn"
    mend = "; ".join(durability.problems) or ("" if durability.is_durable else "apt-get install redis-server, see deploy/redis.conf")
    return [
        Finding("redis", state, f"{store.describe()}, store version {STORE_VERSION}", mend),
        await _check_ledger_keys(settings, store),
    ]


async def _check_ledger_keys(settings: Settings, store: Store) -> Finding:
    """Report key ids and entries of earlier keys. Creates no key."""
    if not has_ledger_key(settings):
        return Finding(
            "ledger key", "off", "none yet: the first start makes one", f"set {ENV_PREFIX}LEDGER_KEY where several machines run it"
        )
    book = LedgerReader(store.redis, load_ledger_key(settings), WallClock(), older_keys=load_older_keys(settings))
    state, use = await book.get_key_state(), await book.get_key_status()
    key_note = "; ".join(
        [
            f"{use.current} signs",
            f"earlier ones: {', '.join(use.older)}" if use.older else "no earlier one",
            *([f"signed with an earlier one: {len(use.waiting)} to be proposed again, {len(use.running)} that run"] if use.older else []),
        ]
    )
    if state == "strange":
        strange = f"{key_note}; the newest entry of the audit log has none of them"
        return Finding("ledger key", "fail", strange, f"give it the others' key: {ENV_PREFIX}LEDGER_KEY")
    if state == "earlier" or use.waiting:
        return Finding("ledger key", "fail", f"{key_note}; the change is not through", "rackmedic ledger rotate")
    return Finding("ledger key", "ok", key_note)


async def _check_slack(settings: Settings) -> list[Finding]:
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        return [Finding("slack", "off", "no bot token", f"set {ENV_PREFIX}SLACK_BOT_TOKEN and {ENV_PREFIX}SLACK_APP_TOKEN to serve")]
    try:
        app = await check_installation(token, settings.slack_api_url)
    except NotInstalled as error:
        return [Finding("slack", "fail", f"Slack says {error}", "reinstall the app and copy its tokens")]
    except SlackUnreachable as error:
        return [Finding("slack", "fail", str(error), "check the network path or proxy")]
    if app.lacking:
        lacking = f"scopes missing: {' '.join(app.lacking)}"
        return [Finding("slack", "fail", lacking, "update the app from `rackmedic manifest` and reinstall it")]
    transport_note = f"events over HTTP on port {settings.http_port}" if settings.slack_signing_secret else "Socket Mode"
    return [Finding("slack", "ok", f"{app.user} in {app.team}, {transport_note}")]


async def _check_knowledge(settings: Settings) -> list[Finding]:
    kb_dir = settings.kb_dir
    return [
        *_check_site_files("taxonomy", lambda: f"{len(load_site_taxonomy(kb_dir).leaves)} labels", find_site_folder(kb_dir, "taxonomy")),
        *_check_site_files("checks", lambda: f"{len(load_all_checks(settings))} checks", find_site_folder(kb_dir, "checks")),
        *_check_site_files("sku", lambda: f"{len(load_site_skus(kb_dir))} profiles of machines", find_site_folder(kb_dir, "sku")),
    ]


def _check_site_files(part: str, says: Callable[[], str], own: tuple[Path, ...]) -> list[Finding]:
    try:
        return [Finding(part, "ok", says() + "".join(f", {folder} included" for folder in own))]
    except BadSite as error:
        return [Finding(part, "fail", problem, "fix the file; nothing of it is used until then") for problem in error.problems]


def find_evidence_problem(folder: Path) -> str:
    """Return why evidence cannot be stored, if so. A missing folder is judged by its parent; writes nothing."""
    existing_folder = next(one for one in (folder, *folder.parents) if one.exists())
    if not existing_folder.is_dir():
        return f"{existing_folder} is no folder"
    if not os.access(existing_folder, os.W_OK | os.X_OK):
        return "we may not write there"
    free = shutil.disk_usage(existing_folder).free
    return f"its disk is full: {free >> 20} MB left" if free < MIN_FREE_BYTES else ""


def check_retention(settings: Settings, now: float) -> list[Finding]:
    if problem := find_evidence_problem(settings.evidence_dir):
        mend = "incidents are diagnosed all the same, and nothing of them is kept; running processes take it up again by themselves"
        return [Finding("evidence", "fail", f"{settings.evidence_dir}: {problem}", f"make room or fix the folder: {mend}")]
    measured, last_run = measure_evidence(settings.evidence_dir), load_last_run(settings.data_dir)
    if measured.oldest is None:
        return [Finding("evidence", "ok", f"none yet in {settings.evidence_dir}")]
    days, size = (now - measured.oldest) / DAY_SECONDS, measured.bytes / GB
    bounds = f"{size:.2f} GB of at most {settings.evidence_gb:g}, the oldest {days:.0f} days of at most {settings.evidence_days:g}"
    summary = f"{measured.outputs} outputs, {bounds}"
    if size <= settings.evidence_gb and days <= settings.evidence_days + 1:
        return [Finding("evidence", "ok", summary)]
    if last_run is None or now - last_run.at > DAY_SECONDS:
        return [
            Finding("evidence", "warn", f"{summary}; not cleared for a day", "`rackmedic serve` clears it every hour: see whether it runs")
        ]
    detail = f"{summary}; open incidents cite {last_run.cited / GB:.2f} GB"
    return [Finding("evidence", "warn", detail, f"close them, or raise {ENV_PREFIX}EVIDENCE_GB")]


async def _check_model(settings: Settings) -> list[Finding]:
    key = settings.model_api_key.get_secret_value()
    if not key and not settings.model_url:
        return [
            Finding("model", "off", "none: the engine decides alone", f"set {ENV_PREFIX}MODEL_URL and {ENV_PREFIX}MODEL_API_KEY to add one")
        ]
    import aiohttp

    url = (settings.model_url or "https://api.openai.com/v1").rstrip("/") + "/models"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http,
            http.get(url, headers={"Authorization": f"Bearer {key}"}) as answer,
        ):
            if answer.status < 400:
                return [Finding("model", "ok", f"{settings.model_name} at {url}")]
            return [
                Finding("model", "fail", f"{url} answers {answer.status}", f"check {ENV_PREFIX}MODEL_API_KEY and {ENV_PREFIX}MODEL_URL")
            ]
    except (aiohttp.ClientError, TimeoutError) as error:
        return [
            Finding(
                "model",
                "fail",
                f"{url}: {error or 'no answer in 10 s'}",
                f"check {ENV_PREFIX}MODEL_URL; incidents end without it meanwhile",
            )
        ]


async def _check_inventory(settings: Settings, hosts: str) -> list[Finding]:
    if settings.inventory is None:
        return [Finding("inventory", "off", "none", f"set {ENV_PREFIX}INVENTORY")]
    try:
        inventory = await open_inventory(settings.inventory, SshTransport)
        names = [host.name for host in inventory.select_hosts(hosts)] if hosts else list(inventory.hosts)
    except BadInventory as error:
        return [Finding("inventory", "fail", problem, f"fix {error.source}") for problem in error.problems]
    except BadRange as error:
        return [Finding("inventory", "fail", str(error), "name hosts of the inventory with --hosts")]
    return [
        *check_intake(settings, inventory),
        *await check_alerts(settings, inventory),
        *await check_policy(settings, inventory),
        Finding("inventory", "ok", f"{len(inventory.hosts)} hosts, {len(inventory.channels)} channels"),
        *await check_channels(settings, inventory),
        *await _check_reachability(settings, inventory, names),
    ]


async def _check_reachability(settings: Settings, inventory: Inventory, names: list[str]) -> list[Finding]:
    ssh = SshTransport(inventory, SshLimits(settings.ssh_sessions, per_bastion=settings.ssh_per_bastion))
    try:
        return [*await check_hosts(ssh, inventory, names), *await check_schedulers(ssh, inventory, names)]
    finally:
        await ssh.aclose()
