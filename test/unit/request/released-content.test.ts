import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { readEffectiveRequest } from '../../../api/request/effective-request.ts'
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
  // A reference that was read is kept until the end of its turn.
  await setImmediate()
  collectGarbage()
  expect(recording.deref() === undefined).toBe(true)
  expect(effectiveRequest.recording?.audio.bytes).toBe(BYTES)
})
