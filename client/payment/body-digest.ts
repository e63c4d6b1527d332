import { createHash } from 'node:crypto'

/** Returns the SHA-256 of a body. The boundary of a form is left out: SDKs draw another one for each retry. */
export function bodyDigest(body: Uint8Array, contentType: string | null): string {
  const boundary = /^multipart\/form-data\b.*?boundary="?([^";]+)"?/i.exec(contentType ?? '')?.[1]
  const digest = createHash('sha256')
  if (boundary === undefined) return digest.update(body).digest('hex')
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  let start = 0
  for (let end = bytes.indexOf(boundary); end !== -1; end = bytes.indexOf(boundary, start)) {
    digest.update(bytes.subarray(start, end))
    start = end + boundary.length
  }
  return digest.update(bytes.subarray(start)).digest('hex')
}
