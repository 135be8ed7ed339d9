-- Deletions of many subjects that were submitted from one file and are approved as one (WF-8).

CREATE TABLE {{schema}}.deletion_batches (
  id               uuid PRIMARY KEY,
  workflow         text NOT NULL,
  workflow_version integer NOT NULL CHECK (workflow_version > 0),
  requested_by     text NOT NULL,
  reason_code      text,
  -- A keyed hash of the subjects and of how they were submitted: the same file finds the same batch again.
  submit_token     text NOT NULL,
  -- Open until every line was read. Only a closed batch can be approved.
  state            text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
  -- The last line whose request is written: where an interrupted submit goes on.
  last_position    integer NOT NULL DEFAULT 0 CHECK (last_position >= 0),
  -- Requests that wait for approval when the batch is closed, and those that were refused.
  members          integer NOT NULL DEFAULT 0 CHECK (members >= 0),
  refused          integer NOT NULL DEFAULT 0 CHECK (refused >= 0),
  -- Lines that made no request: their subjects have a live one already.
  left_out         integer NOT NULL DEFAULT 0 CHECK (left_out >= 0),
  -- What the inventories of all members count.
  copies           bigint NOT NULL DEFAULT 0 CHECK (copies >= 0),
  digest           text CHECK (digest ~ '^[0-9a-f]{64}$'),
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  closed_at        timestamptz,
  CHECK ((state = 'closed') = (digest IS NOT NULL)),
  CHECK ((state = 'closed') = (closed_at IS NOT NULL))
);
CREATE UNIQUE INDEX one_batch_per_submit ON {{schema}}.deletion_batches (workflow, submit_token);
CREATE INDEX batches_by_age ON {{schema}}.deletion_batches (created_at DESC, id DESC);

-- Positions only: whom a line was about is known to the request that it met.
CREATE TABLE {{schema}}.deletion_batch_omissions (
  batch_id   uuid NOT NULL REFERENCES {{schema}}.deletion_batches (id) ON DELETE RESTRICT,
  position   integer NOT NULL CHECK (position > 0),
  -- The live request of the same subject.
  request_id uuid NOT NULL,
  PRIMARY KEY (batch_id, position)
);

ALTER TABLE {{schema}}.entity_deletion_requests
  ADD COLUMN batch_id       uuid REFERENCES {{schema}}.deletion_batches (id) ON DELETE RESTRICT,
  ADD COLUMN batch_position integer CHECK (batch_position > 0),
  ADD CHECK ((batch_id IS NULL) = (batch_position IS NULL));
CREATE UNIQUE INDEX members_of_batch
  ON {{schema}}.entity_deletion_requests (batch_id, batch_position) WHERE batch_id IS NOT NULL;
