#!lua flags=allow-oom
-- Delete the queue with all it holds. Tokens go on growing: they are drawn from the clock.
-- KEYS  see layout.lua
-- ARGV  none
guard_all()
guard('HLEN', WORKERS)
return call('UNLINK', unpack(KEYS))
