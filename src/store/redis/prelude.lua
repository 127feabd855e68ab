#!lua flags=allow-oom
-- sluice: judges the waiting requests of one gateway worker at one instant, and spends all or none of each.
--
-- KEYS     the distinct keys of the call
-- ARGV[1]  operations, as numbers below 2^53 packed in 8 bytes each (see driver.lua)
-- ARGV[2]  the time in us, for tests; left out, this server's clock
--
-- Numbers are whole and below 2^53 and never become text but by format('%.0f'): `..` and tostring keep 14 digits.
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local format, rep = string.format, string.rep
local call = redis.call

-- Verdicts.
local ALLOW, DELAY, AFTER, UNKNOWN, NEVER = 0, 1, 2, 3, 4
-- The largest sum that an algorithm holds.
local SUM = 2 ^ 52

-- The numbers of the call. A meter is the place of its first parameter in them.
local N = {}
-- What makes each algorithm, by code: a call makes those that it needs. Of a state in one string, `least` to `most`
-- numbers are valid; others `load` and `write` it.
local M = {}

