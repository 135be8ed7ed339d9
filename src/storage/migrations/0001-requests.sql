-- The record: requests, their inventories, approvals and stages, and what operators ordered.
-- {{schema}} is replaced by the quoted name of the schema.

CREATE TABLE {{schema}}.entity_deletion_requests (
  id                 uuid PRIMARY KEY,
  workflow           text NOT NULL,
  workflow_version   integer NOT NULL CHECK (workflow_version > 0),
  -- The handle of a training request (demo:NAME); null for erasures.
  target             text,
  -- The keyed pseudonym of subject.key; null for training requests, swapped for a one-way token or null at the end.
  subject_reference  text,
  -- The current revision; null only until a worker has counted.
  inventory_digest   text CHECK (inventory_digest ~ '^[0-9a-f]{64}$'),
  status             text NOT NULL CHECK (status IN (
                       'submitted', 'approved', 'running', 'waiting', 'retry_wait',
                       'awaiting_approval', 'held', 'blocked', 'completed', 'cancelled')),
  requested_by       text NOT NULL,
  reason_code        text,
  idempotency_key    text,
  approvals_required integer NOT NULL DEFAULT 1 CHECK (approvals_required BETWEEN 1 AND 10),
  created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  due_at             timestamptz,
  lease_owner        text,
  lease_generation   bigint NOT NULL DEFAULT 0,
  lease_expires_at   timestamptz,
  heartbeat_at       timestamptz,
  retry_count        integer NOT NULL DEFAULT 0,
  next_attempt_at    timestamptz,
  last_error         text,
  blocked_at         timestamptz,
  blocked_reason     text,
  completed_at       timestamptz,
  -- The strongest order that stands (its row is in deletion_orders). It is repeated here because a lock on this row
  -- always reads the newest version of it, which a statement's snapshot of another table is not.
  standing_order     text CHECK (standing_order IN ('hold', 'cancel')),
  -- What a held request goes back to.
  held_status        text,
  CHECK ((status = 'held') = (held_status IS NOT NULL)),
  CHECK ((lease_owner IS NULL) = (lease_expires_at IS NULL))
)
-- Claims, transitions and heartbeats touch no indexed column: with room on its page, a row's new version needs no index.
WITH (fillfactor = 60);

-- One live request per training target, and per subject (OP-2).
CREATE UNIQUE INDEX one_live_request_per_target
  ON {{schema}}.entity_deletion_requests (workflow, target)
  WHERE target IS NOT NULL AND status NOT IN ('completed', 'cancelled');
CREATE UNIQUE INDEX one_live_request_per_subject
  ON {{schema}}.entity_deletion_requests (workflow, subject_reference)
  WHERE subject_reference IS NOT NULL AND status NOT IN ('completed', 'cancelled');
CREATE UNIQUE INDEX one_request_per_idempotency_key
  ON {{schema}}.entity_deletion_requests (workflow, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
-- What a worker claims, in the order in which it claims; finished requests left out.
CREATE INDEX claimable_requests
  ON {{schema}}.entity_deletion_requests ((coalesce(next_attempt_at, created_at)), id)
  WHERE status IN ('approved', 'running', 'waiting', 'retry_wait');
CREATE INDEX requests_by_age
  ON {{schema}}.entity_deletion_requests (created_at DESC, id DESC);

CREATE TABLE {{schema}}.entity_deletion_inventories (
  request_id       uuid NOT NULL REFERENCES {{schema}}.entity_deletion_requests (id) ON DELETE RESTRICT,
  revision         integer NOT NULL CHECK (revision > 0),
  inventory        jsonb NOT NULL,
  inventory_digest text NOT NULL CHECK (inventory_digest ~ '^[0-9a-f]{64}$'),
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (request_id, revision),
  UNIQUE (request_id, inventory_digest)
);

CREATE TABLE {{schema}}.entity_deletion_approvals (
  id               uuid PRIMARY KEY,
  request_id       uuid NOT NULL,
  inventory_digest text NOT NULL,
  approved_by      text NOT NULL CHECK (btrim(approved_by) <> ''),
  approved_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  FOREIGN KEY (request_id, inventory_digest)
    REFERENCES {{schema}}.entity_deletion_inventories (request_id, inventory_digest) ON DELETE RESTRICT
);
-- The same person in other letters is the same person.
CREATE UNIQUE INDEX one_approval_per_person
  ON {{schema}}.entity_deletion_approvals (request_id, inventory_digest, lower(btrim(approved_by)));

CREATE TABLE {{schema}}.entity_deletion_stage_history (
  id                  uuid PRIMARY KEY,
  request_id          uuid NOT NULL REFERENCES {{schema}}.entity_deletion_requests (id) ON DELETE RESTRICT,
  stage               text NOT NULL,
  target_community_id text,
  status              text NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed')),
  is_current          boolean NOT NULL,
  started_at          timestamptz,
  finished_at         timestamptz,
  attempts            integer NOT NULL DEFAULT 0,
  -- inputs, intent, cursor, result, transition, previous_stage_id
  metadata_json       jsonb NOT NULL,
  last_error          text
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX one_current_stage_per_request
  ON {{schema}}.entity_deletion_stage_history (request_id) WHERE is_current;
CREATE INDEX stages_of_request ON {{schema}}.entity_deletion_stage_history (request_id);

-- Apart from the requests, so that hot rows stay small and destruction is one delete.
CREATE TABLE {{schema}}.deletion_sealed_identifiers (
  request_id uuid NOT NULL REFERENCES {{schema}}.entity_deletion_requests (id) ON DELETE RESTRICT,
  part       text NOT NULL,
  key_id     text NOT NULL,
  sealed     text NOT NULL,
  PRIMARY KEY (request_id, part)
);

CREATE TABLE {{schema}}.deletion_orders (
  id            uuid PRIMARY KEY,
  request_id    uuid NOT NULL REFERENCES {{schema}}.entity_deletion_requests (id) ON DELETE RESTRICT,
  kind          text NOT NULL CHECK (kind IN ('hold', 'cancel', 'unblock')),
  ordered_by    text NOT NULL,
  -- Erased when the request ends.
  reason        text,
  ordered_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  until         timestamptz,
  ended_at      timestamptz
);
CREATE UNIQUE INDEX one_standing_order_per_kind
  ON {{schema}}.deletion_orders (request_id, kind) WHERE ended_at IS NULL;
CREATE INDEX holds_by_end ON {{schema}}.deletion_orders (until) WHERE kind = 'hold' AND ended_at IS NULL;
CREATE INDEX orders_of_request ON {{schema}}.deletion_orders (request_id);

CREATE TABLE {{schema}}.deletion_receipts (
  id            uuid PRIMARY KEY,
  request_id    uuid NOT NULL REFERENCES {{schema}}.entity_deletion_requests (id) ON DELETE RESTRICT,
  sequence      integer NOT NULL CHECK (sequence > 0),
  -- The target that it speaks of; null for the final receipt.
  target        text,
  receipt       text NOT NULL,
  receipt_hash  text NOT NULL CHECK (receipt_hash ~ '^[0-9a-f]{64}$'),
  previous_hash text CHECK (previous_hash ~ '^[0-9a-f]{64}$'),
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (request_id, sequence)
);

CREATE TABLE {{schema}}.deletion_events (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  request_id uuid,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  event      text NOT NULL,
  actor      text,
  -- Codes, names and numbers only.
  detail     jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX events_of_request ON {{schema}}.deletion_events (request_id, id);

CREATE FUNCTION {{schema}}.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {{schema}}.entity_deletion_inventories
  FOR EACH ROW EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON {{schema}}.entity_deletion_inventories
  FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {{schema}}.entity_deletion_approvals
  FOR EACH ROW EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON {{schema}}.entity_deletion_approvals
  FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {{schema}}.deletion_receipts
  FOR EACH ROW EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON {{schema}}.deletion_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {{schema}}.deletion_events
  FOR EACH ROW EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON {{schema}}.deletion_events
  FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.refuse_change();
