/** Stores opaque bytes by key. Keys are chosen by the caller and never reused with other bytes. */
export interface ObjectStore {
  put(key: string, bytes: Uint8Array): Promise<void>
  /** `null` when there is no such object. */
  get(key: string): Promise<Uint8Array | null>
  /** Deleting what is gone already is a success. */
  delete(key: string): Promise<void>
  /** Deletes what lies under `prefix` for longer than `ageMs`, known to anyone or not. Returns how many were deleted. */
  deleteOlderThan(prefix: string, ageMs: number): Promise<number>
}
