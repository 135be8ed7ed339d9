/** What an FTS5 index is made of, read from the statement that made it. https://www.sqlite.org/fts5.html */

export interface SearchIndex {
  readonly name: string;
  /** `own`: it keeps the text; `external`: it indexes a table; `none`: it keeps no text at all. */
  readonly content: 'own' | 'external' | 'none';
  /** The table or view that an external one indexes. */
  readonly contentTable: string | null;
  readonly contentRow: string;
  /** Whether rows of one without content can be deleted. */
  readonly deletable: boolean;
  /** Whether it keeps a row for each document that it knows, by which a document can be seen. */
  readonly hasSizes: boolean;
}

/** Null where it is no FTS5 index. */
export function searchIndexOf(name: string, sql: string): SearchIndex | null {
  if (!/\bUSING\s+fts5\b/i.test(sql)) return null;
  const content = optionOf(sql, 'content');
  const deletable = optionOf(sql, 'contentless_delete') === '1';
  return {
    name,
    content: content === null ? 'own' : content === '' ? 'none' : 'external',
    contentTable: content === '' ? null : content,
    contentRow: optionOf(sql, 'content_rowid') ?? 'rowid',
    deletable: content !== '' || deletable,
    hasSizes: optionOf(sql, 'columnsize') !== '0',
  };
}

function optionOf(sql: string, option: string): string | null {
  const found = new RegExp(
    `[(,]\\s*${option}\\s*=\\s*(?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|\\[([^\\]]*)\\]|([^\\s,)]*))`,
    'i',
  ).exec(sql);
  return found === null ? null : (found.slice(1).find((value) => value !== undefined) ?? '');
}
