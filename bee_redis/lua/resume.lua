#!lua flags=allow-oom
-- End a pause, and wake those who wait.
-- KEYS  see lib.lua
-- ARGV  none
ring(BELLS)
return call('HDEL', HEAD, 'paused')
