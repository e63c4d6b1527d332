/** Bytes that arrive in chunks. */
export interface CollectedBytes {
  add(chunk: Buffer): void
  toBuffer(): Buffer
}

/**
 * Collects at most `maximumBytes` bytes, or any number without that limit. With a maximum, chunks are written directly
 * to their place, so that an upload is never in memory twice; the operating system commits only the pages that are
 * written to.
 */
export function collectBytes(maximumBytes: number | null): CollectedBytes {
  return maximumBytes === null ? collectChunks() : collectInPlace(maximumBytes)
}

function collectInPlace(maximumBytes: number): CollectedBytes {
  const memory = Buffer.allocUnsafeSlow(maximumBytes)
  let end = 0
  return {
    add: (chunk) => {
      end += chunk.copy(memory, end)
    },
    toBuffer: () => memory.subarray(0, end),
  }
}

function collectChunks(): CollectedBytes {
  const chunks: Buffer[] = []
  return {
    add: (chunk) => void chunks.push(chunk),
    toBuffer: () => Buffer.concat(chunks),
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
