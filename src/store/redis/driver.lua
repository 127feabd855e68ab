-- The driver; the twin of limit/driver.rs. Operations:
--   1 judge      n, then n times: key, algorithm, terms, cost, id, parameters
--   2 give back  key, algorithm, parameters, cost, id, mark, how much of the cost
--   3 spend      key, algorithm, parameters, cost, id (without asking)
-- Reply: the time, then for each judge its status and, unless a value was foreign, for each charge: verdict, wait,
-- remaining, reset after, whether it was booked, mark.
local JUDGE, GIVE_BACK, SPEND = 1, 2, 3
-- Terms: stake + 2 x when + 8 x limit.
local BINDING = 0
local ADMITTED, TRIED, REJECTED, SETTLED = 0, 1, 2, 3
local REFUSED, SPENT, FOREIGN = 0, 1, 2

local now, slack = tonumber(ARGV[2]), 3600000
if not now then
  local time = call('TIME')
  now, slack = tonumber(time[1]) * 1000000 + tonumber(time[2]), 1000
end

-- Formats of so many numbers.
local packed = { [2] = '<I8I8' }
local function layout(count)
  local text = packed[count]
  if not text then
    text = '<' .. rep('I8', count)
    packed[count] = text
  end
  return text
end

local total = #ARGV[1] / 8
if total <= 4000 then
  N = { struct.unpack(layout(total), ARGV[1]) }
else
  for i = 1, total do
    N[i] = struct.unpack('<I8', ARGV[1], 8 * i - 7)
  end
end

-- By key: its state (false: a foreign value); where it is to be written, its algorithm and the last meter; and how long
-- it counts, where that is known.
local values = call('MGET', unpack(KEYS))
local states, changed, meters, resets = {}, {}, {}, {}

-- Whether any key without a value in one string holds something else.
local others
local function any_others()
  if others == nil then
    local keys = {}
    for k = 1, #KEYS do
      if not values[k] then
        keys[#keys + 1] = KEYS[k]
      end
    end
    others = call('EXISTS', unpack(keys)) > 0
  end
  return others
end

local kinds = {}
local function algorithm(code)
  local kind = kinds[code]
  if not kind then
    kind = M[code]()
    kinds[code] = kind
  end
  return kind
end

local function read(kind, m, k)
  local value = values[k]
  if kind.load then
    return not value and kind.load(m, KEYS[k], now)
  end
  if value then
    local count = #value / 8
    if count < kind.least or count > kind.most or count % 1 ~= 0 then
      return false
    end
    local state = { struct.unpack(layout(count), value) }
    state[count + 1] = nil
    return state
  end
  if any_others() and call('TYPE', KEYS[k]).ok ~= 'none' then
    return false
  end
  return {}
end

-- The state of key k, read once and healed; false where a foreign value is there.
local function load(kind, m, k)
  local state = states[k]
  if state == nil then
    state = read(kind, m, k)
    states[k] = state
    if state and kind.heal(m, state, now) then
      changed[k], meters[k] = kind, m
    end
  end
  return state
end

local out, size = { now }, 1
local places, verdicts, waits, rejecting = {}, {}, {}, {}

-- Whether a charge of these terms is spent if it passes, where the first n of `rejecting` reject.
local function is_spent(terms, n)
  local when, limit = floor(terms / 2) % 4, floor(terms / 8)
  if when == SETTLED then
    return false
  end
  for r = 1, n do
    local other = rejecting[r]
    local binds, own, its = other % 2 == BINDING, floor(other / 8) == limit, floor(other / 2) % 4
    if when == ADMITTED and (binds or own and its ~= TRIED) or when == TRIED and binds and not own then
      return false
    elseif when == REJECTED and own and its == ADMITTED then
      return true
    end
  end
  return when ~= REJECTED
end

-- Judges the n charges from place i on; the place behind them.
local function decide(i, n)
  local foreign, refused, rejections = false, false, 0
  for c = 1, n do
    local kind = algorithm(N[i + 1])
    local state = load(kind, i + 5, N[i])
    places[c] = i
    if state then
      local verdict, wait = kind.judge(i + 5, state, now, N[i + 3])
      verdicts[c], waits[c] = verdict, wait
      if verdict > DELAY then
        local terms = N[i + 2]
        rejections = rejections + 1
        rejecting[rejections] = terms
        refused = refused or terms % 2 == BINDING
      end
    else
      foreign = true
    end
    i = i + 5 + kind.params
  end
  size = size + 1
  if foreign then
    out[size] = FOREIGN
    return i
  end
  out[size] = refused and REFUSED or SPENT
  for c = 1, n do
    local p = places[c]
    local k, kind, cost = N[p], algorithm(N[p + 1]), N[p + 3]
    local state, m = states[k], p + 5
    local booked, mark = 0, 0
    if verdicts[c] <= DELAY and cost > 0 and is_spent(N[p + 2], rejections) then
      booked, mark = 1, kind.spend(m, state, now, cost, N[p + 4])
      changed[k] = kind
      if floor(N[p + 2] / 2) % 4 == REJECTED then
        verdicts[c], waits[c] = kind.judge(m, state, now, cost)
      end
    end
    local remaining, reset = kind.quota(m, state, now)
    resets[k] = reset
    out[size + 1], out[size + 2], out[size + 3] = verdicts[c], waits[c], remaining
    out[size + 4], out[size + 5], out[size + 6] = reset, booked, mark
    size = size + 6
  end
  return i
end

local function give_back(i)
  local k, kind, m = N[i], algorithm(N[i + 1]), i + 2
  local state = load(kind, m, k)
  i = m + kind.params
  if state and kind.give_back(m, state, now, N[i + 2], N[i + 1], N[i], N[i + 3]) then
    changed[k], meters[k], resets[k] = kind, m, nil
  end
  return i + 4
end

local function spend(i)
  local k, kind, m = N[i], algorithm(N[i + 1]), i + 2
  local state = load(kind, m, k)
  i = m + kind.params
  if state and N[i] > 0 then
    kind.spend(m, state, now, N[i], N[i + 1])
    changed[k], meters[k], resets[k] = kind, m, nil
  end
  return i + 2
end

local i = 1
while i <= total do
  local operation = N[i]
  if operation == JUDGE then
    i = decide(i + 2, N[i + 1])
  elseif operation == GIVE_BACK then
    i = give_back(i + 1)
  elseif operation == SPEND then
    i = spend(i + 1)
  else
    return redis.error_reply('ERR sluice: unknown operation')
  end
end

-- Every write comes after every judgement: an error above changes nothing. Expiry only collects what no longer counts.
for k, kind in pairs(changed) do
  local state, reset = states[k], resets[k]
  if not reset then
    local _
    _, reset = kind.quota(meters[k], state, now)
  end
  local ttl = ceil(reset / 1000) + slack
  if kind.write then
    kind.write(state, KEYS[k], now, ttl)
  elseif state[1] then
    call('SET', KEYS[k], struct.pack(layout(#state), unpack(state)), 'PX', ttl)
  else
    call('DEL', KEYS[k])
  end
end

local reply = {}
for first = 1, size, 3000 do
  local last = min(size, first + 2999)
  reply[#reply + 1] = struct.pack(layout(last - first + 1), unpack(out, first, last))
end
return table.concat(reply)
