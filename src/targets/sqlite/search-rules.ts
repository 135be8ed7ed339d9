/** What can honestly be deleted of FTS5 indexes, and what has to be looked at when it is. */
import type { Problem } from '../tables/bind-places.js';
import type { BoundPlace } from '../tables/bound-place.js';
import type { DeclaredPlace } from '../tables/declaration.js';
import { quoted, type Session, StoreFault } from '../tables/store/store.js';
import { forms } from './forms.js';
import type { SqliteCatalogue } from './read-catalogue.js';
import type { SearchIndex } from './search-index.js';

/** Documents of one transaction for which a word is looked up in the index. */
const SAMPLE = 8;

export function declaredProblems(declared: readonly DeclaredPlace[], catalogue: SqliteCatalogue): readonly Problem[] {
  return declared.flatMap((place) => {
    const text = problemOf(place, catalogue);
    return text === null ? [] : [{ place: place.place, text }];
  });
}

function problemOf({ table, schema, action, link }: DeclaredPlace, catalogue: SqliteCatalogue): string | null {
  if (schema !== 'main') return `is in the schema ${schema}; a file has one schema, so declare it under tables`;
  if (catalogue.shadows.has(table)) return 'is a table of a search index; declare the index';
  const relation = [...catalogue.relations.values()].find(({ name }) => name === table);
  if (!relation) return null;
  const search = catalogue.searchIndexes.get(relation.oid);
  if (search) return indexProblem(search, action, link);
  if (catalogue.unnamed.has(relation.oid)) {
    return 'is a table WITHOUT ROWID, or its columns hide the row number; make it again with one';
  }
  return contentProblem(table, action, catalogue);
}

function indexProblem(
  { content, contentTable, deletable }: SearchIndex,
  action: DeclaredPlace['action'],
  link: DeclaredPlace['link'],
): string | null {
  if (content === 'external') {
    return `is an index over "${contentTable!}", which is deleted from by the triggers of that table; declare "${contentTable!}" in its place`;
  }
  if (content === 'own') return null;
  if (!deletable) {
    return "keeps no text and cannot delete (content=''); make it again with contentless_delete=1, or with its text";
  }
  if (action !== 'delete') return "keeps no text (content=''), so that nothing of it can be overwritten; delete";
  if (link.by === 'key') {
    return "keeps no text (content=''), so that nothing can be compared; go through the table that has its numbers: through: { table: '…', on: { rowid: '…' } }";
  }
  return null;
}

/** A table that others index: deleting from it is not enough. */
function contentProblem(table: string, action: DeclaredPlace['action'], catalogue: SqliteCatalogue): string | null {
  if (action === 'retain') return null;
  for (const index of catalogue.searchIndexes.values()) {
    if (index.content !== 'external' || index.contentTable === null) continue;
    if (indexes(index, table)) {
      if (action === 'anonymize') {
        return `is indexed by "${index.name}", and whether an overwritten text left it cannot be seen; delete the rows`;
      }
      if (!index.hasSizes) {
        return `is indexed by "${index.name}" with columnsize=0, so that it cannot be seen what is left there; make it again without`;
      }
    }
    const view = catalogue.views.get(index.contentTable);
    if (view !== undefined && mentions(view, table)) {
      return `is indexed by "${index.name}" through the view "${index.contentTable}", so that it cannot be seen what is left there; index a table`;
    }
  }
  return null;
}

function indexes(index: SearchIndex, table: string): boolean {
  return index.content === 'external' && index.contentTable?.toLowerCase() === table.toLowerCase();
}

function mentions(sql: string, table: string): boolean {
  return sql.toLowerCase().includes(table.toLowerCase());
}

/**
 * Deletes rows, with FTS5 told to take the words out of its pages and not to note that they are gone. Of a table that is indexed,
 * looks whether its triggers took the documents out of the index: for all of them whether the index still knows them, for some
 * whether a word still leads there, because a trigger that deletes after the text is gone forgets the document and leaves its words.
 */
export async function deleteFromIndexes(
  session: Session,
  catalogue: SqliteCatalogue,
  { relation }: BoundPlace,
  rows: readonly string[],
  act: () => Promise<void>,
): Promise<void> {
  const own = catalogue.searchIndexes.get(relation.oid);
  const over = [...catalogue.searchIndexes.values()].filter((index) => indexes(index, relation.name));
  for (const index of own ? [own] : over) await takeWordsOut(session, index);
  const before: { readonly index: SearchIndex; readonly documents: readonly Document[] }[] = [];
  for (const index of over) {
    before.push({ index, documents: await documentsOf(session, catalogue, index, relation.oid, rows) });
  }
  await act();
  for (const { index, documents } of before) await refuseLeftovers(session, index, documents);
}

/** Kept by the index itself; SQLite before 3.42 cannot read an index that has been told so. */
async function takeWordsOut(session: Session, { name, content }: SearchIndex): Promise<void> {
  if (content === 'none') return;
  await session.query(`INSERT INTO main.${quoted(name)} (${quoted(name)}, rank) VALUES ('secure-delete', 1)`, []);
}

interface Document {
  readonly id: string;
  /** A word of it that leads to it by the index; null where none was looked for or none does. */
  readonly word: string | null;
}

async function documentsOf(
  session: Session,
  catalogue: SqliteCatalogue,
  index: SearchIndex,
  table: number,
  rows: readonly string[],
): Promise<readonly Document[]> {
  const relation = catalogue.relations.get(table)!;
  const indexed = [...catalogue.searchIndexes].find(([, other]) => other === index)![0];
  const names = [...catalogue.columns.get(indexed)!.keys()].filter((name) => name !== 'rowid');
  const texts = names.map((name) => `coalesce(t.${quoted(name)}, '')`).join(` || ' ' || `);
  const row = forms.row(relation, 't');
  const id = index.contentRow.toLowerCase() === 'rowid' ? row : `t.${quoted(index.contentRow)}`;
  const values: unknown[] = [];
  const list = forms.lists([rows], (value) => `?${values.push(value)}`);
  const found = await session.query(
    `SELECT ${id} AS id, ${texts} AS content FROM ${forms.table(relation)} AS t
      WHERE ${row} IN (SELECT CAST(r.c0 AS BIGINT) FROM (${list}) AS r)`,
    values as never,
  );
  const documents: Document[] = [];
  for (const [position, { id: document, content }] of found.entries()) {
    const word = position < SAMPLE ? longestWord(String(content)) : null;
    const leads = word !== null && (await leadsTo(session, index, String(document), word));
    documents.push({ id: String(document), word: leads ? word : null });
  }
  return documents;
}

async function refuseLeftovers(session: Session, index: SearchIndex, documents: readonly Document[]): Promise<void> {
  const values: unknown[] = [];
  const list = forms.lists([documents.map(({ id }) => id)], (value) => `?${values.push(value)}`);
  const known = await session.query(
    `SELECT 1 FROM main.${quoted(`${index.name}_docsize`)} AS d
      WHERE d.id IN (SELECT CAST(r.c0 AS BIGINT) FROM (${list}) AS r) LIMIT 1`,
    values as never,
  );
  if (known.length > 0) throw new StoreFault('failed', 'SEARCH_INDEX_NOT_KEPT');
  for (const { id, word } of documents) {
    if (word !== null && (await leadsTo(session, index, id, word))) {
      throw new StoreFault('failed', 'SEARCH_INDEX_NOT_KEPT');
    }
  }
}

async function leadsTo(session: Session, { name }: SearchIndex, id: string, word: string): Promise<boolean> {
  const found = await session.query(
    `SELECT 1 FROM main.${quoted(name)} WHERE ${quoted(name)} MATCH ?1 AND rowid = CAST(?2 AS BIGINT) LIMIT 1`,
    [`"${word}"`, id],
  );
  return found.length > 0;
}

function longestWord(content: string): string | null {
  const words = content.slice(0, 10_000).match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.reduce<string | null>((best, word) => (word.length > (best?.length ?? 0) ? word : best), null);
}
