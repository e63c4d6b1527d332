import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { download, onlyMedia } from '../../../../../client/command/commands/media/download.ts'
import { writeMedia } from '../../../../../client/command/commands/media/write-media.ts'
import { createOutput } from '../../../../../client/command/output/output.ts'
import { scriptedIo } from '../../../../unit/client/command/support/scripted-io.ts'

const MEDIA = Buffer.from('ID3 sound')
const SHA256 = createHash('sha256').update(MEDIA).digest('hex')

let server: Server | undefined
let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'farebox-download-'))
})
afterEach(async () => {
  server?.closeAllConnections()
  server?.close()
  await rm(folder, { recursive: true, force: true })
})

/** Downloads from a server that answers as told, and returns what was written to stderr as well. */
async function fetchFrom(listener: RequestListener, bytes?: number) {
  server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/media/token`
  const io = scriptedIo()
  const context = { output: createOutput(io, false), signal: new AbortController().signal }
  const content = await download(context, { url, key: 'key-1', ...(bytes !== undefined && { bytes }) })
  return { content, notes: io.written.err }
}

const answerMedia: RequestListener = (_request, response) => response.end(MEDIA)
const answerOtherDigest: RequestListener = (_request, response) =>
  response.setHeader('etag', `"${'0'.repeat(64)}"`).end(MEDIA)

async function write(target: string, bytes: Uint8Array) {
  const io = scriptedIo()
  await writeMedia(createOutput(io, false), target, bytes, 'key-1')
  return io.written
}

const PAID = { money: 'settled', message: expect.stringContaining('--request-id key-1') as string }

describe('downloading what was paid for', () => {
  it('returns it when size and digest agree, and goes to where a link leads', async () => {
    const { content } = await fetchFrom((request, response) => {
      if (request.url === '/media/token') response.writeHead(302, { location: '/object' }).end()
      else response.setHeader('etag', `"${SHA256}"`).end(MEDIA)
    }, MEDIA.length)
    expect(Buffer.from(content)).toEqual(MEDIA)
  })

  it('tries again while the server is away, and says so', async () => {
    let requests = 0
    const { content, notes } = await fetchFrom((_request, response) => {
      requests += 1
      if (requests === 1) response.writeHead(503, { 'retry-after': '0' }).end()
      else response.end(MEDIA)
    })
    expect(Buffer.from(content)).toEqual(MEDIA)
    expect(notes).toMatch(/^waiting \d/)
  })

  it('refuses another size, and another content', async () => {
    await expect(fetchFrom(answerMedia, 3)).rejects.toMatchObject({ ...PAID, code: 'media_damaged' })
    await expect(fetchFrom(answerOtherDigest)).rejects.toMatchObject({ ...PAID, code: 'media_damaged' })
  })

  it('says how to get it without another charge when it is gone', async () => {
    const gone = fetchFrom((_request, response) => response.writeHead(404).end())
    await expect(gone).rejects.toMatchObject({ ...PAID, code: 'http_404' })
  })

  it('refuses a URL in plain text, and a result without a file', async () => {
    const context = { output: createOutput(scriptedIo(), false), signal: new AbortController().signal }
    const inPlainText = download(context, { url: 'http://media.example/a', key: 'key-1' })
    await expect(inPlainText).rejects.toMatchObject({ ...PAID, code: 'invalid_url' })
    expect(() => onlyMedia({ data: [] }, 'key-1')).toThrow(expect.objectContaining(PAID) as Error)
    expect(() => onlyMedia({ data: [{}] as never }, 'key-1')).toThrow(expect.objectContaining(PAID) as Error)
  })
})

describe('writing what was paid for', () => {
  it('writes the file completely, and warns of an ending that is not its format’s', async () => {
    expect((await write(join(folder, 'a.mp3'), MEDIA)).err).toBe('')
    expect((await write(join(folder, 'a.wav'), MEDIA)).err).toContain('contains MP3; its usual ending is .mp3')
    expect(await readFile(join(folder, 'a.mp3'))).toEqual(MEDIA)
    expect(await readdir(folder)).toEqual(['a.mp3', 'a.wav'])
  })

  it('leaves nothing when the folder is gone, and says how to get the result without another charge', async () => {
    const target = join(folder, 'gone', 'a.mp3')
    await expect(write(target, MEDIA)).rejects.toMatchObject({ ...PAID, code: 'output_unwritable' })
    expect(await readdir(folder)).toEqual([])
  })
})
