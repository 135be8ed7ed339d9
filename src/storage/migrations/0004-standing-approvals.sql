-- Requests that are submitted without an inventory (WF-1), and approvals that stand for requests to come (WF-8).

-- What a worker has to count, in the order in which it claims.
CREATE INDEX uncounted_requests
  ON {{schema}}.entity_deletion_requests ((coalesce(next_attempt_at, created_at)), id)
  WHERE status = 'submitted' AND inventory_digest IS NULL;

-- What two people consent to before any request of it exists. Append-only: another policy is another row.
CREATE TABLE {{schema}}.deletion_standing_approvals (
  id               uuid PRIMARY KEY,
  workflow         text NOT NULL,
  workflow_version integer NOT NULL CHECK (workflow_version > 0),
  -- By target: {"plan_digest": …, "places": {place: action}}. An inventory has to have exactly these.
  plans            jsonb NOT NULL CHECK (jsonb_typeof(plans) = 'object' AND plans <> '{}'),
  -- Copies that one request may count, and how much one place may grow before its erase.
  rows_per_request bigint NOT NULL CHECK (rows_per_request >= 0),
  drift            bigint NOT NULL CHECK (drift >= 0),
  -- Requests that it approves in any 24 hours.
  requests_per_day integer NOT NULL CHECK (requests_per_day > 0),
  expires_at       timestamptz NOT NULL,
  proposed_by      text NOT NULL CHECK (btrim(proposed_by) <> ''),
  proposed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The role of the database's session, for the auditor.
  database_role    text NOT NULL DEFAULT session_user,
  CHECK (expires_at > proposed_at)
);

CREATE TABLE {{schema}}.deletion_standing_approval_decisions (
  id                   uuid PRIMARY KEY,
  standing_approval_id uuid NOT NULL REFERENCES {{schema}}.deletion_standing_approvals (id) ON DELETE RESTRICT,
  decision             text NOT NULL CHECK (decision IN ('approve', 'revoke')),
  decided_by           text NOT NULL CHECK (btrim(decided_by) <> ''),
  decided_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
  database_role        text NOT NULL DEFAULT session_user
);
CREATE UNIQUE INDEX one_decision_per_person
  ON {{schema}}.deletion_standing_approval_decisions (standing_approval_id, decision, lower(btrim(decided_by)));

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {{schema}}.deletion_standing_approvals
  FOR EACH ROW EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON {{schema}}.deletion_standing_approvals
  FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {{schema}}.deletion_standing_approval_decisions
  FOR EACH ROW EXECUTE FUNCTION {{schema}}.refuse_change();
CREATE TRIGGER append_only_whole BEFORE TRUNCATE ON {{schema}}.deletion_standing_approval_decisions
  FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.refuse_change();

ALTER TABLE {{schema}}.entity_deletion_approvals
  ADD COLUMN standing_approval_id uuid REFERENCES {{schema}}.deletion_standing_approvals (id) ON DELETE RESTRICT,
  -- No person passes for a policy. What was saved before is left as it is.
  ADD CONSTRAINT named_for_its_policy CHECK (
    starts_with(lower(btrim(approved_by)), 'standing-approval:') = (standing_approval_id IS NOT NULL)) NOT VALID;
CREATE INDEX approvals_by_policy
  ON {{schema}}.entity_deletion_approvals (standing_approval_id, approved_at) WHERE standing_approval_id IS NOT NULL;

-- Whoever may write approvals may write their own, and none in the name of a policy: that is the function's below, which runs
-- as the owner of the tables.
CREATE FUNCTION {{schema}}.refuse_policy_by_hand() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.standing_approval_id IS NOT NULL
     AND current_user <> (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
    RAISE EXCEPTION 'only apply_standing_approvals approves for a policy' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER policy_approves_alone BEFORE INSERT ON {{schema}}.entity_deletion_approvals
  FOR EACH ROW EXECUTE FUNCTION {{schema}}.refuse_policy_by_hand();

/*
 * Approves, of these requests, those that a standing approval covers, and returns them; the others stay as they are, and
 * await a person. A request is covered by its first inventory only: what was revised, or drifted, is for a person. Rows are
 * locked in the order of ids, requests before policies, and read again after that: a revocation that was first is seen, and
 * two workers do not each use up the same day. Quoted by a tag, since the name of the schema may hold two dollars.
 */
CREATE FUNCTION {{schema}}.apply_standing_approvals(request_ids uuid[])
  RETURNS TABLE (request_id uuid, standing_approval_id uuid)
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $expunge$
#variable_conflict use_column
BEGIN
  PERFORM 1 FROM {{schema}}.entity_deletion_requests r
    WHERE r.id = ANY (request_ids) AND r.status = 'submitted' ORDER BY r.id FOR UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  PERFORM 1 FROM {{schema}}.deletion_standing_approvals p
    WHERE p.expires_at > clock_timestamp() ORDER BY p.id FOR UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  RETURN QUERY
  WITH signed AS MATERIALIZED (
    SELECT p.*, d.signers, d.people,
           (SELECT count(DISTINCT a.request_id) FROM {{schema}}.entity_deletion_approvals a
             WHERE a.standing_approval_id = p.id AND a.approved_at > clock_timestamp() - interval '24 hours') AS used
      FROM {{schema}}.deletion_standing_approvals p
     CROSS JOIN LATERAL (
           SELECT count(DISTINCT lower(normalize(btrim(s.decided_by)))) AS signers,
                  array_agg(lower(normalize(btrim(s.decided_by)))) AS people
             FROM {{schema}}.deletion_standing_approval_decisions s
            WHERE s.standing_approval_id = p.id AND s.decision = 'approve') d
     WHERE p.expires_at > clock_timestamp()
       AND d.signers >= 2
       AND NOT EXISTS (SELECT FROM {{schema}}.deletion_standing_approval_decisions v
                        WHERE v.standing_approval_id = p.id AND v.decision = 'revoke')
  ), candidate AS MATERIALIZED (
    SELECT r.id, r.workflow, r.workflow_version, r.inventory_digest, r.created_at, r.approvals_required,
           lower(normalize(btrim(r.requested_by))) AS requester, counted.*
      FROM {{schema}}.entity_deletion_requests r
      JOIN {{schema}}.entity_deletion_inventories i ON i.request_id = r.id AND i.inventory_digest = r.inventory_digest
     CROSS JOIN LATERAL (
           SELECT jsonb_object_agg(t.item->>'name', jsonb_build_object('plan_digest', t.item->>'plan_digest', 'places',
                    (SELECT jsonb_object_agg(e.place->>'place', e.place->>'action')
                       FROM jsonb_array_elements(t.item->'places') AS e (place)))) AS plans,
                  sum((SELECT sum((e.place->>'count')::numeric)
                         FROM jsonb_array_elements(t.item->'places') AS e (place))) AS copies,
                  (i.inventory->'bounds'->>'drift')::numeric AS drift
             FROM jsonb_array_elements(i.inventory->'targets') AS t (item)) counted
     WHERE r.id = ANY (request_ids)
       AND r.status = 'submitted' AND r.standing_order IS NULL AND r.batch_id IS NULL
       AND i.revision = 1
       AND NOT EXISTS (SELECT FROM {{schema}}.entity_deletion_stage_history s WHERE s.request_id = r.id)
  ), covered AS MATERIALIZED (
    SELECT DISTINCT ON (c.id) c.*, p.id AS policy, p.requests_per_day - p.used AS left_today
      FROM candidate c
      JOIN signed p ON p.workflow = c.workflow AND p.workflow_version = c.workflow_version AND p.plans = c.plans
     WHERE c.copies <= p.rows_per_request AND c.drift <= p.drift
       AND c.approvals_required <= p.signers
       AND c.requester <> ALL (p.people) AND c.requester <> lower(normalize(btrim(p.proposed_by)))
       AND p.used < p.requests_per_day
     ORDER BY c.id, p.requests_per_day - p.used DESC, p.id
  ), chosen AS MATERIALIZED (
    SELECT numbered.* FROM (
      SELECT c.*, row_number() OVER (PARTITION BY c.policy ORDER BY c.created_at, c.id) AS place FROM covered c) numbered
     WHERE numbered.place <= numbered.left_today
  ), given AS (
    -- As many as the request requires, and no more than people have signed.
    INSERT INTO {{schema}}.entity_deletion_approvals (id, request_id, inventory_digest, approved_by, standing_approval_id)
    SELECT gen_random_uuid(), c.id, c.inventory_digest, format('standing-approval:%s/%s', c.policy, n), c.policy
      FROM chosen c CROSS JOIN LATERAL generate_series(1, c.approvals_required) n
  ), moved AS (
    UPDATE {{schema}}.entity_deletion_requests r SET status = 'approved', next_attempt_at = NULL
      FROM chosen c WHERE r.id = c.id
  ), logged AS (
    INSERT INTO {{schema}}.deletion_events (request_id, event, actor, detail)
    SELECT c.id, 'approved', format('standing-approval:%s', c.policy),
           jsonb_build_object('inventory_digest', c.inventory_digest, 'standing_approval_id', c.policy)
      FROM chosen c
  )
  SELECT c.id, c.policy FROM chosen c;
END
$expunge$;
REVOKE ALL ON FUNCTION {{schema}}.apply_standing_approvals(uuid[]) FROM PUBLIC;
