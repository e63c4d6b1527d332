import { move, transferableSymbol, valueSymbol } from 'piscina'
import { transferableMemoryOf } from '../body-bytes.ts'

/** Returns `value` to the main thread and transfers the memory of `bytes` without a copy. */
export function transfer<Value extends object>(value: Value, bytes: Uint8Array): Value {
  return move({ [transferableSymbol]: transferableMemoryOf(bytes), [valueSymbol]: value }) as unknown as Value
}

export function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

/** Frees memory of this thread without waiting for the garbage collector. */
export function free({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}
