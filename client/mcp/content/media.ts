import type { ContentBlock } from '@modelcontextprotocol/server'
import { downloadMedia, formatOf } from '../../media/download.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import { requireSafeUrl } from '../../wire/safe-url.ts'

/** A file that a paid call has made. */
interface PaidFile {
  readonly url: string
  /** As far as the result states it. */
  readonly bytes?: number
  readonly kind: 'image' | 'audio'
  readonly name: string
}

/** What to do when a result that is paid for cannot be shown. */
export const REPEAT_ADVICE = 'Repeat the call unchanged: it returns the same result without another charge.'

/** Clients refuse results of more than about a megabyte; Base64 adds a third. */
const LARGEST_INLINE_BYTES = 600_000

/**
 * Returns the link to a file and, when it is small, the file itself. A file that cannot be fetched leaves the link alone
 * and states why in `meta`: the call is paid for, and its result is the link.
 */
export async function mediaContent(
  file: PaidFile,
  signal: AbortSignal,
): Promise<{ readonly content: readonly ContentBlock[]; readonly meta?: Readonly<Record<string, unknown>> }> {
  const { url, kind, name, bytes } = file
  requireLink(url)
  const known = kind === 'audio' ? { mimeType: 'audio/mpeg' } : {}
  const link = { type: 'resource_link', uri: url, name, ...known, ...(bytes !== undefined && { size: bytes }) } as const
  if (bytes !== undefined && bytes > LARGEST_INLINE_BYTES) return { content: [link] }
  try {
    const content = await downloadMedia(file, { signal, advice: REPEAT_ADVICE })
    const format = formatOf(content)
    const mimeType = format?.kind === kind ? format.mimeType : undefined
    return {
      content: [
        { ...link, size: content.length, ...(mimeType !== undefined && { mimeType }) },
        ...(mimeType === undefined || content.length > LARGEST_INLINE_BYTES
          ? []
          : [{ type: kind, data: Buffer.from(content).toString('base64'), mimeType }]),
      ],
    }
  } catch (error) {
    if (!(error instanceof FareboxError) || signal.aborted) throw error
    return { content: [link], meta: { 'farebox/not_inline': error.code } }
  }
}

/** A link in plain text could be answered by anyone on the way. */
function requireLink(url: string): void {
  try {
    requireSafeUrl(url)
  } catch (cause) {
    const problem = 'The result links to an address that is not https.'
    throw new FareboxError({ code: 'answer_damaged', problem, money: 'settled', advice: REPEAT_ADVICE, cause })
  }
}
