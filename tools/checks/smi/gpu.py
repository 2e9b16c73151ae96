"""Facts of one GPU from its fields in any format. A lost GPU has only its identity."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from kb.fact_keys import KEYS_BY_NAME
from kb.pci_address import normalize_bdf
from tools.checks.output_values import classify_cell, parse_cell
from tools.checks.smi.fields import FIELDS, HARMLESS_FIELDS, READ_PATH_ENDS, Field
from tools.fact import Fact, Status, Value

CHECK = "smi"
_STATUS_ORDER = (Status.OK, Status.ABSENT, Status.DENIED, Status.UNREADABLE)
# Valid for a lost GPU. Its other printed values are remembered by the driver, not measured.
IDENTITY_KEYS = ("gpu.bdf", "gpu.uuid", "gpu.product", "gpu.serial", "gpu.vbios")
# Groups that a card without the feature prints as one cell: `<remapped_rows>N/A</remapped_rows>`.
GROUP_PATHS = {
    "gpu.remap.": ("remapped_rows",),
    "gpu.throttle.": ("clocks_throttle_reasons", "clocks_event_reasons"),
    "gpu.fabric.": ("fabric",),
}
DERIVED_KEYS = ("gpu.bdf", "gpu.lost", "gpu.field_errors", "gpu.recovery_action", "gpu.fabric.health", "gpu.processes")
KEYS = tuple(field.key for field in FIELDS) + DERIVED_KEYS


class Cell(NamedTuple):
    """A field's text and its output line."""

    text: str
    line: str


@lru_cache(maxsize=4096)
def _list_path_ends(path: str) -> tuple[str, ...]:
    """The last one to four parts. Cached: all GPUs share the same few hundred paths."""
    parts = path.split("/")
    return tuple("/".join(parts[-size:]) for size in range(1, min(4, len(parts)) + 1))


LOST_GPU_TEXT = "gpu is lost"  # A lost GPU prints this alone for every value; a name may contain the same words.
_LOST_TEXT_LENGTHS = range(len(LOST_GPU_TEXT), len(LOST_GPU_TEXT) + 8)


class GpuFields:
    """One GPU's fields, found by the last one to four parts of their path."""

    def __init__(self, cells: Iterable[tuple[str, Cell]]) -> None:
        self._tails: dict[str, Cell] = {}
        self.all: list[tuple[str, Cell]] = []
        for path, cell in cells:
            self.all.append((path, cell))
            for tail in _list_path_ends(path):
                self._tails.setdefault(tail, cell)

    def get(self, tail: str) -> Cell | None:
        """Return the first printed cell whose path ends with `tail`."""
        return self._tails.get(tail)


def normalize_label(label: str) -> str:
    """Convert `SRAM Uncorrectable SEC-DED` to the path part `sram_uncorrectable_secded`."""
    return "_".join(re.sub(r"[^a-z0-9_ ]", "", label.lower()).split())


def build_gpu_facts(device: str, fields: GpuFields, address: str | None, processes: int | None) -> list[Fact]:
    facts = [row for field in FIELDS if (row := _build_field_fact(field, fields))]
    facts += [fact for fact in (_build_recovery_fact(fields), _build_health_fact(fields), _build_slowdown_fact(fields)) if fact]
    if address:
        facts.append(
            Fact(CHECK, "gpu.bdf", normalize_bdf(address), line=address, status=Status.OK if normalize_bdf(address) else Status.UNREADABLE)
        )
    if processes is not None:
        facts.append(Fact(CHECK, "gpu.processes", processes))
    errors, lost = _find_errors(fields)
    if lost:
        facts = [fact for fact in facts if fact.key in IDENTITY_KEYS and fact.status is Status.OK]
    elif errors:
        facts.append(Fact(CHECK, "gpu.field_errors", [path for path, _ in errors][:20], line=errors[0][1].line))
    facts.append(Fact(CHECK, "gpu.lost", lost is not None, line=lost.line if lost else ""))
    return [
        Fact(CHECK, fact.key, fact.value, device, fact.status, KEYS_BY_NAME[fact.key].unit, fact.line, _build_extra_attrs(fact, facts))
        for fact in facts
    ]


def _build_extra_attrs(row: Fact, facts: list[Fact]) -> Mapping[str, object]:
    """The power limit carries the board's default, against which it is judged."""
    if row.key != "gpu.power.limit" or row.status is not Status.OK:
        return row.attrs
    default = next((fact for fact in facts if fact.key == "gpu.power.default"), None)
    return {"default": default.value} if default and default.status is Status.OK else {}


_TROUBLE_PATTERN = re.compile(
    r"yes|true|active|(?:\w{1,20} ){0,3}required|unhealthy|degraded|insufficient|.{0,60}(?:error|fail|pending|exceed).{0,60}", re.IGNORECASE
)


def list_unknown_lines(fields: GpuFields) -> list[str]:
    """Return lines of unread fields whose value may report trouble.

    None for a lost GPU, where every field does. Errors instead of values are in `gpu.field_errors`.
    """
    if _find_errors(fields)[1] is not None:
        return []
    return [
        cell.line
        for path, cell in fields.all
        if _TROUBLE_PATTERN.fullmatch(cell.text.strip())
        and classify_cell(cell.text) is Status.OK
        and not any(tail in READ_PATH_ENDS or tail in HARMLESS_FIELDS for tail in _list_path_ends(path))
    ]


def _find_errors(fields: GpuFields) -> tuple[list[tuple[str, Cell]], Cell | None]:
    """Return erroneous fields, and the cell that shows a lost GPU (or that most fields failed)."""
    lost = next(
        (cell for _, cell in fields.all if len(cell.text) in _LOST_TEXT_LENGTHS and cell.text.strip(" []().").lower() == LOST_GPU_TEXT),
        None,
    )
    errors = [
        path_and_cell for path_and_cell in fields.all if path_and_cell[1].text and classify_cell(path_and_cell[1].text) is Status.UNREADABLE
    ]
    if lost is None and len(errors) > 10 and len(errors) * 2 > sum(classify_cell(cell.text) is not Status.ABSENT for _, cell in fields.all):
        lost = errors[0][1]
    return errors, lost


def _build_field_fact(field: Field, fields: GpuFields) -> Fact | None:
    """The first path's value, else the worst status, else None: no such field in this driver branch."""
    worst: Fact | None = None
    for path in field.paths:
        fact = _build_path_fact(field, path, fields)
        if fact is None:
            continue
        if fact.status is Status.OK:
            return fact
        if worst is None or _STATUS_ORDER.index(fact.status) > _STATUS_ORDER.index(worst.status):
            worst = fact
    return worst or _build_group_fact(field, fields)


def _build_group_fact(field: Field, fields: GpuFields) -> Fact | None:
    names = next((names for prefix, names in GROUP_PATHS.items() if field.key.startswith(prefix)), ())
    cell = next((cell for name in names if (cell := fields.get(name)) and cell.text.strip()), None)
    if cell is None or classify_cell(cell.text) is Status.OK:
        return None
    return Fact(CHECK, field.key, status=classify_cell(cell.text), line=cell.line)


def _build_path_fact(field: Field, path: str, fields: GpuFields) -> Fact | None:
    cells = [cell for part in _split_path_sum(path) if (cell := fields.get(part))]
    if not cells:
        return None
    read_ok = [cell for cell in cells if classify_cell(cell.text) is Status.OK]
    broken = max((classify_cell(cell.text) for cell in cells), key=_STATUS_ORDER.index)
    if not read_ok or broken not in (Status.OK, Status.ABSENT):
        return Fact(CHECK, field.key, status=broken, line=cells[0].line)
    values = [parse_cell(cell.text, field.reads) for cell in read_ok]
    if any(value is None for value in values):
        return Fact(CHECK, field.key, status=Status.UNREADABLE, line=read_ok[0].line)
    return Fact(
        CHECK, field.key, _sum_values(values), line=next((c.line for c, v in zip(read_ok, values, strict=True) if v), read_ok[0].line)
    )


@lru_cache(maxsize=512)
def _split_path_sum(path: str) -> list[str]:
    return path.split("+")


def _sum_values(values: list[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    return sum(value for value in values if isinstance(value, int))


def _build_recovery_fact(fields: GpuFields) -> Fact | None:
    """`gpu_recovery_action` since driver 550, `gpu_reset_status` since 535."""
    cell = fields.get("gpu_recovery_action")
    if cell and classify_cell(cell.text) is Status.OK:
        return Fact(CHECK, "gpu.recovery_action", cell.text.strip().replace(" ", "_"), line=cell.line)
    reset, drain = fields.get("reset_required"), fields.get("drain_and_reset_recommended")
    actions = [(word, c) for word, c in (("Drain_and_Reset", drain), ("Reset", reset)) if c and c.text.strip() == "Yes"]
    if actions:
        return Fact(CHECK, "gpu.recovery_action", actions[0][0], line=actions[0][1].line)
    if reset and reset.text.strip() == "No":
        return Fact(CHECK, "gpu.recovery_action", "None", line=reset.line)
    return Fact(CHECK, "gpu.recovery_action", status=classify_cell(cell.text), line=cell.line) if cell else None


_HEALTH_PARTS = ("bandwidth", "route_recovery_in_progress", "route_unhealthy", "access_timeout_recovery", "incorrect_configuration")
_HEALTHY_WORDS = ("full", "false", "none", "no", "not in progress")


def _build_health_fact(fields: GpuFields) -> Fact | None:
    """The driver's summary if printed, else derived from the parts."""
    parts = {name: cell for name in _HEALTH_PARTS if (cell := fields.get(f"health/{name}")) and classify_cell(cell.text) is Status.OK}
    attrs: Mapping[str, str] = {name: cell.text.strip() for name, cell in parts.items()}
    summary = fields.get("health/summary")
    if summary and classify_cell(summary.text) is Status.OK:
        return Fact(CHECK, "gpu.fabric.health", summary.text.strip(), line=summary.line, attrs=attrs)
    if not parts:
        return Fact(CHECK, "gpu.fabric.health", status=Status.ABSENT, line=summary.line) if summary else None
    ill = [cell for cell in parts.values() if cell.text.strip().lower() not in _HEALTHY_WORDS]
    value = "Unhealthy" if ill else "Healthy"
    return Fact(CHECK, "gpu.fabric.health", value, line=(ill or list(parts.values()))[0].line, attrs=attrs)


def _build_slowdown_fact(fields: GpuFields) -> Fact | None:
    """Ada and newer print margins: degrees left to the limit, and the margin at which clocks drop."""
    names = (
        ("gpu_temp", "gpu_current_temp"),
        ("gpu_temp_tlimit", "gpu_tlimit_temp", "gpu_current_tlimit_temp"),
        ("gpu_temp_slow_tlimit_threshold", "gpu_slowdown_tlimit_temp"),
    )
    cells = [next((cell for name in pair if (cell := fields.get(name))), None) for pair in names]
    values = [parse_cell(cell.text, "int") if cell and classify_cell(cell.text) is Status.OK else None for cell in cells]
    now, seconds_left, margin = values
    if isinstance(now, int) and isinstance(seconds_left, int) and isinstance(margin, int) and cells[2]:
        return Fact(CHECK, "gpu.temp.slowdown", now + seconds_left - margin, line=cells[2].line, attrs={"margin": margin})
    return None
