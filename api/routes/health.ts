import type { FastifyInstance } from 'fastify'

/** Required dependencies by name; each check throws when its dependency is down. */
export type ReadinessChecks = Readonly<Record<string, () => Promise<void>>>

/** A dependency that takes longer counts as down. */
const CHECK_TIMEOUT_MS = 2000

/** How long a report is reused: the checks cost RPC calls and statements, and strangers can reach `/readyz`. */
const REPORT_MS = 1000

/** Conditions by name that an operator should fix before they affect the service; each returns whether it applies. */
export type ReadinessWarnings = Readonly<Record<string, () => Promise<boolean>>>

/**
 * Adds `GET /healthz`, which checks only that the process responds, and `GET /readyz`, which checks every dependency:
 * 503 names those that are down, without details. Warnings do not change the status. The checks run at most once per
 * second and once at a time, however many requests arrive. Once `draining` has aborted, `/readyz` is 503 immediately,
 * since the process is about to stop. `now` is monotonic, in milliseconds.
 */
export function addHealthRoutes(
  app: FastifyInstance,
  checks: ReadinessChecks,
  warnings: ReadinessWarnings,
  draining: AbortSignal,
  now: () => number = () => performance.now(),
): void {
  const readReport = createReportReader(() => runChecks(checks, warnings), now)
  app.get('/healthz', async (_request, reply) => reply.header('cache-control', 'no-store').send({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    if (draining.aborted)
      return reply
        .status(503)
        .header('cache-control', 'no-store')
        .send({ status: 'draining', checks: {}, warnings: [] })
    const report = await readReport()
    return reply
      .status(report.status === 'ok' ? 200 : 503)
      .header('cache-control', 'no-store')
      .send(report)
  })
}

interface Report {
  readonly status: 'ok' | 'unavailable'
  readonly checks: Readonly<Record<string, 'ok' | 'down'>>
  readonly warnings: readonly string[]
}

/** Returns a reader that shares the report in progress, or one that began less than `REPORT_MS` ago. */
function createReportReader(read: () => Promise<Report>, now: () => number): () => Promise<Report> {
  let latest: { readonly report: Promise<Report>; readonly since: number; isDone: boolean } | null = null
  return () => {
    if (latest && (!latest.isDone || now() - latest.since < REPORT_MS)) return latest.report
    const next = { report: read(), since: now(), isDone: false }
    void next.report.finally(() => (next.isDone = true))
    latest = next
    return next.report
  }
}

async function runChecks(checks: ReadinessChecks, warnings: ReadinessWarnings): Promise<Report> {
  const [results, raised] = await Promise.all([
    Promise.all(Object.entries(checks).map(async ([name, check]) => [name, await run(check)] as const)),
    Promise.all(Object.entries(warnings).map(async ([name, isRaised]) => ((await runWarning(isRaised)) ? [name] : []))),
  ])
  return {
    status: results.every(([, result]) => result === 'ok') ? 'ok' : 'unavailable',
    checks: Object.fromEntries(results),
    warnings: raised.flat(),
  }
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
