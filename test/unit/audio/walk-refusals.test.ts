import { describe, expect, test } from 'vitest'

import { walkFrames } from '#shared/audio/walk-frames.ts'
import { generateFrames, joinBytes } from '../../support/media/mp3-generator.ts'
import { ascii, generateId3v2 } from '../../support/media/tag-generator.ts'

const frames = generateFrames(20)
const limit = 65_536

/** The same pseudo-random bytes every time, with false syncs among them as chance has it. */
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

describe('what is not MP3 is refused by name', () => {
  test.each(names)('%s', (found) => expect(walkFrames(part(found))).toEqual({ outcome: 'unsupported', found }))

  test.each(names)('%s behind an ID3 tag, where MP3 frames follow', (found) => {
    const file = joinBytes(generateId3v2(new Uint8Array(100)), part(found), frames)
    expect(walkFrames(file)).toEqual({ outcome: 'unsupported', found })
  })

  test.each(names)('%s appended to MP3 frames', (found) => {
    expect(walkFrames(joinBytes(frames, part(found)))).toEqual({ outcome: 'unsupported', found })
  })

  test.each(['ADTS AAC audio', 'MPEG layer II audio', 'MPEG layer I audio'])('%s behind garbage', (found) => {
    expect(walkFrames(joinBytes(garbage(501), part(found)))).toEqual({ outcome: 'unsupported', found })
  })

  test('an empty file, text, zeros and a lone header', () => {
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

test('a stream that breaks after every frame is refused', () => {
  const piece = joinBytes(generateFrames(1, { sampleRate: 24_000 }), generateFrames(1))
  const bytes = joinBytes(...Array.from({ length: 2_002 }, () => piece))
  const found = 'more than 4,000 breaks in the stream of frames'
  expect(walkFrames(bytes)).toEqual({ outcome: 'unsupported', found })
})

describe('unrecognised bytes', () => {
  const tooMany = { outcome: 'unsupported', found: 'more than 65,536 bytes that are not MP3 frames' }

  test('64 KiB in front are accepted, one more is not', () => {
    expect(walkFrames(joinBytes(garbage(limit), frames))).toMatchObject({ outcome: 'mp3', unrecognisedBytes: limit })
    expect(walkFrames(joinBytes(garbage(limit + 1), frames))).toMatchObject({ outcome: 'unsupported' })
  })

  test('64 KiB behind are accepted, one more is not', () => {
    expect(walkFrames(joinBytes(frames, garbage(limit)))).toMatchObject({ frameCount: 20, unrecognisedBytes: limit })
    expect(walkFrames(joinBytes(frames, garbage(limit + 1)))).toEqual(tooMany)
  })

  test('64 KiB in all, wherever they stand', () => {
    const quarter = limit / 4
    const file = (last: number) =>
      joinBytes(garbage(quarter), frames, garbage(quarter), frames, garbage(quarter), frames, garbage(last))
    expect(walkFrames(file(quarter))).toMatchObject({ frameCount: 60, unrecognisedBytes: limit, discontinuities: 2 })
    expect(walkFrames(file(quarter + 1))).toEqual(tooMany)
  })

  test('a resynchronisation needs three consecutive frames of one kind', () => {
    const two = generateFrames(2, { bitrate: 64, sampleRate: 48_000 })
    expect(walkFrames(joinBytes(garbage(100), two, garbage(100), frames))).toMatchObject({
      frameCount: 20,
      unrecognisedBytes: 200 + two.length,
    })
    expect(walkFrames(joinBytes(garbage(100), generateFrames(3), garbage(100), frames))).toMatchObject({
      frameCount: 23,
    })
  })
})
