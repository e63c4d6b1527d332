import { randomUUID } from 'node:crypto'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import type { SandboxInfo } from '../../../infra/sandbox/sandbox.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import type { Payer } from '../../support/payer/payer.ts'
import type { ClientAddress } from './client-address.ts'

/** What honest people begin with. */
export type FirstCalls = 'an hour’s recording' | 'twenty clips in parallel'

const RECORDINGS: Readonly<Record<FirstCalls, { readonly count: number; readonly durationMs: number }>> = {
  'an hour’s recording': { count: 1, durationMs: 3_590_000 },
  'twenty clips in parallel': { count: 20, durationMs: 1200 },
}
/** Long enough to decode and send an hour on a busy machine. */
const PATIENCE_MS = 300_000

/** Makes a payer's first calls with the official client, which repeats nothing. Returns the refusals. */
export async function makeFirstCalls(
  { baseUrl, rpcUrl, network }: Pick<SandboxInfo, 'baseUrl' | 'rpcUrl' | 'network'>,
  { privateKey }: Pick<Payer, 'privateKey'>,
  from: ClientAddress,
  calls: FirstCalls,
): Promise<readonly string[]> {
  const client = createPayingClient({ privateKey, rpcUrl, network, fetch: fetchFrom(from) })
  const { count, durationMs } = RECORDINGS[calls]
  const answers = await Promise.all(
    Array.from({ length: count }, async () => {
      const audio = generateMp3({ durationMs, seed: randomUUID(), bitrate: 32, mode: 'mono' })
      const response = await client.fetch(`${baseUrl}/v1/audio/transcriptions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() },
        body: JSON.stringify({
          model: 'speechvendor/scribe-v2',
          audio_base64: Buffer.from(audio).toString('base64'),
        }),
      })
      return response.status === 200 ? [] : [`${calls}: ${response.status} ${await response.text()}`]
    }),
  )
  return answers.flat()
}

/** Returns a `fetch` that sends from this address. */
function fetchFrom(from: ClientAddress): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    const headers = Object.fromEntries(request.headers)
    const response = await from.request(request.url, { headers, body: await request.text(), patienceMs: PATIENCE_MS })
    if (!response) throw new Error(`${request.url} did not answer`)
    return response
  }
}
