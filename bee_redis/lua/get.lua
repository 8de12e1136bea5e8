#!lua flags=allow-oom
-- One message: the live one of an id, or else the one archived last.
-- KEYS  see layout.lua
-- ARGV  id
-- Returns state, end of lease (''), meta, msg, archived_at ('') - or nothing.
local m = fetch(ARGV[1])
if m then return describe(m) end
local kept = get_kept(ARGV[1])
return kept and describe_kept(kept) or {}
