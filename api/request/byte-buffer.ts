/** Bytes that arrive in chunks. */
export interface CollectedBytes {
  add(chunk: Buffer): void
  /** Returns the collected bytes. Ends the collection. */
  toBuffer(): Buffer
  /** Frees the memory of a body that is no longer needed, without waiting for the garbage collector. */
  discard(): void
}

const FIRST_CAPACITY_BYTES = 64 * 1024

/**
 * Returns the size of the memory for a body of at most `maximumBytes`, of which `arrivedBytes` have arrived: it is
 * doubled whenever it is full. Announcing a large body therefore takes little memory until the bytes follow. The sizes are
 * the maximum halved several times, so that no body is copied once more shortly before it is complete.
 */
export function capacityFor(arrivedBytes: number, maximumBytes: number): number {
  if (arrivedBytes <= FIRST_CAPACITY_BYTES) return Math.min(FIRST_CAPACITY_BYTES, maximumBytes)
  let capacity = maximumBytes
  while (Math.ceil(capacity / 2) >= arrivedBytes) capacity = Math.ceil(capacity / 2)
  return capacity
}

/**
 * Collects at most `maximumBytes` bytes in memory that grows with them. Growing copies each byte once on average and
 * frees the previous memory immediately.
 */
export function collectBytes(maximumBytes: number): CollectedBytes {
  let memory = new ArrayBuffer(capacityFor(0, maximumBytes))
  let end = 0
  return {
    add: (chunk) => {
      const capacity = capacityFor(end + chunk.length, maximumBytes)
      if (capacity > memory.byteLength) memory = memory.transfer(capacity)
      end += chunk.copy(new Uint8Array(memory), end)
    },
    toBuffer: () => {
      if (memory.byteLength - end > FORM_OVERHEAD_BYTES) memory = memory.transfer(end)
      return Buffer.from(memory, 0, end)
    },
    discard: () => {
      memory = memory.transfer(0)
    },
  }
}

/** How much larger an upload's buffer may be than the upload: the rest of its form. */
const FORM_OVERHEAD_BYTES = 64 * 1024

/**
 * Returns the buffer of a large array for transfer to another thread, or nothing when other arrays may share it, as
 * small ones do.
 */
export function transferableMemoryOf({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  const isOwn = byteLength > FORM_OVERHEAD_BYTES && buffer.byteLength - byteLength <= FORM_OVERHEAD_BYTES
  return isOwn && buffer instanceof ArrayBuffer ? [buffer] : []
}
