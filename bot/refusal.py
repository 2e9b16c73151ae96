"""Refusals for people, caught at the edge and shown as one card or line; and TooEarly for a retry."""


class Refusal(Exception):
    """The text is shown to the person as it is: what was refused, and what to do instead.

    `code` is what a terminal command exits with: 1 could not do it, 2 bad usage or settings.
    """

    def __init__(self, message: str = "", code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class TooEarly(Exception):
    """The receiver cannot take a message now, without an error. The caller retries, however often."""
