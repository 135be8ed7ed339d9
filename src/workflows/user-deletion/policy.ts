/** Decides the next stage of a user deletion from its saved history, one stage at a time; no plan is made in advance. */
import { HistoryError, type StageRecord } from '../../engine/history.js';
import type { Policy, PolicyInput } from '../../engine/workflow.js';
import type { JsonObject } from '../../storage/json.js';

type Decided = ReturnType<Policy['decide']>;

/** Roles by community, in the order of the inventory. */
type Communities = ReadonlyMap<string, string>;

/** Where a stage leads to, by the rules alone. */
type Move =
  | {
      readonly kind: 'enter';
      readonly stage: string;
      readonly community: string | null;
      readonly transition: JsonObject;
    }
  | { readonly kind: 'end'; readonly status: 'completed' | 'cancelled'; readonly transition: JsonObject };

const BEGIN: Move = { kind: 'enter', stage: 'gate_user', community: null, transition: { decision: 'begin' } };
const CANCELLED: Move = { kind: 'end', status: 'cancelled', transition: { decision: 'cancelled' } };

export const userDeletionPolicy: Policy = {
  decide(input) {
    const move = replay(input);
    if (move.kind === 'end') return move;
    return enter(input, move);
  },

  check(input) {
    replay(input);
  },

  // Until the gate has completed; never after (OP-9).
  mayCancel({ history }) {
    const gate = history[0];
    return gate === undefined || (history.length === 1 && gate.status !== 'completed');
  },
};

/**
 * Goes through the whole history again: each stage has to be the one that the rules lead to from those before it, with the
 * inputs of the inventory under which it was made, and with the decision that was saved (EX-10). A community is covered by
 * its `community_complete`, also where a branch skipped a stage. Returns what the rules lead to now: where the last stage is
 * unfinished, that stage.
 */
function replay(input: PolicyInput): Move {
  const inventories = new Map<JsonObject, Communities>();
  const communitiesOf = (inventory: JsonObject): Communities => {
    const known = inventories.get(inventory) ?? readCommunities(inventory);
    inventories.set(inventory, known);
    return known;
  };
  const covered = new Set<string>();
  let move: Move = input.history.length === 0 && input.isCancelled ? CANCELLED : BEGIN;
  for (const [index, record] of input.history.entries()) {
    requirePlace(record, move);
    requireInputs(record, communitiesOf(record.inventory), input.target);
    if (record.status !== 'completed') break;
    // What was decided next was decided under the inventory that the next stage names.
    const inventory = input.history[index + 1]?.inventory ?? input.inventory;
    move = moveAfter(record, covered, communitiesOf(inventory));
    if (record.transition !== undefined) requireDecision(record, record.transition, move);
  }
  return move;
}

/** @param covered - the communities that are done; the record's own is added where it completes it. */
function moveAfter(record: StageRecord, covered: Set<string>, communities: Communities): Move {
  const { stage, place } = record;
  if (record.result?.['cancelled'] === true) return CANCELLED;
  if (stage === 'gate_user') return nextCommunity(covered, communities, { decision: 'enter_communities' });
  if (stage === 'purge_db' && hasAgents(record)) {
    const transition = { decision: 'purge_agents', community: place };
    return { kind: 'enter', stage: 'purge_agents', community: place, transition };
  }
  covered.add(place as string);
  return nextCommunity(covered, communities, { decision: 'community_complete', community: place });
}

/** A missing answer is an error and never a skip. */
function hasAgents(record: StageRecord): boolean {
  const value = record.result?.['has_agents'];
  if (typeof value !== 'boolean') throw new HistoryError(record.id, 'has no saved has_agents');
  return value;
}

/** The first uncovered community in the order of the inventory; after all of them the end. */
function nextCommunity(covered: ReadonlySet<string>, communities: Communities, transition: JsonObject): Move {
  for (const community of communities.keys()) {
    if (!covered.has(community)) return { kind: 'enter', stage: 'purge_db', community, transition };
  }
  return { kind: 'end', status: 'completed', transition };
}

function enter(input: PolicyInput, { stage, community, transition }: Extract<Move, { kind: 'enter' }>): Decided {
  const role = community === null ? undefined : readCommunities(input.inventory).get(community);
  const about = community === null ? {} : { community: { id: community, role: role ?? '' } };
  return { kind: 'enter', stage, place: community, inputs: { target: input.target, ...about }, transition };
}

function requirePlace(record: StageRecord, move: Move): void {
  if (!['gate_user', 'purge_db', 'purge_agents'].includes(record.stage)) {
    throw new HistoryError(record.id, `is of a stage, ${record.stage}, that user deletions do not have`);
  }
  if (move.kind === 'enter' && move.stage === record.stage && move.community === record.place) return;
  throw new HistoryError(record.id, 'is not the stage that the history before it leads to');
}

function requireInputs(record: StageRecord, communities: Communities, target: string | null): void {
  if (record.inputs['target'] !== target) throw new HistoryError(record.id, 'was made for another target');
  const saved = record.inputs['community'] as { readonly id?: unknown; readonly role?: unknown } | null | undefined;
  if ((saved?.id ?? null) !== record.place) {
    throw new HistoryError(record.id, 'has another community in its inputs than in its column');
  }
  if (record.place === null) return;
  const role = communities.get(record.place);
  if (role === undefined || role !== saved?.role) {
    throw new HistoryError(record.id, 'is about a community that the approved inventory does not have');
  }
}

function requireDecision(record: StageRecord, saved: JsonObject, move: Move): void {
  const { decision, community } = move.transition;
  if (saved['decision'] !== decision) {
    throw new HistoryError(record.id, `has a saved decision that does not follow from ${record.stage}`);
  }
  if ((saved['community'] ?? null) !== (community ?? null)) {
    throw new HistoryError(record.id, 'completed another community than its own');
  }
}

function readCommunities(inventory: JsonObject): Communities {
  const communities = inventory['communities'] as unknown as readonly { readonly id: string; readonly role: string }[];
  return new Map(communities.map(({ id, role }) => [id, role]));
}
