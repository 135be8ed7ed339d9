/** Counters of this process, for a metrics endpoint and for tests. */
import { isPrintable } from './printable.js';

/** Every counter that exists, with the labels that it always carries. */
const counterDefinitions = {
  expunge_stale_writes_total: {
    help: 'Writes of a worker that no longer owned the request, refused.',
    labels: ['operation'],
  },
  expunge_leases_lost_total: { help: 'Leases that ended while their worker was at work.', labels: [] },
  expunge_stages_total: { help: 'Stages that ended, by outcome.', labels: ['workflow', 'stage', 'outcome'] },
  expunge_requests_blocked_total: { help: 'Requests that wait for an operator.', labels: ['workflow', 'reason'] },
  expunge_target_failures_total: { help: 'Visits to a target that did not finish.', labels: ['target', 'code'] },
  expunge_resurrections_total: { help: 'Copies that came back and were erased again.', labels: ['target'] },
  expunge_registry_read_failures_total: {
    help: 'Status reads that answered UNKNOWN because the registry could not be read.',
    labels: ['backend'],
  },
  expunge_registry_mark_failures_total: { help: 'Tombstones that could not be written.', labels: ['backend'] },
  expunge_blocked_writes_total: { help: 'Late writes that were refused, by where they were.', labels: ['boundary'] },
  expunge_maintenance_failures_total: { help: 'Rounds of a maintenance service that failed.', labels: ['service'] },
} as const satisfies Readonly<Record<string, { help: string; labels: readonly string[] }>>;

type Definitions = typeof counterDefinitions;
export type CounterName = keyof Definitions;
/** The labels of one counter, all of them. Values are names and codes; other text is counted under `other`. */
export type CounterLabels<N extends CounterName> = Readonly<Record<Definitions[N]['labels'][number], string>>;

export interface CounterSample {
  readonly name: CounterName;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A set of counters. They only grow, and start at zero with the process. */
export class Counters {
  readonly #samples = new Map<string, CounterSample>();

  /** Adds `amount` (not negative; 1 by default) to the counter with these labels. */
  add<N extends CounterName>(name: N, labels: CounterLabels<N>, amount = 1): void {
    const kept = keepLabels(name, labels);
    const key = JSON.stringify([name, ...Object.values(kept)]);
    const value = (this.#samples.get(key)?.value ?? 0) + (amount > 0 ? amount : 0);
    this.#samples.set(key, Object.freeze({ name, labels: kept, value }));
  }

  /** The sum of a counter over all its labels. */
  total(name: CounterName): number {
    return this.snapshot().reduce((sum, sample) => (sample.name === name ? sum + sample.value : sum), 0);
  }

  /** What was counted so far, ordered by name and labels. */
  snapshot(): readonly CounterSample[] {
    return [...this.#samples].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, sample]) => sample);
  }

  /** The snapshot in Prometheus' text format, version 0.0.4. */
  prometheusText(): string {
    const names = Object.keys(counterDefinitions) as CounterName[];
    return names.flatMap((name) => this.#describe(name)).join('');
  }

  #describe(name: CounterName): readonly string[] {
    const samples = this.snapshot().filter((sample) => sample.name === name);
    if (samples.length === 0) return [];
    const head = `# HELP ${name} ${counterDefinitions[name].help}\n# TYPE ${name} counter\n`;
    return [head, ...samples.map(({ labels, value }) => `${name}{${printLabels(labels)}} ${String(value)}\n`)];
  }
}

/** The counters of this process. */
export const counters = new Counters();

/** Takes the labels of the definition, in its order, so that neither a stray label nor a value of a row gets in. */
function keepLabels(name: CounterName, labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const kept = counterDefinitions[name].labels.map((label) => {
    const value = labels[label];
    return [label, value !== undefined && isPrintable(value, 'name') ? value : 'other'] as const;
  });
  return Object.freeze(Object.fromEntries(kept));
}

/** Names need no escaping: the allow-list has neither quotes, backslashes nor line breaks. */
function printLabels(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([label, value]) => `${label}="${value}"`)
    .join(',');
}
