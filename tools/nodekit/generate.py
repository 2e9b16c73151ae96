"""Generate the node kit's scripts from the catalogues. A check or remedy that is in no catalogue is not in the kit.

Values of the catalogues are quoted for sh once, here. No text from people or hosts enters the scripts.
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

# Queries that are no plain command: the kit's own function answers `rackmedic-look WORD ARGUMENT...` of a check.
QUESTION_FUNCTIONS = {
    "env": "job_environment",
    "masters": "job_masters",
    "adapters": "adapter_counters",
    "mounts": "shared_mounts",
    "containers": "gpu_containers",
    "inside": "inside_containers",
}

# Functions of the kit that list what a remedy would delete, as `FUNCTION ARGUMENT...`; asked with `rackmedic-look
# REMEDY.preview`.
PREVIEW_FUNCTIONS = ("old_files",)

# functions of the kit that a condition names as `@NAME`
CONDITION_FUNCTIONS = ("proc_start", "module_loaded", "module_users", "container_gpus")

CONDITION_TIMEOUT_SECONDS = 15
KIT_DIRECTORY = "/usr/local/sbin"
# sudoers allows these two commands and nothing else
LOOK_COMMAND = ("sudo", "-n", f"{KIT_DIRECTORY}/rackmedic-look")
ACT_COMMAND = ("sudo", "-n", f"{KIT_DIRECTORY}/rackmedic-act")


class BadRow(ValueError):
    """A check or remedy cannot be put into the kit. The message names it and says why."""


@dataclass(frozen=True, slots=True)
class KitPaths:
    """Paths of the kit and its records on a node, and its account.

    They are written into sh, sudoers and sshd text, so they must be plain paths and a plain name.
    """

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
    """Return the kit's files by name: `rackmedic-look`, `rackmedic-act`, `sudoers`, `sshd_config` and `install.sh`."""
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
    look_values = {**values, "KINDS": "\n".join(_render_kinds(_list_previewed_remedies(remedies)))}
    return {
        name: _fill_template(read_template(source), look_values if name == "rackmedic-look" else values)
        for name, source in templates.items()
    }


def compute_kit_version(checks: Mapping[str, Check], remedies: Mapping[str, Remedy]) -> str:
    """Return a hash of all that decides what the kit allows and how it does it."""
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
    """Return a script's template."""
    return (files("tools.nodekit") / name).read_text()


def _fill_template(text: str, values: Mapping[str, str]) -> str:
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
    variants = (variant for remedy in remedies.values() for variant in (remedy, *remedy.ways.values()))
    return [variant for variant in variants if variant.at != "fleet"]


def _list_previewed_remedies(remedies: Mapping[str, Remedy]) -> list[Remedy]:
    return [remedy for remedy in remedies.values() if remedy.preview]


def _render_previews(remedies: Mapping[str, Remedy]) -> Iterator[str]:
    """Yield a query for each remedy with a preview. Its arguments are matched as for the remedy itself."""
    for remedy in _list_previewed_remedies(remedies):
        if remedy.preview[0] not in PREVIEW_FUNCTIONS:
            raise BadRow(f"{remedy.id}: the kit has no preview {remedy.preview[0]!r}; it has {', '.join(PREVIEW_FUNCTIONS)}")
        names = list(remedy.args)
        argument_tests = [f'is_{kind} "${{{i}}}"' for i, kind in enumerate(remedy.args.values(), 2)]
        condition = " && ".join((f"[ $# -eq {len(names) + 1} ]", *argument_tests))
        yield f"  {shlex.quote(f'{remedy.id}.preview')}) {condition} || usage; {_render_words(remedy.preview, names)} ;;"


def _render_kinds(remedies: Sequence[Remedy]) -> Iterator[str]:
    """Yield a function `is_KIND VALUE` for each kind of argument that these remedies take."""
    used = {kind for remedy in remedies for kind in remedy.args.values()}
    for name, kind in ARGUMENT_KINDS.items():
        if name in used:
            yield f"is_{name}() {{"
            yield from _render_kind_tests(name, kind)
            yield "}\n"


def _render_kind_tests(name: str, kind: ArgumentKind) -> Iterator[str]:
    patterns = (*kind.admits, *kind.refuses)
    if unsafe := [pattern for pattern in patterns if not re.fullmatch(r"[A-Za-z0-9._:*!\[\]-]+", pattern)]:
        raise BadRow(f"kind {name}: {unsafe[0]!r} is not a pattern that may stand in a `case` as it is")
    yield f'  [ "${{#1}}" -le {kind.longest} ] || return 1'
    if kind.refuses:
        yield f"  case $1 in {' | '.join(kind.refuses)}) return 1 ;; esac"
    yield f"  case $1 in {' | '.join(kind.admits)}) return 0 ;; esac"
    yield "  return 1"


def _render_remedies(remedies: Mapping[str, Remedy]) -> Iterator[str]:
    kit_remedies = _list_kit_remedies(remedies)
    yield "arguments() { # REMEDY ARGUMENT...: the right number of the right kinds, or refused"
    yield "  case $1 in"
    for remedy in kit_remedies:
        yield f"    {shlex.quote(remedy.id)})"
        yield from (f"      {line}" for line in _render_arguments(remedy))
        yield "      ;;"
    yield '    *) refuse "no such remedy in kit $KIT" ;;'
    yield "  esac\n}\n"
    yield "perform() { # REMEDY ARGUMENT...: conditions, then the command"
    yield "  case $1 in"
    for remedy in kit_remedies:
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
    function = condition.argv[0]
    if not function.startswith("@"):
        return f"timeout -k 2 {CONDITION_TIMEOUT_SECONDS} {_render_words(condition.argv, names)}"
    if function[1:] not in CONDITION_FUNCTIONS:
        raise BadRow(f"{remedy.id}: the kit has no function {function!r}; it has {', '.join(CONDITION_FUNCTIONS)}")
    return " ".join((function[1:], _render_words(condition.argv[1:], names)))


def _render_words(words: Sequence[str], names: Sequence[str]) -> str:
    return " ".join(_render_word(word, names) for word in words)


def _render_word(word: str, names: Sequence[str]) -> str:
    """Return a word for sh: constant parts are quoted, `{name}` becomes the positional parameter that was matched."""
    parts = re.split(r"{([a-z_]+)}", word)
    if unknown := [name for name in parts[1::2] if name not in names]:
        raise BadRow(f"{word!r}: {unknown[0]} is not an argument")
    rendered = [f'"${{{names.index(part) + 2}}}"' if i % 2 else shlex.quote(part) for i, part in enumerate(parts) if part]
    return "".join(rendered) or "''"
