import { z } from 'zod'
import { startUpstream } from './server.ts'

/**
 * Runs the simulated vendors as a process. Prints `{"listening": <port>}` on one line when it is ready, and exits with status
 * 0 on SIGTERM and SIGINT.
 */
const environment = z
  .object({
    UPSTREAM_HOST: z.string().default('127.0.0.1'),
    UPSTREAM_PORT: z.coerce.number().int().min(0).max(65_535).default(0),
    UPSTREAM_DELAY_MS: z.coerce.number().int().nonnegative().default(0),
    UPSTREAM_API_KEY: z.string().min(1).optional(),
    UPSTREAM_CALL_LOG: z.string().min(1).optional(),
  })
  .parse(process.env)

const upstream = await startUpstream({
  host: environment.UPSTREAM_HOST,
  port: environment.UPSTREAM_PORT,
  delayMs: environment.UPSTREAM_DELAY_MS,
  apiKey: environment.UPSTREAM_API_KEY,
  callLogPath: environment.UPSTREAM_CALL_LOG,
})

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    void upstream.stop().then(() => process.exit(0))
  })
}

process.stdout.write(`${JSON.stringify({ listening: upstream.port })}\n`)
