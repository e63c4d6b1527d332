import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { walkFrames } from '#shared/audio/walk-frames.ts'
import { generateFrames, joinBytes } from '../../support/media/mp3-generator.ts'
import { ascii, generateApe, generateId3v1, generateId3v2, generateLyrics3 } from '../../support/media/tag-generator.ts'

const pieces = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.integer({ min: 1, max: 5 }).map((count) => generateFrames(count)),
  fc.constantFrom(8_000, 22_050, 48_000).map((sampleRate) => generateFrames(3, { sampleRate })),
  fc.integer({ min: 50, max: 400 }).map((freeFormatBytes) => generateFrames(3, { freeFormatBytes })),
  fc.constantFrom(
    generateId3v1(),
    generateId3v2(new Uint8Array(50)),
    generateApe(1),
    generateApe(2),
    generateLyrics3(2),
  ),
  fc.constantFrom('ID3', 'TAG', 'APETAGEX', 'LYRICSBEGIN', 'LYRICS200', '3DI', 'RIFF', 'Xing').map(ascii),
)

describe('hostile bytes', () => {
  test('never throws, and returns consistent numbers for accepted bytes', () => {
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
        const bytes = joinBytes(...parts)
        const walk = walkFrames(bytes)
        if (walk.outcome === 'unsupported') return walk.found.length > 0
        const samples = walk.parts.reduce((sum, part) => sum + part.samples, 0)
        const perFrame = samples / walk.frameCount
        return walk.durationMs > 0 && perFrame >= 576 && perFrame <= 1152 && walk.decodable.otherBytes >= 0
      }),
      { numRuns: 3000 },
    )
  })

  test('changes the count by no more than the affected frames when bytes are changed, removed or inserted', () => {
    const whole = generateFrames(200)
    const place = fc.integer({ min: 2000, max: whole.length - 2000 })
    fc.assert(
      fc.property(place, fc.integer({ min: 0, max: 2 }), fc.integer({ min: 0, max: 255 }), (at, skipped, value) => {
        const bytes = joinBytes(whole.subarray(0, at), Uint8Array.of(value), whole.subarray(at + skipped))
        const walk = walkFrames(bytes)
        return walk.outcome === 'mp3' && walk.frameCount >= 197 && walk.frameCount <= 201
      }),
      { numRuns: 1000 },
    )
  })

  test('counts the complete frames of any truncated file', () => {
    const whole = generateFrames(40)
    fc.assert(
      fc.property(fc.integer({ min: 836, max: whole.length }), (length) => {
        const walk = walkFrames(whole.subarray(0, length))
        return walk.outcome === 'mp3' && Math.abs(walk.frameCount - length / 417.96) < 1.1
      }),
    )
  })
})

function repeated(piece: Uint8Array, length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let offset = 0; offset + piece.length <= length; offset += piece.length) bytes.set(piece, offset)
  return bytes
}

/** Items of an APE tag that never lead to a footer. */
const ENDLESS_APE_ITEM = joinBytes(Uint8Array.of(0, 0, 0, 0), new Uint8Array(4), ascii(`${'k'.repeat(200)}\0`))
const smallFrames = (count: number) => generateFrames(count, { sampleRate: 24_000, bitrate: 8 })
const FREE_FORMAT_HEADER = Uint8Array.of(0xff, 0xfb, 0x00, 0x00)

/** Repeated pieces, and the bytes before them. */
const HOSTILE: Record<string, readonly [piece: Uint8Array, before?: Uint8Array]> = {
  'all sync bytes': [Uint8Array.of(0xff)],
  'headers of free format': [FREE_FORMAT_HEADER],
  'headers of free format after frames': [FREE_FORMAT_HEADER, generateFrames(3)],
  'free format that ends after two frames': [joinBytes(generateFrames(2, { freeFormatBytes: 200 }), new Uint8Array(3))],
  'a byte of garbage after every three frames': [joinBytes(smallFrames(3), Uint8Array.of(1))],
  'tags between small frames': [joinBytes(smallFrames(3), generateId3v2(new Uint8Array()))],
  'endless APE items': [joinBytes(smallFrames(3), ENDLESS_APE_ITEM, ENDLESS_APE_ITEM)],
  'ID3v1 tags only': [generateId3v1()],
  'Lyrics3 marks': [joinBytes(smallFrames(3), ascii('LYRICSBEGINLYR00000LYR00000'))],
  'Lyrics3 ends': [ascii('LYRICSBEGINLYRICSEND')],
  'rates that change with every frame': [
    joinBytes(smallFrames(1), generateFrames(1, { sampleRate: 22_050, bitrate: 8 })),
  ],
  'the smallest frames': [smallFrames(1)],
}

const LENGTH = 16 * 1024
/** Limit of reads per byte, to end a test. The worst case needs 58. */
const MAXIMUM_READS = 100
/** Twice the bytes need twice the reads and a few more near the end. Quadratic work would need four times as many. */
const GROWTH = 2.5

/** Counts the reads of a walk. */
function readsOf(bytes: Uint8Array): number {
  let reads = 0
  const count = (more: number) => {
    reads += more
    if (reads > MAXIMUM_READS * bytes.length) throw new Error(`more than ${MAXIMUM_READS} reads per byte`)
  }
  const others: Pick<Uint8Array, 'subarray' | 'indexOf'> = {
    subarray: (...range) => bytes.subarray(...range),
    indexOf: (value, start = 0) => {
      const found = bytes.indexOf(value, start)
      count((found < 0 ? bytes.length : found) - start)
      return found
    },
  }
  const get = (_: Uint8Array, name: string): unknown => {
    const value: unknown = Reflect.get(bytes, name)
    if (typeof value !== 'number') return Reflect.get(others, name)
    count(1)
    return value
  }
  walkFrames(new Proxy(bytes, { get }))
  return reads
}

describe('the time of a walk', () => {
  test.each(Object.entries(HOSTILE))('is linear in the length of %s', (_name, [piece, before = new Uint8Array()]) => {
    const readsOfLength = (length: number) => readsOf(joinBytes(before, repeated(piece, length)))
    expect(readsOfLength(2 * LENGTH)).toBeLessThanOrEqual(GROWTH * readsOfLength(LENGTH))
  })
})
