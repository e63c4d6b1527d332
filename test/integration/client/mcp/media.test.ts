import { createHash } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mediaContent } from '../../../../client/mcp/content/media.ts'

const SMALL_PNG = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(1000, 1)])
const LARGE_PNG = Buffer.concat([SMALL_PNG, Buffer.alloc(600_000, 2)])
const MP3 = Buffer.concat([Buffer.from('ID3', 'latin1'), Buffer.alloc(500, 3)])
const NO_IMAGE = Buffer.from('<html>not an image</html>')

const FILES: Readonly<Record<string, Buffer>> = {
  '/small.png': SMALL_PNG,
  '/large.png': LARGE_PNG,
  '/speech.mp3': MP3,
  '/page.png': NO_IMAGE,
  '/damaged.png': SMALL_PNG,
}

let server: Server
let origin: string
let requests: string[]
beforeAll(async () => {
  requests = []
  server = createServer(({ url = '' }, response) => {
    requests.push(url)
    const file = FILES[url]
    if (file === undefined) return response.writeHead(404).end()
    const content = url === '/damaged.png' ? 'other' : file
    response.setHeader('etag', `"${createHash('sha256').update(content).digest('hex')}"`).end(file)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.close()
})

const { signal } = new AbortController()

async function contentOf(path: string, kind: 'image' | 'audio' = 'image', bytes?: number) {
  const file = { url: `${origin}${path}`, kind, name: 'file', ...(bytes !== undefined && { bytes }) }
  return await mediaContent(file, signal)
}

describe('a file that a paid call has made', () => {
  it('is linked and, when it is small, returned inline as well', async () => {
    expect((await contentOf('/small.png')).content).toEqual([
      {
        type: 'resource_link',
        uri: `${origin}/small.png`,
        name: 'file',
        size: SMALL_PNG.length,
        mimeType: 'image/png',
      },
      { type: 'image', data: SMALL_PNG.toString('base64'), mimeType: 'image/png' },
    ])
    expect((await contentOf('/speech.mp3', 'audio', MP3.length)).content).toEqual([
      { type: 'resource_link', uri: `${origin}/speech.mp3`, name: 'file', size: MP3.length, mimeType: 'audio/mpeg' },
      { type: 'audio', data: MP3.toString('base64'), mimeType: 'audio/mpeg' },
    ])
  })

  it('is only linked when it is large, and not fetched when the result states that it is', async () => {
    expect((await contentOf('/large.png')).content).toMatchObject([{ type: 'resource_link', size: LARGE_PNG.length }])
    const before = requests.length
    expect((await contentOf('/speech.mp3', 'audio', 5_000_000)).content).toMatchObject([{ type: 'resource_link' }])
    expect(requests.length).toBe(before)
  })

  it('is only linked when it is not what it should be', async () => {
    expect((await contentOf('/page.png')).content).toMatchObject([{ type: 'resource_link' }])
  })

  it.each([
    ['/gone.png', undefined, 'http_404'],
    ['/damaged.png', undefined, 'media_damaged'],
    ['/speech.mp3', MP3.length + 1, 'media_damaged'],
  ])('is only linked, and says why, when %s cannot be fetched whole', async (path, bytes, code) => {
    const { content, meta } = await contentOf(path, 'image', bytes)
    expect(content).toMatchObject([{ type: 'resource_link', uri: `${origin}${path}` }])
    expect(meta).toEqual({ 'farebox/not_inline': code })
  })

  it('is refused at an address that is neither encrypted nor of this machine', async () => {
    const file = { url: 'http://media.example/a.png', kind: 'image', name: 'file' } as const
    await expect(mediaContent(file, signal)).rejects.toMatchObject({ code: 'answer_damaged', money: 'settled' })
  })
})
