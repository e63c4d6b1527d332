/** A request that its sender may not make. The message is shown. */
export class Forbidden extends Error {
  override readonly name = 'Forbidden'
}
