"""nvidia-smi in every format: present, absent, broken and truncated fields."""

import re

import pytest

from tests.support.fakes_cluster import argv, cluster
from tests.support.samples_checks import NVLINK_ERRORS, NVLINK_STATUS, SMI_TABLE, SMI_TEXT, SMI_XML, TOPO
from tools.checks import CHECKS
from tools.fact import Fact, Status


def smi(text: str) -> tuple[Fact, ...]:
    return CHECKS["smi"].parse_output(text)


def one(facts: tuple[Fact, ...], key: str, device: str | None = None) -> Fact:
    (fact,) = [fact for fact in facts if fact.key == key and fact.device == device]
    return fact


def test_the_new_layout_is_read() -> None:
    facts = smi(SMI_XML)
    for key, value in {
        "gpu.ecc.sram_uncorrectable": 3,
        "gpu.ecc.dram_correctable": 7,
        "gpu.ecc.dram_uncorrectable_total": 4,
        "gpu.remap.pending": True,
        "gpu.remap.failure": False,
        "gpu.remap.bank_low": 2,
        "gpu.throttle.sw_power_cap": True,
        "gpu.pcie.width": 16,
        "gpu.power.draw": 612.3,
        "gpu.temp.slowdown": 89,
        "gpu.recovery_action": "None",
        "gpu.processes": 1,
        "gpu.bdf": "0000:19:00.0",
        "gpu.memory.used": 70213,
        "gpu.clock.sm_max": 1980,
        "gpu.lost": False,
    }.items():
        assert one(facts, key, "gpu0").value == value, key
    assert one(facts, "driver.version").value == "550.90.07"
    assert one(facts, "gpu.count").value == 2
    assert one(facts, "gpu.power.limit", "gpu0").attrs == {"default": 700.0}


def test_the_old_layout_of_the_same_fields_is_read() -> None:
    facts = smi(SMI_XML)
    for key, value in {
        "gpu.ecc.dram_uncorrectable": 2,
        "gpu.ecc.sram_uncorrectable": 1,
        "gpu.ecc.dram_correctable": 5,
        "gpu.throttle.hw_thermal": True,
        "gpu.retired.pages": 3,
        "gpu.retired.pending": True,
        "gpu.temp.slowdown": 89,
        "gpu.power.limit": 400.0,
    }.items():
        assert one(facts, key, "gpu1").value == value, key


def test_absent_and_broken_fields_are_neither_zero_nor_missing() -> None:
    facts = smi(SMI_XML)
    assert one(facts, "gpu.retired.pages", "gpu0").status is Status.ABSENT
    assert one(facts, "gpu.fabric.health", "gpu0").status is Status.ABSENT
    assert one(facts, "gpu.remap.pending", "gpu1").status is Status.ABSENT
    assert one(facts, "gpu.power.draw", "gpu1").status is Status.UNREADABLE
    assert one(facts, "gpu.field_errors", "gpu1").value == ["power_readings/power_draw"]
    assert not [fact for fact in facts if fact.key == "gpu.compute_mode" and fact.device == "gpu1"]


def test_text_and_table_are_read() -> None:
    text = smi(SMI_TEXT)
    assert one(text, "gpu.recovery_action", "gpu0").value == "Reset"
    assert one(text, "gpu.ecc.sram_uncorrectable", "gpu0").value == 4
    assert one(text, "gpu.throttle.hw_power_brake", "gpu0").value is True
    assert one(text, "gpu.power.draw", "gpu0").value == 67.74
    assert one(text, "gpu.processes", "gpu0").value == 1
    table = smi(SMI_TABLE)
    assert one(table, "gpu.compute_mode", "gpu0").value == "Exclusive_Process"
    assert one(table, "gpu.mig", "gpu0").value is True
    assert one(table, "gpu.ecc.dram_uncorrectable", "gpu0").value == 3
    assert one(table, "gpu.temp.core", "gpu1").status is Status.UNREADABLE


@pytest.mark.parametrize("keep", [0.97, 0.8, 0.5])
def test_a_cut_report_yields_its_whole_gpus_and_says_that_it_was_cut(keep: float) -> None:
    facts = smi(SMI_XML[: int(len(SMI_XML) * keep)])
    (blind,) = [fact for fact in facts if not fact.key]
    assert blind.status is Status.UNREADABLE
    assert not [fact for fact in facts if fact.key in ("gpu.count", "gpu.inforom_corrupt")]
    gpus = {fact.device for fact in facts if fact.device}
    assert gpus <= {"gpu0", "gpu1"}


def test_a_cut_text_leaves_the_broken_section_out() -> None:
    two = SMI_TEXT.replace("Attached GPUs                             : 1", "Attached GPUs                             : 2")
    second = SMI_TEXT[SMI_TEXT.index("GPU 0000") :].replace("9B:00.0", "BB:00.0")
    facts = smi(two + second[: len(second) // 2])
    assert {fact.device for fact in facts if fact.device} == {"gpu0"}
    assert [fact.line for fact in facts if not fact.key] == ["1 of 2 GPU sections break off"]


def test_a_name_that_speaks_of_a_lost_gpu_loses_none() -> None:
    """A cell means a lost GPU only if it says nothing else; names may contain any words."""
    named = re.sub(r"<product_name>[^<]*<", "<product_name>Xid 79: GPU 0000:19:00.0: GPU is lost. Reboot the system<", SMI_XML)
    assert named != SMI_XML
    assert {fact.value for fact in smi(named) if fact.key == "gpu.lost"} == {False}


def test_a_sign_that_xml_cannot_hold_hides_no_gpu() -> None:
    """A hostile process name must not make its GPU unreadable."""
    spoilt = SMI_XML.replace("<process_name>python3<", "<process_name>all\x08\x07 well\x9b31m\x0c\uffff<")
    assert spoilt != SMI_XML
    assert smi(spoilt) == smi(SMI_XML)


def test_a_gpu_that_is_lost_keeps_its_address_only() -> None:
    lost = "<gpu id='00000000:3B:00.0'><product_name>GPU is lost</product_name><uuid>GPU is lost</uuid><compute_mode>Default</compute_mode></gpu>"
    head, _, rest = SMI_XML.partition('<gpu id="00000000:3B:00.0">')
    facts = smi(head + lost + rest[rest.index("</gpu>") + 6 :])
    assert [(fact.key, fact.value) for fact in facts if fact.device == "gpu1"] == [("gpu.bdf", "0000:3b:00.0"), ("gpu.lost", True)]
    assert one(facts, "gpu.count").value == 1


def test_a_gpu_that_answers_every_field_with_an_error_counts_as_lost() -> None:
    fields = "".join(f"<f{n}>ERR!</f{n}>" for n in range(20))
    facts = smi(f"<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id='0000:3b:00.0'>{fields}<uuid>GPU-1</uuid></gpu></nvidia_smi_log>")
    assert one(facts, "gpu.lost", "gpu0").value is True


@pytest.mark.parametrize(
    ("text", "error", "more"),
    [
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n",
            "driver_library_mismatch",
            {"driver.mismatch": True, "driver.library_version": "550.90"},
        ),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed",
            "driver_not_loaded",
            {},
        ),
        ("No devices were found\n", "no_devices", {"gpu.count": 0}),
        ("Failed to initialize NVML: Unknown Error\n", "unknown_error", {}),
        ("Failed to initialize NVML: Insufficient Permissions\n", "insufficient_permissions", {}),
        ("Unable to determine the device handle for GPU0000:9B:00.0: Unknown Error\n", "unknown_error", {}),
    ],
)
def test_what_nvidia_smi_complains_of_is_a_finding(text: str, error: str, more: dict[str, object]) -> None:
    for check in ("smi", "topo", "nvlink"):
        facts = {fact.key: fact.value for fact in CHECKS[check].parse_output(text)}
        assert facts == {"smi.error": error, **more}


def test_the_gpu_whose_handle_cannot_be_had_is_named() -> None:
    facts = smi("Unable to determine the device handle for GPU0000:9B:00.0: GPU is lost.  Reboot the system to recover this GPU\n")
    assert [(fact.key, fact.value, fact.device) for fact in facts] == [
        ("smi.error", "gpu_lost", None),
        ("gpu.lost", True, "0000:9b:00.0"),
    ]


def test_an_inforom_warning_beside_the_report_names_its_gpu_and_acquits_the_others() -> None:
    facts = smi(SMI_XML + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")
    assert {fact.device: fact.value for fact in facts if fact.key == "gpu.inforom_corrupt"} == {"gpu0": False, "gpu1": True}


def test_entities_and_several_reports_are_refused() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]><nvidia_smi_log><gpu id="0"><uuid>&x;</uuid></gpu></nvidia_smi_log>'
    for text in (bomb, SMI_TEXT + SMI_TEXT, "<nvidia_smi_log></nvidia_smi_log"):
        (fact,) = smi(text)
        assert fact.status is Status.UNREADABLE, text[:40]


def test_fewer_gpus_than_attached_are_told_and_not_numbered() -> None:
    facts = smi(SMI_XML.replace("<attached_gpus>2<", "<attached_gpus>8<"))
    assert [fact.line for fact in facts if not fact.key] == ["8 GPUs are attached, 2 are described"]
    assert {fact.device for fact in facts if fact.device} == {"0000:19:00.0", "0000:3b:00.0"}


def test_the_matrix_tells_who_reaches_whom() -> None:
    facts = CHECKS["topo"].parse_output(TOPO)
    assert {fact.device: fact.value for fact in facts if fact.key == "topo.nvlinked"} == {"gpu0": 1, "gpu1": 1, "gpu2": 0}
    assert {fact.device: fact.value for fact in facts if fact.key == "topo.missing"} == {"gpu0": False, "gpu1": False, "gpu2": True}
    assert {fact.device: fact.value for fact in facts if fact.key == "topo.nvlink_width"} == {"gpu0": 18, "gpu1": 18}
    assert one(facts, "topo.nics").value == 1
    assert CHECKS["topo"].parse_output(TOPO[: TOPO.index("GPU2\tSYS")])[0].status is Status.UNREADABLE


def test_links_are_counted_by_state_and_by_error() -> None:
    status = CHECKS["nvlink"].parse_output(NVLINK_STATUS)
    assert {fact.device: fact.value for fact in status if fact.key == "nvlink.active" and fact.status is Status.OK} == {
        "gpu0": 2,
        "gpu2": 0,
    }
    assert one(status, "nvlink.speed", "gpu0").value == 25.781
    assert one(status, "nvlink.inactive", "gpu0").attrs == {"links": [2]}
    assert one(status, "nvlink.active", "gpu1").status is Status.ABSENT
    errors = CHECKS["nvlink"].parse_output(NVLINK_ERRORS)
    assert {fact.key: fact.value for fact in errors} == {
        "nvlink.replay_errors": 4,
        "nvlink.recovery_errors": 1,
        "nvlink.crc_errors": 9000,
        "nvlink.worst_link": 1,
    }


# what drivers print in place of a value
WORDS = ("[N/A]", "ERR!", "[Unknown Error]", "[Not Supported]", "Requested functionality has been deprecated", "[Insufficient Permissions]",
         "[GPU requires reset]", "Not Found", "", "-")  # fmt: skip


@pytest.mark.parametrize("driver", ["525.125.06", "550.90.07", "580.95.05"])
def test_a_word_in_place_of_a_value_never_becomes_another_value(driver: str) -> None:
    text = cluster(modifiers=[f"R10(driver={driver})"]).answer("n1", argv("smi.query")).stdout.decode()
    text = text[: text.index("</gpu>")] + "</gpu>\n</nvidia_smi_log>\n"
    text = text.replace("<attached_gpus>8", "<attached_gpus>1")

    def known(said: str) -> set[tuple[str, str | None, str]]:
        facts = CHECKS["smi"].parse_output(said)
        return {(fact.key, fact.device, repr(fact.value)) for fact in facts if fact.status is Status.OK and fact.key != "gpu.field_errors"}

    whole = known(text)
    for number, cell in enumerate(re.finditer(r"<(\w+)>([^<>\n]+)</\1>", text)):
        word = WORDS[number % len(WORDS)]
        assert known(text[: cell.start(2)] + word + text[cell.end(2) :]) <= whole, (cell[1], word)


# fields of driver 580 on B200 and GB200, in XML and as labelled by `-q`
BLACKWELL = {
    "channel_repair_pending": ("gpu.repair.channel_pending", "Channel Repair Pending"),
    "tpc_repair_pending": ("gpu.repair.tpc_pending", "TPC Repair Pending"),
    "unrepairable_memory": ("gpu.memory.unrepairable", "Unrepairable Memory"),
}


@pytest.mark.parametrize("said", ["Yes", "No"])
@pytest.mark.parametrize("field", BLACKWELL)
def test_a_repair_that_is_due_is_a_fact_in_both_formats(field: str, said: str) -> None:
    key, label = BLACKWELL[field]
    xml = smi(SMI_XML.replace("<ecc_errors>", f"<ecc_errors><{field}>{said}</{field}>", 1))
    assert one(xml, key, "gpu0").value is (said == "Yes")
    text = smi(
        f"==============NVSMI LOG==============\n\nAttached GPUs : 1\nGPU 00000000:3B:00.0\n    ECC Errors\n        {label} : {said}\n"
    )
    assert one(text, key, "gpu0").value is (said == "Yes")


@pytest.mark.parametrize("value", ["Yes", "Failed", "Pending", "Exceeded", "Unhealthy", "Degraded", "Required", "Reset Required", "True"])
def test_a_field_that_no_reader_takes_and_that_tells_of_trouble_is_said_to_be_unknown(value: str) -> None:
    facts = smi(SMI_XML.replace("<ecc_errors>", f"<ecc_errors><hbm_lane_swap>{value}</hbm_lane_swap>", 1))
    assert one(facts, "check.not_understood").value == 1
    assert one(facts, "check.not_understood").line == f"gpu0: <hbm_lane_swap>{value}</hbm_lane_swap>"


@pytest.mark.parametrize("value", ["No", "0", "N/A", "Enabled", "None", "Not Active", "Disabled", "12", "False", "Completed"])
def test_a_field_that_no_reader_takes_and_that_tells_of_none_is_left_out(value: str) -> None:
    facts = smi(SMI_XML.replace("<ecc_errors>", f"<ecc_errors><hbm_lane_swap>{value}</hbm_lane_swap>", 1))
    assert not [fact for fact in facts if fact.key == "check.not_understood"]


SELECTED = """\
==============NVSMI LOG==============

Timestamp                                 : Sun Aug 30 21:20:11 2026
Driver Version                            : 580.105.08
CUDA Version                              : 13.0

Attached GPUs                             : {attached}
GPU 00000000:3B:00.0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 6
        Pending                           : No
        Remapping Failure Occurred        : Yes
"""


@pytest.mark.parametrize(("attached", "device"), [(1, "gpu0"), (8, "0000:3b:00.0")])
def test_sections_that_were_asked_for_alone_are_read_and_count_no_gpus(attached: int, device: str) -> None:
    facts = smi(SELECTED.format(attached=attached))
    assert one(facts, "gpu.remap.failure", device).value is True
    assert one(facts, "gpu.remap.uncorrectable", device).value == 6
    assert not [fact for fact in facts if fact.key in {"gpu.count", "gpu.inforom_corrupt"} or fact.status.blind]
