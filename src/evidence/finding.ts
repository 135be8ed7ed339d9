/** What a verification of receipts can find. */
export type FindingCode =
  /** The export is not one that this program can read. */
  | 'UNREADABLE_EXPORT'
  /** The verification keys are none. */
  | 'UNREADABLE_KEYS'
  /** An entry is no signed receipt. */
  | 'UNREADABLE_RECEIPT'
  /** A receipt is of a newer form than this program knows. */
  | 'UNSUPPORTED_VERSION'
  /** A receipt is signed with a key that is not among the verification keys. */
  | 'FOREIGN_SIGNATURE'
  /** A receipt was changed after it was signed. */
  | 'CHANGED'
  /** A receipt stands twice in the export. */
  | 'DUPLICATED'
  /** Two different signed receipts claim the same place in the chain, or the same id. */
  | 'FORKED'
  /** A receipt belongs to the chain of another request. */
  | 'MIXED_CHAINS'
  /** A receipt stands behind one that comes after it. */
  | 'REORDERED'
  /** Receipts are missing before this one. */
  | 'DROPPED'
  /** A receipt does not name the hash of the one before it. */
  | 'BROKEN_LINK'
  /** There is no final receipt: the chain is cut off, or the request is not finished. */
  | 'TRUNCATED'
  /** A receipt stands behind the final one. */
  | 'AFTER_FINAL'
  /** What a receipt says was done is not what was counted minus what is left (contract WF-20). */
  | 'WRONG_COUNT'
  /** The read after the erase still found copies. */
  | 'COPIES_LEFT'
  /** The state of a target does not follow from its places. */
  | 'WRONG_STATE'
  /** Work was done, or a revision listed, under an inventory that nobody approved. */
  | 'NOT_APPROVED'
  /** An approval is of an inventory that is not among the approved ones. */
  | 'STRAY_APPROVAL'
  /** The final receipt counts other receipts or targets than there are. */
  | 'WRONG_TOTAL';

/** One thing that is wrong. */
export interface Finding {
  readonly code: FindingCode;
  /** The receipt's position in the export, from 0; null where it is about the whole. */
  readonly index: number | null;
  /** One sentence, for a person. */
  readonly message: string;
}
