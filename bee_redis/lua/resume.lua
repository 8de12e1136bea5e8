#!lua flags=allow-oom
-- End a pause, and wake those who wait.
-- KEYS  see layout.lua
-- ARGV  none
guard('HLEN', HEAD)
ring(BELLS)
return call('HDEL', HEAD, 'paused')
