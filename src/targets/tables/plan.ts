/** The order of an erase: units that are finished one after the other, each in transactions of its own. */
import type { Catalogue, ForeignKey } from '../../schema/catalogue.js';
import { leadsTo, orderGroups, type Precedence } from '../../schema/order.js';
import { keysReached } from '../../schema/references.js';
import { type Problem, vanishingAncestors } from './bind-places.js';
import { acts, ancestors, type BoundPlace, changeOf, coversReferences, releases } from './bound-place.js';

/** What one transaction handles together. */
export interface Unit {
  /** The places that it is about: one, or several whose rows reference each other in circles. */
  readonly core: readonly BoundPlace[];
  /** Whether rows of the core can reference each other. */
  readonly cyclic: boolean;
  /**
   * Places that are reached through the core and could not be found without it, children first: they are cleaned under the
   * lock on the core's rows, in the same transaction (contract WF-16).
   */
  readonly attached: readonly BoundPlace[];
  /** Foreign keys over which rows of others could reference rows of the core. */
  readonly exposed: readonly Exposure[];
}

/** A place whose rows may be referenced, over a foreign key, by rows that are not among the subject's. */
export interface Exposure {
  readonly struck: BoundPlace;
  readonly key: ForeignKey;
  /** The places that take rows out of the way before, by deleting them or by clearing the foreign key. */
  readonly releasing: readonly BoundPlace[];
}

export interface Plan {
  readonly catalogue: Catalogue;
  /** In the order in which they are erased; those that are retained come last. */
  readonly places: readonly BoundPlace[];
  readonly units: readonly Unit[];
  readonly precedences: readonly Precedence<BoundPlace>[];
}

/** Plans an erase of places that fit the catalogue. */
export function makePlan(places: readonly BoundPlace[], catalogue: Catalogue): Plan {
  const working = places.filter(acts);
  const precedences = precedencesOf(working, catalogue);
  const groups = orderGroups(working, precedences);
  const ordered = groups.flatMap(({ members }) => members);
  const hosts = mergeable(groups, precedences);
  const merged = orderGroups(
    groups.filter(({ members }) => !hosts.has(members[0]!)),
    groupPrecedences(groups, precedences, hosts),
  ).flatMap(({ members }) => members);
  const units = merged.map(({ members, cyclic }): Unit => ({
    core: members,
    cyclic,
    attached: ordered.filter(
      (place) => !members.includes(place) && vanishingAncestors(place).some((ancestor) => members.includes(ancestor)),
    ),
    exposed: members.flatMap((place) => exposures(place, places, catalogue)),
  }));
  return { catalogue, places: [...ordered, ...places.filter((place) => !acts(place))], units, precedences };
}

/** What has to come before what: referencing rows before those that they reference, children before their way is lost. */
function precedencesOf(places: readonly BoundPlace[], catalogue: Catalogue): readonly Precedence<BoundPlace>[] {
  const found: Precedence<BoundPlace>[] = [];
  for (const after of places) {
    for (const key of keysReached(catalogue, after.relation, changeOf(after))) {
      for (const before of places) if (releases(before, key)) found.push({ before, after });
    }
  }
  for (const before of places) for (const after of vanishingAncestors(before)) found.push({ before, after });
  return found;
}

type PlaceGroup = ReturnType<typeof orderGroups<BoundPlace>>[number];

/**
 * The places that need no unit of their own, because the unit of their parent handles them in the same transaction: as long
 * as nothing else has to come between the two.
 */
function mergeable(
  groups: readonly PlaceGroup[],
  precedences: readonly Precedence<BoundPlace>[],
): ReadonlyMap<BoundPlace, BoundPlace> {
  const hosts = new Map<BoundPlace, BoundPlace>();
  const single = new Set(groups.filter(({ cyclic }) => !cyclic).flatMap(({ members }) => members));
  // From the last to the first, so that a parent's own unit is known before its children's.
  for (const { members } of groups.toReversed()) {
    const child = members[0]!;
    const parent = ancestors(child)[0];
    if (!single.has(child) || !parent?.vanishes || !single.has(parent) || parent.action === 'retain') continue;
    const tried = new Map([...hosts, [child, hosts.get(parent) ?? parent]]);
    const ordered = orderGroups(
      groups.filter((group) => !tried.has(group.members[0]!)),
      groupPrecedences(groups, precedences, tried),
    );
    // Only a group that was a circle before may be one now.
    if (ordered.every(({ members: together }) => together.length === 1)) hosts.set(child, hosts.get(parent) ?? parent);
  }
  return hosts;
}

/** The precedences between units, where some places are handled in the unit of another. */
function groupPrecedences(
  groups: readonly PlaceGroup[],
  precedences: readonly Precedence<BoundPlace>[],
  hosts: ReadonlyMap<BoundPlace, BoundPlace>,
): readonly Precedence<PlaceGroup>[] {
  const unitOf = (place: BoundPlace): PlaceGroup => {
    const host = hosts.get(place) ?? place;
    return groups.find(({ members }) => members.includes(host))!;
  };
  return precedences
    .map(({ before, after }) => ({ before: unitOf(before), after: unitOf(after) }))
    .filter(({ before, after }) => before !== after);
}

/** Where every referencing row is the subject's own by the schema alone, nobody else's can be in the way. */
function exposures(struck: BoundPlace, places: readonly BoundPlace[], catalogue: Catalogue): readonly Exposure[] {
  return keysReached(catalogue, struck.relation, changeOf(struck))
    .map((key) => ({ struck, key, releasing: places.filter((place) => acts(place) && releases(place, key)) }))
    .filter(({ key, releasing }) => !releasing.some((place) => coversReferences(place, struck, key)));
}

/** What the order itself cannot do. */
export function planProblems({ units, precedences }: Plan): readonly Problem[] {
  return units.flatMap(({ core, attached }, position) => [
    ...core
      .filter((place) => place.action !== 'delete' && sharesTable(place, core))
      .map((place) => ({
        place: place.place,
        text: 'has several rules for one table whose rows have to be deleted and overwritten in one statement; make it one rule, or let one of them delete nothing',
      })),
    ...core
      .filter(({ revoke }) => revoke)
      .flatMap((place) => {
        const late = units.slice(0, position).flatMap((unit) => unit.core);
        return revokedLate(
          place,
          late.filter((other) => !attached.includes(other)),
          precedences,
        );
      }),
  ]);
}

function sharesTable(place: BoundPlace, core: readonly BoundPlace[]): boolean {
  return core.some((other) => other !== place && other.relation.oid === place.relation.oid);
}

/** What references sessions has to be gone before they are: it has to be revoked with them. */
function revokedLate(
  place: BoundPlace,
  earlier: readonly BoundPlace[],
  precedences: readonly Precedence<BoundPlace>[],
): readonly Problem[] {
  return earlier
    .filter((other) => !other.revoke && leadsTo(other, place, precedences))
    .map((other) => ({
      place: place.place,
      text: `is to be revoked first, but rows of "${other.place}" have to go before; declare revoke: true there too`,
    }));
}
