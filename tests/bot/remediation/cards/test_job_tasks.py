"""The card that cancels a job shows how many tasks end with it."""

from dataclasses import replace

import pytest

from bot.remediation.cards import side_effects
from tests.support.fakes_ledger import action
from tools.execution.previews import CancelPreview

ARRAY = CancelPreview({"RUNNING": 5, "PENDING": 1}, ("alice",), ("gpu-001", "gpu-002", "gpu-003"))


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (ARRAY, "Would end: 6 tasks (5 running, 1 pending) of alice, on gpu-[001-003]"),
        (CancelPreview({"RUNNING": 1}, ("bob",), ("gpu-007",)), "Would end: 1 task (1 running) of bob, on gpu-007"),
        (CancelPreview({"PENDING": 1}, ("bob",)), "Would end: 1 task (1 pending) of bob, on no host yet"),
        (CancelPreview(), "Would end: no task: Slurm no longer lists one"),
        (CancelPreview(why="no route"), "What would end could not be read: no route"),
    ],
)
def test_an_approver_reads_how_much_ends(seen: CancelPreview, says: str) -> None:
    (line,) = side_effects.render_known_lines(
        replace(action(), remedy="cancel_job", args={"job": "4711"}), side_effects.build_task_rows(seen)
    )
    assert says in "".join(part if isinstance(part, str) else part.text for part in line)
