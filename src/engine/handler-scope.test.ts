import { expect, test, vi } from 'vitest';
import { HandlerScope } from './handler-scope.js';

test('EX-14: the signal comes when every lease of the batch is lost, and not before', () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const scope = new HandlerScope(new AbortController().signal, [first.signal, second.signal]);
  first.abort();
  expect(scope.signal.aborted).toBe(false);
  second.abort();
  expect(scope.signal.aborted).toBe(true);
});

test('EX-20: the signal comes when the process is to stop, with its reason', () => {
  const stop = new AbortController();
  const scope = new HandlerScope(stop.signal, [new AbortController().signal]);
  stop.abort('SIGTERM');
  expect(scope.signal.reason).toBe('SIGTERM');
  expect(new HandlerScope(stop.signal, [new AbortController().signal]).signal.aborted).toBe(true);
});

test('a lease that outlives many handler calls keeps none of their listeners', () => {
  const stop = new AbortController().signal;
  const lease = new AbortController().signal;
  const counts = [stop, lease].map((signal) => ({
    added: vi.spyOn(signal, 'addEventListener'),
    removed: vi.spyOn(signal, 'removeEventListener'),
  }));
  for (let call = 0; call < 3; call += 1) new HandlerScope(stop, [lease]).close();
  for (const { added, removed } of counts) {
    expect(added).toHaveBeenCalledTimes(3);
    expect(removed.mock.calls.map(([, listener]) => listener)).toEqual(
      added.mock.calls.map(([, listener]) => listener),
    );
  }
});
