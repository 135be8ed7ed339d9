import type { JsonObject } from '../storage/json.js';
import { canonicalJson, sha256Hex } from './canonical-json.js';

/** The parts of a target's declaration that decide what is done; a `TargetDeclaration` has them. */
export interface Plan {
  readonly kind: string;
  readonly handlerVersion: number;
  readonly plan: JsonObject;
}

/**
 * The digest of what a target's declaration does (contract WF-6): a digest that differs from the approved one means that
 * the configuration, or the handler that would carry it out, was changed since.
 *
 * @returns 64 lower-case hexadecimal digits.
 * @throws NotPlainJsonError where the plan is no plain JSON.
 */
export function planDigest({ kind, handlerVersion, plan }: Plan): string {
  return sha256Hex(canonicalJson({ domain: 'expunge/plan-digest/1', kind, handler_version: handlerVersion, plan }));
}
