import { describe, expect, test } from 'vitest'

import { walkFrames } from '#shared/audio/walk-frames.ts'
import { generateFrames, joinBytes } from '../../support/media/mp3-generator.ts'
import { ascii, generateApe, generateId3v1, generateId3v2, generateLyrics3 } from '../../support/media/tag-generator.ts'

const frames = generateFrames(20)
// Larger than the limit of unrecognized bytes and full of false syncs.
const COVER_ART = Uint8Array.from({ length: 200_000 }, (_, index) => (index % 97 === 0 ? 0xff : (index * 31) % 256))

const tags: Record<string, Uint8Array> = {
  ID3v1: generateId3v1(),
  'ID3v1 extended': joinBytes(ascii('TAG+'), new Uint8Array(223), generateId3v1()),
  ID3v2: generateId3v2(COVER_ART),
  'ID3v2 without a body': generateId3v2(new Uint8Array()),
  'ID3v2.4 with a footer': generateId3v2(COVER_ART, { footer: true }),
  APEv1: generateApe(1),
  APEv2: generateApe(2, { value: COVER_ART }),
  'APEv2 with only a footer': generateApe(2, { value: COVER_ART, header: false }),
  'Lyrics3 v1': generateLyrics3(1),
  'Lyrics3 v2': generateLyrics3(2),
}
const names = Object.keys(tags)

function tag(name: string): Uint8Array {
  return tags[name] ?? new Uint8Array()
}

function expectFrames(bytes: Uint8Array, frameCount: number): void {
  expect(walkFrames(bytes)).toMatchObject({ outcome: 'mp3', frameCount, unrecognizedBytes: 0 })
}

describe('skipping tags', () => {
  test.each(names)('skips %s before the frames', (name) => expectFrames(joinBytes(tag(name), frames), 20))
  test.each(names)('skips %s after the frames', (name) => expectFrames(joinBytes(frames, tag(name)), 20))
  test.each(names)('skips %s between joined files', (name) => expectFrames(joinBytes(frames, tag(name), frames), 40))
  test.each(names)('skips %s after a truncated last frame', (name) => {
    if (name.startsWith('ID3v2') && !name.includes('footer')) return
    expectFrames(joinBytes(frames.subarray(0, -50), tag(name)), 19)
  })

  test('skips any two consecutive tags before, after and between frames', () => {
    for (const first of names) {
      for (const second of names) {
        const both = joinBytes(tag(first), tag(second))
        const walk = walkFrames(joinBytes(both, frames, both, frames, both))
        expect(walk, `${first}, ${second}`).toMatchObject({ frameCount: 40, unrecognizedBytes: 0 })
      }
    }
  })

  test('counts a single frame between two tags', () => {
    expectFrames(joinBytes(tag('ID3v2'), generateFrames(1), tag('ID3v1')), 1)
  })
})

describe('invalid tags', () => {
  test('rejects an ID3 tag with a size beyond the file', () => {
    const file = joinBytes(generateId3v2(new Uint8Array(100), { claimedBytes: 1_000_000 }), frames)
    expect(walkFrames(file)).toEqual({ outcome: 'unsupported', found: 'an ID3 tag whose size runs past the file' })
    expect(walkFrames(joinBytes(frames, file))).toMatchObject({ outcome: 'unsupported' })
  })

  test('does not treat an ID3 mark with an invalid size as a tag', () => {
    const file = joinBytes(Uint8Array.of(0x49, 0x44, 0x33, 3, 0, 0, 0x80, 0, 0, 0), frames)
    expect(walkFrames(file)).toMatchObject({ outcome: 'mp3', unrecognizedBytes: 10 })
  })

  test('does not treat an APE or Lyrics3 mark with a wrong size as a tag', () => {
    const ape = generateApe(2).slice(0, 32)
    expect(walkFrames(joinBytes(ape, frames))).toMatchObject({ outcome: 'mp3', unrecognizedBytes: 32 })
    expect(walkFrames(joinBytes(frames, ascii('xx000099LYRICS200')))).toMatchObject({ unrecognizedBytes: 17 })
    expect(walkFrames(joinBytes(frames, ascii('xxxxLYRICSEND')))).toMatchObject({ unrecognizedBytes: 13 })
  })

  test('rejects a tag without audio', () => {
    for (const name of names) expect(walkFrames(tag(name))).toMatchObject({ outcome: 'unsupported' })
  })
})
