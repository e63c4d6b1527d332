import { describe, expect, it } from 'vitest'
import { resolveRequest } from '../../../../client/batch/plan/batch-request.ts'
import type { BatchOptions } from '../../../../client/batch/types.ts'

const OPTIONS: BatchOptions = {
  request: {},
  formats: ['srt'],
  output: {},
  subtitles: {},
  receipts: false,
  concurrency: 8,
  pack: false,
  again: false,
}
const resolve = (changes: Partial<BatchOptions>) => resolveRequest({ ...OPTIONS, ...changes })

describe('the request of a batch', () => {
  it('asks for the times of words', () => {
    expect(resolve({ request: { language: undefined, diarize: true } }).fields).toEqual({
      model: 'speechvendor/scribe-v2',
      timestamps: 'word',
      diarize: true,
    })
  })

  it('is another call with other fields, and the same call with other subtitles', () => {
    const plain = resolve({})
    const styled = resolve({ subtitles: { style: 'bbc' } })
    const other = resolve({ request: { language: 'en' } })
    expect(styled.callDigest).toBe(plain.callDigest)
    expect(styled.renderingDigest).not.toBe(plain.renderingDigest)
    expect(other.callDigest).not.toBe(plain.callDigest)
  })

  it.each<Partial<BatchOptions>>([
    { formats: [] },
    { concurrency: 0 },
    { concurrency: 1.5 },
    { subtitles: { maximumLine: 3 } },
    { output: { template: '{title}' } },
    { request: { timestamps: 'none' } },
    { request: { timestamps: 'none' }, formats: ['txt'], pack: true },
  ])('refuses what cannot be followed, before anything is read: %j', (changes) => {
    expect(() => resolve(changes)).toThrow(expect.objectContaining({ code: 'invalid_options', money: 'none' }))
  })
})
