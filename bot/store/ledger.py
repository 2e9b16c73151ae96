"""Opening the approval ledger: its key, and whether this store may be trusted with it. Fails closed: in doubt no remedy runs, and the reason is told."""

import contextlib
import ipaddress
import os
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from bot.refusal import Refusal
from bot.settings import PREFIX, Settings
from bot.store.store import Durability, Store
from tools.clock import Clock
from tools.inventory.hosts import Host, Inventory
from tools.ledger.brakes import Brakes
from tools.ledger.ledger import Ledger

log = structlog.get_logger()
KEY_BYTES = 32
STRANGE = (
    "the audit log in {store} was begun with another key than ours (the setting, or {file}), or its first entry was altered. "
    "Set the key it was begun with: that of the machine or data folder where `rackmedic` ran first"
)


async def open_ledger(settings: Settings, store: Store, inventory: Inventory, clock: Clock) -> Ledger:
    """The ledger on this store. Refusal where it was begun with another key: one more entry would break its chain for good."""
    distrust = why_not(await store.durability(), inventory, accept=settings.accept_forgetful_ledger)
    kept = None if store.forgets else head_file(settings)
    ledger = Ledger(
        store.redis,
        ledger_key(settings),
        clock,
        brakes=brakes_of(settings),
        distrust=distrust,
        anchor=_kept_in(kept),
        seen=kept_head(kept),
    )
    if not await ledger.ours():
        raise Refusal(f"{PREFIX}LEDGER_KEY: {STRANGE.format(store=store.describe(), file=key_file(settings))}", 2)
    return ledger


def brakes_of(settings: Settings) -> Brakes:
    """How much may be changed before somebody has to look, as the site sets it."""
    return Brakes(
        blast_hosts=settings.brake_incident_hosts,
        blast_seconds=max(1, round(settings.brake_incident_minutes * 60)),
        at_once=settings.brake_at_once,
        window=settings.brake_window,
        window_seconds=max(1, round(settings.brake_window_minutes * 60)),
    )


def head_file(settings: Settings) -> Path:
    """Where the newest audit head is kept outside Redis: what a Redis that was restored from an older copy does not hold."""
    return settings.data_dir / "ledger.head"


def kept_head(file: Path | None) -> tuple[int, str]:
    """The length and the head that were kept last; of a file that is not there, or none of ours, nothing."""
    try:
        found = re.fullmatch(r"([0-9]{1,13}) ([0-9a-f]{64})\n", file.read_text()) if file else None
    except (OSError, UnicodeDecodeError):
        found = None
    return (int(found[1]), found[2]) if found else (0, "")


def _kept_in(file: Path | None) -> Callable[[int, str], None]:
    """A head in the log is what a cut audit chain is later held against: `rackmedic audit verify --head`. The newest is kept in a file beside."""

    def keep(length: int, head: str) -> None:
        log.info("audit.head", entries=length, head=head)
        if file is None:
            return
        draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.write_text(f"{length} {head}\n")
            draft.replace(file)
        except OSError as why:
            draft.unlink(missing_ok=True)
            log.warning("audit.head not kept", file=str(file), why=why.strerror)

    return keep


def ledger_key(settings: Settings) -> bytes:
    """The key from settings, else one made once in the data folder, readable by its owner alone."""
    return settings.ledger_key.get_secret_value().encode() or _kept_key(key_file(settings))


def key_file(settings: Settings) -> Path:
    """Where our own key is kept."""
    return settings.data_dir / "ledger.key"


def _kept_key(file: Path) -> bytes:
    """Whole or not at all: two processes that start together read one key, and a crash leaves no half of one."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not file.exists():
        draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as key:
            key.write(secrets.token_hex(KEY_BYTES).encode())
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
        draft.unlink()
    kept = file.read_bytes()
    if len(kept) < KEY_BYTES:
        raise Refusal(
            f"{file} holds no whole key: put back the one that began this ledger, or remove the file where there is no ledger yet", 2
        )
    return kept


def why_not(durability: Durability, inventory: Inventory, *, accept: bool) -> str:
    """Why no remedy may run on this store; empty where one may."""
    if durability.survives:
        return ""
    forgets = "; ".join(durability.problems) or "it may forget what it acknowledged"
    if not accept:
        return f"{forgets}. Mend it (deploy/redis.conf)"
    strangers = [host.name for host in _beyond_loopback(inventory.hosts.values())]
    return f"{forgets}, and {PREFIX}ACCEPT_FORGETFUL_LEDGER is for loopback hosts only: {strangers[0]} is none" if strangers else ""


def forgetful(durability: Durability, *, accept: bool) -> bool:
    """Whether remedies run although the store may forget: every card says so."""
    return accept and not durability.survives


def _beyond_loopback(hosts: Iterable[Host]) -> list[Host]:
    return [host for host in hosts if not _loopback(host.address) or host.jump]


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
