-- The rest of a meta record, behind the note: when the lease began, how far the message is, what was
-- noticed about it, and its history. It is put behind lib.lua, in front of the scripts that change it; it
-- does nothing by itself. A message that was leased once and deleted never has any, so the functions
-- are only made when they are asked for.
local function history()
  local REST = '>dI2I2I1'           -- when leased (0: as the token says), lengths of progress and remark,
  local REST_SIZE = 13              -- number of episodes; then progress, remark, episodes
  local EPISODE = '>I8dddI1I2I2I2'  -- token, when leased, when ended, due (0: never), lengths of reason,
  local EPISODE_SIZE = 39           -- holder, summary, remark; then those
  local MOST = 10                   -- as many episodes are kept, the last ones

  local function read(rest)
    if #rest < REST_SIZE then return {leased_at = 0, progress = '', remark = '', count = 0, episodes = ''} end
    local leased_at, progress, remark, count, at = struct.unpack(REST, rest)
    return {leased_at = leased_at, count = count, progress = string.sub(rest, at, at + progress - 1),
            remark = string.sub(rest, at + progress, at + progress + remark - 1),
            episodes = string.sub(rest, at + progress + remark)}
  end

  local function pack(r)
    if r.leased_at == 0 and r.progress == '' and r.remark == '' and r.count == 0 then return '' end
    return struct.pack(REST, r.leased_at, #r.progress, #r.remark, r.count) .. r.progress .. r.remark .. r.episodes
  end

  -- A lease ends, and its message does not, or is archived: that is an episode of its history.
  local function add(m, reason, summary, due)
    local r = read(m.rest)
    if r.count < MOST then
      r.count = r.count + 1
    elseif #r.episodes >= EPISODE_SIZE then
      local _, _, _, _, a, b, c, d, at = struct.unpack(EPISODE, r.episodes)
      r.episodes = string.sub(r.episodes, at + a + b + c + d)
    end
    local leased_at = r.leased_at == 0 and m.token or r.leased_at
    r.episodes = r.episodes
      .. struct.pack(EPISODE, m.token, leased_at, NOW, due, #reason, #m.holder, #summary, #r.remark)
      .. reason .. m.holder .. summary .. r.remark
    r.leased_at, r.remark = 0, ''
    m.rest = pack(r)
  end

  return {read = read, pack = pack, add = add}
end
