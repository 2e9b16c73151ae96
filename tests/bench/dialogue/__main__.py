"""`python -m tests.bench.dialogue` is `rackmedic bench dialogue`."""

import sys

from bot.cli.bench import bench

if __name__ == "__main__":
    bench(["dialogue", *sys.argv[1:]])
