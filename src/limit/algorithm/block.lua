-- Block; the twin of block.rs.
-- Parameters: length (us), then those of the sliding window that counts strikes. State: end, then that window's.
M[5] = function()
  local counter = M[3]()

  -- The end of the block, and the state that counts strikes.
  local function split(state)
    return state[1] or 0, { unpack(state, 2) }
  end

  local function join(state, ends, strikes)
    local last = #state
    state[1] = ends
    for i = 1, max(#strikes, last) do
      state[i + 1] = strikes[i]
    end
  end

  local function heal(m, state, now)
    if not state[1] then
      return false
    end
    local ends, strikes = split(state)
    local latest = now + N[m]
    if not counter.heal(m + 1, strikes, now) and ends <= latest then
      return false
    end
    join(state, min(ends, latest), strikes)
    return true
  end

  local function judge(m, state, now, cost)
    local ends = state[1] or 0
    if cost == 0 or ends <= now then
      return ALLOW, 0
    end
    return AFTER, ends - now
  end

  local function spend(m, state, now, cost, id)
    if cost > 0 then
      local ends, strikes = split(state)
      counter.spend(m + 1, strikes, now, cost, id)
      if ends <= now and counter.quota(m + 1, strikes, now) == 0 then
        ends, strikes = now + N[m], {}
      end
      join(state, ends, strikes)
    end
    return now
  end

  local function give_back()
    return false
  end

  local function quota(m, state, now)
    local ends, strikes = split(state)
    local remaining, reset = counter.quota(m + 1, strikes, now)
    if ends > now then
      return 0, max(reset, ends - now)
    end
    return remaining, reset
  end

  return {
    params = 3, least = 1, most = 1 + counter.most,
    heal = heal, judge = judge, spend = spend, give_back = give_back, quota = quota,
  }
end
