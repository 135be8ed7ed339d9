/** Looks at what a harness says itself, so that its mistakes are not taken for the target's, and knows which call came last. */
import type { Target, TargetSubject } from '../targets/target.js';
import { must } from './check.js';
import { quiet } from './drive.js';
import type { FaultKind, PlantedPlace, TargetHarness, Undo } from './harness.js';

export class WatchedHarness implements TargetHarness {
  readonly access?: NonNullable<TargetHarness['access']>;
  readonly locate?: NonNullable<TargetHarness['locate']>;
  readonly #harness: TargetHarness;
  #lastCall = 'a call';
  #places: ReadonlySet<string> | null = null;
  #isStable = false;

  constructor(harness: TargetHarness) {
    this.#harness = harness;
    if (harness.access !== undefined) this.access = harness.access;
    if (harness.locate !== undefined) this.locate = harness.locate;
  }

  /** For messages: `count()`. */
  get lastCall(): string {
    return this.#lastCall;
  }

  get target(): Target {
    return this.#watched(this.#harness.target);
  }

  async reopen(): Promise<Target> {
    return this.#watched(await this.#harness.reopen());
  }

  /** @throws CheckFailure where a place is none of the target's. */
  async plant(subject: TargetSubject, copies: number, secret: string): Promise<readonly PlantedPlace[]> {
    const places = await this.#describedPlaces();
    const planted = await this.#harness.plant(subject, copies, secret);
    for (const { place } of planted) {
      must(places.has(place), `the harness's plant() names the place '${place}', which describe() does not list`);
    }
    return planted;
  }

  /** @throws CheckFailure where two readings of the same content differ. */
  async fingerprint(subject: TargetSubject): Promise<string> {
    const first = await this.#harness.fingerprint(subject);
    if (!this.#isStable) {
      const second = await this.#harness.fingerprint(subject);
      must(first === second, "the harness's fingerprint() changes without a change: put what it reads into an order");
      this.#isStable = true;
    }
    return first;
  }

  fault(kind: FaultKind): Promise<Undo> {
    return this.#harness.fault(kind);
  }

  close(): Promise<void> {
    return this.#harness.close();
  }

  async #describedPlaces(): Promise<ReadonlySet<string>> {
    this.#places ??= new Set((await this.#harness.target.describe(quiet())).map(({ place }) => place));
    return this.#places;
  }

  /** The same target; which of its methods was called last is remembered. */
  #watched(target: Target): Target {
    return new Proxy(target, {
      get: (owner, key) => {
        const value: unknown = Reflect.get(owner, key, owner);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]): unknown => {
          this.#lastCall = `${String(key)}()`;
          return Reflect.apply(value, owner, args);
        };
      },
    });
  }
}
