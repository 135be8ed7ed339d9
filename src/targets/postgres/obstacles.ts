/**
 * Rows that are in nobody's inventory and hang on rows that are to be erased: another person's reply to a message, an
 * employee whose manager is deleted. A cascade would delete them, SET NULL and SET DEFAULT would change them, and without
 * either the server would refuse. All three happen outside of what was approved, so that such a subject is refused before
 * anything of it is erased. Whoever wants these rows changed or deleted declares them with a rule of their own (`through`),
 * and they are counted, approved and verified like all others: there is deliberately no switch that merely lets it happen.
 */
import { relationName } from '../../schema/catalogue.js';
import type { SubjectRef } from '../target.js';
import type { Connections } from './connection.js';
import type { Exposure, Plan } from '../tables/plan.js';
import { RowStatements } from './row-statements.js';
import type { Subjects } from '../tables/subjects.js';

export interface Obstacle {
  readonly place: string;
  readonly constraint: string;
  /** The table of the rows that hang on the subject's. */
  readonly table: string;
  /** What the foreign key would do: `ON DELETE CASCADE`. */
  readonly effect: string;
  readonly rows: number;
}

/**
 * Finds, for each subject, rows that hang on its own and that are not erased with this batch. A row of another subject of the
 * batch is no obstacle, unless that subject is obstructed itself: then it is looked again without it.
 */
export async function findObstacles(
  connections: Connections,
  { units, catalogue }: Plan,
  subjects: Subjects,
  signal: AbortSignal,
): Promise<ReadonlyMap<SubjectRef, Obstacle>> {
  const exposed = units.flatMap((unit) => unit.exposed);
  const found = new Map<SubjectRef, Obstacle>();
  if (exposed.length === 0) return found;
  const describe = ({ struck, key }: Exposure, rows: number): Obstacle => ({
    place: struck.place,
    constraint: key.name,
    table: relationName(catalogue.relations.get(key.child)!),
    effect: struck.action === 'delete' ? `ON DELETE ${key.onDelete}` : `ON UPDATE ${key.onUpdate}`,
    rows,
  });
  return connections.transaction('read', signal, async (query) => {
    for (let going = subjects, before = -1; going.size > 0 && found.size !== before;) {
      before = found.size;
      const statements = new RowStatements(query, catalogue, going);
      for (const exposure of exposed) {
        for (const [position, rows] of await statements.inTheWay(exposure)) {
          const ref = going.at(position);
          if (!found.has(ref)) found.set(ref, describe(exposure, rows));
        }
      }
      going = going.only((ref) => !found.has(ref));
    }
    return found;
  });
}
