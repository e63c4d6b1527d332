import { z } from 'zod'
import { createPocketsphinx } from './hearing/pocketsphinx.ts'
import { startUpstream, type UpstreamOptions } from './server.ts'
import { createFliteSpeech } from './speaking/flite/speak-with-flite.ts'

const settings = z.object({
  UPSTREAM_PORT: z.coerce.number().int().min(0).max(65_535).default(0),
  UPSTREAM_DELAY_MS: z.coerce.number().int().nonnegative().default(0),
  UPSTREAM_API_KEY: z.string().min(1).optional(),
  UPSTREAM_CALL_LOG: z.string().min(1).optional(),
  UPSTREAM_VOICE: z.literal('flite').optional(),
  UPSTREAM_EAR: z.literal('pocketsphinx').optional(),
})

/**
 * Runs the simulated vendors as a process. Prints `{"listening": <port>}` on one line when it is ready, and exits with
 * status 0 on SIGTERM and SIGINT.
 */
export async function runUpstream(options: UpstreamOptions = {}): Promise<void> {
  const { UPSTREAM_PORT, UPSTREAM_DELAY_MS, UPSTREAM_API_KEY, UPSTREAM_CALL_LOG, ...engines } = settings.parse(
    process.env,
  )
  const upstream = await startUpstream({
    port: UPSTREAM_PORT,
    delayMs: UPSTREAM_DELAY_MS,
    apiKey: UPSTREAM_API_KEY,
    callLogPath: UPSTREAM_CALL_LOG,
    ...(engines.UPSTREAM_VOICE && { speak: createFliteSpeech() }),
    ...(engines.UPSTREAM_EAR && { ear: { hearWords: createPocketsphinx(), readsScripts: false } }),
    ...options,
  })
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, () => void upstream.stop().then(() => process.exit(0)))
  process.stdout.write(`${JSON.stringify({ listening: upstream.port })}\n`)
}
