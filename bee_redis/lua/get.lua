#!lua flags=allow-oom
-- One message: the live one of an id, or else the one archived last.
-- KEYS  see lib.lua
-- ARGV  id
-- Returns state, end of lease (''), meta, msg, archived_at ('') - or nothing.
local m = fetch(ARGV[1])
if m then return describe(m) end
local kept = call('HGET', KEPT, ARGV[1])
if kept then return describe_kept(kept) end
return {}
