"""`rackmedic audit | stop | resume | status`: the ledger from a terminal.

It approves nothing: a terminal proves no Slack identity.
"""

import contextlib
import getpass
import json
import socket
from collections.abc import AsyncIterator, Sequence

from rich.table import Table

from bot.app.diagnosis_runtime import WallClock
from bot.app.logs import set_up_logs
from bot.cli.command_runtime import print_text
from bot.cli.persistent_store import open_persistent_store
from bot.cli.safe_console import build_text_table, open_table_console
from bot.refusal import Refusal
from bot.remediation.action_index import ActionIndex
from bot.settings import ENV_PREFIX, Settings
from bot.store.ledger_signing_keys import rotate_ledger_key
from bot.store.open_ledger import open_ledger
from bot.store.store import Store
from tools.inventory.inventory import Inventory
from tools.ledger.brakes import Brakes, BrakeStatus
from tools.ledger.ledger import Ledger
from tools.ledger.refusals import Refused

EMPTY_INVENTORY = Inventory(hosts={}, groups={})
ALTERATION_ACCEPTED_TEXT = "the kill switch, a breaker or a held host had been changed in Redis by another program; they count from now on as `rackmedic status` shows them"
ALTERATION_BLOCKS_TEXT = (
    "the kill switch, a breaker or a held host was changed in Redis by another program: nothing starts until `rackmedic resume`"
)


@contextlib.asynccontextmanager
async def _open_ledger(settings: Settings) -> AsyncIterator[Ledger]:
    async with _open_ledger_store(settings) as store:
        yield await open_ledger(settings, store, EMPTY_INVENTORY, WallClock(), changing=True)


@contextlib.asynccontextmanager
async def _open_ledger_store(settings: Settings) -> AsyncIterator[Store]:
    """Open the store without the inventory, because the kill switch must work even if that is broken."""
    set_up_logs(settings.log_level, settings.log_format)
    async with open_persistent_store(settings, "a ledger") as store:
        yield store


def get_terminal_identity() -> str:
    """Return the local account as the audit log names it."""
    return f"terminal:{getpass.getuser()}@{socket.gethostname()}"


async def verify_audit_log(settings: Settings, heads: tuple[str, ...], *, as_json: bool) -> int:
    """Verify the audit chain. Return 1 if it was altered or truncated."""
    async with _open_ledger(settings) as ledger:
        report = await ledger.verify_audit(heads)
    if as_json:
        row = {"entries": report.entries, "head": report.head, "good": report.good, "broken_at": report.broken_at}
        print_text(json.dumps({"schema": 1, **row, "missing_heads": list(report.missing_heads)}))
    elif report.good:
        print_text(f"intact: {report.entries} entries, head {report.head or '(none)'}")
    else:
        cut = f"; its end was cut: {len(report.missing_heads)} posted head(s) are not in it" if report.missing_heads else ""
        print_text(f"NOT intact: the chain breaks at entry {report.broken_at}{cut}" if not report.intact else f"NOT whole{cut}")
    return 0 if report.good else 1


async def export_audit_log(settings: Settings) -> int:
    async with _open_ledger(settings) as ledger:
        async for line in ledger.export_audit():
            print_text(line)
    return 0


async def engage_kill_switch(settings: Settings, reason: str) -> int:
    async with _open_ledger(settings) as ledger:
        await ledger.stop(get_terminal_identity(), reason)
        running = (await ledger.get_brake_status()).executing
    print_text("stopped: no remedy starts until `rackmedic resume`" + (f"; still running: {' '.join(running)}" if running else ""))
    return 0


async def release_brake(settings: Settings, group: str) -> int:
    """Reset the breaker of a group, or release the kill switch if `group` is empty."""
    async with _open_ledger(settings) as ledger:
        was_open = group in (await ledger.get_brake_status()).breakers
        was_altered = await ledger.has_altered_brakes()
        if group:
            await ledger.reset_breaker(group, get_terminal_identity())
        else:
            await ledger.resume(get_terminal_identity())
    print_text(_format_breaker_reset(group, was_open) if group else "resumed: approved remedies may start again")
    if was_altered:
        print_text(ALTERATION_BLOCKS_TEXT if group else ALTERATION_ACCEPTED_TEXT, err=True)
    return 0


def _format_breaker_reset(group: str, was_open: bool) -> str:
    return f"the breaker of {group} is reset" if was_open else f"no breaker of {group} was open; its counters start again at zero"


async def rewind_ledger_clock(settings: Settings) -> int:
    """Set the ledger's clock, which a machine with a wrong clock moved ahead, back to this machine's."""
    async with _open_ledger_store(settings) as store:
        ledger = await open_ledger(settings, store, EMPTY_INVENTORY, WallClock(), changing=True)
        await _announce_ended_actions(store, await ledger.rewind_clock(get_terminal_identity()))
    print_text("the ledger's clock is this machine's; what waited for a decision or a start is superseded and proposed again")
    return 0


async def _announce_ended_actions(store: Store, approvals: Sequence[str]) -> None:
    """Schedule checks, so that superseded actions are proposed again at once and not within a minute."""
    index = ActionIndex(store.redis, WallClock())
    for approval in approvals:
        await index.schedule_check(approval)


async def run_key_rotation(settings: Settings, *, as_json: bool) -> int:
    """Rotate the signing key, or finish a rotation that was interrupted."""
    async with _open_ledger_store(settings) as store:
        ledger = await open_ledger(settings, store, EMPTY_INVENTORY, WallClock(), changing=True)
        if not (await ledger.get_key_status()).changing:
            rotate_ledger_key(settings)
            ledger = await open_ledger(settings, store, EMPTY_INVENTORY, WallClock(), changing=True)
        try:
            superseded = await ledger.rotate_key(get_terminal_identity())
        except Refused as error:
            raise Refusal(str(error)) from error
        await _announce_ended_actions(store, superseded)
        status = await ledger.get_key_status()
    if as_json:
        row = {"key": status.current, "older": list(status.older), "superseded": list(superseded), "running": list(status.running)}
        print_text(json.dumps({"schema": 1, **row}))
        return 0
    older_keys = " ".join(status.older) or "none"
    print_text(f"the ledger is signed with the key {status.current} from now on; earlier ones, kept for what they signed: {older_keys}")
    print_text(f"superseded, and proposed again: {' '.join(superseded) or 'nothing'}")
    if status.running:
        print_text(f"started under an earlier key, and ends under it: {' '.join(status.running)}")
    print_text("restart every other process of RackMedic on this Redis: until then they decide and start nothing")
    return 0


async def print_brake_status(settings: Settings, *, as_json: bool) -> int:
    async with _open_ledger(settings) as ledger:
        status, brakes = await ledger.get_brake_status(), ledger.brakes
    if as_json:
        document: dict[str, object] = {
            "schema": 1,
            "stopped": status.stopped,
            "breakers": list(status.breakers),
            "executing": list(status.executing),
            "unknown": list(status.unknown),
            "brakes": _build_brake_settings(brakes),
        }
        print_text(json.dumps(document))
        return 0
    open_table_console().print(render_brakes_table(status, brakes))
    return 0


def render_brakes_table(status: BrakeStatus, brakes: Brakes) -> Table:
    """Return the state and the limits of the brakes as a table."""
    rows = [
        ("kill switch", status.stopped or "off"),
        ("breakers", " ".join(status.breakers) or "none"),
        ("executing", " ".join(status.executing) or "none"),
        ("unknown (a human must look)", " ".join(status.unknown) or "none"),
        *list_brake_limits(brakes),
    ]
    return build_text_table(("what", "state"), rows)


def list_brake_limits(brakes: Brakes) -> list[tuple[str, str]]:
    window = f"{brakes.window:.0%} of a group, or 3 hosts, within {brakes.window_seconds / 60:g} min"
    return [
        (
            "changed by one incident",
            f"{brakes.blast_hosts} hosts within {brakes.blast_seconds / 60:g} min ({ENV_PREFIX}BRAKE_INCIDENT_HOSTS)",
        ),
        ("hosts at once", f"{brakes.at_once:.0%} of a group, or 1 host ({ENV_PREFIX}BRAKE_AT_ONCE)"),
        ("changed before a breaker trips", f"{window} ({ENV_PREFIX}BREAKER_HOST_RATIO)"),
    ]


def _build_brake_settings(brakes: Brakes) -> dict[str, float]:
    return {
        "incident_hosts": brakes.blast_hosts,
        "incident_minutes": brakes.blast_seconds / 60,
        "at_once": brakes.at_once,
        "window": brakes.window,
        "window_minutes": brakes.window_seconds / 60,
    }
