/** `expunge/testing`: the conformance kit for targets, an example target, and deliberately broken ones. */
export { CheckFailure, type Check, type CheckContext, type NotApplicable } from './check.js';
export { checks } from './checks/index.js';
export { describeTarget, type TestRunner } from './describe-target.js';
export type {
  AccessHarness,
  ConformanceOptions,
  FaultKind,
  LocateHarness,
  PlantedPlace,
  TargetHarness,
  Undo,
} from './harness.js';
export { memoryConformance, type MemoryTargetClass } from './memory-harness.js';
export { MemoryStore, MemoryStoreError } from './memory-store.js';
export { memory, MemoryTarget, type MemoryOptions } from './memory-target.js';
export { runChecks, type CheckResult } from './run-checks.js';
export { SubjectMaker } from './subjects.js';
export { brokenTargets, type BrokenTarget } from './broken/index.js';
