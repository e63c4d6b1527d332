import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { chatCompletions } from '#shared/operations/chat-completions.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { readEffectiveRequest } from '../../../api/request/effective-request.ts'
import { prepareBody } from '../../../api/request/prepare-request.ts'
import { fixedCatalogs } from '../../support/http/fixed-catalogs.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const BYTES = 25 * 2 ** 20
const body = { model: 'speechvendor/scribe-v2', response_format: 'json' }

/** Reads a transcription request whose recording only the effective request still refers to. */
async function readWithRecording() {
  const audio = new Uint8Array(BYTES)
  const effectiveRequest = await readEffectiveRequest(
    {
      catalogs: fixedCatalogs(),
      preparer: {
        prepareRequest: async () => ({
          kind: 'upload',
          body: { ...body },
          upload: { audio, sha256: '0'.repeat(64) } as never,
          uploadParam: 'file',
        }),
      } as never,
      mp3Inspector: { inspect: async () => ({ durationMs: 1000 }) } as never,
    },
    transcriptions,
    { isMultipart: () => false, body: null } as never,
    { client: {} as never, hasPriority: false },
  )
  return { effectiveRequest, recording: new WeakRef(audio) }
}

it('the recording of a caller who waits for their job is not kept in memory', async () => {
  const { effectiveRequest, recording } = await readWithRecording()
  effectiveRequest.releaseContent()
  await expect.poll(() => isCollected(recording)).toBe(true)
  expect(effectiveRequest.recording?.audio.bytes).toBe(BYTES)
})

const CHATS = 40
const TEXT_CHARACTERS = 100_000

/** Reads a chat request whose text only the effective request still refers to. */
async function readWithText() {
  const catalogs = fixedCatalogs()
  const body = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'x'.repeat(TEXT_CHARACTERS) }] }
  const parsed: unknown = JSON.parse(JSON.stringify(body))
  return await readEffectiveRequest(
    {
      catalogs,
      preparer: {
        prepareRequest: async (operation: AnyOperation, given: unknown, read: Catalog) =>
          prepareBody(operation, given, { read, offered: catalogs.offered }),
      } as never,
      mp3Inspector: {} as never,
    },
    chatCompletions,
    { body: parsed } as never,
    { client: {} as never, hasPriority: false },
  )
}

it('the text of a caller who waits for their job is not kept in memory, and its price is still known', async () => {
  const prices = (await readWithText()).quote()
  const before = usedMemory()
  const held = await Promise.all(Array.from({ length: CHATS }, readWithText))
  for (const { releaseContent } of held) releaseContent()
  await expect.poll(() => usedMemory() - before).toBeLessThan((CHATS * TEXT_CHARACTERS) / 2)
  for (const { quote } of held) expect(quote()).toEqual(prices)
})

/** For polling: a reference that was read is kept until the end of its turn. */
function isCollected(reference: WeakRef<object>): boolean {
  collectGarbage()
  return reference.deref() === undefined
}

/** For polling: a collection that was already under way keeps what was made since it began. */
function usedMemory(): number {
  collectGarbage()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
