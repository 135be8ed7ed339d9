import type { ResolvedConfig } from './resolved-config.js';

/** Whether one of the subject's identifiers is in `protected` of the configuration: such a subject is never deleted (contract WF-9). */
export function isProtected(
  config: Pick<ResolvedConfig, 'protected'>,
  subject: { readonly identifiers: readonly { readonly name: string; readonly value: string }[] },
): boolean {
  // Both sides are normalised, so that another spelling of a protected address is no way around.
  return subject.identifiers.some(
    ({ name, value }) => Object.hasOwn(config.protected, name) && config.protected[name]?.includes(value) === true,
  );
}
