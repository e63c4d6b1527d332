import { describe, expect, test } from 'vitest'
import { wavClaimedMs } from '../../../../client/audio/wav-claims.ts'

const BYTE_RATE = 32_000

function wav(dataBytes: number, { between = '', sound = 40 } = {}): Uint8Array {
  const format = Buffer.alloc(24)
  format.write('fmt ')
  format.writeUInt32LE(16, 4)
  format.writeUInt32LE(BYTE_RATE, 16)
  const list = Buffer.alloc(between === '' ? 0 : 8 + between.length + (between.length % 2))
  if (between !== '') {
    list.write('LIST')
    list.writeUInt32LE(between.length, 4)
    list.write(between, 8)
  }
  const data = Buffer.alloc(8 + sound)
  data.write('data')
  data.writeUInt32LE(dataBytes, 4)
  return Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVE'), format, list, data])
}

describe('what the header of a WAV file claims', () => {
  test('is the duration of all its sound, however much of that is there', () => {
    expect(wavClaimedMs(wav(BYTE_RATE * 6))).toBe(6000)
    expect(wavClaimedMs(wav(BYTE_RATE * 6, { between: 'odd' }))).toBe(6000)
  })

  test('is unknown when it was written to a pipe, is cut before the sound, or is no WAV file', () => {
    for (const size of [0x7f_ff_f0_00, 0xff_ff_ff_ff]) expect(wavClaimedMs(wav(size))).toBeUndefined()
    expect(wavClaimedMs(wav(BYTE_RATE).subarray(0, 36))).toBeUndefined()
    expect(wavClaimedMs(new Uint8Array(2))).toBeUndefined()
    expect(wavClaimedMs(Buffer.from('ID3 and more than forty bytes of anything else'))).toBeUndefined()
  })
})
