/** Transaction 2 of every stage, for requests that stand at different ones: each by the shortest way that is safe. */
import { goOn, type GoOnItem } from '../requests/go-on.js';
import type { TransitionResult } from '../requests/move.js';
import type { Lease } from '../requests/request.js';
import type { Snapshot } from '../requests/snapshot.js';
import { transition } from '../requests/transition.js';
import type { Database } from '../storage/database.js';
import { bisectStatement } from './bisect.js';
import type { LeaseKeeper } from './lease-keeper.js';
import type { RegisteredWorkflows } from './registered-workflows.js';

/** Where a request stands in this run. */
export interface Position {
  readonly lease: Lease;
  /** The stage whose outcome was saved; null where the database alone knows. */
  readonly expectedStageId: string | null;
  /** Handler calls that this run has made for it. */
  readonly calls: number;
  /** What the database has said under this lease, with the outcome as it was saved; absent where an order may stand. */
  readonly known?: Snapshot;
}

export interface Failure {
  readonly lease: Lease;
  readonly error: unknown;
}

export interface MovedOn {
  readonly results: ReadonlyMap<string, TransitionResult>;
  /** Rows that cannot be written, each alone. */
  readonly failed: readonly Failure[];
}

export interface MoveOnOptions {
  readonly database: Database;
  readonly workflows: RegisteredWorkflows;
  readonly keeper: LeaseKeeper;
  /** Handler calls per request: what has used them does not begin another stage. */
  readonly budget: number;
}

type Move<P> = (part: readonly P[]) => Promise<ReadonlyMap<string, TransitionResult>>;

/** Goes on from what is known by one statement; locks and reads the others, and those for which that did not hold. */
export async function moveOn(positions: readonly Position[], options: MoveOnOptions): Promise<MovedOn> {
  const { database, workflows, keeper, budget } = options;
  const moveAll = async <P extends Position>(some: readonly P[], move: Move<P>): Promise<MovedOn> => {
    const { results, failed } = await bisectStatement(some, (part) =>
      keeper.writing(
        part.map(({ lease }) => lease),
        () => move(part),
      ),
    );
    return {
      results: new Map(results.flatMap((map) => [...map])),
      failed: failed.map(({ item, error }) => ({ lease: item.lease, error })),
    };
  };
  const known = await moveAll(positions.filter(isKnown), (part) => {
    return goOn(
      database,
      part.map((position) => goOnItem(position, budget)),
      workflows,
    );
  });
  const done = new Set([...known.results.keys(), ...known.failed.map(({ lease }) => lease.requestId)]);
  const others = await moveAll(
    positions.filter(({ lease }) => !done.has(lease.requestId)),
    (part) =>
      database.transaction((tx) => {
        const items = part.map(({ calls, ...position }) => {
          return { ...position, requestId: position.lease.requestId, begins: calls < budget };
        });
        return transition(tx, items, workflows);
      }),
  );
  return { results: new Map([...known.results, ...others.results]), failed: [...known.failed, ...others.failed] };
}

type KnownPosition = Position & Required<Pick<Position, 'known'>> & { readonly expectedStageId: string };

function isKnown(position: Position): position is KnownPosition {
  return position.known !== undefined && position.expectedStageId !== null;
}

function goOnItem({ lease, expectedStageId, calls, known }: KnownPosition, budget: number): GoOnItem {
  return { lease, stageId: expectedStageId, known, begins: calls < budget };
}
