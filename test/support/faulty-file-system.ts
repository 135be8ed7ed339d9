/** The machine's file system with faults that a test switches on: a volume that hangs, one that is flaky, one that lies. */
import type { FaultKind, Undo } from '../../src/testing/harness.js';
import { nodeFileSystem, type FileSystem } from '../../src/targets/files/file-system.js';

export interface FaultyFileSystem {
  readonly fs: FileSystem;
  break(kind: FaultKind): Undo;
}

export function faultyFileSystem(): FaultyFileSystem {
  let fault: FaultKind | null = null;
  let [calls, next, gap] = [0, 0, 10];
  let undone: Promise<void> = Promise.resolve();
  const turn = async (): Promise<void> => {
    calls += 1;
    if (fault === 'slow') await undone;
    // One operation of the target takes many calls: growing gaps let some come to their end, and some not.
    if (fault === 'half' && calls >= next) {
      next = calls + gap;
      gap = gap > 200 ? 10 : gap * 2;
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO', syscall: 'read' });
    }
  };
  const after =
    <P extends unknown[], T>(call: (...parameters: P) => Promise<T>) =>
    async (...parameters: P): Promise<T> => {
      await turn();
      return call(...parameters);
    };
  const lying = (call: (path: Buffer) => Promise<void>) =>
    after(async (path: Buffer) => (fault === 'silent' ? undefined : call(path)));
  return {
    fs: {
      openDirectory: after((path: Buffer, follow: boolean) => nodeFileSystem.openDirectory(path, follow)),
      list: after((path: Buffer) => nodeFileSystem.list(path)),
      lstat: after((path: Buffer) => nodeFileSystem.lstat(path)),
      realpath: after((path: Buffer) => nodeFileSystem.realpath(path)),
      unlink: lying((path) => nodeFileSystem.unlink(path)),
      rmdir: lying((path) => nodeFileSystem.rmdir(path)),
    },
    break(kind) {
      let undo = (): void => undefined;
      undone = new Promise((resolve) => {
        undo = resolve;
      });
      fault = kind;
      return async () => {
        fault = null;
        undo();
        await undone;
      };
    },
  };
}
