import type { FastifyInstance } from 'fastify'

/** Required dependencies by name; each check throws when its dependency is down. */
export type ReadinessChecks = Readonly<Record<string, () => Promise<void>>>

/** A dependency that takes longer counts as down. */
const CHECK_TIMEOUT_MS = 2000

/** Conditions by name that an operator should fix before they affect the service; each returns whether it applies. */
export type ReadinessWarnings = Readonly<Record<string, () => Promise<boolean>>>

/**
 * Adds `GET /healthz`, which checks only that the process responds, and `GET /readyz`, which checks every dependency:
 * 503 names those that are down, without details. Warnings do not change the status. Once `draining` has aborted,
 * `/readyz` is 503 immediately, since the process is about to stop.
 */
export function addHealthRoutes(
  app: FastifyInstance,
  checks: ReadinessChecks,
  warnings: ReadinessWarnings,
  draining: AbortSignal,
): void {
  app.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    if (draining.aborted)
      return reply
        .status(503)
        .header('cache-control', 'no-store')
        .send({ status: 'draining', checks: {}, warnings: [] })
    const [results, raised] = await Promise.all([
      Promise.all(Object.entries(checks).map(async ([name, check]) => [name, await run(check)] as const)),
      Promise.all(
        Object.entries(warnings).map(async ([name, isRaised]) => ((await runWarning(isRaised)) ? [name] : [])),
      ),
    ])
    const ready = results.every(([, result]) => result === 'ok')
    return reply
      .status(ready ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({
        status: ready ? 'ok' : 'unavailable',
        checks: Object.fromEntries(results),
        warnings: raised.flat(),
      })
  })
}

/** Runs the check of a warning. One that fails raises no warning: the dependency is already reported as down. */
async function runWarning(isRaised: () => Promise<boolean>): Promise<boolean> {
  let raised = false
  await run(async () => {
    raised = await isRaised()
  })
  return raised
}

async function run(check: () => Promise<void>): Promise<'ok' | 'down'> {
  const timeout = Promise.withResolvers<'down'>()
  const timer = setTimeout(() => timeout.resolve('down'), CHECK_TIMEOUT_MS)
  try {
    const checked = check().then(
      () => 'ok' as const,
      () => 'down' as const,
    )
    return await Promise.race([checked, timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}
