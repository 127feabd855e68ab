-- Fixed window; the twin of fixed_window.rs.
-- Parameters: amount, window (us). State: start, used.
M[1] = function()
  -- Start and use of the window that holds now; a new one where none does.
  local function open(m, state, now)
    local start, used = state[1], state[2]
    if start and used > 0 and now < start + N[m + 1] then
      return start, used
    end
    return now, 0
  end

  local function heal(m, state, now)
    local start = state[1]
    if not start or start <= now + N[m + 1] then
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
    return AFTER, start + N[m + 1] - now
  end

  local function spend(m, state, now, cost, id)
    local start, used = open(m, state, now)
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
    -- An emptied window is no window: the next charge opens its own.
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
    return max(0, N[m] - used), start + N[m + 1] - now
  end

  return {
    params = 2, least = 2, most = 2,
    heal = heal, judge = judge, spend = spend, give_back = give_back, quota = quota,
  }
end
