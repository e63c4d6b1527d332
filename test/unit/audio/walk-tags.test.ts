import { describe, expect, test } from 'vitest'

import { walkFrames } from '#shared/audio/walk-frames.ts'
import { generateFrames, joinBytes } from '../../support/media/mp3-generator.ts'
import { ascii, generateApe, generateId3v1, generateId3v2, generateLyrics3 } from '../../support/media/tag-generator.ts'

const frames = generateFrames(20)
// Larger than what may go unrecognised, and full of syncs that are none of the stream's.
const coverArt = Uint8Array.from({ length: 200_000 }, (_, index) => (index % 97 === 0 ? 0xff : (index * 31) % 256))

const tags: Record<string, Uint8Array> = {
  ID3v1: generateId3v1(),
  'ID3v1 extended': joinBytes(ascii('TAG+'), new Uint8Array(223), generateId3v1()),
  ID3v2: generateId3v2(coverArt),
  'ID3v2 without a body': generateId3v2(new Uint8Array()),
  'ID3v2.4 with a footer': generateId3v2(coverArt, { footer: true }),
  APEv1: generateApe(1),
  APEv2: generateApe(2, { value: coverArt }),
  'APEv2 with only a footer': generateApe(2, { value: coverArt, header: false }),
  'Lyrics3 v1': generateLyrics3(1),
  'Lyrics3 v2': generateLyrics3(2),
}
const names = Object.keys(tags)

function tag(name: string): Uint8Array {
  return tags[name] ?? new Uint8Array()
}

function expectFrames(bytes: Uint8Array, frameCount: number): void {
  expect(walkFrames(bytes)).toMatchObject({ outcome: 'mp3', frameCount, unrecognisedBytes: 0 })
}

describe('tags are skipped by their structure', () => {
  test.each(names)('%s in front', (name) => expectFrames(joinBytes(tag(name), frames), 20))
  test.each(names)('%s behind', (name) => expectFrames(joinBytes(frames, tag(name)), 20))
  test.each(names)('%s between joined files', (name) => expectFrames(joinBytes(frames, tag(name), frames), 40))
  test.each(names)('%s behind a cut last frame', (name) => {
    if (name.startsWith('ID3v2') && !name.includes('footer')) return
    expectFrames(joinBytes(frames.subarray(0, -50), tag(name)), 19)
  })

  test('any two in a row, in front, behind and between', () => {
    for (const first of names) {
      for (const second of names) {
        const both = joinBytes(tag(first), tag(second))
        const walk = walkFrames(joinBytes(both, frames, both, frames, both))
        expect(walk, `${first}, ${second}`).toMatchObject({ frameCount: 40, unrecognisedBytes: 0 })
      }
    }
  })

  test('a single frame between two tags', () => {
    expectFrames(joinBytes(tag('ID3v2'), generateFrames(1), tag('ID3v1')), 1)
  })
})

describe('tags that lie', () => {
  test('an ID3 size that runs past the file is refused', () => {
    const file = joinBytes(generateId3v2(new Uint8Array(100), { claimedBytes: 1_000_000 }), frames)
    expect(walkFrames(file)).toEqual({ outcome: 'unsupported', found: 'an ID3 tag whose size runs past the file' })
    expect(walkFrames(joinBytes(frames, file))).toMatchObject({ outcome: 'unsupported' })
  })

  test('an ID3 size that is not syncsafe makes it no tag', () => {
    const file = joinBytes(Uint8Array.of(0x49, 0x44, 0x33, 3, 0, 0, 0x80, 0, 0, 0), frames)
    expect(walkFrames(file)).toMatchObject({ outcome: 'mp3', unrecognisedBytes: 10 })
  })

  test('an APE or Lyrics3 size that its other end does not bear out makes it no tag', () => {
    const ape = generateApe(2).slice(0, 32)
    expect(walkFrames(joinBytes(ape, frames))).toMatchObject({ outcome: 'mp3', unrecognisedBytes: 32 })
    expect(walkFrames(joinBytes(frames, ascii('xx000099LYRICS200')))).toMatchObject({ unrecognisedBytes: 17 })
    expect(walkFrames(joinBytes(frames, ascii('xxxxLYRICSEND')))).toMatchObject({ unrecognisedBytes: 13 })
  })

  test('a tag alone is not audio', () => {
    for (const name of names) expect(walkFrames(tag(name))).toMatchObject({ outcome: 'unsupported' })
  })
})
