"""The driver's error catalogues and the rules over several errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from kb.catalogues import nvlink_errors, sxid
from kb.catalogues.xid import Critical, classify_repeats, find_xid, load_xids

T0 = datetime(2026, 5, 20, 3, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Line:
    """An event as the kernel log parser returns it."""

    value: Any
    device: str | None = "gpu5"
    seconds: float | None = 0.0
    kind: str = "kernel.xid"
    boot_id: str = "b1"
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def time(self) -> datetime | None:
        return None if self.seconds is None else T0 + timedelta(seconds=self.seconds)


def test_the_catalogue_knows_all_172_codes_and_each_row_is_whole() -> None:
    rows = load_xids()
    assert sorted(rows) == list(range(1, 173))
    for row in rows.values():
        assert row.mnemonic
        assert row.meaning
        assert row.critical in get_args(Critical)
        assert row.kind in {"application", "bus", "engine", "gpu", "information", "link", "memory", "unused"}


@pytest.mark.parametrize(
    ("code", "kind", "critical", "action"),
    [
        (79, "bus", "yes", "RESTART_BM"),
        (48, "memory", "yes", "WORKFLOW_XID_48"),
        (64, "memory", "yes", "RESET_GPU"),
        (119, "gpu", "yes", "RESET_GPU"),
        (13, "application", "no", "RESTART_APP"),
        (43, "application", "no", "IGNORE"),
        (92, "memory", "watch", "IGNORE"),
    ],
)
def test_well_known_codes_say_what_to_do(code: int, kind: str, critical: str, action: str) -> None:
    row = find_xid(code)
    assert row is not None
    assert (row.kind, row.critical, row.immediate) == (kind, critical, action)


def test_an_unknown_code_is_none_and_never_a_guess() -> None:
    assert find_xid(9999) is None


def test_the_same_tpc_again_and_again_is_hardware() -> None:
    lines = [Line(13, attrs={"gpc": 2, "tpc": 4, "pid": pid}) for pid in (1, 2, 3)]
    assert classify_repeats(lines) == {"gpu5": "same_tpc"}


def test_moments_far_apart_count_like_processes() -> None:
    place = {"gpc": 2, "tpc": 4}
    assert classify_repeats([Line(13, seconds=n * 600, attrs=place) for n in range(3)]) == {"gpu5": "same_tpc"}
    span = {"first": T0.isoformat(), "last": (T0 + timedelta(hours=2)).isoformat(), "count": 9}
    assert classify_repeats([Line(13, attrs={**place, **span})]) == {"gpu5": "same_tpc"}
    assert classify_repeats([Line(13, attrs={**place, "count": 3, "pids": [1, 2, 3]})]) == {"gpu5": "same_tpc"}
    assert classify_repeats([Line(13, seconds=None, attrs={**place, "count": 3})]) == {}


def test_one_crash_that_prints_many_lines_is_one_occasion() -> None:
    burst = [Line(13, seconds=n / 1000, attrs={"gpc": 2, "tpc": 4}) for n in range(40)]
    assert classify_repeats(burst) == {}
    span = {"first": T0.isoformat(), "last": (T0 + timedelta(seconds=2)).isoformat(), "count": 600}
    assert classify_repeats([Line(13, attrs={"gpc": 2, "tpc": 4, "pid": 7, **span})]) == {}


def test_one_gpu_with_different_places_is_only_the_same_gpu() -> None:
    lines = [Line(13, seconds=tpc * 600, attrs={"gpc": 2, "tpc": tpc}) for tpc in (1, 2, 3)]
    assert classify_repeats(lines) == {"gpu5": "same_gpu"}
    assert classify_repeats([Line(31, attrs={"pids": [1, 2, 3, 4]})]) == {"gpu5": "same_gpu"}


def test_faults_on_several_gpus_follow_the_program() -> None:
    assert classify_repeats([Line(31, f"gpu{n}") for n in range(4)]) == dict.fromkeys(("gpu0", "gpu1", "gpu2", "gpu3"), "scattered")


def test_one_stray_fault_elsewhere_does_not_acquit_a_gpu() -> None:
    lines = [Line(13, seconds=n * 600, attrs={"gpc": 2, "tpc": 4}) for n in range(9)]
    assert classify_repeats([*lines, Line(13, "gpu1", attrs={"gpc": 0, "tpc": 0})]) == {"gpu5": "same_tpc"}


def test_too_few_errors_make_no_pattern() -> None:
    assert classify_repeats([Line(13, attrs={"gpc": 2, "tpc": 4}), Line(79)]) == {}


def test_the_switch_catalogue_is_whole() -> None:
    rows = sxid.load_sxids()
    assert len(rows) == 421
    assert all(row.name and row.meaning and row.fatal in get_args(sxid.Fatal) for row in rows.values())
    assert sum(row.fatal == "always" for row in rows.values()) == 21


def test_switch_codes_know_their_severity() -> None:
    fault, crossbar = sxid.find_sxid(20034), sxid.find_sxid(23001)
    assert fault is not None
    assert crossbar is not None
    assert (fault.unit, fault.fatal) == ("link data layer", "no")
    assert crossbar.fatal == "always"
    assert sxid.find_sxid(1) is None


def test_every_nvlink5_row_decodes_to_itself_in_its_own_layout() -> None:
    for pattern in nvlink_errors._load_patterns():
        status = pattern.status[0] if pattern.status else 0
        for bits, driver in ((pattern.intrinfo_before_r575, "570.10"), (pattern.intrinfo, "575.10")):
            decoded = nvlink_errors.decode_nvlink_error(pattern.error.xid, int(bits.replace("-", "0"), 2), status, driver)
            assert decoded is not None
            assert (decoded.xid, decoded.severity) == (
                pattern.error.xid,
                max((pattern.error.severity, decoded.severity), key=nvlink_errors._SEVERITY_RANKS.__getitem__),
            )


def test_a_link_that_went_down_asks_for_a_reset() -> None:
    down = nvlink_errors.decode_nvlink_error(149, "0x02000011", "0x0", "580.95.05")
    assert down is not None
    assert (down.unit, down.severity, down.action) == ("NETIR_LINK_EVT/NETIR_LINK_DOWN", "link", "RESET_GPU")


def test_of_several_errors_at_once_the_worst_counts() -> None:
    both = nvlink_errors.decode_nvlink_error(144, 0x1, 0x4 | 0x2, "580.1")
    assert both is not None
    assert both.severity == "fatal"


def test_words_that_are_no_hex_or_fit_no_row_decode_to_nothing() -> None:
    assert nvlink_errors.decode_nvlink_error(149, "zz", "0x0") is None
    assert nvlink_errors.decode_nvlink_error(149, "", "") is None
    assert nvlink_errors.decode_nvlink_error(79, 0, 0) is None
