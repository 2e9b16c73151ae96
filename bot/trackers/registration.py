"""The buttons and the form of tracker tickets, by id."""

from bot.slack.handlers import SlackHandlers, refuse_old_button
from bot.trackers import cards as ticket_form
from bot.trackers.handlers import TrackerHandlers


def build_tracker_handlers(handlers: TrackerHandlers | None) -> SlackHandlers:
    """Return the table of the buttons and the form; without trackers each is refused."""
    return SlackHandlers(
        clicks=dict.fromkeys(ticket_form.BUTTONS, handlers.handle_click if handlers else refuse_old_button),
        forms={ticket_form.CALLBACK_ID: handlers.handle_submission if handlers else refuse_old_button},
    )
