-- The tables. One row of `message` is all there is to know about a live message; whether it waits,
-- is delayed or is leased follows from its times, so nothing has to notice when one of them passes.

-- Numbers of messages, in the order of their arrival, and tokens of leases: they only grow. A batch that is
-- sent takes one number from the sequence, and counts on from it: see deliver.sql.
create sequence number increment by 1000;
create sequence token;

-- A priority: others are never leased. Not a check of the tables, which every statement that writes a row would
-- read and plan anew: docs/adr/0039.
create domain level as smallint check (value between -9 and 9);

-- A lease that has ended, and not by deleting its message.
create type episode as (
    token bigint, holder text, leased_at timestamptz, ended_at timestamptz,
    reason text, summary text,
    due timestamptz,                              -- when the message was to be ready again, if ever
    remark bytea                                  -- what was noticed while it lasted
);

create table message (
    incarnation  bigint      not null,            -- the number it was created with
    number       bigint      not null,            -- its place among those due at the same time
    token        bigint,                          -- of the lease it is held by, or was last
    sent_at      timestamptz not null,
    due          timestamptz not null,
    leased_until timestamptz,
    leased_at    timestamptz,                     -- when the lease began; null if there is no token
    deliveries   integer     not null default 0,
    errors       integer     not null default 0,
    timeouts     integer     not null default 0,
    stalls       integer     not null default 0,
    releases     integer     not null default 0,
    unknowns     integer     not null default 0,
    priority     level       not null,
    leased       boolean     not null default false, -- is listed among the leases, not in the line
    parked       boolean     not null default false, -- was passed over: waits for its key, not in the line
    awaits       integer,                         -- reports that make it due; null if none do
    heard        integer,                         -- reports that have come since, if it awaits any
    queue        text collate "C" not null,
    id           text collate "C" not null,
    holder       text,                            -- who holds it, or held it last
    reason       text,                            -- the last note: why,
    detail       bytea,                           -- and more about it (bytea: any text, even NUL)
    headers      bytea,                           -- JSON; null if there are none
    body         bytea       not null,
    key          text collate "C",                -- of those with one key only so many are held at once
    reports_to   text collate "C",                -- the id of the message that is told how this one ends
    progress     bytea,                           -- what its handler last said
    remark       bytea,                           -- what was noticed since the lease began
    history      episode[],                       -- its former leases, the last ones: see remember.sql
    primary key (queue, id) with (fillfactor = 50) -- room for the entry that a lease adds: else each splits pages
) with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000
);
alter table message alter body set storage external; -- a large one leaves the row, uncompressed

-- The line: what waits, in the order it will be leased. What is not yet due stands behind what is.
create index message_line on message (queue, (-priority), due, number) where not leased and not parked;
-- The leases, by when they run out.
create index message_leases on message (queue, leased_until) where leased;
-- Those with a key: who holds it (0), and who waits for it (1), in the line or parked, each in the order in
-- which they get it. One index, because every message has to be asked whether it belongs there.
create index message_keys on message (queue, key, ((token is null)::integer), parked, (-priority), due, number)
  where key is not null;

-- What was sent to an id that is leased: it waits for the end of the lease, to be merged or to follow.
create table successor (
    number   bigint      not null,
    sent_at  timestamptz not null,
    due      timestamptz not null,
    priority level       not null,
    payload  boolean     not null,                -- may it change the body,
    run_at   text        not null,                -- the time (always, never, if_later, if_earlier),
    policy   boolean     not null,                -- headers, priority and key,
    resets   boolean     not null,                -- the counters
    queue    text collate "C" not null,
    id       text collate "C" not null,
    headers  bytea,
    body     bytea       not null,
    key      text collate "C",
    awaits   integer,
    reports_to text collate "C",
    primary key (queue, id)
);

create table archive (
    incarnation bigint      not null,
    archived_at timestamptz not null,
    sent_at     timestamptz not null,
    due         timestamptz not null,
    deliveries  integer     not null,
    errors      integer     not null,
    timeouts    integer     not null,
    stalls      integer     not null,
    releases    integer     not null,
    unknowns    integer     not null,
    priority    smallint    not null,
    queue       text collate "C" not null,
    id          text collate "C" not null,
    holder      text,
    reason      text,
    detail      bytea,
    headers     bytea,
    body        bytea       not null,
    key         text collate "C",
    awaits      integer,
    reports_to  text collate "C",
    progress    bytea,
    history     episode[],
    primary key (queue, id, incarnation)
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0
);
alter table archive alter body set storage external;
create index archive_by_age on archive (queue, archived_at, incarnation);

-- How many are archived, by reason: the sum of these. Every statement that changes the archive adds
-- its difference, so that nobody waits for anybody and nobody ever counts ten million rows.
create table tally (
    queue  text collate "C" not null,
    reason text not null,
    count  bigint not null
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500
);
create index tally_by_queue on tally (queue);

-- How many messages have come into being: the sum of these. Every statement that creates some adds a
-- row, for the same reason. They are folded often, so there is no index: a send should not pay for it.
create table created (
    queue text collate "C" not null,
    count bigint not null
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000
);

-- Keys to be looked at again, from a time on: one who lets go of a key adds a row (`at` is the epoch),
-- and so does one who passes a message over because of a rate. `lease` sees to them and removes them.
-- Nothing is ever changed here, so nobody waits for anybody.
create table wake (
    at    timestamptz not null,
    rated boolean     not null,                   -- because of a rate
    queue text collate "C" not null,
    key   text collate "C" not null
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
create index wake_by_time on wake (queue, at);
create index wake_by_key on wake (queue, key) where rated;

-- Deliveries of late, where a rate asks for it: of the whole queue (the key is empty), and of each key.
-- Those of a thousandth of the time that a rate is about are counted as one, at the last one's time.
create table delivery (
    since timestamptz not null,
    at    timestamptz not null,
    count bigint      not null,
    queue text collate "C" not null,
    key   text collate "C" not null
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000
);
create index delivery_by_key on delivery (queue, key, at);
create index delivery_by_time on delivery (queue, at);

-- What has been reported to a message: how others have ended, and what came of them.
create table report (
    queue  text collate "C" not null,
    parent text collate "C" not null,             -- the id of the message that is told
    id     text collate "C" not null,
    reason text             not null,
    detail bytea            not null,
    body   bytea            not null,
    primary key (queue, parent, id)
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0
);

-- How messages have ended, for those who ask, until it expires.
create table result (
    expires timestamptz     not null,
    queue   text collate "C" not null,
    id      text collate "C" not null,
    reason  text            not null,
    detail  bytea           not null,
    body    bytea           not null,
    primary key (queue, id)
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0
);
create index result_by_time on result (expires);

create table paused (
    queue text collate "C" primary key,
    since timestamptz not null default clock_timestamp()
);

-- Who waits for messages, and on which channel it hears. A hint: unlogged, and gone after a crash.
create unlogged table idle (
    queue   text collate "C" not null,
    channel text not null,
    until   timestamptz not null,
    primary key (queue, channel)
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

-- Who has said that it works on a queue, and what it says of itself. Nothing but `workers` reads this, so
-- it is unlogged: after a crash they say so again.
create unlogged table worker (
    queue text collate "C" not null,
    name  text collate "C" not null,
    since timestamptz not null,
    until timestamptz not null,
    about bytea not null,
    primary key (queue, name)
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

-- A message as an operator sees it: what `get` and `scan` return.
create type stored as (
    id text, incarnation bigint, state text, body bytea, headers bytea, priority smallint,
    deliveries integer, errors integer, timeouts integer, stalls integer, releases integer,
    unknowns integer, sent_at double precision, due_at double precision, holder text,
    leased_until double precision, reason text, detail bytea, archived_at double precision,
    key text, awaits integer, reports_to text, progress bytea, leased_at double precision, remark bytea,
    history jsonb, parked boolean, number bigint, token bigint
);

-- The end of a message, as it is reported and kept.
create type ending as (id text, reports_to text, reason text, detail bytea, body bytea, keep double precision);
