import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { createPocketsphinx } from '../../../infra/sandbox/upstream/hearing/pocketsphinx.ts'

/** Where a transcript has its times: as OpenAI and faster-whisper, whisper.cpp, vLLM, and Ollama write them. */
export type TranscriptShape = 'words' | 'words-in-segments' | 'segments' | 'text'

export interface PocketsphinxServerOptions {
  readonly port?: number
  /** Default `words`. */
  readonly shape?: TranscriptShape
  /** Default `/v1/audio/transcriptions`. */
  readonly path?: string
}

type Word = Awaited<ReturnType<ReturnType<typeof createPocketsphinx>>>[number]

/** A silence of this length ends a segment. */
const GAP_SECONDS = 0.7

/**
 * Starts a small server with OpenAI's API in front of pocketsphinx: an engine of one's own that really hears. It knows
 * English words with their times, and neither speakers, sounds nor the times of characters.
 */
export async function startPocketsphinxServer(options: PocketsphinxServerOptions = {}) {
  const { port = 0, shape = 'words', path = '/v1/audio/transcriptions' } = options
  const hear = createPocketsphinx()
  const calls: { readonly fields: Readonly<Record<string, string>> }[] = []

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? '/', 'http://engine')
    if (request.method === 'GET' && url.pathname === '/v1/models')
      return json(response, 200, { object: 'list', data: [{ id: 'pocketsphinx-en-us', object: 'model' }] })
    if (request.method !== 'POST' || url.pathname !== path) return json(response, 404, { error: 'not found' })
    const form = await readForm(request)
    const file = form?.get('file')
    if (form === undefined || !(file instanceof File)) return json(response, 400, { error: "no 'file' field" })
    const fields = Object.fromEntries(
      [...form].flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
    )
    calls.push({ fields })
    const words = await hear(new Uint8Array(await file.arrayBuffer()))
    json(response, 200, transcript(words, shape, fields))
  }
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (!response.headersSent) json(response, 500, { error: String(error) })
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Every call since the start. */
    calls: calls as readonly (typeof calls)[number][],
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function readForm(request: IncomingMessage): Promise<FormData | undefined> {
  const headers = { 'content-type': request.headers['content-type'] ?? '' }
  try {
    return await new Response(await buffer(request), { headers }).formData()
  } catch {
    return undefined
  }
}

function transcript(words: readonly Word[], shape: TranscriptShape, fields: Readonly<Record<string, string>>) {
  const text = textOf(words)
  if (shape === 'text' || fields['response_format'] !== 'verbose_json') return { text }
  const general = { task: 'transcribe', language: 'english', duration: words.at(-1)?.endSeconds ?? 0, text }
  const segments = segmentsOf(words)
  if (shape === 'segments') return { ...general, segments: segments.map(segmentOf) }
  if (shape === 'words-in-segments')
    return { ...general, segments: segments.map((each, id) => ({ ...segmentOf(each, id), words: each.map(tokenOf) })) }
  const wantsWords = fields['timestamp_granularities[]'] === 'word'
  return wantsWords ? { ...general, words: words.map(wordOf) } : { ...general, segments: segments.map(segmentOf) }
}

function segmentsOf(words: readonly Word[]): readonly (readonly Word[])[] {
  const segments: Word[][] = []
  for (const word of words) {
    const current = segments.at(-1)
    const silence = word.startSeconds - (current?.at(-1)?.endSeconds ?? Number.NEGATIVE_INFINITY)
    if (current === undefined || silence > GAP_SECONDS) segments.push([word])
    else current.push(word)
  }
  return segments
}

function segmentOf(words: readonly Word[], id: number) {
  return { id, start: words.at(0)?.startSeconds, end: words.at(-1)?.endSeconds, text: ` ${textOf(words)}` }
}

function wordOf({ text: word, startSeconds: start, endSeconds: end }: Word) {
  return { word, start, end }
}

/** Whisper's tokens carry the space before a word. */
function tokenOf(word: Word) {
  return { ...wordOf(word), word: ` ${word.text}` }
}

function textOf(words: readonly Word[]): string {
  return words.map(({ text }) => text).join(' ')
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
