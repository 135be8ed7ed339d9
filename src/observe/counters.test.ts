import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CounterLabels, Counters } from './counters.js';

describe('Counters', () => {
  it('counts by name and labels', () => {
    const counters = new Counters();
    counters.add('expunge_stale_writes_total', { operation: 'save' });
    counters.add('expunge_stale_writes_total', { operation: 'transition' }, 2);
    counters.add('expunge_stale_writes_total', { operation: 'save' });
    counters.add('expunge_resurrections_total', { target: 'operational' }, 5);
    expect(counters.snapshot()).toEqual([
      { name: 'expunge_resurrections_total', labels: { target: 'operational' }, value: 5 },
      { name: 'expunge_stale_writes_total', labels: { operation: 'save' }, value: 2 },
      { name: 'expunge_stale_writes_total', labels: { operation: 'transition' }, value: 2 },
    ]);
    expect(counters.total('expunge_stale_writes_total')).toBe(4);
    expect(counters.total('expunge_leases_lost_total')).toBe(0);
  });

  it('never falls, and ignores what is no amount', () => {
    const counters = new Counters();
    counters.add('expunge_resurrections_total', { target: 'a' }, 3);
    for (const amount of [-1, Number.NaN, 0]) counters.add('expunge_resurrections_total', { target: 'a' }, amount);
    expect(counters.total('expunge_resurrections_total')).toBe(3);
  });

  it('takes the labels of the definition only, whatever their order', () => {
    const counters = new Counters();
    counters.add('expunge_stages_total', { workflow: 'erasure', stage: 'gate', outcome: 'completed' });
    counters.add('expunge_stages_total', { outcome: 'completed', stage: 'gate', workflow: 'erasure' });
    // @ts-expect-error -- no such label
    counters.add('expunge_resurrections_total', { target: 'a', email: 'jane' });
    // @ts-expect-error -- a label is missing
    counters.add('expunge_stages_total', { workflow: 'erasure', stage: 'gate' });
    expect(counters.snapshot().map(({ labels, value }) => [labels, value])).toEqual([
      [{ target: 'a' }, 1],
      [{ workflow: 'erasure', stage: 'gate', outcome: 'completed' }, 2],
      [{ workflow: 'erasure', stage: 'gate', outcome: 'other' }, 1],
    ]);
  });

  it('prints Prometheus text', () => {
    const counters = new Counters();
    expect(counters.prometheusText()).toBe('');
    counters.add('expunge_target_failures_total', { target: 'operational', code: '40P01' }, 2);
    expect(counters.prometheusText()).toBe(
      '# HELP expunge_target_failures_total Visits to a target that did not finish.\n' +
        '# TYPE expunge_target_failures_total counter\n' +
        'expunge_target_failures_total{target="operational",code="40P01"} 2\n',
    );
  });

  it('WF-2: no label can hold a value with spaces, quotes, line breaks or an address', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const counters = new Counters();
        const labels: CounterLabels<'expunge_resurrections_total'> = { target: `${text}"\n@` };
        counters.add('expunge_resurrections_total', labels);
        expect(counters.prometheusText()).toMatch(/\{target="other"\} 1\n$/);
      }),
    );
  });
});
