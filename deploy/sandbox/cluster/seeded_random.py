"""Seeded randomness: each draw depends only on the seed and its purpose, never on the order of queries."""

import hashlib
import random


def make_random(seed: int, *purpose: object) -> random.Random:
    return random.Random("/".join(map(str, (seed, *purpose))))


def make_token(seed: int, *purpose: object) -> str:
    return hashlib.sha256("/".join(map(str, (seed, *purpose))).encode()).hexdigest()


def make_uuid(seed: int, *purpose: object) -> str:
    t = make_token(seed, *purpose)
    return f"{t[:8]}-{t[8:12]}-4{t[13:16]}-a{t[17:20]}-{t[20:32]}"
