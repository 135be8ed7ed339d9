/** A declared place together with what the catalogue knows of its table: all that statements are built from. */
import type { Column, ForeignKey, Relation } from '../../schema/catalogue.js';
import type { RowChange } from '../../schema/references.js';
import type { PlaceAction } from '../target.js';
import type { Keep } from './declaration.js';
import type { KeyType } from './key-type.js';

export interface BoundPlace {
  readonly place: string;
  readonly action: PlaceAction;
  readonly relation: Relation;
  readonly link: BoundLink;
  readonly set: readonly SetColumn[];
  readonly keep: BoundKeep | null;
  readonly revoke: boolean;
  /** Columns that name a row for good: the primary key, or a unique index without NULL; null where there is none. */
  readonly identity: readonly Column[] | null;
  /** Whether the subject's rows cannot be found any more once the action was applied. */
  readonly vanishes: boolean;
}

export type BoundLink =
  | { readonly by: 'key'; readonly columns: readonly KeyColumn[] }
  | {
      readonly by: 'parent';
      readonly parent: BoundPlace;
      readonly on: readonly { readonly column: Column; readonly parentColumn: Column }[];
      /** The foreign key over exactly these columns, where there is one. */
      readonly foreignKey: ForeignKey | null;
      /** Whether a row has at most one parent row. */
      readonly single: boolean;
    };

export interface KeyColumn {
  readonly column: Column;
  readonly identifier: string;
  readonly type: KeyType;
}

export interface SetColumn {
  readonly column: Column;
  /** As text, to be cast to the column's type; null for NULL. */
  readonly value: string | null;
}

export interface BoundKeep extends Keep {
  readonly column: Column;
}

/** Whether the place's action changes anything. */
export function acts(place: BoundPlace): boolean {
  return place.action !== 'retain';
}

/** What the action does to rows, as far as foreign keys care. */
export function changeOf(place: BoundPlace): RowChange {
  return place.action === 'delete' ? 'delete' : place.set.map(({ column }) => column.name);
}

/** Whether rows of `place` do not reference anything over `key` any more once the action was applied. */
export function releases(place: BoundPlace, key: ForeignKey): boolean {
  if (place.relation.oid !== key.child) return false;
  return place.action === 'delete' || place.set.some(({ column }) => key.childColumns.includes(column.name));
}

/**
 * Whether every row that references a row of `struck` over `key` is a row of `place`, for the same subject: because the
 * place is reached over these columns, or because both have the same identifiers in the columns of the foreign key.
 */
export function coversReferences(place: BoundPlace, struck: BoundPlace, key: ForeignKey): boolean {
  const { link } = place;
  if (place.relation.oid !== key.child) return false;
  const referenced = (name: string): string | undefined => key.parentColumns[key.childColumns.indexOf(name)];
  if (link.by === 'parent') {
    return (
      link.parent === struck &&
      link.on.every(({ column, parentColumn }) => referenced(column.name) === parentColumn.name)
    );
  }
  const { link: other } = struck;
  if (other.by !== 'key') return false;
  return link.columns.every(({ column, identifier }) =>
    other.columns.some((key) => key.identifier === identifier && key.column.name === referenced(column.name)),
  );
}

/** The places above: the parent, its parent, and so on. */
export function ancestors(place: BoundPlace): readonly BoundPlace[] {
  return place.link.by === 'parent' ? [place.link.parent, ...ancestors(place.link.parent)] : [];
}

/** The key columns at the top of a place's chain of parents. */
export function rootColumns(place: BoundPlace): readonly KeyColumn[] {
  return place.link.by === 'key' ? place.link.columns : rootColumns(place.link.parent);
}
