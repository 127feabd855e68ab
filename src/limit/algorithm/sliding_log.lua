-- Sliding log; the twin of sliding_log.rs.
-- Parameters: amount, window (us). In Redis: a sorted set of members ID:COST by time, and the running total as the
-- score of a member of its own: -1 - total, below every time, so that no trim by time reaches it.
--
-- The log itself stays in Redis. A state is its total and what this call changes in it:
--   sum     what counts, changes included       stored  whether anything that counts is in Redis
--   newest  time of the newest entry, or nil    after   entries later than this count
--   added   cost by member, all at `now`        lump    sum of added
--   removed members that leave                  gone    how many
--   reduced what members cost that stay in part times   when those were spent
--   trim    entries up to this time leave       clear   all leave
M[2] = function()
  local TOTAL = 'total'

  -- Bounds of a range by time: scores are never below 0, the total always is.
  local function above(time)
    if time < 0 then
      return '0'
    end
    return format('(%.0f', time)
  end

  local function cost_of(member)
    return tonumber(string.match(member, ':(%d+)$')) or 0
  end

  local function load(m, key, now)
    local state = { key = key, sum = 0, added = {}, lump = 0, removed = {}, gone = 0, reduced = {}, times = {} }
    local head = redis.pcall('ZRANGE', key, 0, 1, 'WITHSCORES')
    if head.err then
      return false
    end
    if #head == 0 then
      return state
    end
    local total = tonumber(head[2])
    if head[1] ~= TOTAL or #head ~= 4 or total >= 0 then
      return false
    end
    state.stored = true
    state.sum = -1 - total
    state.oldest = tonumber(head[4])
    state.newest = tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
    state.after = now - N[m + 1]
    return state
  end

  -- Time of the newest entry; there is one.
  local function newest(m, state, now)
    if not state.newest then
      local time = 0
      if state.stored then
        local found = call('ZREVRANGEBYSCORE', state.key, format('%.0f', now + N[m + 1]), above(state.after),
          'WITHSCORES', 'LIMIT', 0, state.gone + 1)
        for e = 1, #found, 2 do
          if not state.removed[found[e]] then
            time = tonumber(found[e + 1])
            break
          end
        end
      end
      if state.lump > 0 then
        time = max(time, now)
      end
      state.newest = time
    end
    return state.newest
  end

  -- Drops what has left.
  local function trim(state)
    if state.oldest > state.after then
      return false
    end
    if state.newest <= state.after then
      state.sum, state.newest, state.stored, state.clear = 0, nil, false, true
      return true
    end
    state.trim = format('%.0f', state.after)
    local left = call('ZRANGEBYSCORE', state.key, '0', state.trim)
    for e = 1, #left do
      state.sum = state.sum - cost_of(left[e])
    end
    return true
  end

  local function heal(m, state, now)
    if not state.stored then
      return false
    end
    local trimmed = trim(state)
    local limit = now + N[m + 1]
    if not state.newest or state.newest <= limit then
      return trimmed
    end
    local ahead = call('ZRANGEBYSCORE', state.key, above(limit), '+inf')
    for e = 1, #ahead do
      local cost = cost_of(ahead[e])
      state.added[ahead[e]] = cost
      state.lump = state.lump + cost
    end
    state.newest = nil
    return true
  end

  local function judge(m, state, now, cost)
    local amount, window = N[m], N[m + 1]
    if cost == 0 then
      return ALLOW, 0
    end
    if cost > amount then
      return NEVER, 0
    end
    local over = state.sum + cost - amount
    if over <= 0 then
      return ALLOW, 0
    end
    -- Let the oldest leave one by one, until the cost fits. Each costs at least 1, so `over` of them are enough.
    if state.stored then
      local lump = state.lump
      local found = call('ZRANGEBYSCORE', state.key, above(state.after), format('%.0f', now + window),
        'WITHSCORES', 'LIMIT', 0, over + state.gone)
      for e = 1, #found, 2 do
        local time = tonumber(found[e + 1])
        if time > now then
          over, lump = over - lump, 0
          if over <= 0 then
            break
          end
        end
        if not state.removed[found[e]] then
          over = over - (state.reduced[found[e]] or cost_of(found[e]))
          if over <= 0 then
            return AFTER, time + window - now
          end
        end
      end
    end
    return AFTER, window
  end

  local function spend(m, state, now, cost, id)
    if cost > 0 then
      state.added[format('%.0f:%.0f', id, cost)] = cost
      state.lump = state.lump + cost
      state.sum = state.sum + cost
      state.newest = max(state.newest or newest(m, state, now), now)
    end
    return now
  end

  local function give_back(m, state, now, mark, id, cost, back)
    local member, time = format('%.0f:%.0f', id, cost), now
    local left = max(0, cost - back)
    if state.added[member] then
      state.added[member] = nil
      state.lump = state.lump - cost
      if left > 0 then
        state.added[format('%.0f:%.0f', id, left)] = left
        state.lump = state.lump + left
        state.sum = state.sum + left
      end
    elseif not state.stored or state.removed[member] or state.reduced[member] then
      return false
    else
      time = tonumber(call('ZSCORE', state.key, member) or nil)
      if not time or time <= state.after then
        return false
      end
      if left > 0 then
        state.reduced[member], state.times[member] = left, time
        state.sum = state.sum - cost + left
        return true
      end
    end
    state.removed[member] = true
    state.gone = state.gone + 1
    state.sum = state.sum - cost
    if state.newest and time >= state.newest then
      state.newest = nil
    end
    return true
  end

  local function quota(m, state, now)
    if state.sum == 0 then
      return N[m], 0
    end
    return max(0, N[m] - state.sum), newest(m, state, now) + N[m + 1] - now
  end

  local function write(state, key, now, ttl)
    if state.sum == 0 then
      call('DEL', key)
      return
    end
    if state.clear then
      call('DEL', key)
    elseif state.trim then
      call('ZREMRANGEBYSCORE', key, '0', state.trim)
    end
    for member in pairs(state.removed) do
      call('ZREM', key, member)
    end
    for member, left in pairs(state.reduced) do
      local score, id = format('%.0f', state.times[member]), string.match(member, '^%d+')
      call('ZREM', key, member)
      call('ZADD', key, score, format('%s:%.0f', id, left))
    end
    local score = format('%.0f', now)
    local add = { 'ZADD', key, format('%.0f', -1 - state.sum), TOTAL }
    for member in pairs(state.added) do
      if #add > 500 then
        call(unpack(add))
        add = { 'ZADD', key }
      end
      add[#add + 1] = score
      add[#add + 1] = member
    end
    call(unpack(add))
    call('PEXPIRE', key, ttl)
  end

  return {
    params = 2, load = load, write = write,
    heal = heal, judge = judge, spend = spend, give_back = give_back, quota = quota,
  }
end
