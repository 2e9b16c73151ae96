"""Which nvidia-smi field becomes which fact, in every output format and driver branch.

A field is found by the last parts of its path. XML elements, labels of `-q` (lower case, underscores) and `--query-gpu`
names (dots as slashes) share one name space, so one row serves all formats.
"""

import re
from dataclasses import dataclass
from itertools import product

from tools.checks.output_values import CellType


@dataclass(frozen=True, slots=True)
class Field:
    """A fact's key, and where its value is printed."""

    key: str
    reads: CellType
    paths: tuple[str, ...]  # the first one with a value counts; `a+b` adds the available values of both


def _expand_path(path: str) -> list[str]:
    """Return all spellings of a path with braces, such as `clocks_{event,throttle}_reason_x`."""
    parts = [part.split(",") for part in re.split(r"{([^}]*)}", path)]
    return ["".join(choice) for choice in product(*parts)]


def _parse_fields(text: str) -> tuple[Field, ...]:
    """Parse paragraphs of a key, its type and its paths."""
    fields = []
    for paragraph in text.strip().split("\n\n"):
        key, reads, *paths = paragraph.split()
        spellings = tuple(spelling for path in paths for spelling in _expand_path(path))
        fields.append(Field(key, reads, spellings))  # type: ignore[arg-type]  # a test checks every type
    return tuple(fields)


_SRAM_PARTS = ("register_file", "l1_cache", "l2_cache", "texture_memory", "texture_shm", "texture_shared", "cbu")


def _build_ecc_fields(span: str, severity: str, query_name: str, old_name: str) -> list[Field]:
    """Return the error counters of DRAM and SRAM.

    Args:
        span: volatile or aggregate.
        severity: correctable or uncorrectable, as `-q` and XML name it.
        query_name: the same as `--query-gpu` names it.
        old_name: the same before driver 450, which counted single_bit and double_bit by unit.
    """
    dram_paths = (
        *(f"{span}/dram_{severity}", f"{query_name}/{span}/dram"),
        *(f"{span}/{old_name}/device_memory", f"{span}/{old_name}/total"),
    )
    sram_paths = (
        *(f"{span}/sram_{severity}", f"{span}/sram_{severity}_parity+{span}/sram_{severity}_secded"),
        *(f"{query_name}/{span}/sram", "+".join(f"{span}/{old_name}/{part}" for part in _SRAM_PARTS)),
    )
    suffix = "_total" if span == "aggregate" else ""
    return [
        Field(f"gpu.ecc.dram_{severity}{suffix}", "int", dram_paths),
        Field(f"gpu.ecc.sram_{severity}{suffix}", "int", sram_paths),
    ]


_ECC_FIELDS = tuple(
    field
    for span in ("volatile", "aggregate")
    for severity, query_name, old_name in (("uncorrectable", "uncorrected", "double_bit"), ("correctable", "corrected", "single_bit"))
    for field in _build_ecc_fields(span, severity, query_name, old_name)
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
# Path ends that a fact uses.
READ_PATH_ENDS = frozenset(part for field in FIELDS for path in field.paths for part in path.split("+")) | frozenset({
    "gpu_recovery_action", "reset_required", "drain_and_reset_recommended", "health/summary", "health/bandwidth",
    "health/route_recovery_in_progress", "health/route_unhealthy", "health/access_timeout_recovery", "health/incorrect_configuration",
})  # fmt: skip
# Fields that may say yes or error on a healthy card; reviewed over outputs of all available driver branches.
HARMLESS_FIELDS = frozenset({"display_attached", "display_active", "addressing_mode"})
