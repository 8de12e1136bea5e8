#!lua flags=allow-oom
-- Note that the queue's name is in the registry, so that senders need not see to it. Not if the
-- queue was dropped meanwhile: then its name may have been taken out again.
-- KEYS  see layout.lua
-- ARGV  none
if call('EXISTS', HEAD) == 0 then return 0 end
return call('HSET', HEAD, 'listed', '1')
