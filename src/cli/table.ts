/** Plain, aligned text for terminals. */

/** Columns as wide as their widest cell, two spaces between them. Empty where there are no rows. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  return align([headings, ...rows]);
}

/** Names and what they stand for, one pair a line; pairs without a value are left out. */
export function pairs(entries: readonly (readonly [string, string | null])[]): string {
  return align(entries.filter((entry): entry is readonly [string, string] => entry[1] !== null && entry[1] !== ''));
}

function align(rows: readonly (readonly string[])[]): string {
  const clean = rows.map((row) => row.map(printable));
  const widths = clean.reduce<number[]>(
    (widest, row) => row.map((cell, column) => Math.max(cell.length, widest[column] ?? 0)),
    [],
  );
  return clean
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Indents every line. */
export function indent(text: string): string {
  return text.replace(/^(?=.)/gm, '  ');
}

/** Text on one line, without characters that a terminal would obey. */
function printable(text: string): string {
  return text.replace(/\s+/gu, ' ').replace(/\p{C}/gu, '·');
}

/** A moment to the second, or a dash. */
export function moment(date: Date | null): string {
  return date === null ? '-' : date.toISOString().replace(/\.\d+Z$/, 'Z');
}
