"""What the parsers make of published outputs: `python -m tests.project.captures_report` prints it; no output is stored
here. `not this command`: another program's output, refused as such. `unreadable`: the command's, but not parsed, or
not completely, with the reason.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import CAPTURES
from tools.checks import CHECKS
from tools.fact import Fact

KINDS = (
    # kind, folder, files, check
    ("nvidia-smi -q -x", "nvidia-smi", r".*\.xml", "smi"),
    ("nvidia-smi -q", "nvidia-smi", r"q__.*", "smi"),
    ("nvidia-smi", "nvidia-smi", r"table__.*", "smi"),
    ("nvidia-smi --query-gpu", "nvidia-smi", r"csv__.*", "smi"),
    ("nvidia-smi nvlink", "nvidia-smi", r"nvlink-.*", "nvlink"),
    ("lspci", "nvidia-smi", r"lspci-.*", "lspci"),
    ("kernel log", "dmesg", r".*\.(?:log|txt)", "dmesg"),
    ("ibstat, ibstatus", "infiniband", r"ib.*", "ibstat"),
    ("nccl-tests", "nccl-tests", r".*\.txt", "nccl1"),
    ("dcgmi diag", "dcgm", r".*\.txt", "dcgm2"),
)
# files with the outputs of many commands
GLUED = (
    # kind, how the command begins, check
    ("nvidia-smi -q -x", r"nvidia-smi -q -x|nvidia-smi --xml-format -q", "smi"),
    ("nvidia-smi -q", r"nvidia-smi -q$", "smi"),
    ("nvidia-smi", r"nvidia-smi$", "smi"),
    ("nvidia-smi -L", r"nvidia-smi -L$", "smi"),
    ("nvidia-smi --query-gpu", r"nvidia-smi --query-gpu=\S+ --format=csv", "smi"),
    ("nvidia-smi topo -m", r"nvidia-smi topo -m$", "topo"),
    ("nvidia-smi nvlink", r"nvidia-smi nvlink -[se]$", "nvlink"),
)


@dataclass(frozen=True, slots=True)
class Read:
    """The result for one output."""

    kind: str
    name: str
    outcome: str
    why: str = ""


def outputs() -> Iterator[tuple[str, str, str, str]]:
    """Yield (kind, name, check, text) of every published output that a check parses."""
    for kind, folder, pattern, check in KINDS:
        for path in sorted((CAPTURES / folder).glob("*")):
            if re.fullmatch(pattern, path.name) and not path.name.startswith("CAPTURE_"):
                yield kind, path.name, check, path.read_text(encoding="utf-8", errors="replace")
    for path in sorted((CAPTURES / "nvidia-smi").glob("CAPTURE_*")):
        for title, command, body in glued(path):
            for kind, pattern, check in GLUED:
                if re.match(pattern, command.strip()):
                    yield kind, f"{path.name} {title.removeprefix('# ')}", check, body
                    break


def glued(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (title, command, output) of a file with many outputs."""
    for part in re.split(r"(?m)^#{80}\n(?=# \S+ :: )", path.read_text(encoding="utf-8", errors="replace"))[1:]:
        head, _, body = part.partition("#" * 80 + "\n")
        title, *rest = head.splitlines()
        yield title, rest[0].removeprefix("# $ ") if rest else "", body


def outcome(kind: str, name: str, facts: tuple[Fact, ...]) -> Read:
    blinds = [fact.line for fact in facts if not fact.key]
    if not blinds:
        return Read(kind, name, "read")
    if len(blinds) == len(facts) and blinds[0].startswith(("not the output of", "empty output of")):
        return Read(kind, name, "not this command", blinds[0])
    return Read(kind, name, "unreadable" if len(blinds) == len(facts) else "read in part", "; ".join(blinds))


def report() -> list[Read]:
    return [outcome(kind, name, CHECKS[check].parse_output(text)) for kind, name, check, text in outputs()]


def main() -> None:
    rows = report()
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        by_kind[row.kind][row.outcome] += 1
    words = ("read", "read in part", "unreadable", "not this command")
    print(f"| kind | outputs | {' | '.join(words)} |\n|---|---|{'---|' * len(words)}")
    for kind, counts in by_kind.items():
        print(f"| {kind} | {counts.total()} | {' | '.join(str(counts[word]) for word in words)} |")
    for row in rows:
        if row.outcome != "read":
            print(f"\n{row.kind}: {row.name}: {row.outcome}: {row.why[:200]}")


if __name__ == "__main__":
    main()
