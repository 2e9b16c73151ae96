"""Facts of one GPU from its fields in any format. A lost GPU has only its identity."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from kb.fact_keys import KEYS_BY_NAME
from kb.pci_address import normalize_bdf
from tools.checks.output_values import CellType, classify_cell, parse_cell
from tools.fact import Fact, Status, Value

# Which nvidia-smi field becomes which fact, in every output format and driver branch.
#
# A field is found by the last parts of its path. XML elements, labels of `-q` (lower case, underscores) and `--query-gpu`
# names (dots as slashes) share one name space, so one row serves all formats.


@dataclass(frozen=True, slots=True)
class Field:
    """The first of `paths` with a value counts; `a+b` adds the available values of both."""

    key: str
    reads: CellType
    paths: tuple[str, ...]


def _expand_path(path: str) -> list[str]:
    """Expand braces: `clocks_{event,throttle}_reason_x`."""
    parts = [part.split(",") for part in re.split(r"{([^}]*)}", path)]
    return ["".join(choice) for choice in product(*parts)]


def _parse_fields(text: str) -> tuple[Field, ...]:
    fields = []
    for row in filter(None, (row.strip() for row in text.split("\n\n"))):
        key, reads, *paths = row.split()
        fields.append(Field(key, reads, tuple(spelling for path in paths for spelling in _expand_path(path))))  # type: ignore[arg-type]  # a test checks every row
    return tuple(fields)


_SRAM_PARTS = ("register_file", "l1_cache", "l2_cache", "texture_memory", "texture_shm", "texture_shared", "cbu")


def _build_ecc_fields(span: str, bits: str, kind: str, old: str) -> list[Field]:
    """`span`: volatile or aggregate. Before driver 450: single_bit and double_bit by unit."""
    dram = (f"{span}/dram_{bits}", f"{kind}/{span}/dram", f"{span}/{old}/device_memory", f"{span}/{old}/total")
    split = f"{span}/sram_{bits}_parity+{span}/sram_{bits}_secded"
    parts = "+".join(f"{span}/{old}/{part}" for part in _SRAM_PARTS)
    suffix = "_total" if span == "aggregate" else ""
    return [
        Field(f"gpu.ecc.dram_{bits}{suffix}", "int", dram),
        Field(f"gpu.ecc.sram_{bits}{suffix}", "int", (f"{span}/sram_{bits}", split, f"{kind}/{span}/sram", parts)),
    ]


_ECC_FIELDS = tuple(
    row
    for span in ("volatile", "aggregate")
    for bits, kind, old in (("uncorrectable", "uncorrected", "double_bit"), ("correctable", "corrected", "single_bit"))
    for row in _build_ecc_fields(span, bits, kind, old)
)
_PLAIN_FIELDS = _parse_fields("""
    gpu.uuid text uuid gpu_uuid

    gpu.product text product_name gpu_name name

    gpu.serial text serial serial_number

    gpu.part text board_part_number

    gpu.module text gpu_module_id module_id

    gpu.vbios text vbios_version

    gpu.ecc.enabled flag ecc_mode/current{_ecc,} ecc/mode/current

    gpu.ecc.sram_threshold_exceeded flag sram_threshold_exceeded sram/thresholdexceeded

    gpu.remap.pending flag remapped_row_pending remapped_rows/pending

    gpu.remap.failure flag remapped_row_failure remapping_failure_occurred remapped_rows/failure

    gpu.repair.channel_pending flag channel_repair_pending

    gpu.repair.tpc_pending flag tpc_repair_pending

    gpu.memory.unrepairable flag unrepairable_memory

    gpu.remap.correctable int remapped_row_corr remapped_rows/correctable{_error,}

    gpu.remap.uncorrectable int remapped_row_unc remapped_rows/uncorrectable{_error,}

    gpu.remap.bank_low int
        row_remapper_histogram_low+row_remapper_histogram_none
        bank_remap_availability_histogram/low+bank_remap_availability_histogram/none
        remapped_rows/histogram/low+remapped_rows/histogram/none

    gpu.retired.pending flag retired_pages/pending_{retirement,page_retirement,page_blacklist,blacklist} retired_pages/pending

    gpu.retired.pages int
        multiple_single_bit_retirement/retired_count+double_bit_retirement/retired_count
        retired_pages/single_bit_ecc+retired_pages/double_bit_ecc
        single_bit_ecc/count+double_bit/count
        retired_pages/sbe+retired_pages/dbe

    gpu.clock.sm int clocks/sm{_clock,} current/sm

    gpu.clock.sm_max int max_clocks/sm{_clock,} max/sm

    gpu.clock.memory int clocks/{mem_clock,memory} current/memory

    gpu.clock.app int applications_clocks/graphics{_clock,} clocks/applications/graphics

    gpu.throttle.hw_slowdown flag clocks_{event,throttle}_reason_hw_slowdown hw_slowdown

    gpu.throttle.hw_thermal flag clocks_{event,throttle}_reason_hw_thermal_slowdown hw_thermal_slowdown

    gpu.throttle.hw_power_brake flag clocks_{event,throttle}_reason_hw_power_brake_slowdown hw_power_brake_slowdown

    gpu.throttle.sw_power_cap flag clocks_{event,throttle}_reason{_,s/}sw_power_cap

    gpu.throttle.sw_thermal flag clocks_{event,throttle}_reason{_,s/}sw_thermal_slowdown

    gpu.throttle.applications_clocks flag clocks_{event,throttle}_reason{_,s/}applications_clocks_setting

    gpu.throttle.sync_boost flag clocks_{event,throttle}_reason{_,s/}sync_boost

    gpu.throttle.idle flag clocks_{event,throttle}_reason{_,s/}{gpu_idle,idle}

    gpu.temp.core int temperature/gpu_temp gpu_current_temp temperature/gpu

    gpu.temp.memory int memory_temp memory_current_temp temperature/memory

    gpu.temp.slowdown int gpu_temp_slow_threshold gpu_slowdown_temp

    gpu.power.draw float
        gpu_power_readings/{power_draw,average_power_draw,instant_power_draw,instantaneous_power_draw}
        power_readings/{power_draw,average_power_draw,instant_power_draw} power/draw

    gpu.power.limit float
        gpu_power_readings/current_power_limit gpu_ceiling_power_limit/current_power_limit power_readings/{enforced_power_limit,power_limit,current_power_limit}
        enforced/power/limit power/limit

    gpu.power.default float {gpu_,}power_readings/default_power_limit gpu_ceiling_power_limit/default_power_limit power/default_limit

    gpu.pcie.gen int pcie_gen/current_link_gen pcie_generation/current link/gen/current

    gpu.pcie.gen_max int pcie_gen/max_link_gen pcie_generation/max link/gen/max

    gpu.pcie.width int link_widths/current_link_width link_width/current link/width/current

    gpu.pcie.width_max int link_widths/max_link_width link_width/max link/width/max

    gpu.pcie.replay int replay_counter replays_since_reset

    gpu.compute_mode text compute_mode

    gpu.mig flag mig_mode/current{_mig,} mig/mode/current

    gpu.persistence flag persistence_mode

    gpu.fabric.state text fabric/state

    gpu.fabric.status text fabric/status

    gpu.memory.used int fb_memory_usage/used memory/used

    gpu.memory.total int fb_memory_usage/total memory/total

    gpu.util int utilization/gpu{_util,}
""")
FIELDS = _PLAIN_FIELDS + _ECC_FIELDS
# path ends that some reader uses
READ_PATH_ENDS = frozenset(part for field in FIELDS for path in field.paths for part in path.split("+")) | frozenset({
    "gpu_recovery_action", "reset_required", "drain_and_reset_recommended", "health/summary", "health/bandwidth",
    "health/route_recovery_in_progress", "health/route_unhealthy", "health/access_timeout_recovery", "health/incorrect_configuration",
})  # fmt: skip
# May say yes or error on a healthy card; reviewed over outputs of all available driver branches.
HARMLESS_FIELDS = frozenset({"display_attached", "display_active", "addressing_mode"})


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
KEYS = tuple(row.key for row in FIELDS) + DERIVED_KEYS


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
    facts += [row for row in (_build_recovery_fact(fields), _build_health_fact(fields), _build_slowdown_fact(fields)) if row]
    if address:
        facts.append(
            Fact(CHECK, "gpu.bdf", normalize_bdf(address), line=address, status=Status.OK if normalize_bdf(address) else Status.UNREADABLE)
        )
    if processes is not None:
        facts.append(Fact(CHECK, "gpu.processes", processes))
    errors, lost = _find_errors(fields)
    if lost:
        facts = [row for row in facts if row.key in IDENTITY_KEYS and row.status is Status.OK]
    elif errors:
        facts.append(Fact(CHECK, "gpu.field_errors", [path for path, _ in errors][:20], line=errors[0][1].line))
    facts.append(Fact(CHECK, "gpu.lost", lost is not None, line=lost.line if lost else ""))
    return [
        Fact(CHECK, row.key, row.value, device, row.status, KEYS_BY_NAME[row.key].unit, row.line, _build_extra_attrs(row, facts))
        for row in facts
    ]


def _build_extra_attrs(row: Fact, found: list[Fact]) -> Mapping[str, object]:
    """The power limit carries the board's default, against which it is judged."""
    if row.key != "gpu.power.limit" or row.status is not Status.OK:
        return row.attrs
    default = next((fact for fact in found if fact.key == "gpu.power.default"), None)
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
    errors = [row for row in fields.all if row[1].text and classify_cell(row[1].text) is Status.UNREADABLE]
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
