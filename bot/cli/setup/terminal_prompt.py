"""Asks until an answer is valid."""

import sys
from collections.abc import Callable

import typer

from bot.cli.command_runtime import print_text
from bot.cli.setup.questions import Question
from bot.refusal import Refusal


def prompt_for_answer(question: Question, default: str, refuses: Callable[[str], str]) -> str:
    """Raises Refusal without a terminal."""
    if not sys.stdin.isatty():
        raise Refusal("there is no terminal to ask: fill in `rackmedic init --questions > answers.yaml` and give it with --answers", 2)
    print_text(f"\n{question.asks}", err=True)
    print_text(f"  {question.teaches}", err=True)
    while True:
        answer: str = typer.prompt(
            "  ", default=default, show_default=bool(default), prompt_suffix="> ", hide_input=question.secret, err=True
        )
        if not (refusal := refuses(answer.strip())):
            return answer.strip()
        print_text(f"  {refusal}", err=True)
