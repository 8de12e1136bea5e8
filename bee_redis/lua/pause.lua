#!lua flags=allow-oom
-- From now on nothing is leased.
-- KEYS  see layout.lua
-- ARGV  none
-- Returns 1 if somebody has said (list.lua) that the queue's name is in the registry.
call('HSET', HEAD, 'paused', '1')
return call('HEXISTS', HEAD, 'listed')
