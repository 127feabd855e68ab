-- Calendar window; the twin of calendar_window.rs.
-- Parameters: amount, length (us), four boundaries that ascend. State: start, used.
M[7] = function()
  -- Whether now lies within the windows that were sent.
  local function knows(m, now)
    return N[m + 2] <= now and now < N[m + 5]
  end

  -- The last boundary that is not later than now; where none is known, the first moment.
  local function beginning(m, now)
    for i = m + 5, m + 2, -1 do
      if N[i] <= now then
        return N[i]
      end
    end
    return 0
  end

  -- The first boundary after at; where none is known, when the next is likely.
  local function ending(m, at)
    for i = m + 2, m + 5 do
      if at < N[i] then
        return N[i]
      end
    end
    local length = N[m + 1]
    return at - (at - N[m + 5]) % length + length
  end

  -- Start and use of the window that holds now; a new one where none does.
  local function open(m, state, now)
    local start, used = state[1], state[2]
    if start and used > 0 and start >= beginning(m, now) then
      return start, used
    end
    return knows(m, now) and beginning(m, now) or now, 0
  end

  local function heal(m, state, now)
    local start = state[1]
    if not start or start <= now or start < ending(m, ending(m, now)) then
      return false
    end
    state[1] = now
    return true
  end

  local function judge(m, state, now, cost)
    local amount = N[m]
    if cost == 0 then
      return ALLOW, 0
    end
    if cost > amount then
      return NEVER, 0
    end
    local start, used = open(m, state, now)
    if used + cost <= amount then
      return ALLOW, 0
    end
    return AFTER, ending(m, max(start, now)) - now
  end

  local function spend(m, state, now, cost, id)
    local start, used = open(m, state, now)
    if not knows(m, now) then
      start = max(start, now)
    end
    if cost > 0 then
      state[1], state[2] = start, min(used + cost, SUM)
    end
    return start
  end

  local function give_back(m, state, now, mark, id, cost, back)
    local start, used = open(m, state, now)
    if used == 0 or start ~= mark then
      return false
    end
    used = max(0, used - back)
    if used == 0 then
      state[1], state[2] = nil, nil
    else
      state[1], state[2] = mark, used
    end
    return true
  end

  local function quota(m, state, now)
    local start, used = open(m, state, now)
    if used == 0 then
      return N[m], 0
    end
    return max(0, N[m] - used), ending(m, max(start, now)) - now
  end

  return {
    params = 6, least = 2, most = 2,
    heal = heal, judge = judge, spend = spend, give_back = give_back, quota = quota,
  }
end
