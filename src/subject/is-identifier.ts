/** What a text is compared with. */
export interface Identified {
  readonly identifiers: readonly { readonly value: string }[];
}

/** Whether a text is one of these identifiers: letters' case, form and surrounding space make no difference. */
export function isIdentifierOf(text: string, { identifiers }: Identified): boolean {
  const folded = fold(text);
  return identifiers.some(({ value }) => fold(value) === folded);
}

function fold(text: string): string {
  return text.normalize('NFC').trim().toLowerCase();
}
