"""The node kit as text, written from the catalogues: a check or remedy that is not in a table is not in the kit.

Everything that comes from a row is quoted for sh once, here; what comes from people or hosts never gets into the text at all.
"""

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files

from tools.action import Condition
from tools.checks.check_types import Check
from tools.checks.storage import LOCAL_FUSE_FILE_SYSTEMS, SHARED_FILE_SYSTEMS
from tools.remedies.remedy import ARGUMENT_KINDS, ArgumentKind, Remedy

QUESTION_FUNCTIONS = {
    "env": "job_environment",
    "masters": "job_masters",
    "adapters": "adapter_counters",
    "mounts": "shared_mounts",
    "containers": "gpu_containers",
    "inside": "inside_containers",
}
"""Questions that are no plain command: `rackmedic-look WORD ARGUMENT...` in a row is answered by the kit's own function."""

PREVIEW_FUNCTIONS = ("old_files",)
"""Functions of the kit that say what a remedy would take with it: `FUNCTION ARGUMENT...` in a row, asked as `rackmedic-look REMEDY.preview`."""

CONDITION_FUNCTIONS = ("proc_start", "module_loaded", "module_users", "container_gpus")
"""What a condition may ask of the kit itself, as `@NAME`."""

CONDITION_TIMEOUT_SECONDS = 15
KIT_DIRECTORY = "/usr/local/sbin"
LOOK_COMMAND = ("sudo", "-n", f"{KIT_DIRECTORY}/rackmedic-look")
ACT_COMMAND = ("sudo", "-n", f"{KIT_DIRECTORY}/rackmedic-act")
"""How the kit is asked for what only root may read, and for an action. sudoers names these paths and nothing else."""


class BadRow(ValueError):
    """A row that cannot be put into the kit. Names the row and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class KitPaths:
    """Where the kit lives and keeps its records on a node. They go into sh, sudoers and sshd text, so they are plain paths and a plain name."""

    directory: str = KIT_DIRECTORY
    state: str = "/var/lib/rackmedic"
    search: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    proc: str = "/proc"
    user: str = "rackmedic"
    signers: str = "/etc/rackmedic/allowed_signers"
    keys: str = "/etc/ssh/authorized_keys"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            pattern = r"[a-z_][a-z0-9_-]{0,31}" if field.name == "user" else r"/[A-Za-z0-9._/+-]+(:/[A-Za-z0-9._/+-]+)*"
            if not re.fullmatch(pattern, value) or (":" in value and field.name != "search"):
                raise ValueError(f"{field.name}={value!r}: must be {'an account name' if field.name == 'user' else 'an absolute path'}")


def build_kit_files(checks: Mapping[str, Check], remedies: Mapping[str, Remedy], paths: KitPaths | None = None) -> dict[str, str]:
    """File name → content: `rackmedic-look`, `rackmedic-act`, `sudoers`, `sshd_config`, `install.sh`."""
    paths = paths or KitPaths()
    values = {
        "VERSION": compute_kit_version(checks, remedies),
        "COMMANDS": "\n".join(_iter_questions(checks)),
        "KINDS": "\n".join(_render_kinds(_list_kit_remedies(remedies))),
        "PREVIEWS": "\n".join(_render_previews(remedies)),
        "REMEDIES": "\n".join(_render_remedies(remedies)),
        "PATH": paths.search,
        "STATE": paths.state,
        "PROC": paths.proc,
        "USER": paths.user,
        "SIGNERS": paths.signers,
        "KEYS": paths.keys,
        "DIRECTORY": paths.directory,
        "SHARED": " | ".join(kind for kind in SHARED_FILE_SYSTEMS if not kind.startswith("fuse")),
        "LOCALFUSE": " | ".join(LOCAL_FUSE_FILE_SYSTEMS),
    }
    templates = {"rackmedic-look": "look.sh", "rackmedic-act": "act.sh"} | {name: name for name in ("sudoers", "sshd_config", "install.sh")}
    previewed = {**values, "KINDS": "\n".join(_render_kinds(_list_previewed(remedies)))}
    return {name: _render(read_template(source), previewed if name == "rackmedic-look" else values) for name, source in templates.items()}


def compute_kit_version(checks: Mapping[str, Check], remedies: Mapping[str, Remedy]) -> str:
    """Changes exactly when what the kit would allow, or how, changes."""
    text = "\n".join(
        [
            read_template("look.sh"),
            read_template("act.sh"),
            *SHARED_FILE_SYSTEMS,
            *LOCAL_FUSE_FILE_SYSTEMS,
            *_iter_questions(checks),
            *_render_previews(remedies),
            *_render_kinds(_list_kit_remedies(remedies)),
            *_render_remedies(remedies),
        ]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_template(name: str) -> str:
    """A script before the catalogues are filled in."""
    return (files("tools.nodekit") / name).read_text()


def _render(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda slot: values[slot[1]], text)


def _iter_questions(checks: Mapping[str, Check]) -> Iterator[str]:
    for check in checks.values():
        for command in check.commands:
            if not command.privileged:
                continue
            name = f"{check.id}.{command.name}"
            if any(re.search(r"{[a-z_]+}", word) for word in command.argv):
                raise BadRow(f"{name}: a privileged command has no slots; nobody but the catalogue fills them")
            yield f"  {shlex.quote(name)}) {_render_question(name, check, command.argv)} ;;"


def _render_question(name: str, check: Check, argv: Sequence[str]) -> str:
    if argv[0] != "rackmedic-look":
        return f"exec timeout -k 2 {check.timeout:g} {shlex.join(argv)}"
    if argv[1] not in QUESTION_FUNCTIONS:
        raise BadRow(f"{name}: the kit has no question {argv[1]!r}; it has {', '.join(QUESTION_FUNCTIONS)}")
    return shlex.join((QUESTION_FUNCTIONS[argv[1]], *argv[2:]))


def _list_kit_remedies(remedies: Mapping[str, Remedy]) -> list[Remedy]:
    rows = (row for remedy in remedies.values() for row in (remedy, *remedy.ways.values()))
    return [row for row in rows if row.at != "fleet"]


def _list_previewed(remedies: Mapping[str, Remedy]) -> list[Remedy]:
    return [remedy for remedy in remedies.values() if remedy.preview]


def _render_previews(remedies: Mapping[str, Remedy]) -> Iterator[str]:
    """A question for each remedy that shows beforehand what it would take: its own arguments, matched as they are for the remedy itself."""
    for remedy in _list_previewed(remedies):
        if remedy.preview[0] not in PREVIEW_FUNCTIONS:
            raise BadRow(f"{remedy.id}: the kit has no preview {remedy.preview[0]!r}; it has {', '.join(PREVIEW_FUNCTIONS)}")
        names = list(remedy.args)
        fits = " && ".join((f"[ $# -eq {len(names) + 1} ]", *(f'is_{kind} "${{{i}}}"' for i, kind in enumerate(remedy.args.values(), 2))))
        yield f"  {shlex.quote(f'{remedy.id}.preview')}) {fits} || usage; {_render_words(remedy.preview, names)} ;;"


def _render_kinds(rows: Sequence[Remedy]) -> Iterator[str]:
    """`is_KIND VALUE` for every kind of argument that these remedies take."""
    used = {kind for remedy in rows for kind in remedy.args.values()}
    for name, kind in ARGUMENT_KINDS.items():
        if name in used:
            yield f"is_{name}() {{"
            yield from _render_kind_tests(name, kind)
            yield "}\n"


def _render_kind_tests(name: str, kind: ArgumentKind) -> Iterator[str]:
    if odd := [pattern for pattern in (*kind.admits, *kind.refuses) if not re.fullmatch(r"[A-Za-z0-9._:*!\[\]-]+", pattern)]:
        raise BadRow(f"kind {name}: {odd[0]!r} is not a pattern that may stand in a `case` as it is")
    yield f'  [ "${{#1}}" -le {kind.longest} ] || return 1'
    if kind.refuses:
        yield f"  case $1 in {' | '.join(kind.refuses)}) return 1 ;; esac"
    yield f"  case $1 in {' | '.join(kind.admits)}) return 0 ;; esac"
    yield "  return 1"


def _render_remedies(remedies: Mapping[str, Remedy]) -> Iterator[str]:
    rows = _list_kit_remedies(remedies)
    yield "arguments() { # REMEDY ARGUMENT...: the right number of the right kinds, or refused"
    yield "  case $1 in"
    for remedy in rows:
        yield f"    {shlex.quote(remedy.id)})"
        yield from (f"      {line}" for line in _render_arguments(remedy))
        yield "      ;;"
    yield '    *) refuse "no such remedy in kit $KIT" ;;'
    yield "  esac\n}\n"
    yield "perform() { # REMEDY ARGUMENT...: conditions, then the command"
    yield "  case $1 in"
    for remedy in rows:
        yield f"    {shlex.quote(remedy.id)})"
        yield from (f"      {line}" for line in _render_performance(remedy))
        yield "      ;;"
    yield "  esac\n}\n"


def _render_arguments(remedy: Remedy) -> Iterator[str]:
    count = len(remedy.args)
    yield f"[ $# -eq {count + 1} ] || refuse {shlex.quote(f'{remedy.id} takes {count} arguments')}"
    for i, (name, kind) in enumerate(remedy.args.items(), 2):
        yield f'is_{kind} "${{{i}}}" || refuse {shlex.quote(f"{name} must be {ARGUMENT_KINDS[kind].says}")}'


def _render_performance(remedy: Remedy) -> Iterator[str]:
    names = list(remedy.args)
    for condition in remedy.conditions:
        if condition.kind == "node":
            yield f"require {shlex.quote(condition.says)} {_render_word(condition.expects, names)} {_render_condition(remedy, condition, names)}"
    yield f"launch {remedy.limit_seconds} {_render_words(remedy.command, names)}"


def _render_condition(remedy: Remedy, condition: Condition, names: Sequence[str]) -> str:
    first = condition.argv[0]
    if not first.startswith("@"):
        return f"timeout -k 2 {CONDITION_TIMEOUT_SECONDS} {_render_words(condition.argv, names)}"
    if first[1:] not in CONDITION_FUNCTIONS:
        raise BadRow(f"{remedy.id}: the kit has no function {first!r}; it has {', '.join(CONDITION_FUNCTIONS)}")
    return " ".join((first[1:], _render_words(condition.argv[1:], names)))


def _render_words(words: Sequence[str], names: Sequence[str]) -> str:
    return " ".join(_render_word(word, names) for word in words)


def _render_word(word: str, names: Sequence[str]) -> str:
    """A word of a row for sh: constant parts quoted, `{name}` as the positional parameter that was matched."""
    parts = re.split(r"{([a-z_]+)}", word)
    if unknown := [name for name in parts[1::2] if name not in names]:
        raise BadRow(f"{word!r}: {unknown[0]} is not an argument")
    quoted = [f'"${{{names.index(part) + 2}}}"' if i % 2 else shlex.quote(part) for i, part in enumerate(parts) if part]
    return "".join(quoted) or "''"
