"""Write every expected file anew: `python -m tests.golden`, which `make fix` calls."""

from tests.golden.table import GROUPS, renew

if __name__ == "__main__":
    for group in GROUPS:
        renew(group)
