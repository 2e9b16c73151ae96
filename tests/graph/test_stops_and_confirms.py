"""Plain words for stop are parsed as stop; "confirm" in a report that it works approves nothing."""

from datetime import UTC, datetime

import pytest

from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from tests.support.fakes_bot import VOCABULARY

NOW = datetime(2026, 5, 20, 8, 17, tzinfo=UTC)

STOPS = """
call off the search
call it off
call that off please
hold it right there
hold it
quit poking at my nodes
quit looking
stop poking around
stop messing with my nodes
stop fiddling with the nodes
stop touching my machines
stop digging around
stop scanning
stop right there
stop
wait, stop
leave my nodes alone
that's enough, stop
please cease the scan
no more checks please
give it a rest
cut it out
abort the search
end the search
cancel the investigation
back off
stand down
knock it off
halt everything
hör auf
halt an
lass die Knoten in Ruhe
hör auf zu suchen
arrête de chercher
deja de buscar
""".strip().splitlines()

NO_STOPS = """
call off the meeting
hold the door
is the search over?
did you stop?
if it hangs again, stop
don't stop
the job stopped at 10:00
gpu-003 stops answering
who is poking at gpu-003?
hold it until 14:00
quiet for two hours
""".strip().splitlines()

NO_APPROVALS = """
it works again since 10:00, confirm please
it works again - since 10:00 - confirm please
it works again, please confirm
works again, confirm
the job runs again, can you confirm?
the job runs again. Confirm please.
gpu-003 is back, confirm
works now, confirmed?
all good again - please confirm
I confirm it works again
can you confirm that gpu-003 is fine?
please confirm the diagnosis
could you confirm the cause
""".strip().splitlines()


def intent(text: str) -> Intent:
    return parse_message(text, VOCABULARY, NOW).intent


@pytest.mark.parametrize("text", STOPS)
def test_plain_words_for_stop_stop(text: str) -> None:
    assert intent(text) is Intent.STOP


@pytest.mark.parametrize("text", NO_STOPS)
def test_what_only_speaks_of_stopping_stops_nothing(text: str) -> None:
    assert intent(text) is not Intent.STOP


@pytest.mark.parametrize("text", NO_APPROVALS)
def test_confirm_beside_a_report_is_no_typed_approval(text: str) -> None:
    assert intent(text) is not Intent.TYPED_APPROVAL


@pytest.mark.parametrize("text", ["confirm", "confirmed", "yes, confirmed, go ahead", "confirmed, go", "approve", "yes do it", "i confirm"])
def test_words_that_approve_are_still_read_as_such(text: str) -> None:
    assert intent(text) is Intent.TYPED_APPROVAL
