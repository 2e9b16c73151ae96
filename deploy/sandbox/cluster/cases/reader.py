"""Read a case file strictly: every problem is reported with its field, and no default is guessed for bad data."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from deploy.sandbox.cluster.cases.case import T0, CaseAttachment, CaseTicket, Output, SimulatedCase
from deploy.sandbox.cluster.cases.modifier_text import CHECKS, BadModifier, read_modifier
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.grammar import COMMANDS
from deploy.sandbox.cluster.machines.profiles import PROFILES
from deploy.sandbox.cluster.plan import Happening, Modifier
from kb.redact import show_invisible
from kb.yaml_files import load_plain
from tools.inventory.host_ranges import HOST_NAME_PATTERN

DEFAULT_T = -620.0
# limits: bytes of a file; nodes; faults, modifiers or attachments; characters of a node name and of an id
LARGEST_CASE, MOST_NODES, MOST_ROWS, LONGEST_NAME, LONGEST_ID = 4 << 20, 2000, 2000, 253, 120
MOST_PROBLEMS, LONGEST_PROBLEM, YEAR = 100, 400, 366 * 86400.0
YEARS = (1990, 2100)
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
CHANNELS = ("slack", "slack-shared", "slack-dm", "alert", "ticket")
_FIELDS = ("id", "profile", "nodes", "t0", "faults", "modifiers", "ticket", "outputs", "truth", "layer", "split", "budget")


class BadCase(ValueError):
    """The case cannot be simulated. `problems` holds everything found, each naming its field."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        told = [_shown(problem) for problem in problems[:MOST_PROBLEMS]]
        told += [f"and {len(problems) - MOST_PROBLEMS} more problems"] if len(problems) > MOST_PROBLEMS else []
        super().__init__(f"{source}: " + "; ".join(told))
        self.source, self.problems = source, tuple(told)


def _shown(problem: str) -> str:
    """Return the problem as one line that is safe to print on a terminal."""
    line = show_invisible(problem[:LONGEST_PROBLEM]).replace("\n", "‹U+000A›").replace("\t", " ")
    return line if len(line) <= LONGEST_PROBLEM else f"{line[:LONGEST_PROBLEM]}…"


def _letters(value: object) -> str:
    """Return text with lone surrogates replaced, because files, stores and models reject them."""
    return str(value).encode("utf-8", "replace").decode()


def load_case(path: Path | str) -> SimulatedCase:
    """Read a case file. Raises BadCase with all problems."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_CASE + 1)
        if len(content) > LARGEST_CASE:
            raise BadCase(str(path), [f"is larger than {LARGEST_CASE >> 20} MiB"])
        raw = load_plain(content.decode("utf-8"))
    except OSError as error:
        raise BadCase(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadCase(str(path), [f"is not YAML: {' '.join(str(error).split())}"]) from error
    return parse_case(raw, str(path), default_id=path.stem)


def parse_case(raw: object, source: str = "case", default_id: str = "") -> SimulatedCase:
    """Read a case from plain data. Raises BadCase with all problems."""
    if not isinstance(raw, dict):
        raise BadCase(source, ["must be a mapping with `nodes:` and `profile:`"])
    reader = _Reader(raw)
    case = reader.case(default_id)
    if reader.problems:
        raise BadCase(source, reader.problems)
    return case


class _Reader:
    """One pass over the data. Each method returns what is well formed and adds a line to `problems` for the rest."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw, self.problems = raw, list[str]()
        self.nodes: tuple[str, ...] = ()

    def case(self, default_id: str) -> SimulatedCase:
        self._look_for_slips()
        self.nodes = self._nodes(self.raw.get("nodes"))
        profile = self.raw.get("profile", "dgx-h100-8")
        if not isinstance(profile, str) or profile not in PROFILES:
            self._bad("profile", f"{profile!r:.80} is not one of {', '.join(PROFILES)}")
        return SimulatedCase(
            id=self._id(self.raw.get("id"), default_id),
            profile=str(profile),
            nodes=self.nodes,
            t0=self._time(self.raw.get("t0", T0)),
            faults=tuple(self._each("faults", self._fault)),
            modifiers=tuple(self._each("modifiers", self._modifier)),
            ticket=self._ticket(self._mapping("ticket")),
            outputs=self._outputs(self._mapping("outputs")),
            truth=self._mapping("truth"),
            layer=_letters(self.raw.get("layer", "")),
            split=_letters(self.raw.get("split", "")),
            budget=self._mapping("budget"),
        )

    def _bad(self, where: str, why: str) -> None:
        self.problems.append(f"{where}: {why}")

    def _id(self, value: object, default: str) -> str:
        if value is None:
            return default
        if not isinstance(value, str | int) or len(str(value)) > LONGEST_ID or not _ID.fullmatch(str(value)):
            self._bad("id", f"must be letters, digits, '_', '-' and '.', at most {LONGEST_ID}")
        return _letters(value)

    def _look_for_slips(self) -> None:
        """Report fields that look like misspelt known ones. Other unknown fields are notes and allowed."""
        for name in self.raw:
            near = difflib.get_close_matches(str(name), _FIELDS, 1, 0.75)
            if name not in _FIELDS and near:
                self._bad(str(name), f"unknown field, did you mean {near[0]}?")

    def _mapping(self, name: str) -> Mapping[str, Any]:
        value = self.raw.get(name)
        if isinstance(value, dict):
            return value
        if value is not None:
            self._bad(name, "must be a mapping")
        return {}

    def _each(self, name: str, read: Callable[[str, object], Any]) -> list[Any]:
        value = self.raw.get(name)
        if not isinstance(value, list):
            if value is not None:
                self._bad(name, "must be a list")
            return []
        if len(value) > MOST_ROWS:
            self._bad(name, f"must be a list of at most {MOST_ROWS}")
            return []
        rows = [read(f"{name}[{i}]", row) for i, row in enumerate(value)]
        return [row for row in rows if row is not None]

    def _nodes(self, value: object) -> tuple[str, ...]:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_NODES:
            return tuple(f"n{i}" for i in range(value))
        named = isinstance(value, list) and 0 < len(value) <= MOST_NODES
        if not isinstance(value, list) or not named or not all(isinstance(name, str) and name.strip() for name in value):
            self._bad("nodes", f"must be a count from 1 to {MOST_NODES} or a list of names")
            return ()
        strange = [name[:80] for name in value if len(name) > LONGEST_NAME or not re.fullmatch(HOST_NAME_PATTERN, name)]
        if strange:
            self._bad("nodes", f"no host can be called {', '.join(map(repr, strange))}")
        if len(set(value)) != len(value):
            self._bad("nodes", f"named twice: {', '.join(sorted({name for name in value if value.count(name) > 1}))}")
        return tuple(value)

    def _time(self, value: object) -> datetime:
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                value = None
        if not isinstance(value, datetime):
            self._bad("t0", "must be an ISO 8601 time")
            return T0
        if not YEARS[0] <= value.year < YEARS[1]:
            self._bad("t0", f"must lie between {YEARS[0]} and {YEARS[1]}")
            return T0
        return value if value.tzinfo else value.replace(tzinfo=UTC)

    def _fault(self, where: str, row: object) -> Happening | None:
        if not isinstance(row, dict):
            self._bad(where, "must be a mapping with `id:` and `node:`")
            return None
        for name in list(row.keys() - {"id", "node", "gpu", "args", "t"})[:MOST_PROBLEMS]:
            self._bad(f"{where}.{name}", "unknown field; a fault has id, node, gpu, args and t")
        number = row.get("id")
        if not isinstance(number, str) or number not in FAULTS:
            self._bad(f"{where}.id", f"{number!r:.80} is not in the fault catalogue")
            return None
        args = row.get("args") or {}
        if not isinstance(args, dict):
            self._bad(f"{where}.args", "must be a mapping")
            args = {}
        t = row.get("t", DEFAULT_T)
        if isinstance(t, bool) or not isinstance(t, int | float) or not -YEAR <= t <= YEAR:
            self._bad(f"{where}.t", "must be a number of seconds from t0, within a year of it")
            t = DEFAULT_T
        nodes, gpus = self._fault_nodes(f"{where}.node", number, row.get("node")), self._gpus(f"{where}.gpu", row.get("gpu"))
        return Happening(str(number), nodes, float(t), gpus, args, where) if nodes else None

    def _fault_nodes(self, where: str, number: str, value: object) -> tuple[str, ...]:
        if value == "*" or (value is None and FAULTS[number].once):
            return self.nodes
        names = value if isinstance(value, list) else [value]
        unknown = [str(name) for name in names if name not in self.nodes]
        if not names or (unknown and self.nodes):
            self._bad(where, f"not among the nodes: {', '.join(unknown)}" if unknown else "names no node")
        return tuple(str(name) for name in names if name in self.nodes)

    def _gpus(self, where: str, value: object) -> tuple[int, ...]:
        numbers = value if isinstance(value, list) else [] if value is None else [value]
        if all(isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 8 for number in numbers):
            return tuple(numbers)
        self._bad(where, "must be a GPU number from 0 to 7")
        return ()

    def _modifier(self, where: str, text: object) -> Modifier | None:
        try:
            modifier = read_modifier(text)
        except BadModifier as error:
            self._bad(where, str(error))
            return None
        if modifier.host not in ("", "*", *self.nodes):
            self._bad(where, f"{modifier.host} is not among the nodes")
        return modifier

    def _ticket(self, row: Mapping[str, Any]) -> CaseTicket:
        channel = row.get("channel", "slack")
        if channel not in CHANNELS:
            self._bad("ticket.channel", f"{channel!r:.80} is not one of {', '.join(CHANNELS)}")
        attachments = row.get("attachments") or []
        if not isinstance(attachments, list) or len(attachments) > MOST_ROWS:
            self._bad("ticket.attachments", f"must be a list of at most {MOST_ROWS}")
            attachments = []
        files = [self._attachment(f"ticket.attachments[{i}]", item) for i, item in enumerate(attachments)]
        text = row.get("text", "")
        if not isinstance(text, str):
            self._bad("ticket.text", "must be text")
        words = _letters(row.get("author", "")), _letters(text), tuple(filter(None, files)), _letters(row.get("blames") or "")
        return CaseTicket(str(channel), *words)

    def _attachment(self, where: str, item: object) -> CaseAttachment | None:
        name, text = (
            (item, "") if isinstance(item, str) else (item.get("name"), item.get("text", "")) if isinstance(item, dict) else ("", "")
        )
        if isinstance(name, str) and name and "/" not in name and "\\" not in name:
            return CaseAttachment(_letters(name), _letters(text))
        self._bad(where, "must have a name, which is in no folder, and a text")
        return None

    def _outputs(self, rows: Mapping[str, Any]) -> dict[str, dict[str, Output]]:
        read: dict[str, dict[str, Output]] = {}
        for host, checks in rows.items():
            if host not in self.nodes:
                self._bad(f"outputs.{host}", "is not among the nodes")
            elif not isinstance(checks, dict):
                self._bad(f"outputs.{host}", "must be a mapping of checks")
            else:
                read[host] = {check: self._output(f"outputs.{host}.{check}", check, row) for check, row in checks.items()}
        return read

    def _output(self, where: str, check: str, row: object) -> Output:
        if check not in CHECKS and check not in COMMANDS:
            self._bad(where, "is not a check")
        if not isinstance(row, dict) or not row.keys() <= {"stdout", "stderr", "status"}:
            self._bad(where, "may have stdout, stderr and status")
            return Output()
        status = row.get("status", 0)
        if isinstance(status, bool) or not isinstance(status, int) or not -255 <= status <= 255:
            self._bad(f"{where}.status", "must be a whole number from -255 to 255")
            status = 0
        return Output(_letters(row.get("stdout") or ""), _letters(row.get("stderr") or ""), status)
