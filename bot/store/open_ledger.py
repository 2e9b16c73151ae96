"""Open the approval ledger. Fails closed: on a store that may lose writes no remedy runs."""

import ipaddress
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.store.ledger_signing_keys import get_key_file, load_ledger_key, load_older_keys
from bot.store.store import Durability, Store
from tools.clock import Clock
from tools.inventory.inventory import Host, Inventory
from tools.ledger.brakes import Brakes
from tools.ledger.ledger import Ledger

log = structlog.get_logger()
WRONG_KEY_TEXT = (
    "the audit log in {store} was started with another key than ours (the setting, or {file}), or its first entry was altered. "
    "Set the key it was started with: that of the machine or data folder where `rackmedic` ran first"
)


CHANGED_KEY_TEXT = (
    "the newest entry of the audit log in {store} is signed with another key than ours (the setting, or {file}). Where the ledger's key was changed, "
    "give this process the new one, and the earlier ones in {prefix}LEDGER_OLD_KEYS; else the log was altered"
)
ROTATE_KEY_TEXT = "the ledger's key is new here, and the ledger does not know it yet: run `rackmedic ledger rotate`, then start again"


async def open_ledger(settings: Settings, store: Store, inventory: Inventory, clock: Clock, *, changing: bool = False) -> Ledger:
    """Return the ledger of this store.

    Raises Refusal where it was begun with another key, or its newest entry has a key that we lack: one more entry would
    break the chain for good. `changing` skips the second check, for reading, the kill switch and key rotation.
    """
    distrust = find_distrust_reason(await store.get_durability(), inventory, accept=settings.allow_non_durable_ledger)
    head_file = None if store.is_memory_only else get_head_file(settings)
    ledger = Ledger(
        store.redis,
        load_ledger_key(settings),
        clock,
        brakes=build_brakes(settings),
        distrust=distrust,
        anchor=_build_head_writer(head_file),
        seen=load_audit_head(head_file),
        older_keys=load_older_keys(settings),
    )
    if not await ledger.is_own_chain():
        raise Refusal(f"{ENV_PREFIX}LEDGER_KEY: {WRONG_KEY_TEXT.format(store=store.describe(), file=get_key_file(settings))}", 2)
    state = "ours" if changing else await ledger.get_key_state()
    if state == "strange":
        raise Refusal(
            f"{ENV_PREFIX}LEDGER_KEY: {CHANGED_KEY_TEXT.format(store=store.describe(), file=get_key_file(settings), prefix=ENV_PREFIX)}", 2
        )
    if state == "earlier":
        raise Refusal(f"{ENV_PREFIX}LEDGER_KEY: {ROTATE_KEY_TEXT}", 2)
    return ledger


def build_brakes(settings: Settings) -> Brakes:
    return Brakes(
        blast_hosts=settings.brake_incident_hosts,
        blast_seconds=max(1, round(settings.brake_incident_minutes * 60)),
        at_once=settings.brake_at_once,
        window=settings.breaker_host_ratio,
        window_seconds=max(1, round(settings.brake_window_minutes * 60)),
    )


def get_head_file(settings: Settings) -> Path:
    """Return the file of the newest audit head, kept outside Redis to detect a restore from an older copy."""
    return settings.data_dir / "ledger.head"


def load_audit_head(file: Path | None) -> tuple[int, str]:
    """Return the kept length and head, or (0, "") where the file is missing or malformed."""
    try:
        match = re.fullmatch(r"([0-9]{1,13}) ((?:[0-9a-f]{8}\.)?[0-9a-f]{64})\n", file.read_text()) if file else None
    except (OSError, UnicodeDecodeError):
        match = None
    return (int(match[1]), match[2]) if match else (0, "")


def _build_head_writer(file: Path | None) -> Callable[[int, str], None]:
    """Return a callback that logs the newest audit head, for `rackmedic audit verify --head`, and keeps it in `file`."""

    def keep(length: int, head: str) -> None:
        log.info("audit.head", entries=length, head=head)
        if file is None:
            return
        draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.write_text(f"{length} {head}\n")
            draft.replace(file)
        except OSError as error:
            draft.unlink(missing_ok=True)
            log.warning("audit.head not kept", file=str(file), why=error.strerror)

    return keep


def find_distrust_reason(durability: Durability, inventory: Inventory, *, accept: bool) -> str:
    """Return why no remedy may run on this store, or an empty string."""
    if durability.is_durable:
        return ""
    forgets = "; ".join(durability.problems) or "it may forget what it acknowledged"
    if not accept:
        return f"{forgets}. Mend it (deploy/redis.conf)"
    strangers = [host.name for host in _list_remote_hosts(inventory.hosts.values())]
    return f"{forgets}, and {ENV_PREFIX}ALLOW_NON_DURABLE_LEDGER is for loopback hosts only: {strangers[0]} is none" if strangers else ""


def is_non_durable_allowed(durability: Durability, *, accept: bool) -> bool:
    """Return whether remedies run although the store may lose writes; every card then says so."""
    return accept and not durability.is_durable


def _list_remote_hosts(hosts: Iterable[Host]) -> list[Host]:
    return [host for host in hosts if not _is_loopback(host.address) or host.jump]


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
