import { describe, expect, test } from 'vitest'

import { walkFrames } from '#shared/audio/walk-frames.ts'
import { generateFrames, joinBytes } from '../../support/media/mp3-generator.ts'
import { ascii, generateId3v2 } from '../../support/media/tag-generator.ts'

const frames = generateFrames(20)
const LIMIT = 65_536

/** Returns the same pseudo-random bytes every time, with random false syncs. */
function garbage(length: number): Uint8Array {
  let state = 12_345
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return state >>> 24
  })
}

function frameOf(header: readonly number[], length: number, count = 5): Uint8Array {
  const frame = new Uint8Array(length)
  frame.set(header)
  return joinBytes(...Array.from({ length: count }, () => frame))
}

const adtsFrame = [0xff, 0xf1, 0x50, 0x80, 0x0c, 0x9f, 0xfc] // 100 bytes
const foreign: Record<string, Uint8Array> = {
  'a RIFF/WAVE container': joinBytes(ascii('RIFF\x24\x08\0\0WAVEfmt '), new Uint8Array(200)),
  'an ISO base media (MP4, M4A, MOV) container': joinBytes(ascii('\0\0\0\x20ftypM4A \0\0\0\0'), new Uint8Array(200)),
  'an Ogg container': joinBytes(ascii('OggS\0\x02'), new Uint8Array(200)),
  'a FLAC stream': joinBytes(ascii('fLaC\0\0\0\x22'), new Uint8Array(200)),
  'a Matroska or WebM container': joinBytes(Uint8Array.of(0x1a, 0x45, 0xdf, 0xa3), new Uint8Array(200)),
  'ADTS AAC audio': frameOf(adtsFrame, 100),
  'an AIFF container': joinBytes(ascii('FORM\0\0\0\x24AIFFCOMM'), new Uint8Array(200)),
  'MPEG layer II audio': frameOf([0xff, 0xfd, 0x90, 0x00], 522),
  'MPEG layer I audio': frameOf([0xff, 0xff, 0x80, 0x00], 276),
}
const names = Object.keys(foreign)

function part(name: string): Uint8Array {
  return foreign[name] ?? new Uint8Array()
}

describe('rejecting other formats by name [spec B12]', () => {
  test.each(names)('rejects %s', (found) => expect(walkFrames(part(found))).toEqual({ outcome: 'unsupported', found }))

  test.each(names)('rejects %s after an ID3 tag and before MP3 frames', (found) => {
    const file = joinBytes(generateId3v2(new Uint8Array(100)), part(found), frames)
    expect(walkFrames(file)).toEqual({ outcome: 'unsupported', found })
  })

  test.each(names)('rejects %s appended to MP3 frames', (found) => {
    expect(walkFrames(joinBytes(frames, part(found)))).toEqual({ outcome: 'unsupported', found })
  })

  test.each(['ADTS AAC audio', 'MPEG layer II audio', 'MPEG layer I audio'])('rejects %s after garbage', (found) => {
    expect(walkFrames(joinBytes(garbage(501), part(found)))).toEqual({ outcome: 'unsupported', found })
  })

  test('rejects an empty file, text, zeros and a single header', () => {
    expect(walkFrames(new Uint8Array())).toMatchObject({ found: 'an empty file' })
    for (const bytes of [
      ascii('no audio here'),
      new Uint8Array(1000),
      frames.subarray(0, 4),
      frames.subarray(0, 400),
    ]) {
      expect(walkFrames(bytes)).toEqual({ outcome: 'unsupported', found: 'no MPEG audio frames' })
    }
    const found = 'no MPEG audio frames in the first 65,536 bytes'
    expect(walkFrames(new Uint8Array(1_000_000))).toEqual({ outcome: 'unsupported', found })
  })
})

test('rejects a stream that breaks after every frame', () => {
  const piece = joinBytes(generateFrames(1, { sampleRate: 24_000 }), generateFrames(1))
  const bytes = joinBytes(...Array.from({ length: 2_002 }, () => piece))
  const found = 'more than 4,000 breaks in the stream of frames'
  expect(walkFrames(bytes)).toEqual({ outcome: 'unsupported', found })
})

describe('unrecognized bytes', () => {
  const tooMany = { outcome: 'unsupported', found: 'more than 65,536 bytes that are not MP3 frames' }

  test('accepts 64 KiB of garbage before the frames but not one byte more', () => {
    expect(walkFrames(joinBytes(garbage(LIMIT), frames))).toMatchObject({ outcome: 'mp3', unrecognizedBytes: LIMIT })
    expect(walkFrames(joinBytes(garbage(LIMIT + 1), frames))).toMatchObject({ outcome: 'unsupported' })
  })

  test('accepts 64 KiB of garbage after the frames but not one byte more', () => {
    expect(walkFrames(joinBytes(frames, garbage(LIMIT)))).toMatchObject({ frameCount: 20, unrecognizedBytes: LIMIT })
    expect(walkFrames(joinBytes(frames, garbage(LIMIT + 1)))).toEqual(tooMany)
  })

  test('accepts 64 KiB of garbage in total at several places', () => {
    const quarter = LIMIT / 4
    const file = (last: number) =>
      joinBytes(garbage(quarter), frames, garbage(quarter), frames, garbage(quarter), frames, garbage(last))
    expect(walkFrames(file(quarter))).toMatchObject({ frameCount: 60, unrecognizedBytes: LIMIT, discontinuities: 2 })
    expect(walkFrames(file(quarter + 1))).toEqual(tooMany)
  })

  test('resynchronizes at three consecutive frames of one stream', () => {
    const two = generateFrames(2, { bitrate: 64, sampleRate: 48_000 })
    expect(walkFrames(joinBytes(garbage(100), two, garbage(100), frames))).toMatchObject({
      frameCount: 20,
      unrecognizedBytes: 200 + two.length,
    })
    expect(walkFrames(joinBytes(garbage(100), generateFrames(3), garbage(100), frames))).toMatchObject({
      frameCount: 23,
    })
  })
})
