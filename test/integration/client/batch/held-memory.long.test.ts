import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { prepareTranscription } from '../../../../client/payment/prepare-call.ts'
import { sendCall } from '../../../../client/payment/send-call.ts'

const RECORDING_BYTES = 25 * 1024 * 1024
const UPLOADS = 8
const PAYMENT = { header: 'signed', maximum: 1n, deadline: Number.POSITIVE_INFINITY }

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-memory-'))
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

/** Starts a server that reads each upload and then waits until it may answer, as for a transcription. */
async function startSlowServer() {
  const waiting: (() => void)[] = []
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => waiting.push(() => response.end('{}')))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, waiting, server }
}

async function prepareUpload(url: string) {
  const content = new Uint8Array(RECORDING_BYTES)
  const file = join(folder, 'recording.mp3')
  await writeFile(file, content)
  const audio = { sha256: createHash('sha256').update(content).digest('hex'), bytes: RECORDING_BYTES, duration_ms: 1 }
  return await prepareTranscription(url, { file, audio }, {})
}

describe('uploads of large files', () => {
  it('are not held in memory until they are answered', async () => {
    const { url, waiting, server } = await startSlowServer()
    const call = await prepareUpload(url)
    const before = process.memoryUsage().arrayBuffers
    const answers = Array.from({ length: UPLOADS }, () => sendCall({ fetch }, call, PAYMENT))
    await expect.poll(() => waiting.length).toBe(UPLOADS)
    const held = () => process.memoryUsage().arrayBuffers - before
    await expect.poll(held).toBeLessThan((UPLOADS * RECORDING_BYTES) / 2)
    for (const answer of waiting) answer()
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(UPLOADS).fill(200))
    server.close()
    server.closeAllConnections()
  })

  it('stop at a redirect without a second request', async () => {
    const requests: string[] = []
    const server = createServer((request, response) => {
      requests.push(request.url ?? '')
      response.writeHead(307, { location: '/elsewhere' }).end()
      request.resume()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const call = await prepareUpload(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    await expect(sendCall({ fetch }, call, PAYMENT)).rejects.toMatchObject({ code: 'redirected', money: 'unknown' })
    expect(requests).toEqual(['/v1/audio/transcriptions'])
    server.close()
    server.closeAllConnections()
  })
})
