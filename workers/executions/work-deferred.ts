/** Thrown while work is prepared, when the request is valid but must wait. */
export class WorkDeferred extends Error {
  override readonly name = 'WorkDeferred'
  readonly delayMs: number

  constructor(reason: string, delayMs: number) {
    super(reason)
    this.delayMs = delayMs
  }
}
