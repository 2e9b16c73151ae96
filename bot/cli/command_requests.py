"""Arguments of `diagnose`, `look` and `dry-run`, without heavy imports, so that mistakes are refused at once.

Each raises Refusal with the option at fault.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bot.refusal import Refusal
from tools.inventory.host_ranges import BadRange, expand_host_range

if TYPE_CHECKING:
    from bot.cli.replies import ThreadReply

MAX_LOG_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class DiagnoseRequest:
    """Arguments of `diagnose`. `logs`: (name, text). A case has its own text."""

    text: str
    hosts: str = ""
    inventory: Path | None = None
    logs: tuple[tuple[str, str], ...] = ()
    case: Path | None = None
    replies: "tuple[ThreadReply, ...] | None" = None  # None if there is no conversation

    def __post_init__(self) -> None:
        if not self.text.strip() and self.case is None:
            raise Refusal("say what is wrong, for example: rackmedic diagnose 'job 4711 hangs' --hosts gpu-[001-004]", 2)
        _refuse_bad_ranges(self.hosts, "--hosts: ")
        _refuse_missing_case(self.case)


@dataclass(frozen=True, slots=True)
class LookRequest:
    """Arguments of `look`; without checks all passive ones, or those that establish `heat`."""

    hosts: str
    checks: tuple[str, ...] = ()
    inventory: Path | None = None
    case: Path | None = None
    heat: str = ""
    out: Path | None = None
    exclusive: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.out and not self.heat:
            raise Refusal("--out writes a heat map: say which number with --heat, for example --heat gpu.temp.core", 2)
        if self.heat and self.as_json:
            raise Refusal("--heat draws and --json prints facts: choose one", 2)
        if self.out:
            parse_picture_format(self.out)
        if not self.hosts.startswith("job:"):
            _refuse_bad_ranges(self.hosts)
        _refuse_missing_case(self.case)


@dataclass(frozen=True, slots=True)
class DryRunRequest:
    """Arguments of `dry-run`."""

    remedy: str
    host: str
    values: tuple[str, ...] = ()
    inventory: Path | None = None
    case: Path | None = None
    as_json: bool = False

    def __post_init__(self) -> None:
        if strange := [value for value in self.values if "=" not in value]:
            raise Refusal(f"{' '.join(strange)}: arguments are NAME=VALUE, for example bdf=0000:9b:00.0", 2)
        _refuse_missing_case(self.case)


def read_logs(paths: Iterable[Path], option: str = "--attach") -> tuple[tuple[str, str], ...]:
    """Return (name, text) of each file. Raises Refusal if unreadable or too large."""
    return tuple((path.name, _read_text(path, option)) for path in paths)


def _read_text(path: Path, option: str) -> str:
    try:
        with path.open("rb") as file:  # pipes and devices have no size
            content = file.read(MAX_LOG_BYTES + 1)
    except OSError as error:
        raise Refusal(f"{option} {path}: {error.strerror}", 2) from error
    except ValueError as error:
        raise Refusal(f"{option} {str(path)!r:.80}: no file can be called so", 2) from error
    if len(content) > MAX_LOG_BYTES:
        raise Refusal(f"{option} {path}: larger than {MAX_LOG_BYTES >> 20} MiB; cut it to the hour of the failure", 2)
    return content.decode("utf-8", "replace")


def read_piped_text() -> str:
    """Return all piped input. Raises Refusal if too large."""
    content = sys.stdin.buffer.read(MAX_LOG_BYTES + 1)
    if len(content) > MAX_LOG_BYTES:
        raise Refusal(f"-: larger than {MAX_LOG_BYTES >> 20} MiB; cut it to the hour of the failure", 2)
    return content.decode("utf-8", "replace")


def load_replies(path: Path | None) -> "tuple[ThreadReply, ...] | None":
    """Return a file's replies. Raises Refusal."""
    if path is None:
        return None
    from bot.cli.replies import read_replies  # loads the YAML reader, which most commands do not need

    return read_replies(path)


def parse_picture_format(out: Path, what: str = "a heat map") -> Literal["png", "svg"]:
    """Return the format by file name. Raises Refusal."""
    kind = out.suffix.lower().removeprefix(".")
    if kind != "png" and kind != "svg":
        raise Refusal(f"--out {out}: {what} is written as .png or .svg", 2)
    if not out.absolute().parent.is_dir():
        raise Refusal(f"--out {out}: there is no folder {out.parent}", 2)
    return "png" if kind == "png" else "svg"


def _refuse_bad_ranges(text: str, option: str = "") -> None:
    """Refuse invalid range syntax before the inventory is loaded."""
    try:
        expand_host_range(text)
    except BadRange as error:
        raise Refusal(f"{option}{error}; hosts are written like gpu-[001-004,7], n1 or as groups of the inventory", 2) from error


def _refuse_missing_case(case: Path | None) -> None:
    if case and not case.is_file():
        raise Refusal(
            f"--sandbox {case}: there is no such file; it is a case in YAML, `rackmedic bench new-case` writes one to begin with", 2
        )
