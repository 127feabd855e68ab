-- Sliding window; the twin of sliding_window.rs.
-- Parameters: amount, length of a sub-window (us). State: newest sub-window, then counts, newest first.
M[3] = function()
  local CUTS = 10

  -- The sub-window that counts as now, the newest charged one, how many counts still count, and their sum.
  local function view(m, state, now)
    local index = floor(now / N[m + 1])
    local newest = state[1]
    if not newest then
      return index, index, 0, 0
    end
    local current = max(index, newest)
    local live = min(#state - 1, max(0, CUTS + 1 - (current - newest)))
    local used = 0
    for i = 2, live + 1 do
      used = used + state[i]
    end
    return current, newest, live, used
  end

  -- Index and counts without zeros at either end; nothing where nothing is counted.
  local function trim(state)
    local last = #state
    while last > 1 and state[last] == 0 do
      state[last] = nil
      last = last - 1
    end
    while last > 1 and state[2] == 0 do
      table.remove(state, 2)
      last = last - 1
      state[1] = state[1] - 1
    end
    if last == 1 then
      state[1] = nil
    end
  end

  local function heal(m, state, now)
    local index = floor(now / N[m + 1])
    local newest = state[1]
    if newest and newest > index + CUTS then
      state[1] = index
      return true
    end
    return false
  end

  local function judge(m, state, now, cost)
    local amount = N[m]
    if cost == 0 then
      return ALLOW, 0
    end
    if cost > amount then
      return NEVER, 0
    end
    local _, newest, live, left = view(m, state, now)
    if left + cost <= amount then
      return ALLOW, 0
    end
    -- Let the oldest leave one by one, until the cost fits.
    local leaves = newest + CUTS + 1 - live
    for i = live + 1, 2, -1 do
      leaves = leaves + 1
      left = left - state[i]
      if left + cost <= amount then
        break
      end
    end
    return AFTER, leaves * N[m + 1] - now
  end

  local function spend(m, state, now, cost, id)
    local current, newest, live = view(m, state, now)
    if cost == 0 then
      return current
    end
    local shift = current - newest
    for i = #state, live + 2, -1 do
      state[i] = nil
    end
    if live == 0 then
      state[2] = 0
    elseif shift > 0 then
      for i = live + 1, 2, -1 do
        state[i + shift] = state[i]
      end
      for i = 2, shift + 1 do
        state[i] = 0
      end
    end
    state[1] = current
    state[2] = min(state[2] + cost, SUM)
    trim(state)
    return current
  end

  local function give_back(m, state, now, mark, id, cost, back)
    local _, newest, live = view(m, state, now)
    local place = newest - mark
    if place < 0 or place >= live then
      return false
    end
    for i = #state, live + 2, -1 do
      state[i] = nil
    end
    state[place + 2] = max(0, state[place + 2] - back)
    trim(state)
    return true
  end

  local function quota(m, state, now)
    local _, newest, _, used = view(m, state, now)
    if used == 0 then
      return N[m], 0
    end
    return max(0, N[m] - used), (newest + CUTS + 1) * N[m + 1] - now
  end

  return {
    params = 2, least = 2, most = CUTS + 2,
    heal = heal, judge = judge, spend = spend, give_back = give_back, quota = quota,
  }
end
