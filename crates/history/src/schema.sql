-- A Kinescope history. Like a film it has frames and keyframes.
--
-- A change arrives as a row of `change`. When enough of one stream (one kind of one source) have gathered, they are
-- packed into a `frame`, listed by a row of `block`, and leave `change`. Now and then a `keyframe` holds the whole
-- state of a stream, so that any moment costs its cluster and not its history.
-- Times are nanoseconds since 1970. The views `objects`, `lives`, `blocks` and `gaps` are for people.
--
-- This is the first version of the file (`user_version`); `schema_2.sql` and those after it are run behind it, each of
-- which takes a file to the next. A file of an earlier version is read as it is, and taken to the newest one when it is
-- opened for writing.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- What has no checksum is told twice: a check of the file compares each table with its indexes.
CREATE INDEX setting_again ON setting (value);

CREATE TABLE source (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    first_at INTEGER,                   -- the first moment that can be shown; later than the first change if pruned
    last_at  INTEGER,                   -- the last effective moment given out
    inferred INTEGER NOT NULL DEFAULT 0 -- 1: the input had no times of its own
) STRICT;
CREATE INDEX source_again ON source (name, first_at, last_at, inferred);

CREATE TABLE stream (
    id        INTEGER PRIMARY KEY,
    source    INTEGER NOT NULL REFERENCES source,
    api_group TEXT NOT NULL,
    kind      TEXT NOT NULL,
    UNIQUE (source, api_group, kind)
) STRICT;

CREATE TABLE namespace (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- A name, and the last life under it. Events have no rows here: they would outweigh all the rest.
CREATE TABLE object (
    id        INTEGER PRIMARY KEY,
    stream    INTEGER NOT NULL,
    namespace INTEGER NOT NULL,
    name      TEXT NOT NULL,
    hash      INTEGER NOT NULL,         -- 32 bits of stream, namespace and name: a small index finds a name by it
    uid       ANY,                      -- 16 bytes if it is a UUID, else its text
    first_at  INTEGER NOT NULL,
    ended_at  INTEGER,                  -- NULL while it lives
    ended     INTEGER                   -- 1: deleted; 2: another uid was seen under the name without a delete
) STRICT;
CREATE INDEX object_hash ON object (hash);

-- Lives before the last one under a name.
CREATE TABLE former_life (
    object   INTEGER NOT NULL,
    uid      ANY,
    first_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    ended    INTEGER NOT NULL
) STRICT;
CREATE INDEX former_life_object ON former_life (object);

CREATE TABLE change (
    seq        INTEGER PRIMARY KEY,
    stream     INTEGER NOT NULL,
    object     INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    seen       INTEGER NOT NULL,
    what       INTEGER NOT NULL,        -- 0 added, 1 modified, 2 deleted; + 4: inferred
    hash       INTEGER NOT NULL,        -- xxh3 of source, kind, all of this row, and the object's bytes
    dictionary INTEGER,
    length     INTEGER NOT NULL,
    bytes      BLOB NOT NULL            -- zstd, with the dictionary
) STRICT;
CREATE INDEX change_stream ON change (stream);

CREATE TABLE dictionary (
    id     INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    hash   INTEGER NOT NULL,            -- xxh3 of the bytes
    ratio  REAL NOT NULL,               -- what it achieved on the rows it was made from
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE frame (
    id    INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE block (
    stream    INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    first_at  INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    changes   INTEGER NOT NULL,
    raw       INTEGER NOT NULL,         -- bytes of the objects
    packed    INTEGER NOT NULL,         -- bytes of the frame
    frame     INTEGER NOT NULL,
    members   BLOB NOT NULL,            -- which objects, and how each is left
    PRIMARY KEY (stream, first_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX block_at ON block (stream, first_at);

CREATE TABLE keyframe (
    stream  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,           -- the state after this change
    part    INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    objects INTEGER NOT NULL,
    packed  INTEGER NOT NULL,
    frame   INTEGER NOT NULL,
    members BLOB NOT NULL,
    PRIMARY KEY (stream, seq, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX keyframe_at ON keyframe (stream, at, seq);

CREATE TABLE gap (
    id      INTEGER PRIMARY KEY,
    source  INTEGER NOT NULL REFERENCES source,
    kinds   TEXT NOT NULL,              -- JSON: [["apps","Deployment"], …]; [] is all
    from_at INTEGER NOT NULL,
    to_at   INTEGER NOT NULL,
    why     TEXT NOT NULL,
    hash    INTEGER NOT NULL            -- xxh3 of the source's name and the rest
) STRICT;

-- Where watching goes on after a restart; written in the transaction of the changes before it.
CREATE TABLE position (
    source           INTEGER NOT NULL REFERENCES source,
    api_group        TEXT NOT NULL,
    kind             TEXT NOT NULL,
    resource_version TEXT NOT NULL,
    at               INTEGER NOT NULL,
    PRIMARY KEY (source, api_group, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX position_again ON position (resource_version, at);

CREATE VIEW lives AS
    WITH life AS (
        SELECT id AS object, uid, first_at, ended_at, ended FROM object
        UNION ALL
        SELECT object, uid, first_at, ended_at, ended FROM former_life
    )
    SELECT source.name AS source,
           stream.api_group,
           stream.kind,
           namespace.name AS namespace,
           object.name,
           CASE WHEN typeof(life.uid) = 'blob' THEN
               lower(substr(hex(life.uid), 1, 8) || '-' || substr(hex(life.uid), 9, 4) || '-' || substr(hex(life.uid), 13, 4)
                   || '-' || substr(hex(life.uid), 17, 4) || '-' || substr(hex(life.uid), 21))
           ELSE life.uid END AS uid,
           strftime('%Y-%m-%dT%H:%M:%SZ', life.first_at / 1000000000, 'unixepoch') AS first_seen,
           strftime('%Y-%m-%dT%H:%M:%SZ', coalesce(life.ended_at, source.last_at) / 1000000000, 'unixepoch') AS last_seen,
           CASE life.ended WHEN 1 THEN 'deleted' WHEN 2 THEN 'replaced' ELSE 'alive' END AS state
    FROM life
    JOIN object ON object.id = life.object
    JOIN stream ON stream.id = object.stream
    JOIN source ON source.id = stream.source
    JOIN namespace ON namespace.id = object.namespace;

CREATE VIEW objects AS SELECT * FROM lives WHERE state = 'alive';

CREATE VIEW blocks AS
    SELECT source.name AS source,
           stream.api_group,
           stream.kind,
           block.first_seq,
           block.last_seq,
           strftime('%Y-%m-%dT%H:%M:%SZ', block.first_at / 1000000000, 'unixepoch') AS first_at,
           strftime('%Y-%m-%dT%H:%M:%SZ', block.last_at / 1000000000, 'unixepoch') AS last_at,
           block.changes,
           block.raw,
           block.packed,
           round(1.0 * block.packed / block.changes, 1) AS bytes_a_change
    FROM block
    JOIN stream ON stream.id = block.stream
    JOIN source ON source.id = stream.source;

CREATE VIEW gaps AS
    SELECT source.name AS source,
           gap.kinds,
           strftime('%Y-%m-%dT%H:%M:%SZ', gap.from_at / 1000000000, 'unixepoch') AS from_at,
           strftime('%Y-%m-%dT%H:%M:%SZ', gap.to_at / 1000000000, 'unixepoch') AS to_at,
           gap.why
    FROM gap
    JOIN source ON source.id = gap.source;
