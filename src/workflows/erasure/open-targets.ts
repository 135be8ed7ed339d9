/** The configured targets, opened once each, and what they need of each other. */
import type { LocatorQuery, Target, TargetDeclaration } from '../../targets/target.js';

export class OpenTargets {
  readonly #declarations: Readonly<Record<string, TargetDeclaration>>;
  readonly #open = new Map<string, Target>();

  constructor(declarations: Readonly<Record<string, TargetDeclaration>>) {
    this.#declarations = declarations;
  }

  /** Every target, with those that others need locators of before those that need them. */
  get inGateOrder(): readonly string[] {
    const ordered: string[] = [];
    const visit = (name: string): void => {
      if (ordered.includes(name)) return;
      for (const { target } of Object.values(this.declaration(name).locators)) visit(target);
      ordered.push(name);
    };
    for (const name of Object.keys(this.#declarations)) visit(name);
    return ordered;
  }

  declaration(name: string): TargetDeclaration {
    const declaration = this.#declarations[name];
    if (declaration === undefined) throw new Error(`Target ${name} is not configured.`);
    return declaration;
  }

  get(name: string): Target {
    const open = this.#open.get(name) ?? this.declaration(name).open(name);
    this.#open.set(name, open);
    return open;
  }

  /** What the other targets ask of `source`, under keys that `locatorsFor` takes apart again. */
  queriesOf(source: string): Readonly<Record<string, LocatorQuery>> {
    const queries: Record<string, LocatorQuery> = {};
    for (const [name, { locators }] of Object.entries(this.#declarations)) {
      for (const [locator, { target, place, column }] of Object.entries(locators)) {
        if (target === source) queries[key(name, locator)] = { place, column };
      }
    }
    return queries;
  }

  /**
   * The locators of one target, from what its sources resolved; null when a source has not been resolved yet.
   * @param resolved - answers to `queriesOf`, by source.
   */
  locatorsFor(
    name: string,
    resolved: ReadonlyMap<string, Readonly<Record<string, readonly string[]>>>,
  ): Readonly<Record<string, readonly string[]>> | null {
    const found: Record<string, readonly string[]> = {};
    for (const [locator, { target }] of Object.entries(this.declaration(name).locators)) {
      const values = resolved.get(target)?.[key(name, locator)];
      if (values === undefined) return null;
      found[locator] = values;
    }
    return found;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map((target) => target.close()));
    this.#open.clear();
  }
}

/** Names of targets have no dot. */
function key(target: string, locator: string): string {
  return `${target}.${locator}`;
}
