/** How a value becomes a file name: always the same name, never that of another value, never more than one name. */

/**
 * - `verbatim`: the value as it is, as UTF-8.
 * - `uri`: as `encodeURIComponent` writes it: `a/b` is `a%2Fb`.
 */
export type Encoding = 'verbatim' | 'uri';

/** Bytes of a name on every file system in use. */
const NAME_MAX = 255;

/**
 * The name that a value stands for, or null where there is none: the name would be empty, `.` or `..`, hold a slash or
 * a NUL, be longer than 255 bytes, or not be Unicode. With one value in a name and fixed text around it, two values never
 * have the same name.
 */
export function fileNameOf(before: string, value: string, after: string, encode: Encoding): Buffer | null {
  if (value === '' || !isWellFormed(value)) return null;
  const name = `${before}${encode === 'uri' ? encodeURIComponent(value) : value}${after}`;
  if (name === '.' || name === '..' || /[/\0]/.test(name)) return null;
  const bytes = Buffer.from(name, 'utf8');
  return bytes.length > NAME_MAX ? null : bytes;
}

/** Without lone surrogates: UTF-8 has no bytes for them, and writes the same replacement for each. */
function isWellFormed(value: string): boolean {
  return !/\p{Cs}/u.test(value);
}
