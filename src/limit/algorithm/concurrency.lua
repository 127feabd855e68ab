-- Concurrency; the twin of concurrency.rs.
-- Parameters: amount, lease time (us). In Redis: the leases are entries of a sliding log over the lease time.
M[6] = function()
  local log = M[2]()

  local function judge(m, state, now, cost)
    if cost == 0 then
      return ALLOW, 0
    end
    if cost > N[m] then
      return NEVER, 0
    end
    if state.sum + cost <= N[m] then
      return ALLOW, 0
    end
    return UNKNOWN, 0
  end

  -- Renews a lease that is held.
  local function spend(m, state, now, cost, id)
    if cost > 0 then
      log.give_back(m, state, now, now, id, cost, cost)
    end
    return log.spend(m, state, now, cost, id)
  end

  return {
    params = 2, load = log.load, write = log.write,
    heal = log.heal, judge = judge, spend = spend, give_back = log.give_back, quota = log.quota,
  }
end
