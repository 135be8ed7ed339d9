import { expect, test, vi } from 'vitest';
import { HandlerScope } from './handler-scope.js';

const never = () => () => undefined;

test('EX-14: the signal comes when the leases of the batch are lost, and not before', () => {
  let lose = (): void => undefined;
  const scope = new HandlerScope(new AbortController().signal, (onAllLost) => {
    lose = onAllLost;
    return () => undefined;
  });
  expect(scope.signal.aborted).toBe(false);
  lose();
  expect(scope.signal.aborted).toBe(true);
});

test('EX-20: the signal comes when the process is to stop, with its reason', () => {
  const stop = new AbortController();
  const scope = new HandlerScope(stop.signal, never);
  stop.abort('SIGTERM');
  expect(scope.signal.reason).toBe('SIGTERM');
  expect(new HandlerScope(stop.signal, never).signal.aborted).toBe(true);
});

test('a call that has ended listens to nothing any more', () => {
  const stop = new AbortController().signal;
  const added = vi.spyOn(stop, 'addEventListener');
  const removed = vi.spyOn(stop, 'removeEventListener');
  const unwatch = vi.fn();
  for (let call = 0; call < 3; call += 1) new HandlerScope(stop, () => unwatch).close();
  expect(added).toHaveBeenCalledTimes(3);
  expect(removed.mock.calls.map(([, listener]) => listener)).toEqual(added.mock.calls.map(([, listener]) => listener));
  expect(unwatch).toHaveBeenCalledTimes(3);
});
