import { describe, it } from 'vitest';
import { describeTarget } from './describe-target.js';
import { memoryConformance } from './memory-harness.js';

describeTarget('memory', memoryConformance(), { describe, it });
