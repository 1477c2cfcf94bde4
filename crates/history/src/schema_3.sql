-- Version 3: which blocks hold versions of an object, so that one object is found without reading the lists
-- of all others. The index consists of segments, one for up to 128 adjacent blocks of a stream. A row is a
-- leaf of a segment; the leaves of a segment follow each other by object, and the first leaf's `object` is
-- the smallest 64-bit integer.
--
-- The index may be incomplete: where no segment is, the lists in `block` are read, as in files of earlier versions. So
-- this table is empty at first. Writers add what is missing.
CREATE TABLE object_index (
    stream   INTEGER NOT NULL,
    seq      INTEGER NOT NULL,          -- the first change of the segment's first block
    object   INTEGER NOT NULL,          -- the first object id of the leaf; for Events, its upper 32 bits
    last_seq INTEGER NOT NULL,          -- the last change of the segment's last block
    entries  BLOB NOT NULL,             -- the blocks of each object, and where the next leaf begins
    PRIMARY KEY (stream, seq, object)
) STRICT, WITHOUT ROWID;
