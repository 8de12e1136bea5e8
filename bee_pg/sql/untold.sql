-- A history from what `told` says of it.
create or replace function untold(history jsonb) returns episode[]
language sql stable as $$
  select array_agg(row(
    (e ->> 0)::bigint, e ->> 1, to_timestamp((e ->> 2)::double precision), to_timestamp((e ->> 3)::double precision),
    e ->> 4, e ->> 5, to_timestamp((e ->> 6)::double precision), decode(e ->> 7, 'hex')
  )::episode order by n)
  from jsonb_array_elements(history) with ordinality as h (e, n)
$$;
