import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { walkFrames as walkOfService } from '#shared/audio/walk-frames.ts'
import { walkFrames } from '../../../../client/audio/mpeg/walk-frames.ts'
import { generateFrames, generateInfoFrame, joinBytes, SAMPLE_RATES } from '../../../support/media/mp3-generator.ts'
import { generateApe, generateId3v1, generateId3v2, generateLyrics3 } from '../../../support/media/tag-generator.ts'

const OF_CLIENT = new URL('../../../../client/audio/mpeg/', import.meta.url)
const OF_SERVICE = new URL('../../../../shared/audio/', import.meta.url)
/** Files that the client has of its own. */
const OWN = ['frame-table.ts', 'info-claims.ts', 'lead-in-frame.ts', 'silent-frames.ts']

describe('the frame walk of the client', () => {
  const copies = readdirSync(OF_CLIENT).filter((name) => !OWN.includes(name))

  test.each(copies)('has the text of the service: %s', (name) => {
    expect(readFileSync(new URL(name, OF_CLIENT), 'utf8')).toBe(readFileSync(new URL(name, OF_SERVICE), 'utf8'))
  })

  test('measures what the service measures', () => {
    const clip = generateFrames(40)
    const files = [
      ...SAMPLE_RATES.map((sampleRate) => generateFrames(33, { sampleRate })),
      joinBytes(generateInfoFrame('Xing', 40), clip),
      joinBytes(generateId3v2(new Uint8Array(500)), clip, generateApe(2), generateLyrics3(2), generateId3v1()),
      joinBytes(clip, generateId3v1(), generateFrames(12, { sampleRate: 22_050 })),
      clip.subarray(0, -1),
      joinBytes(new Uint8Array(100), clip, new Uint8Array(100)),
      new TextEncoder().encode('no recording at all'),
      new Uint8Array(),
    ]
    for (const file of files) expect(walkFrames(file)).toEqual(walkOfService(file))
  })
})
