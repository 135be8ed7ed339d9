/** Finds every declared name in the catalogue, and refuses what is not there or cannot be what the rule makes of it. */
import {
  type Catalogue,
  type Column,
  findColumn,
  findRelation,
  type ForeignKey,
  isUnique,
  type Relation,
  relationName,
  rowIdentity,
} from '../../schema/catalogue.js';
import type { JsonValue } from '../../storage/json.js';
import { TargetDeclarationError } from '../target-error.js';
import type { PlaceAction } from '../target.js';
import { acts, ancestors, type BoundKeep, type BoundLink, type BoundPlace, type SetColumn } from './bound-place.js';
import type { DeclaredLink, DeclaredPlace } from './declaration.js';
import type { KeyType } from './key-type.js';

/** What a database makes of the columns that a declaration names. */
export interface ColumnRules {
  /** The schema that places are not named with. */
  readonly defaultSchema: string;
  /** The key type of a column, or null where identifiers cannot be compared with it. */
  readonly keyTypeOf: (column: Column) => KeyType | null;
  /** Names of the types that can be keys, for a message. */
  readonly keyTypeNames: string;
  /** Whether the time that a row is kept can run from the column. */
  readonly isDate: (column: Column) => boolean;
}

/** What does not fit, said of one place. */
export interface Problem {
  readonly place: string;
  readonly text: string;
}

/** @throws TargetDeclarationError that says all of it, where there is anything. */
export function refuseProblems(target: string, problems: readonly Problem[]): void {
  const [first] = problems;
  if (!first) return;
  const named = problems.map(({ place, text }) => `${place ? `"${place}" ` : ''}${text}`);
  throw new TargetDeclarationError(`Target "${target}": ${[...new Set(named)].join('; ')}.`, {
    target,
    ...(first.place ? { place: first.place } : {}),
  });
}

/**
 * Binds the places, parents before those that are reached through them. Answers either all places in the order of the
 * declaration, or what does not fit.
 */
export function bindPlaces(
  declared: readonly DeclaredPlace[],
  catalogue: Catalogue,
  rules: ColumnRules,
): { readonly places: readonly BoundPlace[]; readonly problems: readonly Problem[] } {
  const binder = new Binder(declared, catalogue, rules);
  for (const place of declared) binder.bind(place, []);
  return { places: declared.flatMap((place) => binder.bound.get(place) ?? []), problems: binder.problems };
}

class Binder {
  readonly problems: Problem[] = [];
  readonly bound = new Map<DeclaredPlace, BoundPlace | null>();
  readonly #declared: readonly DeclaredPlace[];
  readonly #catalogue: Catalogue;
  readonly #rules: ColumnRules;

  constructor(declared: readonly DeclaredPlace[], catalogue: Catalogue, rules: ColumnRules) {
    this.#rules = rules;
    this.#declared = declared;
    this.#catalogue = catalogue;
  }

  /** @param below - the places whose parents lead here, to find a circle. */
  bind(declared: DeclaredPlace, below: readonly DeclaredPlace[]): BoundPlace | null {
    const known = this.bound.get(declared);
    if (known !== undefined) return known;
    const place = below.includes(declared)
      ? this.#refuse(declared, 'is reached through itself, so that nothing leads from it to a subject')
      : this.#bindNew(declared, below);
    this.bound.set(declared, place);
    return place;
  }

  #bindNew(declared: DeclaredPlace, below: readonly DeclaredPlace[]): BoundPlace | null {
    const relation = this.#table(declared);
    if (!relation) return null;
    const link = this.#link(declared, relation, [...below, declared]);
    const set = this.#setColumns(declared, relation);
    if (!link || !set) return null;
    const keep = this.#keep(declared, relation, link);
    if (keep === undefined) return null;
    return {
      place: declared.place,
      action: actionOf(declared, link, set),
      relation,
      link,
      set,
      keep,
      revoke: declared.revoke,
      identity: rowIdentity(this.#catalogue, relation),
      vanishes: declared.action === 'delete' || linkColumns(link).some((column) => isSet(set, column)),
    };
  }

  #table(declared: DeclaredPlace): Relation | null {
    const relation = findRelation(this.#catalogue, declared.schema, declared.table);
    if (!relation) {
      return this.#refuse(declared, "is not in the database; names are the catalogue's, exactly and without quotes");
    }
    if (relation.root !== null) {
      const root = this.#catalogue.relations.get(relation.root);
      return this.#refuse(
        declared,
        `is a partition; declare ${root ? `"${relationName(root)}"` : 'its table'} in its place`,
      );
    }
    if (relation.kind !== 'table' && relation.kind !== 'partitioned table') {
      return this.#refuse(declared, `is a ${relation.kind}; declare the tables that hold its rows`);
    }
    if (relation.rowSecurity) {
      return this.#refuse(
        declared,
        'has row-level security that hides rows from this role, so that a count of zero would prove nothing; use its owner or a role with BYPASSRLS',
      );
    }
    return this.#mayUse(declared, relation) ? relation : null;
  }

  #mayUse(declared: DeclaredPlace, relation: Relation): boolean {
    const missing = [
      ...(relation.may.select ? [] : ['SELECT']),
      ...(declared.action === 'delete' && !relation.may.delete ? ['DELETE'] : []),
      // Rows are locked before they are deleted, and PostgreSQL asks UPDATE on one column at least for FOR UPDATE.
      ...(declared.action !== 'retain' && !relation.may.update ? ['UPDATE'] : []),
    ];
    if (missing.length > 0) this.#refuse(declared, `needs ${missing.join(', ')} granted to this role`);
    return missing.length === 0;
  }

  #link(declared: DeclaredPlace, relation: Relation, below: readonly DeclaredPlace[]): BoundLink | null {
    const { link } = declared;
    if (link.by === 'parent') return this.#parentLink(declared, relation, link, below);
    const columns = link.columns.map(({ column: name, identifier }) => {
      const column = this.#column(declared, relation, name);
      const type = column && this.#rules.keyTypeOf(column);
      if (column && !type) {
        this.#refuse(
          declared,
          `has the key column "${name}" of type ${column.declaredType}, which identifiers cannot be compared with; it has to be ${this.#rules.keyTypeNames}`,
        );
      }
      return column && type ? { column, identifier, type } : null;
    });
    const found = complete(columns);
    return found && { by: 'key', columns: found };
  }

  #parentLink(
    declared: DeclaredPlace,
    relation: Relation,
    link: Extract<DeclaredLink, { by: 'parent' }>,
    below: readonly DeclaredPlace[],
  ): BoundLink | null {
    const declaredParent = this.#parentOf(declared, link);
    const parent = declaredParent && this.bind(declaredParent, below);
    if (!parent) return null;
    const names = link.on ?? this.#singleForeignKey(declared, relation, parent.relation);
    const pairs = names?.map(({ column: name, parentColumn: parentName }) => {
      const column = this.#column(declared, relation, name);
      const parentColumn = this.#column(declared, parent.relation, parentName);
      return column && parentColumn ? { column, parentColumn } : null;
    });
    const on = pairs && complete(pairs);
    if (!on) return null;
    const parentNames = on.map(({ parentColumn }) => parentColumn.name);
    return {
      by: 'parent',
      parent,
      on,
      foreignKey: this.#foreignKeys(relation, parent.relation).find((key) => isOver(key, on)) ?? null,
      single: isUnique(this.#catalogue, parent.relation, parentNames),
    };
  }

  #parentOf(declared: DeclaredPlace, link: Extract<DeclaredLink, { by: 'parent' }>): DeclaredPlace | null {
    const ofSchema = this.#declared.filter(({ schema }) => schema === link.schema);
    const ofTable = ofSchema.filter(({ table }) => table === link.parent);
    const full = link.schema === this.#rules.defaultSchema ? link.parent : `${link.schema}.${link.parent}`;
    const named =
      ofTable.length > 0 ? ofTable : ofSchema.filter(({ place }) => place === full || place === link.parent);
    if (named.length === 1) return named[0]!;
    if (named.length === 0) {
      return this.#refuse(
        declared,
        `goes through "${link.parent}", which is not declared in the schema ${link.schema}`,
      );
    }
    const choices = named.map(({ place }) => `"${place}"`).join(' or ');
    return this.#refuse(
      declared,
      `goes through "${link.parent}", which has several rules; name one of them: ${choices}`,
    );
  }

  #foreignKeys(child: Relation, parent: Relation): readonly ForeignKey[] {
    return this.#catalogue.foreignKeys.filter((key) => key.child === child.oid && key.parent === parent.oid);
  }

  #singleForeignKey(
    declared: DeclaredPlace,
    relation: Relation,
    parent: Relation,
  ): readonly { readonly column: string; readonly parentColumn: string }[] | null {
    // A constraint of one partition alone says nothing of the others.
    const keys = this.#foreignKeys(relation, parent).filter((key) => key.childPart === relation.oid);
    const ways = new Set(keys.map((key) => `${key.childColumns.join()}>${key.parentColumns.join()}`));
    if (ways.size === 1) {
      const key = keys[0]!;
      return key.childColumns.map((column, index) => ({ column, parentColumn: key.parentColumns[index]! }));
    }
    const found = ways.size === 0 ? 'no foreign key leads' : `${ways.size} foreign keys lead`;
    return this.#refuse(
      declared,
      `goes through "${relationName(parent)}", to which ${found}; name the columns: through: { table: '${parent.name}', on: { column: 'parent column' } }`,
    );
  }

  #setColumns(declared: DeclaredPlace, relation: Relation): readonly SetColumn[] | null {
    const found = Object.entries(declared.set).map(([name, value]) => {
      const column = this.#column(declared, relation, name);
      if (!column) return null;
      if (column.generated) return this.#refuse(declared, `sets "${name}", which the database generates`);
      if (value === null && column.notNull) {
        return this.#refuse(declared, `sets "${name}" to null, which is NOT NULL; set another value`);
      }
      return { column, value: textOf(value) };
    });
    const columns = complete(found);
    if (!columns) return null;
    const unique = this.#catalogue.indexes.find(
      (index) =>
        index.relation === relation.oid &&
        index.unique &&
        index.columns.every((name) =>
          columns.some((set) => set.column.name === name && (set.value !== null || index.nullsNotDistinct)),
        ),
    );
    if (!unique) return columns;
    return this.#refuse(
      declared,
      `sets every column of the unique index "${unique.name}", so that a second row could not have the same values`,
    );
  }

  /** Undefined where it does not fit. */
  #keep(declared: DeclaredPlace, relation: Relation, link: BoundLink): BoundKeep | null | undefined {
    if (!declared.keep) return null;
    const owner = link.by === 'parent' ? link.parent.relation : relation;
    const column = this.#column(declared, owner, declared.keep.from);
    if (!column) return undefined;
    if (!this.#rules.isDate(column)) {
      this.#refuse(
        declared,
        `keeps rows from "${column.name}" of type ${column.declaredType}, which is no date or timestamp`,
      );
      return undefined;
    }
    return { ...declared.keep, column };
  }

  #column(declared: DeclaredPlace, relation: Relation, name: string): Column | null {
    const column = findColumn(this.#catalogue, relation, name);
    return (
      column ?? this.#refuse(declared, `names the column "${name}", which "${relationName(relation)}" does not have`)
    );
  }

  #refuse(declared: DeclaredPlace, text: string): null {
    this.problems.push({ place: declared.place, text });
    return null;
  }
}

/** The list, where nothing of it is missing. */
function complete<T>(list: readonly (T | null)[]): readonly T[] | null {
  const found = list.filter((item) => item !== null);
  return found.length === list.length ? found : null;
}

function isOver(key: ForeignKey, on: readonly { readonly column: Column; readonly parentColumn: Column }[]): boolean {
  return (
    key.childColumns.length === on.length &&
    on.every(
      ({ column, parentColumn }) => key.parentColumns[key.childColumns.indexOf(column.name)] === parentColumn.name,
    )
  );
}

function linkColumns(link: BoundLink): readonly Column[] {
  return link.by === 'key' ? link.columns.map(({ column }) => column) : link.on.map(({ column }) => column);
}

function isSet(set: readonly SetColumn[], column: Column): boolean {
  return set.some((one) => one.column.name === column.name);
}

/**
 * A row that still carries a key is pseudonymized. One that is reached through a parent carries its key only as far as the
 * parent does: where the parent is deleted or anonymized, nothing leads from the row to the person.
 */
function actionOf(declared: DeclaredPlace, link: BoundLink, set: readonly SetColumn[]): PlaceAction {
  if (declared.action !== 'anonymize') return declared.action;
  if (linkColumns(link).every((column) => isSet(set, column))) return 'anonymize';
  return link.by === 'parent' && link.parent.action === 'anonymize' ? 'anonymize' : 'pseudonymize';
}

/** A value of the declaration as databases read it. */
function textOf(value: JsonValue): string | null {
  if (value === null || typeof value === 'string') return value;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** The places above that vanish, whose rows lead to those of `place`. */
export function vanishingAncestors(place: BoundPlace): readonly BoundPlace[] {
  return ancestors(place).filter((ancestor) => ancestor.vanishes && acts(ancestor));
}
