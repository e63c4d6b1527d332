import type { Readable } from 'node:stream'

/** First and last byte, both inclusive. */
export type ByteRange = readonly [first: number, last: number]

export interface OpenedObject {
  /** Length of `body`: the whole object, or the requested range. */
  readonly bytes: number
  /** Must be read to its end or destroyed. */
  readonly body: Readable
}

/** Opaque bytes by key. The caller chooses keys and never reuses one for other bytes. */
export interface ObjectStore {
  /** Stores an object, atomically. */
  put(key: string, bytes: Uint8Array): Promise<void>
  /** Returns `null` when there is no such object. */
  get(key: string): Promise<Uint8Array | null>
  /** Streams an object or a range of it. Returns `null` when there is no such object. */
  open(key: string, range?: ByteRange): Promise<OpenedObject | null>
  /** Deletes an object. Succeeds when there is none. */
  delete(key: string): Promise<void>
  /**
   * Deletes every object under `prefix` that is older than `ageMs`, recorded or not. Returns the number deleted. One that
   * cannot be deleted holds no other back; throws at the end when any is left, at once while the store does not answer.
   */
  deleteOlderThan(prefix: string, ageMs: number): Promise<number>
}

/** Counts what a deletion leaves, which may be any number of objects. */
export function countLeft(prefix: string) {
  let left = 0
  let first: unknown
  return {
    add: (error: unknown) => {
      if (left === 0) first = error
      left += 1
    },
    /** Throws when any is left. */
    requireNone: () => {
      if (left === 0) return
      const objects = left === 1 ? '1 object' : `${left} objects`
      const verb = left === 1 ? 'is' : 'are'
      throw new Error(`${objects} under ${prefix}/ ${verb} left, the first error follows`, { cause: first })
    },
  }
}

/** Short-lived URLs that serve an object without credentials. */
export interface ObjectLinks {
  link(key: string, options: { contentType: string; lifetimeSeconds: number }): Promise<string>
}

/** The object store that the settings name. It may be unreachable at the moment, but is not known to be unusable. */
export interface OpenedObjectStore {
  readonly objects: ObjectStore
  /** `null` for a folder, which only the API can read. */
  readonly links: ObjectLinks | null
  /** Rejects while the store cannot be used, with an error that names the setting to check. */
  readonly check: () => Promise<void>
  readonly close: () => void
}

/** Keys look like `staged/0f3c…` or `media/speech/0f3c…`. No key can leave its prefix. */
const SAFE_KEY = /^[a-z]+(\/[a-z]+)?\/[A-Za-z0-9-]+$/

/** Returns the key. Throws when it does not have the form of one. */
export function requireObjectKey(key: string): string {
  if (!SAFE_KEY.test(key)) throw new RangeError('not an object key')
  return key
}

/** The store as the archive uses it: without deleting anything. */
export interface OpenedArchive {
  readonly objects: Pick<ObjectStore, 'get' | 'put'>
  /** Returns the rule of the bucket that would delete archived objects; `null` without one, or when it cannot be read. */
  findExpiringRule(): Promise<string | null>
  close(): void
}
