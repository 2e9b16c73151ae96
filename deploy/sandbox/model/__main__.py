"""`python -m deploy.sandbox.model [PORT]`: the stand-in model on loopback; prints its base URL."""

import asyncio
import sys

from deploy.sandbox.model.server import SandboxModel, serve


async def main(port: int) -> None:
    runner, url = await serve(SandboxModel(), port)
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
