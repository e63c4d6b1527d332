import pLimit from 'p-limit'
import type { MeasuredUpload } from '../../../batch/plan/plan-cache.ts'
import { Preparer } from '../../../batch/plan/preparer.ts'
import { askTerms } from '../../../batch/plan/pricing.ts'
import { parseUsdc } from '../../../budget/usdc.ts'
import type { Farebox } from '../../../farebox.ts'
import type { CommandContext } from '../../run.ts'
import { counted, duration } from '../../transcribe/amounts.ts'
import { chooseModel } from './service-lists.ts'

/** The price of one thing; atomic USDC. */
export interface Price {
  readonly what: string
  readonly model: string
  readonly price: bigint
  /** Whether the charge follows what is used, up to the price. */
  readonly isMaximum: boolean
  readonly details?: string
  readonly durationMs?: number
  readonly uploads?: number
}

const CONCURRENT_QUOTES = 4

/**
 * Prices recordings as `transcribe` would send them: what has to be converted or cut is, in a temporary folder. The
 * service learns size, duration and digest, and receives no sound.
 */
export async function quoteRecordings(
  context: CommandContext,
  files: readonly string[],
  options: { readonly model?: string; readonly ffmpeg?: string },
) {
  const { signal, output } = context
  const { id: model } = await chooseModel(context, 'speech_to_text', options.model)
  const farebox = await context.farebox({ needsWallet: false })
  const terms = await askTerms(farebox, model, { signal })
  const preparer = new Preparer({ terms, home: farebox.home, ffmpegPath: options.ffmpeg, signal })
  const concurrently = pLimit(CONCURRENT_QUOTES)
  try {
    const outcomes = await Promise.allSettled(
      files.map((file) =>
        concurrently(async () => {
          signal.throwIfAborted()
          const { uploads, warnings } = await preparer.measure(file, false)
          const durationMs = uploads.reduce((sum, upload) => sum + upload.durationMs, 0)
          for (const warning of warnings) output.warn(`${file}: ${warning}`)
          const prices = await Promise.all(uploads.map((upload) => askPrice(farebox, model, upload, signal)))
          const price = prices.reduce((sum, each) => sum + each, 0n)
          const parts = uploads.length > 1 ? `, in ${counted(uploads.length, 'part')}` : ''
          const details = `${duration(durationMs)}${parts}`
          return { what: file, model, price, isMaximum: false, details, durationMs, uploads: uploads.length }
        }),
      ),
    )
    return {
      priced: outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : [])),
      failures: outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : [])),
    }
  } finally {
    await preparer.discard()
  }
}

async function askPrice(
  farebox: Farebox,
  model: string,
  { sha256, bytes, durationMs }: MeasuredUpload,
  signal: AbortSignal,
): Promise<bigint> {
  const request = { model, audio: { sha256, bytes, duration_ms: durationMs } }
  const { price } = await farebox.quote({ operation: 'createTranscription', request, signal })
  return parseUsdc(price.amount)
}
