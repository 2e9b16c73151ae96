"""The ledger's Lua: each script is one atomic transition. They compare bytes that Python verified, move the clock's high-water mark,
append to the audit chain and never decode or re-encode JSON.

Every script answers with a word: `ok …`, `retry` (something moved since Python looked: look again), or the name of a refusal.
All checks come before the first write.
"""

from collections.abc import Mapping

PRELUDE = """
local P = ARGV[1]
local prev, entry, head, given = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local id = ARGV[6]
local apr, votes = P..'apr:'..id, P..'votes:'..id
local function clock()
  local high = tonumber(redis.call('GET', P..'clock') or '0')
  if given > high then return given end
  return high
end
local now = clock()
local function num(n) return string.format('%.0f', n) end
local function begin()
  if (redis.call('GET', P..'head') or '') ~= prev then return false end
  redis.call('SET', P..'clock', num(now))
  redis.call('RPUSH', P..'audit', entry)
  redis.call('SET', P..'head', head)
  return true
end
local function state() return redis.call('HGET', apr, 'state') end
local function votes_now()
  local rows = redis.call('HGETALL', votes)
  local lines = {}
  for i = 1, #rows, 2 do lines[#lines + 1] = rows[i]..' '..rows[i + 1] end
  table.sort(lines)
  return table.concat(lines, '\\n')
end
local function due(at)
  if at then redis.call('ZADD', P..'due', at, id) else redis.call('ZREM', P..'due', id) end
end
local function leave()
  for target in string.gmatch(redis.call('HGET', apr, 'targets') or '', '[^ ]+') do redis.call('SREM', P..'open:'..target, id) end
end
local function release()
  for target in string.gmatch(redis.call('HGET', apr, 'targets') or '', '[^ ]+') do
    if redis.call('GET', P..'target:'..target) == id then redis.call('DEL', P..'target:'..target) end
    redis.call('ZREM', P..'busy:'..(redis.call('HGET', apr, 'group') or ''), target)
  end
end
"""

PROPOSE = """
local action, digest, request, mac, decide_by, incident, targets, group = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14]
if redis.call('EXISTS', apr) == 1 then return 'exists' end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'state', 'pending', 'action', action, 'digest', digest, 'request', request, 'mac', mac, 'decide_by', decide_by,
  'proposed_at', num(given), 'incident', incident, 'targets', targets, 'group', group)
redis.call('SADD', P..'of:'..incident, id)
for target in string.gmatch(targets, '[^ ]+') do redis.call('SADD', P..'open:'..target, id) end
due(decide_by)
return 'ok'
"""

VOTE = """
local digest, request, seen_votes, voter, vote = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local delivery, becomes, start_ms, reason = ARGV[12], ARGV[13], ARGV[14], ARGV[15]
if redis.call('EXISTS', P..'seen:'..delivery) == 1 then return 'replayed' end
if state() ~= 'pending' then return 'not_open' end
if redis.call('HGET', apr, 'digest') ~= digest or redis.call('HGET', apr, 'request') ~= request then return 'tampered' end
if now > tonumber(redis.call('HGET', apr, 'decide_by')) then return 'late' end
if redis.call('HEXISTS', votes, voter) == 1 then return 'already' end
if votes_now() ~= seen_votes then return 'retry' end
if not begin() then return 'retry' end
redis.call('SET', P..'seen:'..delivery, id, 'EX', 86400)
redis.call('HSET', votes, voter, vote)
redis.call('HSET', apr, 'state', becomes)
if becomes == 'approved' then
  redis.call('HSET', apr, 'start_by', num(now + tonumber(start_ms)))
  due(num(now + tonumber(start_ms)))
elseif becomes == 'denied' then
  redis.call('HSET', apr, 'ended_by', voter, 'says', reason)
  due(nil)
  leave()
end
return 'ok'
"""

CLAIM = """
local digest, request, seen_votes, worker, beat_ms = ARGV[7], ARGV[8], ARGV[9], ARGV[10], tonumber(ARGV[11])
local blast_most, blast_ms, at_once, window_most, window_ms = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
local covered = ARGV[17]
if redis.call('EXISTS', P..'stop') == 1 then return 'stopped' end
if state() ~= 'approved' then return 'not_open' end
if redis.call('HGET', apr, 'digest') ~= digest or redis.call('HGET', apr, 'request') ~= request then return 'tampered' end
if now > tonumber(redis.call('HGET', apr, 'start_by')) then return 'late' end
if votes_now() ~= seen_votes then return 'retry' end
local group, incident = redis.call('HGET', apr, 'group'), redis.call('HGET', apr, 'incident')
if redis.call('EXISTS', P..'breaker:'..group) == 1 then return 'breaker' end
local fresh_blast, fresh_window, fresh_busy = 0, 0, 0
redis.call('ZREMRANGEBYSCORE', P..'blast:'..incident, '-inf', num(now - blast_ms))
redis.call('ZREMRANGEBYSCORE', P..'window:'..group, '-inf', num(now - window_ms))
for target in string.gmatch(redis.call('HGET', apr, 'targets'), '[^ ]+') do
  if redis.call('EXISTS', P..'target:'..target) == 1 then return 'busy '..redis.call('GET', P..'target:'..target) end
  if not redis.call('ZSCORE', P..'blast:'..incident, target) then fresh_blast = fresh_blast + 1 end
  if not redis.call('ZSCORE', P..'window:'..group, target) then fresh_window = fresh_window + 1 end
  if not redis.call('ZSCORE', P..'busy:'..group, target) then fresh_busy = fresh_busy + 1 end
end
if redis.call('ZCARD', P..'blast:'..incident) + fresh_blast > blast_most then return 'blast' end
if redis.call('ZCARD', P..'busy:'..group) + fresh_busy > at_once then return 'fleet' end
if redis.call('ZCARD', P..'window:'..group) + fresh_window > window_most then
  return 'trip'
end
for other in string.gmatch(covered, '[^ ]+') do
  local s = redis.call('HGET', P..'apr:'..other, 'state')
  if s ~= 'pending' and s ~= 'approved' then return 'retry' end
end
if not begin() then return 'retry' end
local token = redis.call('INCR', P..'fence')
for target in string.gmatch(redis.call('HGET', apr, 'targets'), '[^ ]+') do
  redis.call('SET', P..'target:'..target, id)
  redis.call('ZADD', P..'blast:'..incident, num(now), target)
  redis.call('ZADD', P..'window:'..group, num(now), target)
  redis.call('ZADD', P..'busy:'..group, num(now), target)
end
for other in string.gmatch(covered, '[^ ]+') do
  redis.call('HSET', P..'apr:'..other, 'state', 'superseded', 'ended_by', id, 'says', 'made needless by '..id)
  redis.call('ZREM', P..'due', other)
end
redis.call('HSET', apr, 'state', 'executing', 'token', token, 'worker', worker, 'beat_until', num(now + beat_ms), 'claimed_at', num(now))
due(num(now + beat_ms))
return 'ok '..token
"""

BEAT = """
local token, beat_ms = ARGV[7], tonumber(ARGV[8])
if state() ~= 'executing' or redis.call('HGET', apr, 'token') ~= token then return 'lost' end
redis.call('SET', P..'clock', num(now))
redis.call('HSET', apr, 'beat_until', num(now + beat_ms))
due(num(now + beat_ms))
return 'ok'
"""

ADOPT = """
local worker, beat_ms = ARGV[7], tonumber(ARGV[8])
if state() ~= 'executing' then return 'not_open' end
if now <= tonumber(redis.call('HGET', apr, 'beat_until')) then return 'alive' end
if not begin() then return 'retry' end
local token = redis.call('INCR', P..'fence')
redis.call('HSET', apr, 'token', token, 'worker', worker, 'beat_until', num(now + beat_ms))
due(num(now + beat_ms))
return 'ok '..token
"""

FINISH = """
local token, becomes, exit_status, output, says = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
if state() ~= 'executing' or redis.call('HGET', apr, 'token') ~= token then return 'lost' end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'state', becomes, 'exit_status', exit_status, 'output', output, 'says', says, 'finished_at', num(now))
due(nil)
leave()
if becomes ~= 'unknown' then release() end
return 'ok'
"""

RECONCILE = """
local human, becomes, says = ARGV[7], ARGV[8], ARGV[9]
if state() ~= 'unknown' then return 'not_open' end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'state', becomes, 'ended_by', human, 'says', says)
release()
return 'ok'
"""

END = """
local becomes, by, says, only_late = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local s = state()
if s ~= 'pending' and s ~= 'approved' then return 'not_open' end
if only_late == '1' then
  local until_ms = redis.call('HGET', apr, s == 'pending' and 'decide_by' or 'start_by')
  if now <= tonumber(until_ms) then return 'early' end
end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'state', becomes, 'ended_by', by, 'says', says)
due(nil)
leave()
return 'ok'
"""

OUTCOME = """
local outcome = ARGV[7]
local s = state()
if s ~= 'done' and s ~= 'failed' then return 'not_open' end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'outcome', outcome)
return 'ok'
"""

SWITCH = """
local key, value = P..ARGV[7], ARGV[8]
if not begin() then return 'retry' end
if value == '' then redis.call('DEL', key) else redis.call('SET', key, value) end
return 'ok'
"""

SCRIPTS: Mapping[str, str] = {
    name: PRELUDE + body
    for name, body in {
        "propose": PROPOSE,
        "vote": VOTE,
        "claim": CLAIM,
        "beat": BEAT,
        "adopt": ADOPT,
        "finish": FINISH,
        "reconcile": RECONCILE,
        "end": END,
        "outcome": OUTCOME,
        "switch": SWITCH,
    }.items()
}
