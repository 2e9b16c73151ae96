"""The node kit as text, written from the catalogues: a check or remedy that is not in a table is not in the kit.

Everything that comes from a row is quoted for sh once, here; what comes from people or hosts never gets into the text at all.
"""

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from tools.check import Check
from tools.remedy import KINDS, Kind, Remedy

ENV_QUESTION = "env.job"
"""The one question that is no plain command: the kit's own function answers it."""


@dataclass(frozen=True, slots=True)
class KitPaths:
    """Where the kit lives and keeps its records on a node."""

    directory: str = "/usr/local/sbin"
    state: str = "/var/lib/rackmedic"
    search: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    proc: str = "/proc"
    user: str = "rackmedic"


def kit_files(checks: Mapping[str, Check], remedies: Mapping[str, Remedy], paths: KitPaths | None = None) -> dict[str, str]:
    """File name → content: `rackmedic-look`, `rackmedic-act`, `sudoers`, `sshd_config`, `install.sh`."""
    paths = paths or KitPaths()
    version = kit_version(checks, remedies)
    common = {"VERSION": version, "PATH": shlex.quote(paths.search), "STATE": shlex.quote(paths.state), "PROC": shlex.quote(paths.proc)}
    look = _render(_template("look.sh"), common | {"COMMANDS": "\n".join(_questions(checks))})
    act = _render(_template("act.sh"), common | {"KINDS": "\n".join(_kinds()), "REMEDIES": "\n".join(_remedies(remedies))})
    return {
        "rackmedic-look": look,
        "rackmedic-act": act,
        "sudoers": _render(_template("sudoers"), common | {"USER": paths.user, "DIRECTORY": paths.directory}),
        "sshd_config": _render(_template("sshd_config"), common | {"USER": paths.user}),
        "install.sh": _render(_template("install.sh"), common | {"USER": paths.user, "DIRECTORY": paths.directory}),
    }


def kit_version(checks: Mapping[str, Check], remedies: Mapping[str, Remedy]) -> str:
    """Changes exactly when what the kit would allow changes."""
    text = "\n".join([_template("look.sh"), _template("act.sh"), *_questions(checks), *_kinds(), *_remedies(remedies)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _template(name: str) -> str:
    return (files("tools.nodekit") / name).read_text()


def _render(template: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z_]+)@", lambda slot: values[slot[1]], template)


def _questions(checks: Mapping[str, Check]) -> Iterator[str]:
    for check in checks.values():
        for command in check.commands:
            if not command.privileged:
                continue
            name = f"{check.id}.{command.name}"
            yield f"  {name}) {'job_environment' if name == ENV_QUESTION else 'exec ' + shlex.join(command.argv)} ;;"


def _kinds() -> Iterator[str]:
    """`is_KIND VALUE` for every kind of argument."""
    for name, kind in KINDS.items():
        yield f"is_{name}() {{ # {kind.says}"
        yield from _tests(kind)
        yield "}\n"


def _tests(kind: Kind) -> Iterator[str]:
    if kind.refuses:
        yield f"  case $1 in {' | '.join(kind.refuses)}) return 1 ;; esac"
    yield f"  case $1 in {' | '.join(kind.admits)}) return 0 ;; esac"
    yield "  return 1"


def _remedies(remedies: Mapping[str, Remedy]) -> Iterator[str]:
    rows = [remedy for remedy in remedies.values() if remedy.at != "fleet"]
    yield "arguments() { # REMEDY ARGUMENT...: the right number of the right kinds, or refused"
    yield "  case $1 in"
    for remedy in rows:
        yield f"    {remedy.id})"
        yield f'      [ $# -eq {len(remedy.args) + 1} ] || refuse "{remedy.id} takes {len(remedy.args)} arguments"'
        for i, (name, kind) in enumerate(remedy.args.items(), 2):
            yield f'      is_{kind} "${i}" || refuse "{name} must be {KINDS[kind].says}"'
        yield "      ;;"
    yield '    *) refuse "no such remedy in kit $KIT" ;;'
    yield "  esac\n}\n"
    yield "perform() { # REMEDY ARGUMENT...: conditions, then the command"
    yield "  case $1 in"
    for remedy in rows:
        yield f"    {remedy.id})"
        names = list(remedy.args)
        for condition in remedy.conditions:
            if condition.kind == "node":
                asked = " ".join(_word(word, names) for word in condition.argv).removeprefix("@")
                yield f"      require {shlex.quote(condition.says)} {_word(condition.expects, names)} {asked}"
        yield f"      launch {remedy.limit_seconds} {' '.join(_word(word, names) for word in remedy.command)}"
        yield "      ;;"
    yield "  esac\n}\n"


def _word(word: str, names: list[str]) -> str:
    """A word of a row for sh: constant parts quoted, `{name}` as the positional parameter that was matched."""
    parts = re.split(r"{([a-z_]+)}", word)
    if parts == [""]:
        return "''"
    quoted = (f'"${names.index(part) + 2}"' if i % 2 else shlex.quote(part) for i, part in enumerate(parts) if part)
    return "".join(quoted)
