import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Mp3Walk, walkFrames } from '#mp3/walk-frames.ts'
import {
  durationMsOfFrames,
  generatedDurationMs,
  generateFrames,
  generateInfoFrame,
  generateMp3,
  joinBytes,
  MPEG1_BITRATES,
  MPEG2_BITRATES,
  SAMPLE_RATES,
  STEREO_MODES,
  samplesPerFrame,
} from '../../support/media/mp3-generator.ts'
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
function tag(name: string): Uint8Array {
  return tags[name] ?? new Uint8Array()
}
function expectFrames(bytes: Uint8Array, frameCount: number): void {
  expect(walkFrames(bytes)).toMatchObject({ outcome: 'mp3', frameCount, unrecognizedBytes: 0 })
}
function accepted(bytes: Uint8Array): Mp3Walk {
  const walk = walkFrames(bytes)
  if (walk.outcome !== 'mp3') throw new Error(`rejected: ${walk.found}`)
  return walk
}
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
function part(name: string): Uint8Array {
  return foreign[name] ?? new Uint8Array()
}

describe('tags around the frames', () => {
  const names = Object.keys(tags)
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
})

describe('counting frames', () => {
  const combinations = SAMPLE_RATES.flatMap((sampleRate) =>
    (sampleRate >= 32_000 ? MPEG1_BITRATES : MPEG2_BITRATES).map((bitrate) => ({ sampleRate, bitrate })),
  )

  test.each(combinations)('counts $bitrate kbit/s at $sampleRate Hz in all five stereo modes', (options) => {
    for (const mode of STEREO_MODES) {
      for (const crc of [false, true]) {
        const walk = accepted(generateFrames(50, { ...options, mode, crc }))
        expect(walk.parts).toEqual([
          { sampleRate: options.sampleRate, samples: 50 * samplesPerFrame(options.sampleRate) },
        ])
        expect(walk).toMatchObject({ frameCount: 50, unrecognizedBytes: 0, discontinuities: 0 })
        expect(walk.durationMs).toBe(durationMsOfFrames(50, options.sampleRate))
      }
    }
  })

  test.each(SAMPLE_RATES)('refuses free format at %i Hz, alone and among other frames', (sampleRate) => {
    const others = generateFrames(20, { sampleRate, mode: 'mono' })
    for (const freeFormatBytes of [60, 417, 731, 2880]) {
      const free = generateFrames(3, { sampleRate, freeFormatBytes, mode: 'mono' })
      const tag = generateId3v2(new Uint8Array(100))
      for (const bytes of [
        free,
        joinBytes(tag, free),
        joinBytes(others, free),
        joinBytes(free, others),
        joinBytes(others, tag, free, others),
        joinBytes(garbage(501), free),
        joinBytes(others, garbage(501), free, others),
        joinBytes(free.subarray(0, -1), tag),
      ])
        expect(walkFrames(bytes)).toEqual({ outcome: 'unsupported', found: 'MP3 frames in free format' })
    }
  })

  test('takes one header without a bitrate for damage, not for free format', () => {
    const forty = generateFrames(40)
    for (const at of [...forty.keys()].filter((index) => forty[index] === 0xff).slice(5, 9)) {
      const file = Uint8Array.from(forty)
      file[at + 2] = (file[at + 2] as number) & 0x0f
      expect(accepted(file).frameCount).toBe(39)
    }
  })

  test.each([1, 2, 3])('accepts a file of %i frames, fewer than or as many as a resynchronization needs', (count) => {
    expect(accepted(generateFrames(count)).durationMs).toBe(durationMsOfFrames(count))
  })

  test('treats a bitrate that changes from frame to frame as one stream', () => {
    const bitrates = Array.from({ length: 200 }, (_, index) => MPEG1_BITRATES[index % 14] ?? 32)
    const walk = accepted(joinBytes(...bitrates.map((bitrate) => generateFrames(1, { bitrate }))))
    expect(walk).toMatchObject({ frameCount: 200, discontinuities: 0 })
  })

  test('rounds the exact sum up to the millisecond once', () => {
    // 49 frames at 44.1 kHz are exactly 1,280 ms; 50 are 1,306.12…
    expect(accepted(generateFrames(49)).durationMs).toBe(1280)
    expect(accepted(generateFrames(50)).durationMs).toBe(1307)
    const both = joinBytes(
      generateFrames(1),
      generateFrames(1, { sampleRate: 8_000 }),
      generateFrames(1, { sampleRate: 11_025 }),
    )
    // 26.122… + 72 + 52.244…
    expect(accepted(both).durationMs).toBe(151)
  })

  test('counts each part of a joined file at its own rate', () => {
    const parts = SAMPLE_RATES.map((sampleRate) => generateFrames(10, { sampleRate }))
    const walk = accepted(joinBytes(...parts))
    expect(walk.parts).toEqual(
      SAMPLE_RATES.map((sampleRate) => ({ sampleRate, samples: 10 * samplesPerFrame(sampleRate) })),
    )
    expect(walk).toMatchObject({ unrecognizedBytes: 0, discontinuities: 8 })
  })

  test('counts hours at the smallest bitrate', () => {
    const options = { durationMs: 7 * 3_600_000, sampleRate: 24_000, bitrate: 8 }
    expect(accepted(generateMp3(options)).durationMs).toBe(generatedDurationMs(options))
  })
})

describe('Xing, Info and VBRI frames', () => {
  test.each(['Xing', 'Info', 'VBRI'] as const)('does not count a leading %s frame and ignores its claims', (mark) => {
    for (const claimed of [0, 1, 40, 1_000_000, 0xff_ff_ff_ff]) {
      for (const options of [{}, { crc: true }, { sampleRate: 22_050 }, { sampleRate: 8_000, mode: 'mono' }] as const) {
        const walk = accepted(joinBytes(generateInfoFrame(mark, claimed, options), generateFrames(40, options)))
        expect(walk.frameCount).toBe(40)
        expect(walk.durationMs).toBe(durationMsOfFrames(40, 'sampleRate' in options ? options.sampleRate : 44_100))
      }
    }
  })

  test.each(['Xing', 'Info', 'VBRI'] as const)('counts the %s frames of later parts, which decoders play', (mark) => {
    const tag = generateId3v2(new Uint8Array(100))
    for (const options of [{}, { crc: true }, { sampleRate: 22_050 }, { sampleRate: 8_000, mode: 'mono' }] as const) {
      const file = joinBytes(generateInfoFrame(mark, 10, options), generateFrames(10, options))
      expect(accepted(joinBytes(file, file, file)).frameCount).toBe(32)
      expect(accepted(joinBytes(tag, file, tag, file, tag, file)).frameCount).toBe(32)
      expect(accepted(joinBytes(generateFrames(10, options), file)).frameCount).toBe(21)
    }
  })

  test('counts every Xing frame but the first of a file of them', () => {
    const walk = accepted(joinBytes(...Array.from({ length: 1000 }, () => generateInfoFrame('Xing', 1))))
    expect(walk.frameCount).toBe(999)
  })
})

describe('truncation', () => {
  test('accepts a truncated last frame without counting it', () => {
    const whole = generateFrames(10)
    const start = generateFrames(9).length
    for (const end of [start + 4, start + 5, whole.length - 1]) {
      expect(accepted(whole.subarray(0, end))).toMatchObject({ frameCount: 9, unrecognizedBytes: 0 })
    }
  })

  test('treats a truncated first frame as unrecognized bytes', () => {
    const whole = generateFrames(10)
    expect(accepted(whole.subarray(100))).toMatchObject({ frameCount: 9, unrecognizedBytes: 317 })
  })

  test('loses one frame when bytes are missing in the middle', () => {
    const whole = generateFrames(100)
    const walk = accepted(joinBytes(whole.subarray(0, 10_000), whole.subarray(10_100)))
    expect(walk.frameCount).toBe(99)
    expect(walk.discontinuities).toBe(1)
  })
})

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

describe('the time of a walk', () => {
  test.each(Object.entries(HOSTILE))('is linear in the length of %s', (_name, [piece, before = new Uint8Array()]) => {
    const readsOfLength = (length: number) => readsOf(joinBytes(before, repeated(piece, length)))
    expect(readsOfLength(2 * LENGTH)).toBeLessThanOrEqual(GROWTH * readsOfLength(LENGTH))
  })
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

describe('recordings that the walk refuses', () => {
  const names = Object.keys(foreign)
  describe('rejecting other formats by name [spec B12]', () => {
    test.each(names)('rejects %s', (found) =>
      expect(walkFrames(part(found))).toEqual({ outcome: 'unsupported', found }),
    )

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
})
