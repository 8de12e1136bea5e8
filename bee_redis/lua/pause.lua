#!lua flags=allow-oom
-- From now on nothing is leased.
-- KEYS  see lib.lua
-- ARGV  none
return call('HSET', HEAD, 'paused', '1')
