import { ExpungeError, type ErrorOutcome } from '../observe/expunge-error.js';

/**
 * A key that the work needs is not in the key ring. This blocks, loudly: without the key nothing can be found, and "found
 * nothing" must never be mistaken for "nothing is left" (contract WF-3).
 */
export class MissingKeyError extends ExpungeError {
  readonly code = 'MISSING_KEY';
  readonly outcome: ErrorOutcome = 'failed';
  /** The id of the missing key, or what it is for where none is named: `signing`. */
  readonly keyId: string;

  /**
   * @param keyId - the key's id, from an allow-listed alphabet, or the name of the ring's section.
   * @param file - the key file that was looked in, and that the key has to be put into.
   * @param purpose - what the key is needed for, as in "needed to …".
   */
  constructor(keyId: string, file: string, purpose: string) {
    super(
      `The key ${keyId}, needed to ${purpose}, is not in ${file}; put it back from the backup of your keys, or use the key file that holds it.`,
    );
    this.keyId = keyId;
  }
}

/** A key file cannot be read, written or understood. The message never holds anything that the file contains. */
export class KeyRingError extends ExpungeError {
  readonly code = 'KEY_RING';
  readonly outcome: ErrorOutcome = 'refused';
}
