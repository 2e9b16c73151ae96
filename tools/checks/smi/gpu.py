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
    """Return the facts of one GPU. Of a lost GPU only its identity is reported."""
    field_facts = [_build_field_fact(field, fields) for field in FIELDS]
    field_facts += [_build_recovery_fact(fields), _build_health_fact(fields), _build_slowdown_fact(fields)]
    facts = [fact for fact in field_facts if fact]
    if address:
        bdf = normalize_bdf(address)
        facts.append(Fact(CHECK, "gpu.bdf", bdf, line=address, status=Status.OK if bdf else Status.UNREADABLE))
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


def _build_extra_attrs(fact: Fact, gpu_facts: list[Fact]) -> Mapping[str, object]:
    """Add the board's default to the power limit: the limit is judged against it."""
    if fact.key != "gpu.power.limit" or fact.status is not Status.OK:
        return fact.attrs
    default = next((other for other in gpu_facts if other.key == "gpu.power.default"), None)
    return {"default": default.value} if default and default.status is Status.OK else {}


_TROUBLE_PATTERN = re.compile(
    r"yes|true|active|(?:\w{1,20} ){0,3}required|unhealthy|degraded|insufficient|.{0,60}(?:error|fail|pending|exceed).{0,60}", re.IGNORECASE
)


def list_unknown_lines(fields: GpuFields) -> list[str]:
    """Return the lines of fields that no fact uses and whose value may report trouble.

    A lost GPU has no such lines, because all its fields report trouble. Errors instead of values are in
    `gpu.field_errors`.
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
    """Return the erroneous fields, and the cell that shows that the GPU is lost.

    A GPU also counts as lost if most of its fields are errors.
    """
    errors = [(path, cell) for path, cell in fields.all if cell.text and classify_cell(cell.text) is Status.UNREADABLE]
    lost_cell = next((cell for _, cell in fields.all if _is_lost_gpu_text(cell.text)), None)
    if lost_cell is None and len(errors) > 10:
        supported_count = sum(classify_cell(cell.text) is not Status.ABSENT for _, cell in fields.all)
        if len(errors) * 2 > supported_count:
            _, lost_cell = errors[0]
    return errors, lost_cell


def _is_lost_gpu_text(text: str) -> bool:
    return len(text) in _LOST_TEXT_LENGTHS and text.strip(" []().").lower() == LOST_GPU_TEXT


def _build_field_fact(field: Field, fields: GpuFields) -> Fact | None:
    """Return the value of the first path that has one, else the worst status.

    Return None if this driver branch has no such field.
    """
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
    """Return the status that the card prints for the field's whole group, such as N/A."""
    names = next((names for prefix, names in GROUP_PATHS.items() if field.key.startswith(prefix)), ())
    cell = next((cell for name in names if (cell := fields.get(name)) and cell.text.strip()), None)
    if cell is None or classify_cell(cell.text) is Status.OK:
        return None
    return Fact(CHECK, field.key, status=classify_cell(cell.text), line=cell.line)


def _build_path_fact(field: Field, path: str, fields: GpuFields) -> Fact | None:
    cells = [cell for part in _split_path_sum(path) if (cell := fields.get(part))]
    if not cells:
        return None
    value_cells = [cell for cell in cells if classify_cell(cell.text) is Status.OK]
    worst_status = max((classify_cell(cell.text) for cell in cells), key=_STATUS_ORDER.index)
    if not value_cells or worst_status not in (Status.OK, Status.ABSENT):
        return Fact(CHECK, field.key, status=worst_status, line=cells[0].line)
    values = [parse_cell(cell.text, field.reads) for cell in value_cells]
    if any(value is None for value in values):
        return Fact(CHECK, field.key, status=Status.UNREADABLE, line=value_cells[0].line)
    nonzero_lines = [cell.line for cell, value in zip(value_cells, values, strict=True) if value]
    return Fact(CHECK, field.key, _sum_values(values), line=nonzero_lines[0] if nonzero_lines else value_cells[0].line)


@lru_cache(maxsize=512)
def _split_path_sum(path: str) -> list[str]:
    return path.split("+")


def _sum_values(values: list[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    return sum(value for value in values if isinstance(value, int))


def _build_recovery_fact(fields: GpuFields) -> Fact | None:
    """Return what would recover the GPU.

    Drivers print `gpu_recovery_action` since 550 and `gpu_reset_status` since 535.
    """
    cell = fields.get("gpu_recovery_action")
    if cell and classify_cell(cell.text) is Status.OK:
        return Fact(CHECK, "gpu.recovery_action", cell.text.strip().replace(" ", "_"), line=cell.line)
    reset, drain = fields.get("reset_required"), fields.get("drain_and_reset_recommended")
    for action, action_cell in (("Drain_and_Reset", drain), ("Reset", reset)):
        if action_cell and action_cell.text.strip() == "Yes":
            return Fact(CHECK, "gpu.recovery_action", action, line=action_cell.line)
    if reset and reset.text.strip() == "No":
        return Fact(CHECK, "gpu.recovery_action", "None", line=reset.line)
    return Fact(CHECK, "gpu.recovery_action", status=classify_cell(cell.text), line=cell.line) if cell else None


_HEALTH_PARTS = ("bandwidth", "route_recovery_in_progress", "route_unhealthy", "access_timeout_recovery", "incorrect_configuration")
_HEALTHY_WORDS = ("full", "false", "none", "no", "not in progress")


def _build_health_fact(fields: GpuFields) -> Fact | None:
    """Return the driver's summary of the fabric's health. Old drivers print only parts: derive it from them."""
    cells = {name: fields.get(f"health/{name}") for name in _HEALTH_PARTS}
    parts = {name: cell for name, cell in cells.items() if cell and classify_cell(cell.text) is Status.OK}
    attrs: Mapping[str, str] = {name: cell.text.strip() for name, cell in parts.items()}
    summary = fields.get("health/summary")
    if summary and classify_cell(summary.text) is Status.OK:
        return Fact(CHECK, "gpu.fabric.health", summary.text.strip(), line=summary.line, attrs=attrs)
    if not parts:
        return Fact(CHECK, "gpu.fabric.health", status=Status.ABSENT, line=summary.line) if summary else None
    unhealthy_cells = [cell for cell in parts.values() if cell.text.strip().lower() not in _HEALTHY_WORDS]
    value = "Unhealthy" if unhealthy_cells else "Healthy"
    example_cell = (unhealthy_cells or list(parts.values()))[0]
    return Fact(CHECK, "gpu.fabric.health", value, line=example_cell.line, attrs=attrs)


def _build_slowdown_fact(fields: GpuFields) -> Fact | None:
    """Compute the slowdown temperature from the margins that Ada and newer GPUs print instead.

    They print how many degrees are left to the limit, and the margin at which clocks drop.
    """
    spellings = (
        ("gpu_temp", "gpu_current_temp"),
        ("gpu_temp_tlimit", "gpu_tlimit_temp", "gpu_current_tlimit_temp"),
        ("gpu_temp_slow_tlimit_threshold", "gpu_slowdown_tlimit_temp"),
    )
    cells = [next((cell for name in names if (cell := fields.get(name))), None) for names in spellings]
    values = [parse_cell(cell.text, "int") if cell and classify_cell(cell.text) is Status.OK else None for cell in cells]
    temperature, degrees_left, margin = values
    if isinstance(temperature, int) and isinstance(degrees_left, int) and isinstance(margin, int) and cells[2]:
        slowdown_temperature = temperature + degrees_left - margin
        return Fact(CHECK, "gpu.temp.slowdown", slowdown_temperature, line=cells[2].line, attrs={"margin": margin})
    return None
