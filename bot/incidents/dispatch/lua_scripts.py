"""The atomic steps of inbox and lease, as Lua. Each script is a whole decision: nothing is read outside and acted on
inside.

No JSON here. Members of the due list are `INCIDENT WHY`.
"""

# Results of OPEN_INCIDENT_SCRIPT, beside the incident's id. THREAD_BOUND_ELSEWHERE: the thread belongs to that
# incident, build the item for it. MATCHES_OPEN_INCIDENTS: these open incidents (oldest first, separated by a space)
# match; nothing was stored.
DUPLICATE, APPENDED, OPENED, THREAD_BOUND_ELSEWHERE, INCIDENT_ID_IN_USE, MATCHES_OPEN_INCIDENTS = 0, 1, 2, 3, 4, 5
LEASE_LOST = -1

# Store an item; a closed incident is reopened.
_RECEIVE_ITEM_LUA = """
local function receive(incident, element, now, hash, inbox, threads, posted, due, open)
  redis.call('PERSIST', hash)
  redis.call('PERSIST', threads)
  redis.call('PERSIST', posted)
  redis.call('PERSIST', hash .. ':spent')
  redis.call('PERSIST', hash .. ':pulse')
  redis.call('PERSIST', hash .. ':provider')
  for _, thread in ipairs(redis.call('SMEMBERS', threads)) do redis.call('PERSIST', thread) end
  redis.call('ZADD', open, 'NX', now, incident)
  redis.call('RPUSH', inbox, element)
  redis.call('ZADD', due, 'NX', now, incident .. ' work')
end
"""

# Why an incident is looked at again: the owner of a shared cause released it. No turn replaces this timer.
CAUSE_RELEASED = "cause"

# Remove an incident from a cause; if it was the owner, all others that found the cause become due.
_RELEASE_CAUSE_LUA = f"""
local again = ' {CAUSE_RELEASED}'
local function leave(incident, causes, key, due, now)
  local keeper = redis.call('LINDEX', key, 0)
  redis.call('LREM', key, 0, incident)
  redis.call('SREM', causes, key)
  if keeper ~= incident then return end
  for _, other in ipairs(redis.call('LRANGE', key, 0, -1)) do redis.call('ZADD', due, now, other .. again) end
end
"""

# KEYS: open, due, the incident's causes and hash; then hash and causes of each of `count` incidents that it was opened
# beside; then its present causes. Returns the owner of each cause: the first open incident that found it; else one that
# this incident was opened beside and that has not concluded its first look; else this one. An owner that does not find
# the cause releases it in its own turn.
CLAIM_CAUSES_SCRIPT = (
    _RELEASE_CAUSE_LUA
    + """
local incident, now, count = unpack(ARGV)
local open, due, causes, hash = unpack(KEYS, 1, 4)
local first, found, keepers = 5 + 2 * count, {}, {}
local function reserved(key)
  for n = 1, count do
    local other, theirs, known = ARGV[3 + n], KEYS[3 + 2 * n], KEYS[4 + 2 * n]
    if redis.call('ZSCORE', open, other) and redis.call('HEXISTS', theirs, 'concluded') == 0 then
      redis.call('RPUSH', key, other)
      redis.call('SADD', known, key)
      return other
    end
  end
end
if redis.call('EXISTS', hash) == 1 then redis.call('HSET', hash, 'concluded', now) end
for at = first, #KEYS do found[KEYS[at]] = true end
for _, key in ipairs(redis.call('SMEMBERS', causes)) do
  if not found[key] then leave(incident, causes, key, due, now) end
end
for at = first, #KEYS do
  local key, known, keeper = KEYS[at], false, nil
  for _, other in ipairs(redis.call('LRANGE', key, 0, -1)) do
    if other ~= incident and not redis.call('ZSCORE', open, other) then
      redis.call('LREM', key, 0, other)
    else
      keeper = keeper or other
      known = known or other == incident
    end
  end
  keeper = keeper or reserved(key)
  if not known then redis.call('RPUSH', key, incident) end
  redis.call('SADD', causes, key)
  keepers[#keepers + 1] = keeper or incident
end
return keepers
"""
)

# Return open incidents with the same job or alert, or with every one of the hosts.
_FIND_MATCHES_LUA = """
local function concerned(open, hosts, others, considered)
  local count, rows, known = {}, {}, {}
  for _, id in ipairs(considered) do known[id] = true end
  local function note(id)
    if known[id] then return end
    known[id] = true
    rows[#rows + 1] = {id, tonumber(redis.call('ZSCORE', open, id))}
  end
  local function each(key, see)
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      if redis.call('ZSCORE', open, id) then see(id) else redis.call('ZREM', key, id) end
    end
  end
  for _, key in ipairs(hosts) do each(key, function(id) count[id] = (count[id] or 0) + 1 end) end
  for id, n in pairs(count) do if n == #hosts then note(id) end end
  for _, key in ipairs(others) do each(key, note) end
  table.sort(rows, function(a, b) return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1]) end)
  for at, row in ipairs(rows) do rows[at] = row[1] end
  return table.concat(rows, ' ')
end
"""

# KEYS: seen, thread, hash, inbox, threads, posted, due, open, concerns, then `count` hosts, then job and alert. ARGV
# ends with the matching incidents that this one is opened beside.
OPEN_INCIDENT_SCRIPT = (
    _RECEIVE_ITEM_LUA
    + _FIND_MATCHES_LUA
    + """
local incident, element, now, ttl, origin, name, count = unpack(ARGV)
local seen = redis.call('GET', KEYS[1])
if seen then return {seen, 0} end
local bound = redis.call('GET', KEYS[2])
if bound and bound ~= incident then return {bound, 3} end
if not bound then
  if redis.call('EXISTS', KEYS[3]) == 1 then return {incident, 4} end
  local hosts = {unpack(KEYS, 10, 9 + count)}
  local considered = {unpack(ARGV, 8)}
  local same = concerned(KEYS[8], hosts, {unpack(KEYS, 10 + count)}, considered)
  if same ~= '' then return {same, 5} end
  for at = 10, #KEYS do
    redis.call('ZADD', KEYS[at], now, incident)
    redis.call('SADD', KEYS[9], KEYS[at])
  end
  redis.call('SET', KEYS[2], incident)
  redis.call('HSET', KEYS[3], 'origin', origin, 'opened', now, 'lifecycle', 'open')
  if #considered > 0 then redis.call('HSET', KEYS[3], 'beside', table.concat(considered, ' ')) end
  redis.call('SADD', KEYS[5], name)
end
redis.call('SET', KEYS[1], incident, 'EX', ttl)
receive(incident, element, now, unpack(KEYS, 3, 8))
return {incident, bound and 1 or 2}
"""
)

# KEYS: seen, hash, inbox, threads, posted, due, open.
ENQUEUE_ITEM_SCRIPT = (
    _RECEIVE_ITEM_LUA
    + """
local incident, element, now, ttl = unpack(ARGV)
if not redis.call('SET', KEYS[1], incident, 'NX', 'EX', ttl) then return 0 end
receive(incident, element, now, unpack(KEYS, 2))
return 1
"""
)

# KEYS: timers, hash, inbox, threads, posted, due, open. A timer that was moved or fired meanwhile has another score.
FIRE_TIMER_SCRIPT = (
    _RECEIVE_ITEM_LUA
    + """
local incident, why, score, element, now = unpack(ARGV)
local member = incident .. ' ' .. why
if redis.call('ZSCORE', KEYS[6], member) ~= score then return 0 end
redis.call('ZREM', KEYS[6], member)
redis.call('SREM', KEYS[1], why)
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
receive(incident, element, now, unpack(KEYS, 2))
return 1
"""
)

BIND_THREAD_SCRIPT = """
local bound = redis.call('GET', KEYS[1])
if bound and bound ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[2], KEYS[1])
return 1
"""

# Idempotent: a second call finds another head and changes nothing. A closed incident matches no report from then on;
# its remaining items are still processed. `keep` is `held` while its nodes are drained: then it does not expire.
FINISH_ITEM_SCRIPT = (
    _RELEASE_CAUSE_LUA
    + """
local token, incident, item, letter, lifecycle, keep, now = unpack(ARGV, 1, 7)
local lease, hash, inbox, timers, tries, threads, posted, due, open, dead, causes, concerns, held = unpack(KEYS, 1, 13)
if redis.call('GET', lease) ~= token then return -1 end
local head = redis.call('LINDEX', inbox, 0)
if not head or string.sub(head, 1, #item + 1) ~= item .. '\\n' then return 0 end
redis.call('LPOP', inbox)
redis.call('HDEL', tries, item .. ' begun', item .. ' raised', item .. ' unposted', item .. ' cut')
if redis.call('LLEN', inbox) == 0 then redis.call('ZREM', due, incident .. ' work') end
if letter ~= '' then
  redis.call('RPUSH', dead, letter)
  redis.call('LTRIM', dead, -1000, -1)
  return 1
end
redis.call('HSET', hash, 'lifecycle', lifecycle)
for _, why in ipairs(redis.call('SMEMBERS', timers)) do redis.call('ZREM', due, incident .. ' ' .. why) end
redis.call('DEL', timers)
for at = 8, #ARGV, 2 do
  redis.call('ZADD', due, ARGV[at + 1], incident .. ' ' .. ARGV[at])
  redis.call('SADD', timers, ARGV[at])
end
local kept, closed = {}, lifecycle == 'closed'
if not closed then for at = 14, #KEYS do kept[KEYS[at]] = true end end
for _, key in ipairs(redis.call('SMEMBERS', concerns)) do
  if closed or not kept[key] and not string.find(key, ':concern:alert:', 1, true) then
    redis.call('ZREM', key, incident)
    redis.call('SREM', concerns, key)
  end
end
for key in pairs(kept) do
  redis.call('ZADD', key, 'NX', redis.call('HGET', hash, 'opened') or 0, incident)
  redis.call('SADD', concerns, key)
end
if closed and redis.call('LLEN', inbox) == 0 then
  for _, key in ipairs(redis.call('SMEMBERS', causes)) do leave(incident, causes, key, due, now) end
  redis.call('ZREM', due, incident .. again)
  redis.call('ZREM', open, incident)
end
if keep == 'held' then
  redis.call('ZADD', held, 'NX', redis.call('HGET', hash, 'opened') or 0, incident)
else
  redis.call('ZREM', held, incident)
end
if lifecycle == 'closed' and redis.call('LLEN', inbox) == 0 and keep ~= 'held' then
  for _, key in ipairs({hash, threads, posted, hash .. ':spent', hash .. ':pulse', hash .. ':provider'}) do redis.call('EXPIRE', key, keep) end
  for _, thread in ipairs(redis.call('SMEMBERS', threads)) do redis.call('EXPIRE', thread, keep) end
end
return 1
"""
)

# KEYS: lease, inbox, due, dead. ARGV: lease token, oldest row as read, dead letter, incident.
DEAD_LETTER_SCRIPT = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[2] then return 0 end
redis.call('LPOP', KEYS[2])
if redis.call('LLEN', KEYS[2]) == 0 then redis.call('ZREM', KEYS[3], ARGV[4] .. ' work') end
redis.call('RPUSH', KEYS[4], ARGV[3])
redis.call('LTRIM', KEYS[4], -1000, -1)
return 1
"""

# KEYS: lease, marks by item. ARGV: lease token, item, mark. `posting` begins, `posted` is the last one.
MARK_TURN_SCRIPT = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
local before = redis.call('HGET', KEYS[2], ARGV[2]) or ''
if before == 'posted' or (ARGV[3] == 'posting' and before ~= '') then return before end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return before
"""

COLLECT_DUE_SCRIPT = """
local rows = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[3])
for at = 1, #rows, 2 do
  if string.match(rows[at], ' (.*)$') == ARGV[4] then redis.call('ZADD', KEYS[1], 'XX', ARGV[2], rows[at]) end
end
return rows
"""

# KEYS: lease, fence, due. ARGV: owner, milliseconds, incident, when the sweeper checks on this worker.
ACQUIRE_LEASE_SCRIPT = """
if redis.call('EXISTS', KEYS[1]) == 1 then return false end
local token = redis.call('INCR', KEYS[2]) .. ':' .. ARGV[1]
redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
redis.call('ZADD', KEYS[3], 'XX', ARGV[4], ARGV[3] .. ' work')
return token
"""

RENEW_LEASE_SCRIPT = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[2], 'XX', ARGV[4], ARGV[3] .. ' work')
return 1
"""

# KEYS: lease, due, inbox. ARGV: token, unused, incident, when to look again ('' = release only an empty inbox). So an
# item is not left behind whose wake-up found the lease taken.
RELEASE_LEASE_SCRIPT = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
if ARGV[4] == '' and redis.call('LLEN', KEYS[3]) > 0 then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[4] ~= '' then redis.call('ZADD', KEYS[2], 'XX', ARGV[4], ARGV[3] .. ' work') end
return 1
"""
