/** Bytes that arrive in chunks. */
export interface CollectedBytes {
  add(chunk: Buffer): void
  whole(): Buffer
}

/**
 * Collects bytes of which at most `maximumBytes` will come, or of an unknown number. With a maximum the chunks go where they
 * belong at once, so that an upload is never in memory twice; memory that is never written to is never taken.
 */
export function collectBytes(maximumBytes: number | null): CollectedBytes {
  return maximumBytes === null ? collectChunks() : fill(maximumBytes)
}

function fill(maximumBytes: number): CollectedBytes {
  const memory = Buffer.allocUnsafeSlow(maximumBytes)
  let end = 0
  return {
    add: (chunk) => {
      end += chunk.copy(memory, end)
    },
    whole: () => memory.subarray(0, end),
  }
}

function collectChunks(): CollectedBytes {
  const chunks: Buffer[] = []
  return {
    add: (chunk) => void chunks.push(chunk),
    whole: () => Buffer.concat(chunks),
  }
}

/** What an upload's memory may hold beside it: the rest of the form that it came in. */
const FORM_BYTES = 64 * 1024

/**
 * The memory of a large array that is nobody else's, to be given to another thread; none when others may share it, as they do
 * with small arrays.
 */
export function ownMemoryOf({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  const isOwn = byteLength > FORM_BYTES && buffer.byteLength - byteLength <= FORM_BYTES
  return isOwn && buffer instanceof ArrayBuffer ? [buffer] : []
}
