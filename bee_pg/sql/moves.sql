-- Whether something due at `old` is to be due at `new` instead.
create or replace function moves(run_at text, old timestamptz, new timestamptz) returns boolean
language sql immutable as $$
  select case run_at
    when 'always' then true
    when 'never' then false
    when 'if_later' then new > old
    when 'if_earlier' then new < old
  end;
$$;
