/** The declaration of a store in one file. */
import { basename } from 'node:path';
import { z } from 'zod';
import type { JsonObject } from '../../../storage/json.js';
import { TargetDeclarationError } from '../../target-error.js';
import type { Target, TargetDeclaration } from '../../target.js';
import { identifiersOfPlaces, parseRules, type Rules, tablesSchema } from '../declaration.js';
import type { Store } from './store.js';
import { StoreTarget } from './store-target.js';

export interface StoreOptions<I extends string = string> extends Rules<I> {
  /** The file that holds the database. */
  readonly file: string;
}

const name = z.string().min(1).max(200);
const options = z.strictObject({
  file: z.string().min(1),
  tables: tablesSchema.optional(),
  schemas: z.record(name, tablesSchema).optional(),
});

export interface StoreKind {
  readonly kind: string;
  readonly handlerVersion: number;
  readonly open: (file: string) => Store;
}

/** @throws TargetDeclarationError that names the field, what was found and what is expected. */
export function declareStore<I extends string>(
  { kind, handlerVersion, open }: StoreKind,
  declaration: StoreOptions<I>,
): TargetDeclaration<I> {
  const declared = parseRules({ kind, schema: options, defaultSchema: 'main' }, declaration);
  const revoked = declared.find(({ revoke }) => revoke);
  if (revoked) {
    throw new TargetDeclarationError(
      `${kind}(): "${revoked.place}": found revoke, expected none: sessions and tokens that live here are deleted with the rest.`,
      { target: kind, place: revoked.place },
    );
  }
  const { file, tables, schemas } = declaration;
  return Object.freeze({
    kind,
    handlerVersion,
    // Where the file lies is no part of what is done; the same data may be mounted elsewhere.
    plan: { file: basename(file), ...(JSON.parse(JSON.stringify({ tables, schemas })) as JsonObject) },
    identifiers: identifiersOfPlaces(declared) as readonly I[],
    locators: {},
    revokes: false,
    open: (target: string): Target => new StoreTarget(target, open(file), declared),
  });
}
