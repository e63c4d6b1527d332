const HELP = `Usage: node infra/commands/check-health.ts URL

Exits with 0 when URL answers with a success within 3 seconds, otherwise with 1: a container's health check,
for images without curl.`

/** Shorter than what container engines and Kubernetes give a check that starts a process. */
const TIMEOUT_MS = 3000

async function main(): Promise<number> {
  const [url] = process.argv.slice(2)
  if (url === undefined || !URL.canParse(url)) {
    console.error(HELP)
    return 2
  }
  try {
    const { ok, status } = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) })
    console.log(`${url} answers ${status}`)
    return ok ? 0 : 1
  } catch (error) {
    console.error(`${url} does not answer: ${error instanceof Error ? error.message : String(error)}`)
    return 1
  }
}

process.exitCode = await main()
