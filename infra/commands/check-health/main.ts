const HELP = `Usage: node infra/commands/check-health/main.ts URL

Health check of a container whose image has no curl. Exits with 0 when URL answers with a 2xx status within
3 seconds, otherwise with 1.`

/** Shorter than the 5 seconds that the health checks in Dockerfile and docker-compose.yml allow. */
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
