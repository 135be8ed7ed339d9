/**
 * Lives of requests that are interrupted at one statement, led on by somebody else, and held against a life that nobody
 * disturbed (contract WF-28, EX-6 to EX-18, EX-24).
 */
import { isDeepStrictEqual } from 'node:util';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { differenceOf } from './life-comparison.js';
import { type Begun, type Life, submit, type Way } from './lives.mjs';
import { othersOf, type Picture, pictureOf } from './life-picture.js';
import { type Interruption, type PostgresProxy, startPostgresProxy, type Statement } from './postgres-proxy.js';
import { until } from './cli.js';
import { openTwoStores, type TwoStores, type TwoStoresOptions } from './two-stores.js';

/** Somebody who leads lives, and can be interrupted. */
export interface Worker {
  /** Resolves when it has ended, however. Answers what it logged. */
  lead(way: Way, begun: Begun): Promise<string>;
  /** Ends it where it stands. */
  kill(): void;
}

export interface Plain {
  readonly picture: Picture;
  readonly statements: readonly Statement[];
}

/** Ids that stand nowhere by chance, so that they can be looked for. */
const FIRST_CUSTOMER = 731_000_001;
/** Longer than any statement here takes, on a machine that is busy. */
const ANSWER_MS = 50_000;

export interface BenchOptions extends Pick<TwoStoresOptions, 'statementMs' | 'token'> {
  readonly customers: number;
  /** How long a statement may hang that is to hang, in milliseconds. */
  readonly hangMs: number;
}

/** Stores and a record of their own behind a proxy, in which one life is led after the other. */
export class Bench {
  readonly #stores: TwoStores;
  readonly #proxy: PostgresProxy;
  readonly #options: BenchOptions;
  #next = FIRST_CUSTOMER;
  /** The requests of the lives before this one. */
  #known: readonly string[] = [];

  private constructor(stores: TwoStores, proxy: PostgresProxy, options: BenchOptions) {
    this.#stores = stores;
    this.#proxy = proxy;
    this.#options = options;
  }

  static async open(options: BenchOptions): Promise<Bench> {
    let proxy: PostgresProxy | undefined;
    const stores = await openTwoStores({
      ...options,
      customers: { first: FIRST_CUSTOMER, count: options.customers },
      shopUrl: async (direct) => {
        proxy = await startPostgresProxy(direct);
        return proxy.url;
      },
    });
    return new Bench(stores, proxy as PostgresProxy, options);
  }

  async close(): Promise<void> {
    await this.#stores.close();
    await this.#proxy.close();
  }

  /** Whether a statement is one to Expunge's own database. */
  isOwn({ database }: Statement): boolean {
    return database === databaseIn(this.#stores.shop.ownUrl);
  }

  get isFull(): boolean {
    return this.#next >= FIRST_CUSTOMER + this.#options.customers;
  }

  /** A life that nobody disturbs, and the statements that it takes. */
  async undisturbed(life: Life, worker: Worker): Promise<Plain> {
    const begun = await this.#begin(life);
    const others = await othersOf(this.#stores, begun.customer);
    this.#proxy.statements.length = 0;
    await worker.lead(this.#way(ANSWER_MS), begun);
    const statements = [...this.#proxy.statements];
    const id = await this.#idOf(begun);
    const picture = await pictureOf(this.#stores, id ?? '', begun.customer);
    if (!(await this.#hasEnded(id)))
      throw new Error(`A life that nobody disturbed did not end: ${JSON.stringify(picture)}`);
    await this.#requireOthers(others, begun.customer);
    return { picture, statements };
  }

  /**
   * Interrupts a life at one statement, and leads it to its end.
   * @returns what is different from `plain` afterwards; null where nothing is.
   */
  async interrupted(
    life: Life,
    number: number,
    how: Interruption,
    plain: Plain,
    workers: Workers,
  ): Promise<string | null> {
    const begun = await this.#begin(life);
    const others = await othersOf(this.#stores, begun.customer);
    const trap = this.#proxy.interrupt(number, how);
    const victim = await workers.victim();
    if (how === 'stop') void trap.sprung.then(() => victim.kill());
    const said = await victim.lead(this.#way(how === 'hang' ? this.#options.hangMs : ANSWER_MS), begun);
    this.#proxy.set('none');
    if (trap.met === null) return 'the statement never came';
    await this.#settled();
    const again = await this.#goOn(begun, await workers.successor());
    const id = await this.#idOf(begun);
    if (id === null) return 'there is no request';
    if (!(await this.#hasEnded(id)))
      return `the request is stuck: ${JSON.stringify(await this.#stores.client.requests.show(id))}`;
    await this.#requireOthers(others, begun.customer);
    if (life !== 'user-deletion' && `${said}${again}`.includes(String(begun.customer)))
      return 'the log names the subject';
    const isTargets = how !== 'stop' && !this.isOwn(trap.met);
    const { statements, picture } = plain;
    const isSame = statements[number - 1]?.text === trap.met.text;
    const difference = differenceOf(picture, await pictureOf(this.#stores, id, begun.customer), {
      statements,
      number,
      isTargets,
    });
    if (difference !== null) return difference;
    return isSame ? null : 'another statement came in its place';
  }

  /** What comes before anybody is interrupted. */
  async #begin(life: Life): Promise<Begun> {
    if (this.isFull) throw new Error('There are no customers left.');
    const customer = this.#next;
    this.#next += 1;
    this.#known = await this.#requests();
    const begun = { life, customer, again: false };
    if (life === 'user-deletion' || life === 'erasure') return { ...begun, id: null };
    const { client } = this.#stores;
    const { id, inventory_digest } = await submit(client, customer);
    await client.requests.approve({ requestId: id, approvedBy: 'ben', inventoryDigest: inventory_digest });
    await this.#step(id, ({ stage }) => stage === 'gate');
    if (life === 'erasure-returned') {
      await this.#step(id, ({ stage, target_community_id }) => stage === 'settle' && target_community_id === null);
      await this.#bringBack(customer);
    }
    return { ...begun, id };
  }

  /** Runs a request until a stage of it is done. */
  async #step(
    id: string,
    isIt: (stage: { stage: string; target_community_id: string | null }) => boolean,
  ): Promise<void> {
    const { requests } = this.#stores.client;
    const signal = new AbortController().signal;
    for (;;) {
      const { stages } = await requests.show(id);
      if (stages.some((stage) => stage.status === 'completed' && isIt(stage))) return;
      await requests.run(id, { executorId: 'before', signal, budget: 1 });
    }
  }

  /** An old job writes some of it back. */
  async #bringBack(customer: number): Promise<void> {
    const { shop, root } = this.#stores;
    const no = customer;
    await shop.query('INSERT INTO visit VALUES ($1, $2)', [no, customer]);
    await shop.query(`INSERT INTO search_log VALUES ($1, $1, 'words')`, [no]);
    const folder = join(root, 'customers', String(customer));
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'late.json'), 'late');
  }

  #way(answerMs: number): Way {
    const { where, shop } = this.#stores;
    return {
      where: { ...where, ownUrl: this.#proxy.through(shop.ownUrl) },
      keys: shop.keys.worker,
      asideUrl: shop.ownUrl,
      answerMs,
    };
  }

  /** Whatever the interrupted one left on the server has ended there. */
  async #settled(): Promise<void> {
    await until(async () => {
      const busy = await this.#stores.shop.query(
        `SELECT FROM pg_stat_activity
          WHERE datname IN ($1, $2) AND application_name = 'expunge' AND state <> 'idle'`,
        [this.#stores.where.shopUrl, this.#stores.shop.ownUrl].map(databaseIn),
      );
      return busy.length === 0;
    });
  }

  /** Somebody else goes on, as often as it takes. Answers what was logged. */
  async #goOn(begun: Begun, worker: Worker): Promise<string> {
    let said = '';
    for (let round = 0; round < 12; round += 1) {
      const id = await this.#idOf(begun);
      if (id !== null) await this.#free(id);
      said += await worker.lead(this.#way(ANSWER_MS), { ...begun, id, again: true });
      if (await this.#hasEnded(await this.#idOf(begun))) return said;
    }
    return said;
  }

  /** The request of this life. */
  async #idOf({ id }: Begun): Promise<string | null> {
    if (id !== null) return id;
    const made = (await this.#requests()).filter((one) => !this.#known.includes(one));
    if (made.length > 1) throw new Error('One life has made several requests.');
    return made[0] ?? null;
  }

  async #requests(): Promise<readonly string[]> {
    const rows = await this.#stores.shop.own<{ id: string }>('SELECT id FROM entity_deletion_requests');
    return rows.map(({ id }) => id);
  }

  /** Ends the lease of whoever was interrupted, and makes the time come for which the request waits. */
  async #free(id: string): Promise<void> {
    await this.#stores.shop.own(
      `UPDATE entity_deletion_requests
          SET lease_expires_at = CASE WHEN lease_owner IS NOT NULL THEN clock_timestamp() - interval '1 ms' END,
              next_attempt_at = CASE WHEN next_attempt_at IS NOT NULL THEN clock_timestamp() - interval '1 ms' END
        WHERE id = $1`,
      [id],
    );
  }

  async #hasEnded(id: string | null): Promise<boolean> {
    if (id === null) return false;
    const { status } = (await this.#stores.client.requests.show(id)).request;
    return status === 'completed' || status === 'cancelled';
  }

  async #requireOthers(before: readonly string[], customer: number): Promise<void> {
    const after = await othersOf(this.#stores, customer);
    if (!isDeepStrictEqual(after, before)) throw new Error('What belongs to others in the stores has changed.');
  }
}

const databaseIn = (url: string): string => new URL(url).pathname.slice(1);

export interface Workers {
  /** Somebody who may be killed. */
  victim(): Promise<Worker>;
  successor(): Promise<Worker>;
}
