/** The sweepers' access to data past its retention. Receipts and payments stay. */
export interface RetentionStore {
  /** Erases the data keys of expired uploads and returns object keys of uploads that may be deleted. */
  eraseExpiredUploads(limit: number): Promise<readonly string[]>
  markUploadsDeleted(objectKeys: readonly string[]): Promise<void>
  /** Returns object keys of expired media that may be deleted. */
  findExpiredMedia(limit: number): Promise<readonly string[]>
  markMediaDeleted(objectKeys: readonly string[]): Promise<void>
  /** Erases results past their retention. Returns their number. */
  expireResults(retentionMs: number, limit: number): Promise<number>
  /** Deletes keys whose challenge expired minutes ago and was never paid for. Returns their number. */
  forgetExpiredChallenges(limit: number): Promise<number>
  /** Deletes used nonces of sign-in challenges that expired minutes ago. Returns their number. */
  forgetUsedSignIns(limit: number): Promise<number>
  /** Deletes expired verdicts on audio, which processes share. Returns their number. */
  forgetInspections(limit: number): Promise<number>
}
