const TIMEOUT_MS = 15_000

/** Reads JSON over HTTP. Throws an `Error` whose message names the server, by default its URL, and the reason. */
export async function fetchJson(
  url: string,
  init: RequestInit = {},
  server = url,
): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch((error: unknown) => {
    throw new Error(`${server} cannot be reached (${reasonOf(error)})`)
  })
  const text = await answer.text()
  try {
    return { status: answer.status, body: JSON.parse(text) }
  } catch {
    throw new Error(`${server} answered ${answer.status} with a body that is not JSON`)
  }
}

/** Returns the cause of a failed `fetch`, whose own message is only "fetch failed". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message || error.cause.name : error.message
}
