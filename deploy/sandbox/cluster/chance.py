"""The only source of chance: every draw is a function of the seed and of what it is for, so nothing depends on the order of questions."""

import hashlib
import random


def dice(seed: int, *purpose: object) -> random.Random:
    """A generator for one purpose."""
    return random.Random("/".join(map(str, (seed, *purpose))))


def token(seed: int, *purpose: object) -> str:
    """64 hex digits for one purpose."""
    return hashlib.sha256("/".join(map(str, (seed, *purpose))).encode()).hexdigest()


def uuid(seed: int, *purpose: object) -> str:
    """A UUID-shaped identifier for one purpose."""
    t = token(seed, *purpose)
    return f"{t[:8]}-{t[8:12]}-4{t[13:16]}-a{t[17:20]}-{t[20:32]}"
