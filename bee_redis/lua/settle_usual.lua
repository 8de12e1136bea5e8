-- The usual settle: all of them are plain, nothing waits for any of them, and their leases have not run out. It
-- stands in front of lib.lua, as lease_usual.lua does. Returns what settle.lua does, or nothing: then what is
-- left to do is for settle.lua.
local function settle_usual(plain, tokens)
  if plain == 0 or #ARGV > 2 + plain or call('HLEN', NEXT) > 0 then return end
  local metas, sub, byte = call('HMGET', META, unpack(ARGV, 3)), string.sub, string.byte
  local lost, held = {}, {}
  for i = 1, plain do -- 1. check
    local meta = metas[i]
    if not meta or #meta < META_LEAST or sub(meta, 1, 8) ~= sub(tokens, 8 * i - 7, 8 * i) then
      lost[#lost + 1] = i - 1
    elseif byte(meta, META_SIZE) > 0 then
      return
    else
      held[#held + 1] = ARGV[i + 2]
    end
  end
  if #held == 0 then return lost end
  guard('ZCARD', READY, DELAYED, LISTS)
  guard('HLEN', MSG, HEAD)
  guard('LLEN', BELL)
  -- Fewer, if some had run out, or are named twice: settle.lua finds all as it was, but for these places.
  if call('ZREM', LEASED, unpack(held)) < #held then return end
  call('HDEL', MSG, unpack(held)) -- 3. dispose
  call('HDEL', META, unpack(held))
  return lost
end

local usual = settle_usual(tonumber(ARGV[1]), ARGV[2])
if usual then return usual end
