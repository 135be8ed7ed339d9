import type { Check } from '../check.js';
import { discretionChecks } from './discretion.js';
import { erasingChecks } from './erasing.js';
import { faultChecks } from './faults.js';
import { interruptionChecks } from './interruption.js';
import { matchingChecks } from './matching.js';
import { optionalChecks } from './optional.js';
import { placeChecks } from './places.js';

/** Every rule that the kit checks, in the order in which a new target meets them. */
export const checks: readonly Check[] = [
  ...placeChecks,
  ...erasingChecks,
  ...matchingChecks,
  ...interruptionChecks,
  ...discretionChecks,
  ...faultChecks,
  ...optionalChecks,
];
