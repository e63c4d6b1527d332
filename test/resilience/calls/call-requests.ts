import { randomUUID } from 'node:crypto'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'

/** The kinds of paid calls that campaigns make. */
export type CallKind = 'chat' | 'message' | 'image' | 'speech' | 'transcription'

export interface CallRequest {
  readonly path: string
  readonly body: string
  /** Identifies the call at the upstream: see `CallRecord.marker`. */
  readonly marker: string
  /** The audio that is sent; no store may contain a run of its bytes in plain. */
  readonly audio: Uint8Array | null
}

/** Returns a small valid request that differs from every other; with the same `marker`, texts are the same again. */
export function newCallRequest(kind: CallKind, marker = `call-${randomUUID()}`): CallRequest {
  switch (kind) {
    case 'chat':
      return textRequest('/v1/chat/completions', marker, {
        model: 'textmodel-3.5-flash',
        max_tokens: 40,
        messages: [{ role: 'user', content: `Repeat the name of this call: ${marker}` }],
      })
    case 'message':
      return textRequest('/v1/messages', marker, {
        model: 'textmodel-2.5-pro',
        max_tokens: 40,
        messages: [{ role: 'user', content: `Repeat the name of this call: ${marker}` }],
      })
    case 'image':
      return textRequest('/v1/images/generations', marker, {
        model: 'textmodel-3.1-flash-lite-image',
        prompt: `A ticket that says ${marker}`,
      })
    case 'speech':
      return textRequest('/v1/audio/speech', marker, {
        model: 'speechvendor/flash-v2.5',
        input: `Next stop: ${marker}.`,
        voice: 'talia',
      })
    case 'transcription':
      return transcriptionRequest(marker)
  }
}

function textRequest(path: string, marker: string, body: Record<string, unknown>): CallRequest {
  return { path, marker, body: JSON.stringify(body), audio: null }
}

function transcriptionRequest(seed: string): CallRequest {
  const audio = generateMp3({ durationMs: 1200, seed, bitrate: 32, mode: 'mono' })
  const body = { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
  return { path: '/v1/audio/transcriptions', body: JSON.stringify(body), marker: sha256Hex(audio), audio }
}
