"""Read a case file strictly: every problem is reported with its field, and no default is guessed for bad data."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from deploy.sandbox.cluster.cases.case import T0, CaseAttachment, CaseTicket, Output, SimulatedCase
from deploy.sandbox.cluster.cases.modifier_text import CHECK_IDS, BadModifier, read_modifier
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.grammar import COMMANDS
from deploy.sandbox.cluster.machines.profiles import PROFILES
from deploy.sandbox.cluster.plan import InjectedFault, Modifier
from kb.redact import show_invisible
from kb.yaml_files import load_plain
from tools.inventory.host_ranges import HOST_NAME_PATTERN

DEFAULT_T = -620.0
MAX_CASE_BYTES = 4 << 20
MAX_NODES = 2000
MAX_ROWS = 2000  # faults, modifiers or attachments
MAX_NAME_CHARS = 253
MAX_ID_CHARS = 120
MAX_PROBLEMS = 100
MAX_PROBLEM_CHARS = 400
YEAR_SECONDS = 366 * 86400.0
YEARS = (1990, 2100)
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
CHANNELS = ("slack", "slack-shared", "slack-dm", "alert", "ticket")
_FIELDS = ("id", "profile", "nodes", "t0", "faults", "modifiers", "ticket", "outputs", "truth", "layer", "split", "budget")


class BadCase(ValueError):
    """The case cannot be simulated. `problems` holds everything found, each naming its field."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        fault_args = [_escape_line(problem) for problem in problems[:MAX_PROBLEMS]]
        fault_args += [f"and {len(problems) - MAX_PROBLEMS} more problems"] if len(problems) > MAX_PROBLEMS else []
        super().__init__(f"{source}: " + "; ".join(fault_args))
        self.source = source
        self.problems = tuple(fault_args)


def _escape_line(problem: str) -> str:
    """Return the problem as one line that is safe to print on a terminal."""
    line = show_invisible(problem[:MAX_PROBLEM_CHARS]).replace("\n", "‹U+000A›").replace("\t", " ")
    return line if len(line) <= MAX_PROBLEM_CHARS else f"{line[:MAX_PROBLEM_CHARS]}…"


def _replace_surrogates(value: object) -> str:
    """Return text with lone surrogates replaced, because files, stores and models reject them."""
    return str(value).encode("utf-8", "replace").decode()


def load_case(path: Path | str) -> SimulatedCase:
    """Read a case file. Raises BadCase with all problems."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CASE_BYTES + 1)
        if len(content) > MAX_CASE_BYTES:
            raise BadCase(str(path), [f"is larger than {MAX_CASE_BYTES >> 20} MiB"])
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
    case = reader.read(default_id)
    if reader.problems:
        raise BadCase(source, reader.problems)
    return case


class _Reader:
    """One pass over the data. Each method returns what is well formed and adds a line to `problems` for the rest."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.problems = list[str]()
        self.nodes: tuple[str, ...] = ()

    def read(self, default_id: str) -> SimulatedCase:
        self._report_misspelt_fields()
        self.nodes = self._read_nodes(self.raw.get("nodes"))
        profile = self.raw.get("profile", "dgx-h100-8")
        if not isinstance(profile, str) or profile not in PROFILES:
            self._report("profile", f"{profile!r:.80} is not one of {', '.join(PROFILES)}")
        return SimulatedCase(
            id=self._read_id(self.raw.get("id"), default_id),
            profile=str(profile),
            nodes=self.nodes,
            t0=self._read_time(self.raw.get("t0", T0)),
            faults=tuple(self._read_rows("faults", self._read_fault)),
            modifiers=tuple(self._read_rows("modifiers", self._read_modifier)),
            ticket=self._read_ticket(self._get_mapping("ticket")),
            outputs=self._read_outputs(self._get_mapping("outputs")),
            truth=self._get_mapping("truth"),
            layer=_replace_surrogates(self.raw.get("layer", "")),
            split=_replace_surrogates(self.raw.get("split", "")),
            budget=self._get_mapping("budget"),
        )

    def _report(self, where: str, why: str) -> None:
        self.problems.append(f"{where}: {why}")

    def _read_id(self, value: object, default: str) -> str:
        if value is None:
            return default
        if not isinstance(value, str | int) or len(str(value)) > MAX_ID_CHARS or not _ID.fullmatch(str(value)):
            self._report("id", f"must be letters, digits, '_', '-' and '.', at most {MAX_ID_CHARS}")
        return _replace_surrogates(value)

    def _report_misspelt_fields(self) -> None:
        """Report fields that look like misspelt known ones. Other unknown fields are notes and allowed."""
        for name in self.raw:
            near = difflib.get_close_matches(str(name), _FIELDS, 1, 0.75)
            if name not in _FIELDS and near:
                self._report(str(name), f"unknown field, did you mean {near[0]}?")

    def _get_mapping(self, name: str) -> Mapping[str, Any]:
        value = self.raw.get(name)
        if isinstance(value, dict):
            return value
        if value is not None:
            self._report(name, "must be a mapping")
        return {}

    def _read_rows(self, name: str, read: Callable[[str, object], Any]) -> list[Any]:
        value = self.raw.get(name)
        if not isinstance(value, list):
            if value is not None:
                self._report(name, "must be a list")
            return []
        if len(value) > MAX_ROWS:
            self._report(name, f"must be a list of at most {MAX_ROWS}")
            return []
        rows = [read(f"{name}[{i}]", row) for i, row in enumerate(value)]
        return [row for row in rows if row is not None]

    def _read_nodes(self, value: object) -> tuple[str, ...]:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_NODES:
            return tuple(f"n{i}" for i in range(value))
        named = isinstance(value, list) and 0 < len(value) <= MAX_NODES
        if not isinstance(value, list) or not named or not all(isinstance(name, str) and name.strip() for name in value):
            self._report("nodes", f"must be a count from 1 to {MAX_NODES} or a list of names")
            return ()
        strange = [name[:80] for name in value if len(name) > MAX_NAME_CHARS or not re.fullmatch(HOST_NAME_PATTERN, name)]
        if strange:
            self._report("nodes", f"no host can be called {', '.join(map(repr, strange))}")
        if len(set(value)) != len(value):
            self._report("nodes", f"named twice: {', '.join(sorted({name for name in value if value.count(name) > 1}))}")
        return tuple(value)

    def _read_time(self, value: object) -> datetime:
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                value = None
        if not isinstance(value, datetime):
            self._report("t0", "must be an ISO 8601 time")
            return T0
        if not YEARS[0] <= value.year < YEARS[1]:
            self._report("t0", f"must lie between {YEARS[0]} and {YEARS[1]}")
            return T0
        return value if value.tzinfo else value.replace(tzinfo=UTC)

    def _read_fault(self, where: str, row: object) -> InjectedFault | None:
        if not isinstance(row, dict):
            self._report(where, "must be a mapping with `id:` and `node:`")
            return None
        for name in list(row.keys() - {"id", "node", "gpu", "args", "t"})[:MAX_PROBLEMS]:
            self._report(f"{where}.{name}", "unknown field; a fault has id, node, gpu, args and t")
        number = row.get("id")
        if not isinstance(number, str) or number not in FAULTS:
            self._report(f"{where}.id", f"{number!r:.80} is not in the fault catalogue")
            return None
        args = row.get("args") or {}
        if not isinstance(args, dict):
            self._report(f"{where}.args", "must be a mapping")
            args = {}
        t = row.get("t", DEFAULT_T)
        if isinstance(t, bool) or not isinstance(t, int | float) or not -YEAR_SECONDS <= t <= YEAR_SECONDS:
            self._report(f"{where}.t", "must be a number of seconds from t0, within a year of it")
            t = DEFAULT_T
        nodes, gpus = self._read_fault_nodes(f"{where}.node", number, row.get("node")), self._read_gpus(f"{where}.gpu", row.get("gpu"))
        return InjectedFault(str(number), nodes, float(t), gpus, args, where) if nodes else None

    def _read_fault_nodes(self, where: str, number: str, value: object) -> tuple[str, ...]:
        if value == "*" or (value is None and FAULTS[number].once):
            return self.nodes
        names = value if isinstance(value, list) else [value]
        unknown = [str(name) for name in names if name not in self.nodes]
        if not names or (unknown and self.nodes):
            self._report(where, f"not among the nodes: {', '.join(unknown)}" if unknown else "names no node")
        return tuple(str(name) for name in names if name in self.nodes)

    def _read_gpus(self, where: str, value: object) -> tuple[int, ...]:
        numbers = value if isinstance(value, list) else [value]
        if value is None:
            numbers = []
        if all(isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 8 for number in numbers):
            return tuple(numbers)
        self._report(where, "must be a GPU number from 0 to 7")
        return ()

    def _read_modifier(self, where: str, text: object) -> Modifier | None:
        try:
            modifier = read_modifier(text)
        except BadModifier as error:
            self._report(where, str(error))
            return None
        if modifier.host not in ("", "*", *self.nodes):
            self._report(where, f"{modifier.host} is not among the nodes")
        return modifier

    def _read_ticket(self, fields: Mapping[str, Any]) -> CaseTicket:
        channel = fields.get("channel", "slack")
        if channel not in CHANNELS:
            self._report("ticket.channel", f"{channel!r:.80} is not one of {', '.join(CHANNELS)}")
        attachments = fields.get("attachments") or []
        if not isinstance(attachments, list) or len(attachments) > MAX_ROWS:
            self._report("ticket.attachments", f"must be a list of at most {MAX_ROWS}")
            attachments = []
        files = [self._read_attachment(f"ticket.attachments[{i}]", item) for i, item in enumerate(attachments)]
        text = fields.get("text", "")
        if not isinstance(text, str):
            self._report("ticket.text", "must be text")
        words = (
            _replace_surrogates(fields.get("author", "")),
            _replace_surrogates(text),
            tuple(filter(None, files)),
            _replace_surrogates(fields.get("blames") or ""),
        )
        return CaseTicket(str(channel), *words)

    def _read_attachment(self, where: str, item: object) -> CaseAttachment | None:
        name: object = item
        text: object = ""
        if isinstance(item, dict):
            name, text = item.get("name"), item.get("text", "")
        if isinstance(name, str) and name and "/" not in name and "\\" not in name:
            return CaseAttachment(_replace_surrogates(name), _replace_surrogates(text))
        self._report(where, "must have a name, which is in no folder, and a text")
        return None

    def _read_outputs(self, outputs: Mapping[str, Any]) -> dict[str, dict[str, Output]]:
        read: dict[str, dict[str, Output]] = {}
        for host, checks in outputs.items():
            if host not in self.nodes:
                self._report(f"outputs.{host}", "is not among the nodes")
            elif not isinstance(checks, dict):
                self._report(f"outputs.{host}", "must be a mapping of checks")
            else:
                read[host] = {check: self._read_output(f"outputs.{host}.{check}", check, row) for check, row in checks.items()}
        return read

    def _read_output(self, where: str, check: str, row: object) -> Output:
        if check not in CHECK_IDS and check not in COMMANDS:
            self._report(where, "is not a check")
        if not isinstance(row, dict) or not row.keys() <= {"stdout", "stderr", "status"}:
            self._report(where, "may have stdout, stderr and status")
            return Output()
        status = row.get("status", 0)
        if isinstance(status, bool) or not isinstance(status, int) or not -255 <= status <= 255:
            self._report(f"{where}.status", "must be a whole number from -255 to 255")
            status = 0
        return Output(_replace_surrogates(row.get("stdout") or ""), _replace_surrogates(row.get("stderr") or ""), status)
