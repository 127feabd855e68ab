-- Bucket; the twin of bucket.rs.
-- Parameters: tick (us), unit, step, drain, brim, capacity. State: debt, the tick since which it drains.
M[4] = function()
  -- Debt at now and the tick since which it drains.
  local function view(m, state, now)
    local ticks = floor(now / N[m])
    local debt, since = state[1], state[2]
    if not debt then
      return 0, ticks
    end
    local steps = floor(max(0, ticks - since) / N[m + 2])
    debt = max(0, min(debt, N[m + 5]) - steps * N[m + 3])
    if debt == 0 then
      return 0, ticks
    end
    return debt, since + steps * N[m + 2]
  end

  -- From now until debt, draining since tick `since`, has drained.
  local function until_drained(m, debt, since, now)
    return max(0, (since + ceil(debt / N[m + 3]) * N[m + 2]) * N[m] - now)
  end

  local function heal(m, state, now)
    local ticks = floor(now / N[m])
    local since = state[2]
    if not since or since <= ticks + N[m + 1] then
      return false
    end
    state[2] = ticks
    return true
  end

  local function judge(m, state, now, cost)
    local capacity = N[m + 5]
    cost = cost * N[m + 1]
    if cost == 0 then
      return ALLOW, 0
    end
    if cost > capacity then
      return NEVER, 0
    end
    local debt, since = view(m, state, now)
    debt = debt + cost
    if debt <= N[m + 4] then
      return ALLOW, 0
    end
    if debt <= capacity then
      since = min(since, floor(now / N[m]))
      return DELAY, until_drained(m, debt - N[m + 4], since, now)
    end
    return AFTER, until_drained(m, debt - capacity, since, now)
  end

  local function spend(m, state, now, cost, id)
    local debt, since = view(m, state, now)
    cost = cost * N[m + 1]
    if cost == 0 then
      return since
    end
    debt = debt + cost
    state[1], state[2] = min(debt, N[m + 5]), since
    -- What was cut at the brim cannot be told apart later: nothing of that charge is given back.
    if debt <= N[m + 5] then
      return since
    end
    return 0
  end

  local function give_back(m, state, now, mark, id, cost, back)
    local debt, since = view(m, state, now)
    if debt == 0 or mark == 0 or since < mark then
      return false
    end
    local drained = floor((since - mark) / N[m + 2]) * N[m + 3]
    -- What stays drains first.
    debt = max(0, debt - min(back * N[m + 1], max(0, cost * N[m + 1] - drained)))
    if debt == 0 then
      state[1], state[2] = nil, nil
    else
      state[1], state[2] = debt, since
    end
    return true
  end

  local function quota(m, state, now)
    local debt, since = view(m, state, now)
    local remaining = floor((N[m + 5] - debt) / N[m + 1])
    if debt == 0 then
      return remaining, 0
    end
    return remaining, until_drained(m, debt, since, now)
  end

  return {
    params = 6, least = 2, most = 2,
    heal = heal, judge = judge, spend = spend, give_back = give_back, quota = quota,
  }
end
