/** Matches a quality value of RFC 9110, section 12.4.2. */
const QUALITY = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/i

/**
 * Returns the quality value, from 0 to 1, that an `Accept` header assigns to a media type: that of the most specific
 * range that covers it, and 0 if none does (RFC 9110, section 12.5.1). Without the header every type has 1.
 */
export function acceptQuality(accept: string | undefined, mediaType: string): number {
  if (accept === undefined || accept.trim() === '') return 1
  const [type = ''] = mediaType.split('/', 1)
  // The most specific range first.
  const covering = [mediaType, `${type}/*`, '*/*']
  const ranges = new Map(accept.split(',').map(readRange))
  return covering.map((range) => ranges.get(range)).find((quality) => quality !== undefined) ?? 0
}

/** Reads one range and its quality value; other parameters do not distinguish the offered types. */
function readRange(entry: string): readonly [range: string, quality: number] {
  const [range = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase())
  const [, quality = '1'] = parameters.map((parameter) => QUALITY.exec(parameter)).find((match) => match) ?? []
  return [range, Number(quality)]
}
