import { downloadMedia, type HostedMedia, onlyMediaOf } from '../../../media/download.ts'
import type { CommandContext } from '../../run.ts'
import { noteWait } from '../calls/notes.ts'

/** A file, and the idempotency key of the call that paid for it. */
interface PaidMedia extends HostedMedia {
  readonly key: string
}

/** Downloads the result of a call that is paid for, and compares it with its size and digest as far as they are known. */
export async function download(
  { signal, output }: Pick<CommandContext, 'signal' | 'output'>,
  { key, ...media }: PaidMedia,
): Promise<Uint8Array> {
  return await downloadMedia(media, { signal, onWait: noteWait(output), advice: adviceFor(key) })
}

/** Returns the one file of a result. Throws when it has none, or one without a URL. */
export function onlyMedia<Media extends { readonly url: string }>(
  result: { readonly data: readonly Media[] },
  key: string,
): Media {
  return onlyMediaOf(result, adviceFor(key))
}

/** Returns what to do about a result that was paid for and got lost on this machine. */
export function adviceFor(key: string): string {
  return `Run the command again within a day, or with --request-id ${key}: it gets the same result without a charge.`
}
