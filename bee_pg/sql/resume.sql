-- End a pause and wake who waits.
create or replace function resume(queue text) returns void
language sql set search_path from current as $$
  delete from paused p where p.queue = resume.queue;
  select ring(resume.queue, 1000);
$$;
