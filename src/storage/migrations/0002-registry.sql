-- Who is gone: one row per subject reference (registry.md, REG). The primary key is the only way in: one point read.
CREATE TABLE {{schema}}.deletion_tombstones (
  reference          text PRIMARY KEY,
  state              text NOT NULL CHECK (state IN ('in_progress', 'erased', 'complete', 'live')),
  -- The incarnation that this row speaks of. Only grows (REG-10).
  generation         bigint NOT NULL,
  -- The newest deleted incarnation: references at or below it are deleted, whatever the state.
  deleted_generation bigint NOT NULL,
  -- What the row was before the mark, so that a cancel can put it back.
  previous_state     text NOT NULL DEFAULT 'live' CHECK (previous_state IN ('in_progress', 'erased', 'complete', 'live')),
  previous_expires_at timestamptz,
  previous_deleted_generation bigint NOT NULL DEFAULT 0,
  deleted_at         timestamptz,
  -- Null until the deletion is complete (REG-6).
  expires_at         timestamptz,
  -- Until the seal only: which request is at work.
  request_id         uuid,
  -- Random; joins the rows that one deletion wrote.
  group_id           uuid NOT NULL
);
CREATE INDEX expiring_tombstones ON {{schema}}.deletion_tombstones (expires_at) WHERE expires_at IS NOT NULL;
