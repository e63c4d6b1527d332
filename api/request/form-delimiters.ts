/** Counts the delimiter lines of a form as it arrives, the closing one included. */
export interface DelimiterCounter {
  add(chunk: Buffer): void
  total(): number
}

/**
 * Creates the counter for a form with this content type. The form parser drops a part whose delimiter line has blanks
 * at its end (which RFC 2046, 5.1.1, allows) or whose head is unusable, without an error: only the count reveals it.
 */
export function createDelimiterCounter(contentType: string): DelimiterCounter {
  const [, quoted, plain] = /;\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;]*))/i.exec(contentType) ?? []
  const delimiter = Buffer.from(`\r\n--${quoted ?? plain ?? ''}`, 'latin1')
  // The first delimiter may be the start of the body.
  let tail = Buffer.from('\r\n')
  let total = 0
  return {
    add: (chunk) => {
      const border = Buffer.concat([tail, chunk.subarray(0, delimiter.length - 1)])
      total += countOf(delimiter, border) + countOf(delimiter, chunk)
      tail = Buffer.from(Buffer.concat([tail, chunk.subarray(-delimiter.length)]).subarray(1 - delimiter.length))
    },
    total: () => total,
  }
}

function countOf(needle: Buffer, bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(needle); at >= 0; at = bytes.indexOf(needle, at + needle.length)) count += 1
  return count
}
