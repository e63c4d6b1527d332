import type { Author } from './author.ts'

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

/** Where rotations are remembered between the steps of a person. */
export interface KeyRotationStore {
  /** Returns the newest rotation of each kind. */
  readRotations(): Promise<readonly KeyRotation[]>
  startRotation(rotation: Pick<KeyRotation, 'kind' | 'newKey' | 'oldKey' | 'reason'>, author: Author): Promise<void>
}
