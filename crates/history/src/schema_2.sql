-- Version 2: how much each stream holds, so that telling it costs nothing. Each transaction that changes what is
-- counted writes the new counts with it, and a check of the file counts again. Where a stream has no row all are 0.
CREATE TABLE stream_count (
    stream          INTEGER PRIMARY KEY,
    changes         INTEGER NOT NULL,   -- sums over its rows of `block`
    raw             INTEGER NOT NULL,
    packed          INTEGER NOT NULL,
    keyframe_packed INTEGER NOT NULL,   -- the same over `keyframe`
    rows            INTEGER NOT NULL,   -- its rows of `change`
    row_raw         INTEGER NOT NULL,   -- bytes of their objects
    objects         INTEGER NOT NULL,   -- its rows of `object`
    alive           INTEGER NOT NULL    -- those of them that have not ended
) STRICT;

INSERT INTO stream_count
    SELECT id,
           coalesce(blocks.changes, 0),
           coalesce(blocks.raw, 0),
           coalesce(blocks.packed, 0),
           coalesce(keyframes.packed, 0),
           coalesce(waiting.rows, 0),
           coalesce(waiting.raw, 0),
           coalesce(names.objects, 0),
           coalesce(names.alive, 0)
    FROM stream
    LEFT JOIN (SELECT stream, sum(changes) AS changes, sum(raw) AS raw, sum(packed) AS packed FROM block GROUP BY stream)
        AS blocks ON blocks.stream = id
    LEFT JOIN (SELECT stream, sum(packed) AS packed FROM keyframe GROUP BY stream) AS keyframes ON keyframes.stream = id
    LEFT JOIN (SELECT stream, count(*) AS rows, sum(length) AS raw FROM change GROUP BY stream)
        AS waiting ON waiting.stream = id
    LEFT JOIN (SELECT stream, count(*) AS objects, count(*) - count(ended_at) AS alive FROM object GROUP BY stream)
        AS names ON names.stream = id;
