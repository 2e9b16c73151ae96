"""The version of everything that is stored: every key in Redis (LangGraph's checkpoints and the approval ledger too) and the evidence folder."""

from redis.asyncio import Redis

from bot.store.keys import FIXED_KEYS, VERSION_KEY
from tools.ledger.redis_replies import decode_text

STORE_VERSION = 2
# Raise it with every change of what is stored or of how it is read.
PREVIOUS_STORE_VERSION = 1
# Rows of this version are read as they are: what they lack (who owns a job's log, what a file says that nobody knows, the brakes in an entry of
# the audit log) has a default, which claims nothing. Processes of that version refuse the store from then on.

CLAIM_VERSION_SCRIPT = """
local version = redis.call('GET', KEYS[1])
if version and version ~= ARGV[2] then return version end
if version then
  redis.call('SET', KEYS[1], ARGV[1])
  return ARGV[1]
end
if redis.call('EXISTS', unpack(KEYS, 2)) > 0 then return '' end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
"""
# KEYS: the version, then the keys that show that there is data. One script, so that two processes that start on an empty store both succeed.


async def claim_version(redis: Redis) -> str:
    """Return the version of the store, after writing STORE_VERSION into an empty one or over BEFORE. Empty: there is data without a version."""
    return decode_text(
        await redis.eval(
            CLAIM_VERSION_SCRIPT, 1 + len(FIXED_KEYS), VERSION_KEY, *FIXED_KEYS, str(STORE_VERSION), str(PREVIOUS_STORE_VERSION)
        )
    )
