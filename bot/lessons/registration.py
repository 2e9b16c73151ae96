"""The buttons and the form of lesson cards, by id."""

from bot.lessons import cards as lesson_card
from bot.lessons.handlers import LessonHandlers
from bot.slack.handlers import SlackHandlers


def build_lesson_handlers(handlers: LessonHandlers) -> SlackHandlers:
    return SlackHandlers(
        clicks=dict.fromkeys(lesson_card.BUTTONS, handlers.handle_click),
        forms={lesson_card.CALLBACK_ID: handlers.handle_submission},
    )
