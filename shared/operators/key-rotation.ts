/** What is rotated, as commands name it. */
export const KEY_KINDS = ['settlement', 'pay-to', 'challenge', 'receipts', 'statements'] as const

export type KeyKind = (typeof KEY_KINDS)[number]

/** The replacement of one key by another. Keys are identified as processes report them, never by their value. */
export interface KeyRotation {
  readonly kind: KeyKind
  readonly newKey: string
  readonly oldKey: string
  readonly startedAt: Date
  readonly operator: string
  readonly reason: string
}
