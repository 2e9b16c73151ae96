"""The Xid of an alert is read from its labels, annotations or name, never from an address, GPU or host number."""

import json
from collections.abc import Mapping

import pytest

from bot.alerts.alert import Alert, AlertLabels, parse_stored_alert
from bot.alerts.webhook_messages import parse_alertmanager_webhook


def read(
    summary: str = "", name: str = "KernelGpuLine", *, notes: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> Alert:
    row = {
        "status": "firing",
        "labels": {"alertname": name, "node": "gpu-001", **(labels or {})},
        "annotations": {**({"summary": summary} if summary else {}), **(notes or {})},
        "fingerprint": "a1",
    }
    return parse_alertmanager_webhook(json.dumps({"version": "4", "alerts": [row]}).encode(), AlertLabels()).alerts[0]


KERNEL_LINES = {
    "NVRM: Xid (PCI:0000:c1:00): 62, GPU halted": "62",
    "NVRM: Xid (PCI:0000:3b:00): 31, MMU fault": "31",
    "NVRM: Xid (PCI:0000:c1:00.0): 79, pid='<unknown>', GPU has fallen off the bus.": "79",
    "NVRM: Xid (PCI:00000000:c1:00.0): 94, Contained": "94",
    "NVRM: Xid (0000:c1:00): 48, DBE": "48",
    "NVRM: Xid (PCI:0000:c1:00 GPU-I:05 GPU-CI:00): 13, Graphics Exception": "13",
    "[ 4021.551200] NVRM: Xid (PCI:0000:a7:00): 64, Row Remapper": "64",
    "gpu-001 kernel: NVRM: Xid (PCI:0000:9b:00): 149, NETIR_LINK_EVT": "149",
}
WORDS = {
    "Xid 31 on gpu-001 GPU 3": "31",
    "XID 79": "79",
    "xid=79 gpu=3": "79",
    "xid: 48": "48",
    "Xid error 79 on GPU 3": "79",
    "XID errors: 95": "95",
    "XID error code = 119": "119",
    "GPU 3 of gpu-001 reports Xid #63": "63",
    "Xid error on gpu-001 GPU 3: 79": "79",
    "Xid of 0000:c1:00.0 is 79": "79",
    "DCGM_FI_DEV_XID_ERRORS is 79 on GPU 3": "79",
    "DCGM_FI_DEV_XID_ERRORS = 79": "79",
    "DCGM_FI_DEV_XID_ERRORS value 79": "79",
    "xid 79.0": "79",
}
NO_XID = [
    "Xid on gpu-3",
    "Xid error, GPU 3",
    "Xid errors on gpu-001:9400",
    "Xid in the last 5m",
    "Xid 5m ago",
    "XID error on GPU 3",
    "DCGM_FI_DEV_XID_ERRORS is 0",
    "maxid=5",
    "PCI 0000:c1:00 has an Xid",
    "see https://wiki.example/xid/79",
    "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 12 egress non-posted PRIV error",
    "SXid 20034",
]


@pytest.mark.parametrize("line", [*KERNEL_LINES, *WORDS])
def test_the_number_of_the_error_is_the_xid(line: str) -> None:
    wanted = {**KERNEL_LINES, **WORDS}[line]
    assert read(line).xid == wanted
    assert read(line).cause == f"Xid {wanted}"
    assert read("GPU error", notes={"description": line}).xid == wanted, "in another annotation"
    assert read("GPU error", labels={"message": line}).xid == wanted, "in a label"


@pytest.mark.parametrize("line", NO_XID)
def test_another_number_is_no_xid(line: str) -> None:
    assert read(line).xid == ""


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ({"xid": "79"}, "79"), ({"err_code": "48"}, "48"), ({"DCGM_FI_DEV_XID_ERRORS": "63"}, "63"), ({"xid": "79.0"}, "79"),
        ({"xid": "0"}, ""), ({"err_code": "12028"}, ""), ({"xid": "²"}, ""), ({"name": "GpuXid79"}, "79"), ({"name": "NVIDIA_XID_79"}, "79"),
        ({"name": "GPUXid48Error"}, ""), ({"name": "XidError"}, ""), ({"name": "GpuSXid12028"}, ""),
        ({"runbook": "https://wiki.example/xid/79"}, ""), ({"xid": "31", "summary": "NVRM: Xid (PCI:0000:c1:00): 62, GPU halted"}, "31"),
    ],
)  # fmt: skip
def test_labels_and_the_name_tell_the_xid(labels: dict[str, str], wanted: str) -> None:
    others = {name: text for name, text in labels.items() if name not in ("summary", "name")}
    assert read(labels.get("summary", ""), labels.get("name", "KernelGpuLine"), labels=others).xid == wanted


SXIDS = {
    "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 12 egress non-posted PRIV error": "12028",
    "nvidia-nvswitch3: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 30 LTSSM Fault Up": "20034",
    "SXid error 11012 on switch 2": "11012",
    "NVRM: Xid (PCI:0000:c1:00): 62, after SXid 12028": "",
}


@pytest.mark.parametrize("line", SXIDS)
def test_an_error_of_a_switch_is_a_cause_of_its_own(line: str) -> None:
    assert read(line).sxid == SXIDS[line]
    if SXIDS[line]:
        assert read(line).cause == f"SXid {SXIDS[line]}"


def test_alerts_with_different_numbers_are_different_causes() -> None:
    lines = [*KERNEL_LINES, *(line for line in SXIDS if SXIDS[line])]
    assert len({read(line).cause for line in lines}) == len(lines)


def test_a_row_stored_before_is_read() -> None:
    row = parse_stored_alert(b'{"id":"a1","name":"n","firing":true,"xid":"79"}')
    assert row is not None
    assert (row.xid, row.sxid, row.cause) == ("79", "", "Xid 79")
