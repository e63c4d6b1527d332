/** Sample entries of encrypted tracks: FairPlay, Common Encryption, Audible. */
export const PROTECTED_ENTRIES: ReadonlySet<string> = new Set(['drms', 'drmi', 'enca', 'encv', 'aavd', 'aaxc'])

/** From the name of a table of sample entries to the name of its first entry: version, count, and size of the entry. */
const FIRST_ENTRY = 16

/**
 * Returns whether an MP4 has an encrypted track. ffprobe does not show it for Common Encryption: it names the format
 * below the encryption, and what is then decoded is noise. Source: ISO/IEC 14496-12 section 8.5.2.
 */
export function hasProtectedTrack(mp4: Uint8Array): boolean {
  const bytes = Buffer.from(mp4.buffer, mp4.byteOffset, mp4.byteLength)
  for (let at = bytes.indexOf('stsd'); at >= 0; at = bytes.indexOf('stsd', at + 1))
    if (PROTECTED_ENTRIES.has(bytes.toString('latin1', at + FIRST_ENTRY, at + FIRST_ENTRY + 4))) return true
  return false
}
