import { describe, expect, it } from 'vitest'
import { speech } from '#shared/operations/speech.ts'
import { requestedMedia } from '../../../api/paid-request/job/media-response.ts'
import { acceptQuality } from '../../../api/request/accept-quality.ts'

describe('the quality value of a media type', () => {
  it.each([
    [undefined, 1],
    ['', 1],
    ['audio/mpeg', 1],
    ['AUDIO/MPEG;Q=0.25', 0.25],
    ['audio/mpeg; codecs=mp3; q=0.5', 0.5],
    ['audio/*;q=0.3, */*;q=0.9', 0.3],
    ['audio/mpeg;q=0, audio/*', 0],
    ['*/*;q=0.8', 0.8],
    ['text/html', 0],
    ['audio/mpeg;q=7', 1],
  ])('in %j is %d for audio/mpeg', (accept, quality) => {
    expect(acceptQuality(accept, 'audio/mpeg')).toBe(quality)
  })
})

describe('the body of a speech answer', () => {
  it.each(['audio/mpeg', 'audio/*', 'application/octet-stream', 'application/json;q=0.5, audio/mpeg;q=0.6'])(
    'is the MP3 for Accept: %s [spec O37]',
    (accept) => {
      expect(requestedMedia(speech as never, accept)).toBe(speech.mediaResponse)
    },
  )

  it.each([
    undefined,
    '*/*',
    'application/json',
    'text/html, */*;q=0.8',
    'audio/mpeg;q=0, application/json',
    'audio/mpeg;q=0',
    'application/json, audio/mpeg;q=0.1',
    'audio/mpeg, application/json',
    'audio/wav',
    'image/png',
  ])('is JSON for Accept: %s, which does not prefer the MP3 [spec O37]', (accept) => {
    expect(requestedMedia(speech as never, accept)).toBeNull()
  })
})
