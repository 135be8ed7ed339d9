/** Submits the deletion of many subjects as one batch, from a source of any length (WF-8). */
import type { ResolvedConfig } from '../config/resolved-config.js';
import { sendAgain } from '../engine/database-fault.js';
import { findExpungeError } from '../observe/expunge-error.js';
import { openBatch } from '../requests/batch.js';
import { closeBatch } from '../requests/close-batch.js';
import { operatorName } from '../requests/operator.js';
import { submitMembers } from '../requests/submit-members.js';
import { InvalidSubjectError } from '../subject/invalid-subject-error.js';
import type { ErasureDependencies } from '../workflows/erasure/dependencies.js';
import { WORKFLOW, WORKFLOW_VERSION } from '../workflows/erasure/inventory.js';
import { makeMembers, type Member } from './batch-members.js';
import {
  BatchChangedError,
  type BatchLine,
  type BatchSource,
  inParts,
  InvalidBatchError,
  type PartSubject,
  SourcePrints,
} from './batch-source.js';
import { describeBatch, type ShownBatch } from './batches.js';
import { readSubject, requireWhatTargetsNeed } from './deletable-subject.js';
import { recordRefusal } from './refusals.js';
import { reasonCode } from './user-deletions.js';

export interface SubmitManyOptions {
  /** An operator's id. */
  readonly requestedBy: string;
  /** A machine-readable reason, such as MAIL_REQUEST. */
  readonly reasonCode?: string;
  /** Tells two submits of the same subjects apart: with another key they make another batch. */
  readonly idempotencyKey?: string;
  /** Until when it has to be done. */
  readonly dueAt?: Date;
  /** How many subjects are counted, sealed and written together; 1,000 by default. */
  readonly partLines?: number;
  /** Told how many lines were checked, and then how many of them are recorded. */
  readonly onProgress?: (progress: BatchProgress) => void;
}

export interface BatchProgress {
  readonly phase: 'checked' | 'recorded';
  readonly lines: number;
  /** How many there are; null as long as that is not known. */
  readonly of: number | null;
}

/** What was found wrong with so many lines is told; the others are counted. */
const TOLD_FAULTS = 10;

type Pacing = Pick<SubmitManyOptions, 'partLines' | 'onProgress'>;

interface Checked {
  readonly prints: SourcePrints;
  readonly lines: number;
}

export class BatchSubmission {
  readonly #config: ResolvedConfig;
  readonly #deps: ErasureDependencies;

  constructor(config: ResolvedConfig, deps: ErasureDependencies) {
    this.#config = config;
    this.#deps = deps;
  }

  /**
   * Reads the source twice: first every line is checked, then all are counted, sealed and recorded, part by part. Interrupted
   * at any moment, the same call goes on where it was; finished, it answers with the same batch.
   * @throws InvalidBatchError, and nothing was recorded; BatchChangedError; RequestRefusedError BOUNDS_EXCEEDED;
   *   TargetUnreachableError and others that `submit` throws: what was recorded stays, and the same call goes on from there.
   */
  async submit(source: BatchSource, options: SubmitManyOptions): Promise<ShownBatch> {
    const { database } = this.#deps;
    const requestedBy = operatorName('--requested-by', options.requestedBy);
    return recordRefusal(database, null, requestedBy, async () => {
      const code = reasonCode(options.reasonCode);
      const checked = await this.check(source, options);
      const batch = await openBatch(database, {
        workflow: WORKFLOW,
        workflowVersion: WORKFLOW_VERSION,
        requestedBy,
        reasonCode: code,
        submitToken: this.#tokenOf(checked.prints, requestedBy, code, options),
      });
      if (batch.state === 'open') {
        const terms = { batchId: batch.id, requestedBy, reasonCode: code, dueAt: options.dueAt ?? null };
        await this.#record(source, checked, terms, batch.last_position, options);
        await sendAgain(() => database.transaction((tx) => closeBatch(tx, batch.id)));
      }
      return describeBatch(database, batch.id);
    });
  }

  /** The first reading: every line, without a trace. @throws InvalidBatchError naming the first lines that cannot be used. */
  async check(source: BatchSource, { partLines, onProgress }: Pacing): Promise<Checked> {
    const prints = new SourcePrints(this.#deps.ring);
    const faults: string[] = [];
    let lines = 0;
    let faulty = 0;
    for await (const part of inParts(source(), partLines)) {
      const subjects: PartSubject[] = [];
      for (const line of part) {
        const subject = this.#subjectOf(line);
        if (typeof subject !== 'string') subjects.push({ position: line.position, subject });
        else if ((faulty += 1) <= TOLD_FAULTS) faults.push(`line ${line.position}: ${subject}`);
      }
      prints.add(subjects);
      lines += part.length;
      onProgress?.({ phase: 'checked', lines, of: null });
    }
    if (faulty > 0) throw invalid(faults, faulty - faults.length);
    if (lines === 0)
      throw new InvalidBatchError('There is nobody in it: nothing was recorded; give at least one subject.');
    return { prints, lines };
  }

  /** The subject, or what is wrong with the line: our own words, never the line's. */
  #subjectOf(line: BatchLine): PartSubject['subject'] | string {
    if ('fault' in line) return line.fault;
    try {
      const subject = readSubject(this.#config, line.identifiers);
      requireWhatTargetsNeed(this.#config, subject);
      return subject;
    } catch (error) {
      const own = findExpungeError(error);
      if (own instanceof InvalidSubjectError) return own.message;
      throw error;
    }
  }

  #tokenOf(
    prints: SourcePrints,
    requestedBy: string,
    code: string | null,
    { dueAt, idempotencyKey }: SubmitManyOptions,
  ): string {
    const { tenant } = this.#deps.settings;
    return prints.token([tenant, requestedBy, code, dueAt?.toISOString() ?? null, idempotencyKey ?? null]);
  }

  /** The second reading. While one part is written, the next is counted and sealed. */
  async #record(
    source: BatchSource,
    { prints, lines }: Checked,
    terms: Parameters<typeof makeMembers>[2],
    from: number,
    { partLines, onProgress }: Pacing,
  ): Promise<void> {
    let writing: Promise<number> = Promise.resolve(from);
    let index = 0;
    let recorded = 0;
    for await (const part of inParts(source(), partLines)) {
      const subjects = part.map((line) => this.#sameAgain(line));
      if (!prints.matches(index, subjects)) throw new BatchChangedError();
      const lastPosition = subjects.at(-1)?.position ?? 0;
      const isKnown = lastPosition <= from;
      const members = isKnown ? [] : await this.#makeUnwritten(terms, subjects, from);
      from = await writing;
      if (!isKnown) writing = this.#write(terms.batchId, members, lastPosition);
      // Awaited by the next round or after the last; nothing may be unhandled meanwhile.
      writing.catch(() => undefined);
      index += 1;
      recorded += part.length;
      onProgress?.({ phase: 'recorded', lines: recorded, of: lines });
    }
    await writing;
    if (recorded !== lines) throw new BatchChangedError();
  }

  #sameAgain(line: BatchLine): PartSubject {
    const subject = this.#subjectOf(line);
    if (typeof subject === 'string') throw new BatchChangedError();
    return { position: line.position, subject };
  }

  #makeUnwritten(
    terms: Parameters<typeof makeMembers>[2],
    subjects: readonly PartSubject[],
    from: number,
  ): Promise<readonly Member[]> {
    const unwritten = subjects.filter(({ position }) => position > from);
    return makeMembers(this.#config, this.#deps, terms, unwritten);
  }

  #write(batchId: string, requests: readonly Member[], lastPosition: number): Promise<number> {
    const mostCopies = this.#config.bounds.batch;
    const { database } = this.#deps;
    return sendAgain(() =>
      database.transaction((tx) => submitMembers(tx, { batchId, requests, lastPosition, mostCopies })),
    );
  }
}

function invalid(faults: readonly string[], more: number): InvalidBatchError {
  const others = more > 0 ? ` (${more} more lines are wrong)` : '';
  return new InvalidBatchError(`Nothing was recorded, because lines cannot be used${others}: ${faults.join(' ')}`);
}
