import type { Readable } from 'node:stream'

/** First and last byte, both included. */
export type ByteRange = readonly [first: number, last: number]

export interface OpenedObject {
  /** How many bytes `body` yields: of the whole object, or of the part that was asked for. */
  readonly bytes: number
  /** To be read to its end or destroyed. */
  readonly body: Readable
}

/** Stores opaque bytes by key. Keys are chosen by the caller and never reused with other bytes. */
export interface ObjectStore {
  /** The object appears whole or not at all. */
  put(key: string, bytes: Uint8Array): Promise<void>
  /** `null` when there is no such object. */
  get(key: string): Promise<Uint8Array | null>
  /** Streams an object, or the part of it within `range`; `null` when there is no such object. */
  open(key: string, range?: ByteRange): Promise<OpenedObject | null>
  /** Deleting what is gone already is a success. */
  delete(key: string): Promise<void>
  /** Deletes what lies under `prefix` for longer than `ageMs`, known to anyone or not. Returns how many were deleted. */
  deleteOlderThan(prefix: string, ageMs: number): Promise<number>
}

/** Makes addresses at which an object can be fetched for a short while without credentials. */
export interface ObjectLinks {
  link(key: string, options: { contentType: string; lifetimeSeconds: number }): Promise<string>
}

/** Our own keys look like `staged/0f3c…` or `media/speech/0f3c…`; anything that could leave its prefix is refused. */
const SAFE_KEY = /^[a-z]+(\/[a-z]+)?\/[A-Za-z0-9-]+$/

/** The key itself. Throws for one that is not ours. */
export function requireObjectKey(key: string): string {
  if (!SAFE_KEY.test(key)) throw new RangeError('not an object key')
  return key
}
