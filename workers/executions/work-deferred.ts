/** Thrown while work is prepared: nothing is wrong with the request, but it must wait. */
export class WorkDeferred extends Error {
  override readonly name = 'WorkDeferred'
  readonly delayMs: number

  constructor(reason: string, delayMs: number) {
    super(reason)
    this.delayMs = delayMs
  }
}
