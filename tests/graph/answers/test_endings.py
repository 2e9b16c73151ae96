"""The cause in a person's closing words is stored as the found cause if it matches only that one."""

import pytest

from tests.support.talk import Talk

pytestmark = pytest.mark.slow
FLAPPING = {"id": "N06", "node": "gpu-003", "t": -420}


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("close it - was the cable", "INTERCONNECT.IB.Link_Flapping"),
        ("close it, it was the cable", "INTERCONNECT.IB.Link_Flapping"),
        ("close it, it was the port", "INTERCONNECT.IB.Link_Flapping"),
        ("close it, it was the network", "INTERCONNECT.IB.Link_Flapping"),
        ("close it, it was a flapping link", "INTERCONNECT.IB.Link_Flapping"),
        ("close it, it was the pkey", "INTERCONNECT.IB.PKey_Mismatch"),
        ("close it, it was the driver", "SYSTEM_SOFTWARE.DRIVER"),
        ("close it, it was the gpu", "GPU"),
    ],
)
async def test_the_word_that_closes_it_is_kept_as_the_cause_that_was_found(words: str, label: str) -> None:
    talk = await Talk.about(FLAPPING)
    assert (await talk.says(words)).startswith("Closed: ")
    rows = await talk.rows()
    assert rows.report
    assert rows.lifecycle == "closed"
    assert rows.correction
    assert rows.correction.label == label
