import { randomUUID } from 'node:crypto'
import { generateMp3 } from '../support/mp3-generator.ts'
import { startTestSandbox } from '../support/test-sandbox.ts'

/** The signed retry of the largest upload must not be decoded again: compares its time with the unpaid request's. */
const sandbox = await startTestSandbox()
try {
  const audio = largestUpload()
  const body = { model: 'speechvendor/scribe-v2', audio_base64: audio.toString('base64') }
  const idempotencyKey = randomUUID()
  const timed = async (headers: Record<string, string> = {}) => {
    const startedAt = performance.now()
    const answer = await sandbox.transcribe({ idempotencyKey, body, headers })
    await answer.clone().arrayBuffer()
    return { answer, ms: performance.now() - startedAt }
  }
  const unpaid = await timed()
  const again = await timed()
  const headers = await sandbox.payer.sign(unpaid.answer)
  const paid = await timed(headers)
  const replay = await timed(headers)
  console.log(`upload                        ${audio.length.toLocaleString('en')} bytes`)
  console.log(`unpaid, first (inspected)     ${unpaid.ms.toFixed(0)} ms, ${unpaid.answer.status}`)
  console.log(`unpaid, again (remembered)    ${again.ms.toFixed(0)} ms, ${again.answer.status}`)
  console.log(`signed retry, whole paid call ${paid.ms.toFixed(0)} ms, ${paid.answer.status}`)
  console.log(`replay of it                  ${replay.ms.toFixed(0)} ms, ${replay.answer.status}`)
} finally {
  await sandbox.stop()
}

function largestUpload(): Buffer {
  return Buffer.from(generateMp3({ durationMs: 1_700_000 }).subarray(0, 26_214_400))
}
