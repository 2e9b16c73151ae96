"""The keys that sign the ledger, from settings or the data folder. A crash during rotation loses no key."""

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings

KEY_BYTES = 32
KEY_IS_SETTING_TEXT = (
    f"{ENV_PREFIX}LEDGER_KEY is a setting of yours: give every process a new one, with the present one first in {ENV_PREFIX}LEDGER_OLD_KEYS, "
    "and run this again"
)


def load_ledger_key(settings: Settings) -> bytes:
    """Return the key of the settings, else one created in the data folder with mode 0600."""
    return settings.ledger_key.get_secret_value().encode() or _load_or_create_key(get_key_file(settings))


def load_older_keys(settings: Settings) -> tuple[bytes, ...]:
    """Return the earlier keys, newest first."""
    old_keys = [word.strip().encode() for word in settings.ledger_old_keys.get_secret_value().split(",") if word.strip()]
    return tuple(dict.fromkeys((*_read_key_lines(_get_older_keys_file(settings)), *old_keys)))


def get_key_file(settings: Settings) -> Path:
    return settings.data_dir / "ledger.key"


def has_ledger_key(settings: Settings) -> bool:
    return bool(settings.ledger_key.get_secret_value()) or get_key_file(settings).exists()


def rotate_ledger_key(settings: Settings) -> None:
    """Create a new key, after saving the present one among the older keys. Raises Refusal where the key is a setting."""
    if settings.ledger_key.get_secret_value():
        raise Refusal(KEY_IS_SETTING_TEXT)
    present = load_ledger_key(settings)
    _write_keys(_get_older_keys_file(settings), list(dict.fromkeys((present, *_read_key_lines(_get_older_keys_file(settings))))))
    _write_keys(get_key_file(settings), [_generate_key()])


def _get_older_keys_file(settings: Settings) -> Path:
    return settings.data_dir / "ledger.key.older"


def _generate_key() -> bytes:
    return secrets.token_hex(KEY_BYTES).encode()


def _read_key_lines(file: Path) -> tuple[bytes, ...]:
    return tuple(filter(None, file.read_bytes().split(b"\n"))) if file.exists() else ()


def _write_keys(file: Path, keys: Sequence[bytes]) -> None:
    """Replace the file atomically and fsync it and its folder."""
    draft = _write_draft(file, b"\n".join(keys))
    draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_draft(file: Path, text: bytes) -> Path:
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as key:
        key.write(text)
        key.flush()
        os.fsync(key.fileno())
    return draft


def _load_or_create_key(file: Path) -> bytes:
    """Create the key atomically: concurrent starts read one key, and a crash leaves no partial file."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not file.exists():
        draft = _write_draft(file, _generate_key())
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
        draft.unlink()
    content = file.read_bytes()
    if len(content) < KEY_BYTES:
        raise Refusal(
            f"{file} holds no whole key: put back the one that began this ledger, or remove the file where there is no ledger yet", 2
        )
    return content
