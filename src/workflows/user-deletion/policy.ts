/** Decides the next stage of a user deletion from its saved history, one stage at a time; no plan is made in advance. */
import { HistoryError, type StageRecord } from '../../engine/history.js';
import type { Policy, PolicyInput } from '../../engine/workflow.js';
import type { JsonObject } from '../../storage/json.js';

type Decided = ReturnType<Policy['decide']>;

interface Community {
  readonly id: string;
  readonly role: string;
}

export const userDeletionPolicy: Policy = {
  decide(input) {
    const covered = readCovered(input);
    const last = input.history.at(-1);
    if (last === undefined) {
      return input.isCancelled ? cancelled() : enter(input, 'gate_user', null, { decision: 'begin' });
    }
    if (last.result?.['cancelled'] === true) return cancelled();
    return decideAfter(last, covered, input);
  },

  // Until the gate has completed; never after (OP-9).
  mayCancel({ history }) {
    const gate = history[0];
    return gate === undefined || (history.length === 1 && gate.status !== 'completed');
  },
};

function decideAfter(last: StageRecord, covered: ReadonlySet<string>, input: PolicyInput): Decided {
  switch (last.stage) {
    case 'gate_user':
      return enterNext(input, covered, { decision: 'enter_communities' });
    case 'purge_db':
      if (hasAgents(last)) {
        const { place } = last;
        return enter(input, 'purge_agents', place, { decision: 'purge_agents', community: place });
      }
      return complete(last, covered, input);
    case 'purge_agents':
      return complete(last, covered, input);
    default:
      throw new HistoryError(last.id, `is of a stage, ${last.stage}, that user deletions do not have`);
  }
}

/** A missing answer is an error and never a skip. */
function hasAgents(record: StageRecord): boolean {
  const value = record.result?.['has_agents'];
  if (typeof value !== 'boolean') throw new HistoryError(record.id, 'has no saved has_agents');
  return value;
}

function complete(last: StageRecord, covered: ReadonlySet<string>, input: PolicyInput): Decided {
  const community = last.place as string;
  return enterNext(input, new Set([...covered, community]), { decision: 'community_complete', community });
}

/** The first uncovered community in the order of the inventory; after all of them the end. */
function enterNext(input: PolicyInput, covered: ReadonlySet<string>, transition: JsonObject): Decided {
  const next = communitiesOf(input.inventory).find(({ id }) => !covered.has(id));
  if (next === undefined) return { kind: 'end', status: 'completed', transition };
  return enter(input, 'purge_db', next.id, transition);
}

function enter(input: PolicyInput, stage: string, community: string | null, transition: JsonObject): Decided {
  const role = communitiesOf(input.inventory).find(({ id }) => id === community)?.role;
  const about = community === null ? {} : { community: { id: community, role: role ?? '' } };
  return { kind: 'enter', stage, place: community, inputs: { target: input.target, ...about }, transition };
}

function cancelled(): Decided {
  return { kind: 'end', status: 'cancelled', transition: { decision: 'cancelled' } };
}

/**
 * Walks the whole history: inputs against the inventory under which they were made, every saved decision against what the
 * rules allow there (EX-10). A saved `community_complete` covers its community also where a branch skipped a stage.
 */
function readCovered(input: PolicyInput): ReadonlySet<string> {
  const covered = new Set<string>();
  for (const record of input.history) {
    checkInputs(record, input);
    if (record.transition === undefined) continue;
    const decision = record.transition['decision'];
    if (!allowedAfter(record).includes(String(decision))) {
      throw new HistoryError(record.id, `has a saved decision that does not follow from ${record.stage}`);
    }
    if (decision === 'community_complete') {
      if (record.transition['community'] !== record.place)
        throw new HistoryError(record.id, 'completed another community than its own');
      covered.add(record.place as string);
    }
  }
  return covered;
}

function checkInputs(record: StageRecord, input: PolicyInput): void {
  if (record.inputs['target'] !== input.target) throw new HistoryError(record.id, 'was made for another target');
  const saved = record.inputs['community'] as Partial<Community> | undefined;
  if ((saved?.id ?? null) !== record.place)
    throw new HistoryError(record.id, 'has another community in its inputs than in its column');
  const needsCommunity = record.stage !== 'gate_user';
  if (needsCommunity !== (record.place !== null))
    throw new HistoryError(record.id, 'has a community where its stage has none, or none where it needs one');
  if (!needsCommunity) return;
  const approved = communitiesOf(record.inventory).find(({ id }) => id === record.place);
  if (approved === undefined || approved.role !== saved?.role) {
    throw new HistoryError(record.id, 'is about a community that the approved inventory does not have');
  }
}

function allowedAfter(record: StageRecord): readonly string[] {
  if (record.result?.['cancelled'] === true) return ['cancelled'];
  switch (record.stage) {
    case 'gate_user':
      return ['enter_communities'];
    case 'purge_db':
      return [hasAgents(record) ? 'purge_agents' : 'community_complete'];
    case 'purge_agents':
      return ['community_complete'];
    default:
      throw new HistoryError(record.id, `is of a stage, ${record.stage}, that user deletions do not have`);
  }
}

function communitiesOf(inventory: JsonObject): readonly Community[] {
  return inventory['communities'] as unknown as readonly Community[];
}
