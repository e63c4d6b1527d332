/** Takes what ends the wait of a deferred job; `wake` returns whether the job was still waiting. */
export type WhenReady = (wake: () => Promise<boolean>) => void

/** Thrown while work is prepared, when the request is valid but must wait. */
export class WorkDeferred extends Error {
  override readonly name = 'WorkDeferred'
  readonly delayMs: number
  readonly whenReady: WhenReady

  constructor(reason: string, delayMs: number, whenReady: WhenReady) {
    super(reason)
    this.delayMs = delayMs
    this.whenReady = whenReady
  }
}
