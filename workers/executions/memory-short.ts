/** Thrown while work is prepared, when it needs more memory than could be added to what its job has reserved. */
export class MemoryShort extends Error {
  override readonly name = 'MemoryShort'
  /** The most that the job can need. */
  readonly neededBytes: number

  constructor(neededBytes: number) {
    super(`the job needs up to ${neededBytes} bytes of memory`)
    this.neededBytes = neededBytes
  }
}
