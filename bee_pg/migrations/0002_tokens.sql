-- What operators see tells the token, too: a message its own, `stats` the greatest that was given.
alter type stored add attribute token bigint;
drop function if exists stats(text); -- it returns more
